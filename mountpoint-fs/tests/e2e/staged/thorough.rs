//! Programs that test file systems, and random operations for longer, in each of the three modes:
//! `make test-thorough`.

use std::path::Path;
use std::process::Command;

use super::{Make, Staged, random, stored};
use crate::harness::{server, shell};
use crate::servers;

/// A kind of run of fsx: how large the file and its operations become, and how many there are.
struct Exercise {
    sizes: &'static str,
    operations: u64,
}

/// What fsx does to a file, and how often.
const WEIGHTS: &str = "
[weights]
close_open = 2
invalidate = 1
mapread = 10
mapwrite = 10
read = 10
write = 10
truncate = 5
fsync = 1
fdatasync = 1
posix_fallocate = 2
punch_hole = 5
sendfile = 2
posix_fadvise = 2
copy_file_range = 5
";

/// A million operations in three rounds. A `posix_fallocate` of no bytes fails everywhere, so that
/// none has a size of 0.
const EXERCISES: [Exercise; 4] = [
    Exercise {
        sizes: "flen = 5000\nopsize = { min = 1, max = 3000 }",
        operations: 60_000,
    },
    Exercise {
        sizes: "flen = 400000\nopsize = { min = 1 }",
        operations: 110_000,
    },
    // Changes of mappings reach the file by the kernel's own decision.
    Exercise {
        sizes: "flen = 400000\nnomsyncafterwrite = true\nopsize = { min = 1 }",
        operations: 130_000,
    },
    // Several parts.
    Exercise {
        sizes: "flen = 20000000\nnomsyncafterwrite = true\nopsize = { min = 1, max = 1000000 }",
        operations: 34_000,
    },
];

/// The rounds of fsx: mounts with their arguments. Each mode has a million operations.
const ROUNDS: [(Make, &[&str]); 9] = [
    (Staged::in_memory, &[]),
    (Staged::in_memory, &[]),
    // Parts of the largest file are sent while it is written.
    (Staged::in_memory, &["--write-part-size", "5242880"]),
    (Staged::new, &[]),
    (Staged::new, &[]),
    (Staged::new, &["--write-part-size", "5242880"]),
    (Staged::new, WRITE_BACK),
    (Staged::new, WRITE_BACK),
    (Staged::new, UPLOADS),
];

const WRITE_BACK: &[&str] = &["--write-back", "--drain-timeout", "600"];

/// An upload behind each commit.
const UPLOADS: &[&str] = &[
    "--write-back",
    "--drain-timeout",
    "600",
    "--write-back-delay",
    "0",
];

/// Runs a program that is installed into the folder of tools.
#[track_caller]
#[expect(
    clippy::print_stdout,
    reason = "a run takes long, and tells how far it is"
)]
fn run(name: &str, args: &[&str], directory: &Path) {
    let program = servers::binary(&format!("bin/{name}"));
    let output = Command::new(program)
        .args(args)
        .current_dir(directory)
        .output();
    let output = output.unwrap();
    let (said, told) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{name} {args:?}\n{said}{told}");
    println!(
        "{name} {args:?}: {}",
        said.lines().last().unwrap_or_default()
    );
}

#[test]
#[ignore = "`make test-thorough` installs its program"]
fn fsx() {
    let mut seed = 0;
    for (make, args) in ROUNDS {
        for exercise in &EXERCISES {
            seed += 1;
            exercised(exercise, (make, args), seed);
        }
    }
}

/// Runs fsx, and compares what its file has at the end with what the bucket has.
fn exercised(exercise: &Exercise, (make, args): (Make, &[&str]), seed: u64) {
    let Exercise { sizes, operations } = exercise;
    let server = server();
    let staged = make(&server, args);
    let config = staged.local.path().join("fsx.toml");
    std::fs::write(&config, format!("{sizes}\n{WEIGHTS}")).unwrap();
    let file = staged.mounted.join("f");
    let (seed, operations) = (seed.to_string(), operations.to_string());
    let fixed = ["-f", config.to_str().unwrap(), file.to_str().unwrap()];
    run(
        "fsx",
        &[&["-S", &seed, "-N", &operations], &fixed[..]].concat(),
        staged.local.path(),
    );
    let content = std::fs::read(&file).unwrap();
    assert!(staged.mounted.unmount().success());
    assert!(
        stored(&server, "f") == content,
        "the bucket has other bytes"
    );
}

/// A kind of mount, its arguments, and the cases of pjdfstest that fail there alone.
type Mode = (Make, &'static [&'static str], &'static [&'static str]);

/// The time of a streamed file is its object's, in whole seconds, as soon as it is stored.
const STREAMED: &[&str] = &[
    "link::unchanged_ctime_fails::regular",
    "open::open_trunc",
    "truncate::unchanged_ctime_failed",
];

/// The time of the last change of status is that of the last write.
const STAGED: &[&str] = &["chmod::update_ctime::regular"];

const MODES: [Mode; 3] = [
    (Staged::in_memory, &[], STREAMED),
    (Staged::new, &[], STAGED),
    (Staged::new, &["--write-back"], STAGED),
];

/// The cases that fail in each mode, and the reasons, are in `pjdfstest.toml`.
#[test]
#[ignore = "`make test-thorough` installs its program"]
fn pjdfstest() {
    for (make, args, failing) in MODES {
        let server = server();
        let all = [&["--posix-metadata", "--allow-other"], args].concat();
        let staged = make(&server, &all);
        let listed = "expected_failures = [\n";
        let here = failing.iter().map(|case| format!("{case:?},\n"));
        let text = include_str!("../../pjdfstest.toml");
        let text = text.replace(listed, &format!("{listed}{}", here.collect::<String>()));
        let config = staged.local.path().join("pjdfstest.toml");
        std::fs::write(&config, text).unwrap();
        let path = staged.mounted.path().to_str().unwrap();
        let second = staged.local.path().to_str().unwrap();
        // An `O_RDONLY | O_TRUNC` cuts a program that runs before the kernel refuses it, and the
        // case depends on how fast the program crashes. `staged::errors` has the other calls.
        shell(
            Path::new("/"),
            &format!("mount -i -o remount,bind,noexec {path}"),
        );
        run(
            "pjdfstest",
            &["-c", config.to_str().unwrap(), "-p", path, "-s", second],
            staged.local.path(),
        );
    }
}

#[test]
#[ignore = "it takes an hour, as a part of `make test-thorough`"]
fn a_million_random_operations() {
    random::at_length();
}
