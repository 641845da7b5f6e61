//! Files written in place on a local disk, until the last `close` has returned. The objects in the
//! server are then compared byte for byte.

use crate::dataset::{Dataset, KIB, MIB};
use crate::workload::{Action, Conditions, Group, Mode, Unit, Workload};

pub(super) fn table(data: &Dataset) -> Vec<Workload> {
    let mut rows = Vec::new();
    for latency_ms in [0, 20] {
        for (name, action, unit, description) in actions(data, latency_ms) {
            let (suffix, far) = match latency_ms {
                0 => (String::new(), String::new()),
                _ => (
                    format!("-{latency_ms}ms"),
                    format!(", {latency_ms} ms before each answer"),
                ),
            };
            let name = format!("staged-{name}{suffix}");
            rows.push(Workload {
                is_staged: true,
                conditions: Some(Conditions::latency_ms(latency_ms)),
                ..Workload::new(Group::Staged, name, action, unit, description + &far)
            });
        }
    }
    rows
}

fn actions(data: &Dataset, latency_ms: u64) -> [(&'static str, Action, Unit, String); 6] {
    let checkpoint = Action::Write {
        files: data.written_checkpoint,
        block: 16 * MIB,
        mode: Mode::Buffered,
        threads: 1,
    };
    let shuffled = Action::Shuffled {
        files: data.written_large,
        block: 4 * KIB,
    };
    let small = Action::Write {
        files: data.written_small,
        block: 4 * KIB,
        mode: Mode::Buffered,
        threads: 16,
    };
    // Fewer files where each takes time, so that slow peers end.
    let (tree, repository) = match latency_ms {
        0 => (data.staged_tree, data.staged_repository),
        _ => (data.staged_tree_far, data.staged_repository_far),
    };
    [
        (
            "untar",
            Action::Untar {
                files: tree,
                has_attributes: false,
            },
            Unit::FilesPerSecond,
            format!("tar x of a tree of {} files of 8 KiB", tree.count),
        ),
        (
            "directories",
            Action::Untar {
                files: data.staged_directories,
                has_attributes: true,
            },
            Unit::FilesPerSecond,
            format!(
                "tar x of {} files of 8 KiB, each two directories down, with modes and times",
                data.staged_directories.count
            ),
        ),
        (
            "clone",
            Action::Clone { files: repository },
            Unit::FilesPerSecond,
            format!("git clone of {} files of 8 KiB", repository.count),
        ),
        (
            "rand-4k",
            shuffled,
            Unit::GigabytesPerSecond,
            "one file of 1 GiB in writes of 4 KiB, in random order".to_owned(),
        ),
        (
            "checkpoint",
            checkpoint,
            Unit::GigabytesPerSecond,
            "one file of 3 GiB in writes of 16 MiB".to_owned(),
        ),
        (
            "4k-16t",
            small,
            Unit::FilesPerSecond,
            format!("{} files of 4 KiB, 16 threads", data.written_small.count),
        ),
    ]
}
