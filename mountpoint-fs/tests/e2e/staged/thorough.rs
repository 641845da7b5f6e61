//! Programs that test file systems, and random operations for longer: `make test-staged`.

use std::path::Path;
use std::process::Command;

use super::{Staged, random, stored};
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

/// A million operations in all, with the arguments below. A `posix_fallocate` of no bytes fails
/// everywhere, so that none has a size of 0.
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

/// Without write-back, with it, and with an upload behind each commit.
const ARGUMENTS: [&[&str]; 3] = [
    &[],
    &["--write-back", "--drain-timeout", "600"],
    &[
        "--write-back",
        "--drain-timeout",
        "600",
        "--write-back-delay",
        "0",
    ],
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
#[ignore = "`make test-staged` installs its program"]
fn fsx() {
    let mut seed = 0;
    for args in ARGUMENTS {
        for exercise in &EXERCISES {
            seed += 1;
            exercised(exercise, args, seed);
        }
    }
}

/// Runs fsx, and compares what its file has at the end with what the bucket has.
fn exercised(exercise: &Exercise, args: &[&str], seed: u64) {
    let Exercise { sizes, operations } = exercise;
    let server = server();
    let staged = Staged::new(&server, args);
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

/// The cases that fail, and the reasons, are in `pjdfstest.toml`.
#[test]
#[ignore = "`make test-staged` installs its program"]
fn pjdfstest() {
    for args in [&[][..], &["--write-back"]] {
        let server = server();
        let all = [&["--posix-metadata", "--allow-other"], args].concat();
        let staged = Staged::new(&server, &all);
        let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pjdfstest.toml");
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
            &["-c", config, "-p", path, "-s", second],
            staged.local.path(),
        );
    }
}

#[test]
#[ignore = "it takes an hour, as a part of `make test-staged`"]
fn a_million_random_operations() {
    random::at_length();
}
