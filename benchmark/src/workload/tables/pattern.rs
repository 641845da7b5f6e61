//! One file read in an order that is neither sequential nor random.

use crate::dataset::Dataset;
use crate::workload::{Action, Group, Pattern, Unit, Workload};

pub(super) fn table(data: &Dataset) -> Vec<Workload> {
    let row = |name: &str, pattern, description: &str| {
        let files = data.large;
        let action = Action::Pattern { files, pattern };
        Workload::new(
            Group::Pattern,
            name,
            action,
            Unit::GigabytesPerSecond,
            description,
        )
    };
    vec![
        row(
            "strided",
            Pattern::Strided,
            "64 KiB of every MiB, O_DIRECT, one thread",
        ),
        row(
            "interleaved",
            Pattern::Interleaved,
            "four streams of 128 KiB reads on one descriptor, taking turns, O_DIRECT",
        ),
        row(
            "backward",
            Pattern::Backward,
            "128 KiB reads from the end to the beginning, O_DIRECT",
        ),
        row(
            "skip",
            Pattern::Skip,
            "every second 256 KiB, O_DIRECT, one thread",
        ),
    ]
}
