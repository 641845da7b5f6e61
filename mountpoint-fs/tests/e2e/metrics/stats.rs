//! `mount-s3 stats`, compared with what the server has seen.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use mountpoint_client::testing::server::{Operation, Server};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::harness::{BUCKET, Mounted, PATIENCE, mount_s3, read, run, server, unmount, wait_until};

const MIB: u64 = 1 << 20;

/// What `mount-s3 stats` says of a directory.
pub(crate) fn stats(directory: &Path, flags: &[&str]) -> Output {
    let mut command = mount_s3();
    command.arg("stats").arg(directory).args(flags);
    command.output().unwrap()
}

/// The document of the one mount at a directory.
pub(crate) fn document(directory: &Path) -> Value {
    let output = stats(directory, &["--once", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [document] = answer["mounts"].as_array().unwrap().as_slice() else {
        panic!("{answer}");
    };
    assert_eq!(document["format"], 1);
    document.clone()
}

/// The sum of a counter or gauge with a label of this value.
pub(crate) fn number(document: &Value, name: &str, label: &str) -> f64 {
    let metrics = document["metrics"].as_array().unwrap().iter();
    let found = metrics.filter(|metric| {
        let labels = metric["labels"].as_object();
        let has = |it: &serde_json::Map<String, Value>| it.values().any(|value| value == label);
        metric["name"] == name && (label.is_empty() || labels.is_some_and(has))
    });
    let value = |metric: &Value| {
        let value = metric["counter"].as_f64();
        value.or_else(|| metric["gauge"].as_f64()).unwrap()
    };
    found.map(value).sum()
}

/// The sockets in a state directory.
fn sockets(state: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(state).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_socket = |path: &PathBuf| path.to_str().unwrap().contains("/mount-s3.stats.");
    paths.filter(is_socket).collect()
}

fn check_numbers(server: &Server, directory: &Path) {
    assert_eq!(read(&directory.join("file")).len() as u64, 3 * MIB);
    fs::write(directory.join("new"), vec![7; 1000]).unwrap();
    let log = server.log();
    assert!(log.wait_until(Operation::GetObject, PATIENCE, |gets| gets.in_flight == 0));
    wait_until("the count of all requests", || {
        number(&document(directory), "s3.requests_in_flight", "") == 0.0
    });
    let document = document(directory);
    let gets = log.counters(Operation::GetObject);
    for (name, label, expected) in [
        ("s3.request_count", "GetObject", gets.requests),
        ("s3.received_bytes", "GetObject", gets.bytes_sent),
        (
            "s3.request_count",
            "PutObject",
            log.count(Operation::PutObject),
        ),
        ("s3.sent_bytes", "PutObject", 1000),
        ("fuse.total_bytes", "read", 3 * MIB),
        ("fuse.total_bytes", "write", 1000),
    ] {
        assert_eq!(
            number(&document, name, label),
            expected as f64,
            "{name} {label}"
        );
    }
    assert_eq!(document["mount"]["bucket"], BUCKET);
    assert_eq!(document["mount"]["directory"], directory.to_str().unwrap());
}

#[test]
fn stats_are_what_the_server_has_seen() {
    let server = server();
    server.store().put_synthetic(BUCKET, "file", 3 * MIB, 1);
    let state = tempfile::tempdir().unwrap();
    let flags = ["--state-directory", state.path().to_str().unwrap()];
    let mounted = Mounted::unhedged(&server, &flags);
    check_numbers(&server, mounted.path());
    // A directory in the mount, and one that is not there, belong to it.
    document(&mounted.join("sub/directory"));
    let output = stats(mounted.path(), &["--once"]);
    let text = String::from_utf8_lossy(&output.stdout);
    for part in [
        "read ",
        "GetObject",
        "PutObject",
        "memory ",
        "uploads ",
        "waits for",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let [socket] = sockets(state.path()).try_into().unwrap();
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let directory = mounted.path().to_owned();
    assert!(mounted.unmount().success());
    assert!(!socket.exists());
    let output = stats(&directory, &["--once"]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        error.contains("no mount of this user that answers shows"),
        "{error}"
    );
}

#[test]
fn a_mount_in_the_background_answers_and_leaves_the_view_of_all() {
    let server = server();
    server.store().put_synthetic(BUCKET, "file", 3 * MIB, 1);
    let directory = tempfile::tempdir().unwrap();
    let mut command = mount_s3();
    command.arg(BUCKET).arg(directory.path());
    command.args(["--endpoint-url", &server.url(), "--force-path-style"]);
    let output = command.env("MOUNTPOINT_HEDGING", "false").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    check_numbers(&server, directory.path());
    let is_shown = || {
        // Without a directory: all mounts, those of other tests among them.
        let output = mount_s3().args(["stats", "--once"]).output().unwrap();
        let path = directory.path().to_str().unwrap();
        String::from_utf8_lossy(&output.stdout).contains(path)
    };
    assert!(is_shown());
    unmount(directory.path());
    wait_until("its end", || !is_shown());
}

#[test]
fn a_killed_mount_is_skipped() {
    let server = server();
    let state = tempfile::tempdir().unwrap();
    let flags = ["--state-directory", state.path().to_str().unwrap()];
    let mounted = Mounted::new(&server, &flags);
    let directory = mounted.path().to_owned();
    document(&directory);
    mounted.signal(Signal::SIGKILL);
    run("umount", &["-l", directory.to_str().unwrap()]);
    assert_eq!(sockets(state.path()).len(), 1);
    assert_eq!(stats(&directory, &["--once"]).status.code(), Some(1));
}

#[test]
fn a_mount_without_metrics_does_not_answer() {
    let server = server();
    let mounted = Mounted::new(&server, &["--no-metrics"]);
    let output = stats(mounted.path(), &["--once"]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("--no-metrics"), "{error}");
}

/// The view of all mounts, while one of two ends.
#[test]
fn a_view_goes_on_without_a_mount_that_has_ended() {
    use std::io::{BufRead as _, BufReader};
    let server = server();
    let (staying, ending) = (Mounted::new(&server, &[]), Mounted::new(&server, &[]));
    let mut command = mount_s3();
    command.args(["stats", "--json", "--interval", "0.1"]);
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let mut next_has = |directory: &Path| {
        let answer: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        let mounts = answer["mounts"].as_array().unwrap();
        let has = |directory: &Path| {
            let is_it = |mount: &Value| mount["mount"]["directory"] == *directory.to_str().unwrap();
            mounts.iter().any(is_it)
        };
        assert!(has(staying.path()), "{answer}");
        has(directory)
    };
    let directory = ending.path().to_owned();
    assert!(next_has(&directory));
    assert!(ending.unmount().success());
    while next_has(&directory) {}
    process.kill().unwrap();
    process.wait().unwrap();
}

/// A view that goes on shows a line of JSON after each interval, until its reader leaves.
#[test]
fn a_view_goes_on_until_a_signal() {
    use std::io::{BufRead as _, BufReader};
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    let mut command = mount_s3();
    command.arg("stats").arg(mounted.path());
    command.args(["--json", "--interval", "0.1"]);
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let uptimes = lines.take(3).map(|line| {
        let answer: Value = serde_json::from_str(&line.unwrap()).unwrap();
        answer["mounts"][0]["uptime_ms"].as_u64().unwrap()
    });
    let uptimes: Vec<_> = uptimes.collect();
    assert!(uptimes.is_sorted(), "{uptimes:?}");
    let pid = nix::unistd::Pid::from_raw(process.id().try_into().unwrap());
    nix::sys::signal::kill(pid, Signal::SIGTERM).unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(0));
}

/// In a terminal the view takes the screen, obeys keys, and leaves the terminal as it was.
#[test]
fn a_view_in_a_terminal_ends_by_a_key() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    let view = format!(
        "stty rows 40 cols 100; before=$(stty -g); '{}' stats '{}' --interval 0.1; \
         echo \"status $?\"; test \"$before\" = \"$(stty -g)\" && echo as before",
        mount_s3().get_program().to_str().unwrap(),
        mounted.path().display()
    );
    // The program that makes a terminal; it comes with each Debian.
    let mut process = Command::new("script")
        .args(["-q", "-e", "-f", "-c", &view, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = process.stdout.take().unwrap();
    let mut shown = Vec::new();
    let mut wait_for = |text: &str| {
        let has = |shown: &[u8]| String::from_utf8_lossy(shown).contains(text);
        let mut bytes = [0; 4096];
        while !has(&shown) {
            let count = output.read(&mut bytes).unwrap();
            assert!(count > 0, "{text} in {}", String::from_utf8_lossy(&shown));
            shown.extend_from_slice(&bytes[..count]);
        }
    };
    wait_for("\x1b[?1049h");
    wait_for("q: end");
    process.stdin.as_mut().unwrap().write_all(b"q").unwrap();
    wait_for("\x1b[?1049l");
    wait_for("status 0");
    wait_for("as before");
    assert!(process.wait().unwrap().success());
}
