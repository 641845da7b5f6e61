//! The reads of a file that a person has recorded.

use super::{Action, Group, Unit, Workload};
use crate::recorded::{Pace, REPLAYED, Recorded};

/// The row for a record.
///
/// The record lives as long as the process: actions are copied freely, and there is one record.
pub(crate) fn replayed(recorded: Recorded, pace: Pace) -> Workload {
    let recorded: &'static Recorded = Box::leak(Box::new(recorded));
    let (unit, how) = match pace {
        Pace::Fast => (Unit::MillisecondsInAll, "as fast as they can be issued"),
        Pace::Recorded => (Unit::Milliseconds, "at the recorded times"),
    };
    Workload::new(
        Group::Replay,
        REPLAYED,
        Action::Replay { recorded, pace },
        unit,
        format!(
            "{} recorded reads of {} files by {} threads, O_DIRECT, {how}",
            recorded.reads(),
            recorded.files.len(),
            recorded.threads()
        ),
    )
}
