//! Random calls in a mount and in a folder of the local disk, with equal outcomes:
//! `two_folders.py`.

use std::path::Path;
use std::process::Command;

use super::{ARGS, MODES, Mode, check_is_well};
use crate::harness::server;

/// Sequences of calls from one seed.
struct Sequences {
    seed: u64,
    args: &'static [&'static str],
    /// More arguments of the mount.
    mount: &'static [&'static str],
}

const FEW: Sequences = Sequences {
    seed: 1,
    args: &["--examples", "15", "--steps", "40"],
    mount: &[],
};

const ALL: [Sequences; 4] = [
    Sequences {
        seed: 11,
        args: &["--examples", "200", "--steps", "60"],
        mount: &[],
    },
    // A sequence of many calls on few names.
    Sequences {
        seed: 12,
        args: &["--examples", "20", "--steps", "400"],
        mount: &[],
    },
    // Files of several parts.
    Sequences {
        seed: 13,
        args: &["--examples", "40", "--steps", "60", "--large"],
        mount: &["--write-part-size", "5242880"],
    },
    // Directories are objects.
    Sequences {
        seed: 14,
        args: &["--examples", "100", "--steps", "60"],
        mount: &[MARKERS],
    },
];

const MARKERS: &str = "--directory-markers";

/// Runs `two_folders.py` in a mount, and compares all trees once more in the next one.
fn check(mode: Mode, sequences: &Sequences) {
    let server = server();
    let args = [ARGS, mode.args, sequences.mount].concat();
    let staged = (mode.make)(&server, &args);
    let native = tempfile::tempdir().unwrap();
    let seed = sequences.seed.to_string();
    let arguments = [&["--seed", &seed], sequences.args].concat();
    compare(mode, &arguments, native.path(), staged.mounted.path());
    check_is_well(&staged, mode.name);
    assert!(staged.mounted.unmount().success());
    let again = (mode.make)(&server, &args);
    let trees: &[&str] = match sequences.mount.contains(&MARKERS) {
        true => &["--trees", "--keeps-empty"],
        false => &["--trees"],
    };
    compare(mode, trees, native.path(), again.mounted.path());
}

#[track_caller]
fn compare(mode: Mode, args: &[&str], native: &Path, mount: &Path) {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/two_folders.py");
    // Debian's Python has Hypothesis.
    let output = Command::new("/usr/bin/python3")
        .arg(program)
        .args(args)
        .args([native, mount])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}, {args:?}: {}\n{}{}",
        mode.name,
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_few_sequences_of_calls_do_the_same_as_on_a_local_disk() {
    for mode in MODES {
        check(mode, &FEW);
    }
}

#[test]
#[ignore = "`make test-suites` runs it, for some ten minutes"]
fn all_sequences() {
    for mode in MODES {
        for sequences in &ALL {
            check(mode, sequences);
            println!("{}, seed {}: equal", mode.name, sequences.seed);
        }
    }
}
