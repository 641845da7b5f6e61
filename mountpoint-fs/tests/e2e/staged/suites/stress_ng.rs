//! The file system's stressors of stress-ng, one after the other, which verify what they do.

use super::{Failure, Staged, expected::Expected, in_each_mode, run, said};

const LIST: &str = include_str!("../../../suites/stress-ng.txt");

/// Not among them: those that need other file systems (`fiemap`, `verity`), and those that have
/// no file in the folder (`binderfs`, `procfs`).
const STRESSORS: &[&str] = &[
    "access",
    "aio",
    "aiol",
    "chattr",
    "chdir",
    "chmod",
    "chown",
    "copy-file",
    "dentry",
    "dir",
    "dirdeep",
    "dirmany",
    "dnotify",
    "dup",
    "fallocate",
    "fanotify",
    "fault",
    "fcntl",
    "file-ioctl",
    "filename",
    "flock",
    "fpunch",
    "fsize",
    "fstat",
    "getdent",
    "handle",
    "hdd",
    "inode-flags",
    "inotify",
    "io-uring",
    "iomix",
    "lease",
    "link",
    "locka",
    "lockf",
    "lockofd",
    "madvise",
    "mknod",
    "mmap",
    "msync",
    "open",
    "readahead",
    "rename",
    "revio",
    "rmap",
    "seek",
    "sendfile",
    "symlink",
    "sync-file",
    "touch",
    "utime",
    "xattr",
];

/// Stressors that take a fraction of a second.
const FEW: &[&str] = &["access", "dir", "rename", "seek"];

/// Two processes of a stressor work for so many operations, or seconds.
const OPERATIONS: &str = "200";
const SECONDS: &str = "10";

/// Runs one stressor, and returns what it says that failed.
fn stressor(staged: &Staged, name: &str) -> Vec<Failure> {
    let (kind, operations) = (format!("--{name}"), format!("--{name}-ops"));
    let mut args = vec![kind.as_str(), "2", &operations, OPERATIONS];
    args.extend(["--timeout", SECONDS, "--temp-path", "{}"]);
    args.extend(["--verify", "--no-rand-seed"]);
    match name {
        "mmap" => args.push("--mmap-file"),
        "chdir" => args.extend(["--chdir-dirs", "256"]),
        _ => {}
    }
    let output = run(staged, name, "stress-ng", &args);
    let said = said(&output);
    let failures = failures_of(name, &said);
    let is_expected = output.status.success() || !failures.is_empty();
    assert!(is_expected, "{name}: {}\n{said}", output.status);
    failures
}

/// The messages of a failed stressor, without its numbers.
fn failures_of(name: &str, said: &str) -> Vec<Failure> {
    let is_failure = |line: &&str| line.starts_with("stress-ng: fail:");
    let mut failures: Vec<Failure> = Vec::new();
    for line in said.lines().filter(is_failure) {
        let (_, message) = line.split_once("] ").unwrap_or(("", line));
        let message = message.strip_prefix(&format!("{name}: "));
        let message = without_numbers(message.unwrap_or(line));
        let name = format!("{name}: {message}");
        if !failures.iter().any(|it| it.name == name) {
            let said = line.to_owned();
            failures.push(Failure { name, said });
        }
    }
    failures
}

/// Numbers differ from run to run.
fn without_numbers(message: &str) -> String {
    let words = message.split_inclusive(|it: char| !it.is_ascii_alphanumeric() && it != '_');
    let without = words.map(|word| {
        let end = word.trim_end_matches(|it: char| !it.is_ascii_alphanumeric() && it != '_');
        match end.starts_with(|it: char| it.is_ascii_digit()) {
            true => format!("N{}", &word[end.len()..]),
            false => word.to_owned(),
        }
    });
    without.collect()
}

#[test]
#[ignore = "`make test-suites` runs it, for some ten minutes"]
fn all_stressors() {
    Expected::read(LIST).check_parts(STRESSORS);
    in_each_mode(LIST, STRESSORS, stressor);
}

#[test]
fn a_few_stressors() {
    in_each_mode(LIST, FEW, stressor);
}

#[test]
fn a_message_loses_its_numbers() {
    let said = "stress-ng: info:  [7] setting to a 10 second run\n\
         stress-ng: fail:  [77] aio: at 0x1f, error=2 (No such file)\n\
         stress-ng: fail:  [78] aio: at 0x2f, error=3 (No such file)\n";
    let failures = failures_of("aio", said);
    let names: Vec<_> = failures.iter().map(|it| &it.name).collect();
    assert_eq!(names, ["aio: at N, error=N (No such file)"]);
}
