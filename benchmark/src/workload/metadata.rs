//! First bytes, directories and small files.

use super::{Action, Group, Unit, Workload};
use crate::dataset::Dataset;

pub(super) fn table(data: &Dataset) -> Vec<Workload> {
    let row = |name: &str, action, unit, description: &str| Workload {
        name: name.to_owned(),
        group: Group::Metadata,
        before: None,
        action,
        unit,
        conditions: None,
        description: description.to_owned(),
    };
    let list = |program, argument| Action::Command {
        files: data.listed,
        program,
        argument,
    };
    vec![
        row(
            "ttfb",
            Action::FirstBytes { files: data.cold },
            Unit::Milliseconds,
            "open, read 4 KiB and close large files never seen before; median of one file",
        ),
        row(
            "ls",
            list("ls", "-l"),
            Unit::MillisecondsInAll,
            "ls -l of a directory never seen before",
        ),
        row(
            "du",
            list("du", "-s"),
            Unit::MillisecondsInAll,
            "du -s of a directory never seen before",
        ),
        row(
            "small-100k",
            Action::Whole {
                files: data.small,
                threads: 16,
            },
            Unit::FilesPerSecond,
            "open, read and close 100 KiB files, 16 threads",
        ),
    ]
}
