//! Files written. The objects in the server are then compared byte for byte.

use crate::dataset::{Dataset, FileSet, MIB};
use crate::workload::{Action, Conditions, Group, Mode, Unit, Workload};

pub(super) fn table(data: &Dataset) -> Vec<Workload> {
    let mut rows = Vec::new();
    for (files, threads) in [(data.written_large, 1), (data.written_four, 4)] {
        for mode in [Mode::Buffered, Mode::Direct] {
            rows.push(large(files, threads, mode));
        }
    }
    for latency_ms in [0, 20] {
        for threads in [1, 16] {
            rows.push(small(data.written_small, threads, latency_ms));
        }
    }
    rows.push(row(
        "write-untar",
        Action::Untar {
            files: data.written_tree,
            has_attributes: false,
        },
        Unit::FilesPerSecond,
        "tar x of a tree of 500 files of 8 KiB",
    ));
    let checkpoint = Action::Write {
        files: data.written_checkpoint,
        block: 16 * MIB,
        mode: Mode::Buffered,
        threads: 1,
    };
    rows.push(row(
        "write-checkpoint",
        checkpoint,
        Unit::GigabytesPerSecond,
        "one file of 3 GiB in writes of 16 MiB",
    ));
    rows
}

fn large(files: FileSet, threads: u64, mode: Mode) -> Workload {
    let action = Action::Write {
        files,
        block: MIB,
        mode,
        threads,
    };
    let mib = files.size / MIB;
    row(
        &format!("write-{threads}x1m{}", mode.suffix()),
        action,
        Unit::GigabytesPerSecond,
        &format!(
            "{threads} files of {mib} MiB at once, 1 MiB writes, {}",
            mode.described()
        ),
    )
}

fn small(files: FileSet, threads: u64, latency_ms: u64) -> Workload {
    let action = Action::Write {
        files,
        block: files.size,
        mode: Mode::Buffered,
        threads,
    };
    let (suffix, far) = match latency_ms {
        0 => (String::new(), String::new()),
        _ => (
            format!("-{latency_ms}ms"),
            format!(", {latency_ms} ms before each answer"),
        ),
    };
    Workload {
        conditions: Some(Conditions::latency_ms(latency_ms)),
        ..row(
            &format!("write-4k-{threads}t{suffix}"),
            action,
            Unit::FilesPerSecond,
            &format!("{} files of 4 KiB, {threads} threads{far}", files.count),
        )
    }
}

fn row(name: &str, action: Action, unit: Unit, description: &str) -> Workload {
    Workload::new(Group::Write, name, action, unit, description)
}
