//! Programs that test file systems, and random operations for longer: `make test-staged`.

use std::path::Path;
use std::process::Command;

use super::{Staged, random};
use crate::harness::server;
use crate::servers;

/// Operations of a run of fsx.
const FSX_OPERATIONS: &str = "100000";

const FSX: &str = "
flen = 400000
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

/// Runs a program that is installed into the folder of tools.
#[track_caller]
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
    println!("{}", said.lines().last().unwrap_or_default());
}

#[test]
#[ignore = "`make test-staged` installs its program"]
fn fsx() {
    for (seed, args) in [
        ("1", &[][..]),
        ("2", &["--write-back"]),
        ("3", &["--write-back", "--write-back-delay", "0"]),
    ] {
        let server = server();
        let staged = Staged::new(&server, args);
        let config = staged.local.path().join("fsx.toml");
        std::fs::write(&config, FSX).unwrap();
        let file = staged.mounted.join("f");
        let (config, file) = (config.to_str().unwrap(), file.to_str().unwrap());
        println!("fsx, seed {seed}, {args:?}");
        run(
            "fsx",
            &["-S", seed, "-N", FSX_OPERATIONS, "-f", config, file],
            staged.local.path(),
        );
    }
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
        println!("pjdfstest {args:?}");
        run(
            "pjdfstest",
            &["-c", config, "-p", path],
            staged.local.path(),
        );
    }
}

#[test]
#[ignore = "it takes an hour, as a part of `make test-staged`"]
fn a_million_random_operations() {
    random::at_length();
}
