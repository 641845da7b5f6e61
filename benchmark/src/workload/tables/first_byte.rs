//! Time from open to the first 4 KiB.

use crate::dataset::Dataset;
use crate::workload::{Action, Conditions, Group, Link, Unit, Workload};

pub(super) fn table(data: &Dataset) -> Vec<Workload> {
    let row = |name: &str, count, description: &str| {
        let files = data.cold.first(count);
        let action = Action::FirstBytes { files };
        Workload::new(
            Group::FirstByte,
            name,
            action,
            Unit::Milliseconds,
            description,
        )
    };
    vec![
        row(
            "ttfb",
            data.cold.count,
            "open, read 4 KiB and close large files never seen before; median of one file",
        ),
        Workload {
            conditions: Some(Conditions::latency_ms(20)),
            ..row("ttfb-20ms", 20, "the same, 20 ms before each answer")
        },
        Workload {
            link: Some(Link {
                interfaces: 1,
                megabits_per_second: 5,
            }),
            ..row("ttfb-5mbps", 5, "the same over a link shaped to 5 Mbit/s")
        },
    ]
}
