//! Random operations on written files, compared with a model: `random_operations.py`.
//!
//! A failure prints the seed. `MOUNTPOINT_TEST_SEEDS=7` runs a test with this one alone,
//! `MOUNTPOINT_TEST_SEEDS=100..200` with those; `MOUNTPOINT_TEST_OPERATIONS` is the number of
//! operations between two mounts.

use std::path::Path;
use std::process::Command;

use mountpoint_client::testing::server::{Server, synthetic_bytes};
use nix::mount::{MntFlags, umount2};
use tempfile::TempDir;

use super::{mount, stored};
use crate::harness::{Mounted, put, read, server, shell};

/// One kind of mount with its files.
#[derive(Clone, Copy)]
struct Kind {
    args: &'static [&'static str],
    /// The ends of the mounts, in turn.
    ends: &'static [End],
    /// Operations on each mount.
    operations: u64,
    /// Bytes of the objects that the files are at first.
    bases: [u64; 2],
    /// More arguments of the program.
    program: &'static [&'static str],
    place: Place,
}

/// Where written files are until the bucket has them.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Memory,
    Disk,
    /// A disk of this size.
    SmallDisk(&'static str),
}

/// How a mount ends, when all files are closed.
#[derive(Clone, Copy)]
enum End {
    Unmount,
    Kill,
}

const SMALL: Kind = Kind {
    args: &[],
    ends: &[End::Unmount, End::Kill],
    operations: 700,
    bases: [200_000, 0],
    program: &["--size-max", "300000"],
    place: Place::Disk,
};

/// Files of several parts, which the server copies as far as they did not change.
const LARGE: Kind = Kind {
    operations: 120,
    bases: [17_000_000, 6_000_000],
    program: &["--size-max", "20000000"],
    ..SMALL
};

/// Bytes are given back to the disk and fetched again. One file has room beside the other.
const FULL: Kind = Kind {
    operations: 400,
    bases: [900_000, 500_000],
    program: &["--size-max", "2000000", "--no-maps", "--may-be-full"],
    place: Place::SmallDisk("3m"),
    ..SMALL
};

const WRITE_BACK: Kind = Kind {
    args: &["--write-back", "--write-back-delay", "0"],
    ends: &[End::Kill, End::Unmount, End::Kill],
    operations: 1000,
    ..SMALL
};

/// The uploads wait, and the next mount finds all versions in the journal.
const PENDING: Kind = Kind {
    args: &[
        "--write-back",
        "--write-back-delay",
        "3600",
        "--drain-timeout",
        "0",
    ],
    ends: &[End::Unmount, End::Kill],
    operations: 500,
    ..WRITE_BACK
};

const LARGE_WRITE_BACK: Kind = Kind {
    args: WRITE_BACK.args,
    ends: WRITE_BACK.ends,
    ..LARGE
};

const IN_MEMORY: Kind = Kind {
    program: &["--size-max", "300000", "--no-streams"],
    place: Place::Memory,
    ..SMALL
};

const LARGE_IN_MEMORY: Kind = Kind {
    program: &["--size-max", "20000000", "--no-streams"],
    place: Place::Memory,
    ..LARGE
};

/// The kinds with their names, and for the long run the operations of a mount and the seeds: a
/// million operations in all.
const KINDS: [(&str, Kind, u64, u64); 8] = [
    ("in_memory", IN_MEMORY, 50_000, 2),
    ("several_parts_in_memory", LARGE_IN_MEMORY, 10_000, 3),
    ("small_files", SMALL, 50_000, 2),
    ("files_of_several_parts", LARGE, 10_000, 3),
    ("a_full_disk", FULL, 25_000, 2),
    ("write_back", WRITE_BACK, 50_000, 3),
    ("write_back_without_uploads", PENDING, 50_000, 1),
    ("write_back_of_several_parts", LARGE_WRITE_BACK, 10_000, 3),
];

#[test]
fn in_memory() {
    check_seeds("in_memory", &IN_MEMORY, 1..3);
}

#[test]
fn several_parts_in_memory() {
    check_seeds("several_parts_in_memory", &LARGE_IN_MEMORY, 1..2);
}

#[test]
fn small_files() {
    check_seeds("small_files", &SMALL, 1..3);
}

#[test]
fn files_of_several_parts() {
    check_seeds("files_of_several_parts", &LARGE, 1..2);
}

#[test]
fn a_full_disk() {
    check_seeds("a_full_disk", &FULL, 1..3);
}

#[test]
fn write_back() {
    check_seeds("write_back", &WRITE_BACK, 1..3);
}

#[test]
fn write_back_without_uploads() {
    check_seeds("write_back_without_uploads", &PENDING, 1..2);
}

#[test]
fn write_back_of_several_parts() {
    check_seeds("write_back_of_several_parts", &LARGE_WRITE_BACK, 1..2);
}

