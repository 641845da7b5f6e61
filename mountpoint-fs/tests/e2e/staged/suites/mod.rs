//! Test programs of other projects on real mounts, in each of the three modes: `make test-suites`.
//!
//! What fails is compared with a list in `tests/suites`, which has the reasons: a failure that is
//! not listed fails the run, and so does a listed one that does not happen. `make test` runs some
//! seconds of each kind.

mod expected;
mod folders;
mod loads;
mod python;
mod stress_ng;

use std::process::{Command, Output, Stdio};

use super::{Make, Staged};
use crate::harness::{is_mounted, server};
use crate::reads::memory::{OVERHEAD, resident_peak};
use expected::Expected;

/// A mode of writing, by the name that the lists use.
#[derive(Clone, Copy)]
struct Mode {
    name: &'static str,
    make: Make,
    args: &'static [&'static str],
}

const MODES: [Mode; 3] = [
    Mode {
        name: "default",
        make: Staged::in_memory,
        args: &[],
    },
    Mode {
        name: "staging",
        make: Staged::new,
        args: &[],
    },
    Mode {
        name: "write-back",
        make: Staged::new,
        args: &["--write-back", "--drain-timeout", "600"],
    },
];

/// Arguments of all mounts: the programs make links and set modes, and some change their user.
const ARGS: &[&str] = &[
    "--posix-metadata",
    "--allow-other",
    "--memory-target",
    MEMORY_MIB,
];
const MEMORY_MIB: &str = "512";
/// What the process may take at most.
const RESIDENT_MAX: u64 = (512 << 20) + OVERHEAD;

/// Runs a suite on a mount of each mode, and compares what fails with the list.
#[expect(
    clippy::print_stdout,
    reason = "a run takes minutes, and tells how far it is"
)]
fn in_each_mode(list: &str, parts: &[&str], run: impl Fn(&Staged, &str) -> Vec<Failure>) {
    let expected = Expected::read(list);
    let mut different = Vec::new();
    for mode in MODES {
        let server = server();
        let staged = (mode.make)(&server, &[ARGS, mode.args].concat());
        for &name in parts {
            let failures = run(&staged, name);
            println!("{}, {name}: {} failures", mode.name, failures.len());
            check_is_well(&staged, name);
            different.extend(expected.differences((mode.name, name), &failures));
        }
        assert!(staged.mounted.unmount().success(), "{}", mode.name);
    }
    assert!(different.is_empty(), "{}", different.join("\n\n"));
}

/// Something that went wrong in a part of a suite, and what the program says of it.
struct Failure {
    name: String,
    said: String,
}

/// The mount answers, and takes the memory that it may take.
#[track_caller]
fn check_is_well(staged: &Staged, name: &str) {
    let root = staged.mounted.path();
    assert!(is_mounted(root) && root.is_dir(), "{name}: no mount");
    let resident = resident_peak(&staged.mounted);
    assert!(resident < RESIDENT_MAX, "{name}: {resident} bytes");
}

/// Runs a program with its temporary files in a new folder of the mount, which is removed. A
/// program that hangs is killed.
#[track_caller]
fn run(staged: &Staged, part: &str, program: &str, args: &[&str]) -> Output {
    let folder = staged.mounted.join(part);
    std::fs::create_dir(&folder).unwrap();
    let here = folder.to_str().unwrap();
    let output = Command::new("timeout")
        .args(["--kill-after=20", LIMIT, program])
        .args(args.iter().map(|arg| arg.replace("{}", here)))
        .current_dir(&folder)
        .env("TMPDIR", here)
        .env("HOME", staged.local.path())
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let missing = "`make test-suites` installs it";
    assert!(output.status.code() != Some(127), "{program}: {missing}");
    std::fs::remove_dir_all(&folder).unwrap_or_else(|error| panic!("{part}: {error}"));
    output
}

/// Time for one part of a suite.
const LIMIT: &str = "900";

/// What a program printed.
fn said(output: &Output) -> String {
    let [one, other] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    format!("{one}{other}")
}