/// All kinds, for a million operations.
pub(super) fn at_length() {
    for (name, kind, operations, seeds) in KINDS {
        let kind = Kind { operations, ..kind };
        check_seeds(name, &kind, FIRST_LONG_SEED..FIRST_LONG_SEED + seeds);
    }
}

/// The seeds that the variable names, or `seeds`.
#[expect(
    clippy::print_stdout,
    reason = "a failed test shows the seed that repeats it"
)]
fn check_seeds(test: &str, kind: &Kind, seeds: std::ops::Range<u64>) {
    let number = |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("{text}"));
    let seeds = match std::env::var("MOUNTPOINT_TEST_SEEDS") {
        Err(_) => seeds,
        Ok(text) => match text.split_once("..") {
            Some((first, end)) => number(first)..number(end),
            None => number(&text)..number(&text) + 1,
        },
    };
    let operations = std::env::var("MOUNTPOINT_TEST_OPERATIONS");
    let operations = operations.map_or(kind.operations, |text| number(&text));
    for seed in seeds {
        println!("{test}, seed {seed}, {operations} operations on each mount");
        check(
            &Kind {
                operations,
                ..*kind
            },
            &format!("{test}, seed {seed}"),
            seed,
        );
    }
}

/// The directory of staged files, which may be a disk of its own.
struct Directory {
    path: TempDir,
    is_disk: bool,
}

impl Directory {
    fn new(place: Place) -> Self {
        let path = tempfile::tempdir().unwrap();
        if let Place::SmallDisk(size) = place {
            let script = format!(
                "mount -t tmpfs -o size={size} tmpfs {}",
                path.path().display()
            );
            shell(Path::new("/"), &script);
        }
        Self {
            path,
            is_disk: matches!(place, Place::SmallDisk(_)),
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.is_disk {
            umount2(self.path.path(), MntFlags::MNT_DETACH).ok();
        }
    }
}

impl Kind {
    fn mount(&self, server: &Server, directory: &Path) -> Mounted {
        match self.place {
            Place::Memory => Mounted::new(server, &[&["--allow-changes"], self.args].concat()),
            Place::Disk | Place::SmallDisk(_) => mount(server, directory, self.args),
        }
    }
}

const NAMES: [&str; 2] = ["a", "b"];

fn check(kind: &Kind, context: &str, seed: u64) {
    let server = server();
    let model = tempfile::tempdir().unwrap();
    for (name, size) in NAMES.into_iter().zip(kind.bases) {
        let bytes = synthetic_bytes(seed, 0..size);
        put(&server, name, bytes.clone());
        std::fs::write(model.path().join(name), bytes).unwrap();
    }
    let directory = Directory::new(kind.place);
    let is_write_back = kind.args.contains(&"--write-back");
    for (round, end) in kind.ends.iter().enumerate() {
        let mounted = kind.mount(&server, directory.path.path());
        // Another host sees each version that a close has stored.
        let other = (!is_write_back).then(|| Mounted::new(&server, &[]));
        let mut command = Command::new("python3");
        command
            .arg(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/random_operations.py"
            ))
            .args(["--seed", &(seed * 1000 + round as u64).to_string()])
            .args(["--operations", &kind.operations.to_string()])
            .arg("--model")
            .arg(model.path())
            .args(kind.program);
        if let Some(other) = &other {
            command.arg("--stored").arg(other.path());
        }
        let output = command.arg(mounted.path()).output().unwrap();
        assert!(
            output.status.success(),
            "{context}, mount {round}: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        if !is_write_back {
            compare(&server, model.path(), context);
        }
        match end {
            End::Unmount => assert!(mounted.unmount().success(), "{context}"),
            End::Kill => mounted.kill(),
        }
        let again = kind.mount(&server, directory.path.path());
        for name in NAMES {
            let expected = read(&model.path().join(name));
            assert!(
                read(&again.join(name)) == expected,
                "{context}, mount {round}: {name}"
            );
        }
        again.kill();
    }
    if kind.place == Place::Memory {
        return;
    }
    let drains = ["--write-back", "--drain-timeout", "600"];
    assert!(
        mount(&server, directory.path.path(), &drains)
            .unmount()
            .success()
    );
    compare(&server, model.path(), context);
    let kept = directory.path.path().join("mount-s3-staging/kept");
    assert_eq!(std::fs::read_dir(kept).unwrap().count(), 0, "{context}");
}

/// The bucket has what the model has, and nothing else.
fn compare(server: &Server, model: &Path, context: &str) {
    assert_eq!(
        server.store().keys(crate::harness::BUCKET),
        NAMES,
        "{context}"
    );
    for name in NAMES {
        let (found, expected) = (stored(server, name), read(&model.join(name)));
        let at = found
            .iter()
            .zip(&expected)
            .position(|(one, other)| one != other);
        assert!(
            found == expected,
            "{context}: the object {name} has {} bytes, expected {}; it differs at {at:?}",
            found.len(),
            expected.len()
        );
    }
}

/// Other seeds than those of the short runs.
const FIRST_LONG_SEED: u64 = 100;
