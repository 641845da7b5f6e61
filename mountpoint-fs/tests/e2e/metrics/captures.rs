//! `mount-s3 trace` of real mounts, compared with the work of the test.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use mountpoint_client::testing::server::{Fault, Operation, Rule};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::stats::{document, number};
use crate::harness::{BUCKET, Mounted, PATIENCE, SECRET_KEY, mount_s3, read, server, wait_until};
use crate::machine::Somebody;

const MIB: u64 = 1 << 20;

/// A command that records, until it is ended.
struct Capture {
    process: Child,
    file: PathBuf,
    _directory: tempfile::TempDir,
}

impl Capture {
    /// Begins to record a mount. On return the mount does.
    fn begin(mount: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        let mut process = mount_s3();
        process.arg("trace").arg(mount).args(["--seconds", "600"]);
        process.arg("-o").arg(&file);
        process.stdout(Stdio::piped()).stderr(Stdio::piped());
        let process = process.spawn().unwrap();
        // The file is made when the mount has said that it records.
        wait_until("the begin", || file.exists());
        Self {
            process,
            file,
            _directory: directory,
        }
    }

    /// Ends it by Ctrl-C. Returns its file and its output.
    fn end(self) -> (String, Output) {
        let pid = Pid::from_raw(self.process.id().try_into().unwrap());
        kill(pid, Signal::SIGINT).unwrap();
        self.wait()
    }

    fn wait(self) -> (String, Output) {
        let output = self.process.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        (fs::read_to_string(&self.file).unwrap(), output)
    }
}

/// The bars of a trace with this name.
fn bars<'a>(trace: &'a Value, name: &str) -> Vec<&'a Value> {
    let events = trace["traceEvents"].as_array().unwrap().iter();
    let found = events.filter(|event| event["ph"] == "X" && event["name"] == name);
    found.collect()
}

/// Asserts that bars of one track lie beside or inside each other, which Perfetto wants.
fn check_nesting(trace: &Value) {
    let events = trace["traceEvents"].as_array().unwrap().iter();
    let mut bars: Vec<_> = events
        .filter(|event| event["ph"] == "X")
        .map(|event| {
            let nanos = |field: &str| {
                let nanos = format!("{:.0}", event[field].as_f64().unwrap() * 1000.0);
                nanos.parse::<i64>().unwrap()
            };
            let began = nanos("ts");
            (event["tid"].as_u64(), began, -nanos("dur"))
        })
        .collect();
    bars.sort_unstable();
    let mut open: Vec<(Option<u64>, i64)> = Vec::new();
    for (track, began, minus_time) in bars {
        let end = began - minus_time;
        open.retain(|(of, until)| *of == track && *until > began);
        for (_, until) in &open {
            assert!(
                end <= *until,
                "a bar of track {track:?} from {began} to {end}"
            );
        }
        open.push((track, end));
    }
}

#[test]
fn a_trace_has_requests_of_the_kernel_and_those_to_s3() {
    let server = server();
    server.store().put_synthetic(BUCKET, "dir/file", 3 * MIB, 1);
    server
        .faults()
        .add(Rule::on(Operation::GetObject, Fault::SlowDown).times(1));
    let mounted = Mounted::unhedged(&server, &[]);
    let capture = Capture::begin(mounted.path());
    assert_eq!(read(&mounted.join("dir/file")).len() as u64, 3 * MIB);
    fs::write(mounted.join("new"), vec![7; 1000]).unwrap();
    fs::metadata(mounted.join("absent")).unwrap_err();
    let log = server.log();
    assert!(log.wait_until(Operation::GetObject, PATIENCE, |gets| gets.in_flight == 0));
    wait_until("the end of all requests", || {
        number(&document(mounted.path()), "s3.requests_in_flight", "") == 0.0
    });
    let (text, output) = capture.end();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("ui.perfetto.dev") && said.contains("a signal came"),
        "{said}"
    );
    assert!(!text.contains(SECRET_KEY));
    let trace: Value = serde_json::from_str(&text).unwrap();
    check_nesting(&trace);
    let key = |bar: &Value| bar["args"]["key"].as_str().map(str::to_owned);
    let reads = bars(&trace, "READ");
    let of_file = |bar: &&&Value| key(bar).as_deref() == Some("dir/file");
    let taken = reads
        .iter()
        .filter(of_file)
        .map(|bar| bar["args"]["bytes"].as_u64().unwrap());
    assert_eq!(taken.sum::<u64>(), 3 * MIB);
    let program = reads[0]["args"]["process"].as_u64();
    assert_eq!(program, Some(u64::from(std::process::id())));
    let attempts = log.counters(Operation::GetObject).requests;
    check_gets(&trace, attempts);
    let events = trace["traceEvents"].as_array().unwrap();
    let throttled = |event: &Value| event["args"]["waited_us"]["throttling"].as_f64() > Some(0.0);
    assert!(events.iter().any(throttled));
    let [put] = bars(&trace, "PutObject").try_into().unwrap();
    assert_eq!(put["args"]["bytes_sent"], 1000);
    assert_eq!(key(put).as_deref(), Some("s3://test-bucket/new"));
    let lookups = bars(&trace, "LOOKUP");
    let absent = lookups
        .iter()
        .find(|it| key(it).as_deref() == Some("absent"));
    assert_eq!(absent.unwrap()["args"]["errno"], "ENOENT");
    let is_level = |event: &Value| event["ph"] == "C" && event["name"] == "fuse.requests_waiting";
    assert!(events.iter().any(is_level));
    assert_eq!(trace["otherData"]["dropped"], 0);
}

/// Checks the GETs of `dir/file` against the server, which has seen `attempts` and refused the
/// first.
fn check_gets(trace: &Value, attempts: u64) {
    let gets = bars(trace, "GetObject");
    assert_eq!(gets.len() as u64, attempts);
    let ids: BTreeSet<_> = gets
        .iter()
        .map(|it| it["args"]["request_id"].as_str())
        .collect();
    assert!(ids.len() == gets.len() && !ids.contains(&None), "{ids:?}");
    let status = |wanted: u16| {
        gets.iter()
            .filter(|it| it["args"]["status"] == wanted)
            .count()
    };
    assert_eq!((status(503), status(206)), (1, gets.len() - 1));
    assert!(gets.iter().any(|get| get["args"]["attempt"] == 2));
    let received = gets
        .iter()
        .map(|get| get["args"]["bytes_received"].as_u64().unwrap());
    assert_eq!(received.sum::<u64>(), 3 * MIB);
    // Each was caused by a request for this file that is there too.
    let events = trace["traceEvents"].as_array().unwrap();
    for get in &gets {
        let cause = get["args"]["caused_by"].as_u64().unwrap();
        let is_it = |event: &&Value| event["args"]["request"] == cause;
        let call = events.iter().find(is_it).unwrap();
        assert_eq!(call["args"]["key"], "dir/file", "{get}");
        assert_eq!(get["bind_id"], call["bind_id"]);
    }
}

#[test]
fn a_trace_has_what_is_not_finished_and_the_next_one_nothing_of_it() {
    let server = server();
    server.store().put_synthetic(BUCKET, "file", MIB, 1);
    let mounted = Mounted::unhedged(&server, &[]);
    let capture = Capture::begin(mounted.path());
    let hold = server
        .faults()
        .add(Rule::on(Operation::GetObject, Fault::Hold));
    let mut reader = Command::new("cat")
        .arg(mounted.join("file"))
        .stdout(Stdio::null())
        .spawn();
    let log = server.log();
    assert!(log.wait_until(Operation::GetObject, PATIENCE, |gets| gets.in_flight > 0));
    let (text, _) = capture.end();
    let trace: Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let unfinished = events
        .iter()
        .filter(|event| event["args"]["unfinished"] == true);
    assert!(unfinished.count() > 0, "{text}");
    let next = Capture::begin(mounted.path());
    server.faults().remove(hold);
    assert!(reader.as_mut().unwrap().wait().unwrap().success());
    let (text, _) = next.end();
    let trace: Value = serde_json::from_str(&text).unwrap();
    assert!(
        bars(&trace, "READ")
            .iter()
            .all(|read| read["args"]["unfinished"].is_null())
    );
}

#[test]
fn a_trace_of_a_mount_that_ends_is_whole() {
    let server = server();
    server.store().put_synthetic(BUCKET, "file", MIB, 1);
    let mounted = Mounted::new(&server, &[]);
    let capture = Capture::begin(mounted.path());
    read(&mounted.join("file"));
    assert!(mounted.unmount().success());
    let (text, output) = capture.wait();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("the mount has ended, or"), "{said}");
    serde_json::from_str::<Value>(&text).unwrap();
}

#[test]
fn a_full_disk_ends_a_trace_and_a_killed_command_ends_it_too() {
    let server = server();
    server.store().put_synthetic(BUCKET, "file", MIB, 1);
    let mounted = Mounted::new(&server, &[]);
    let mut full = mount_s3();
    full.arg("trace")
        .arg(mounted.path())
        .args(["--seconds", "0.1"]);
    let output = full.args(["-o", "/dev/full"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    let expected = "/dev/full: No space left on device";
    assert!(
        error.contains(expected) && error.contains("is not whole"),
        "{error}"
    );
    let mut capture = Capture::begin(mounted.path());
    capture.process.kill().unwrap();
    capture.process.wait().unwrap();
    // The mount hears of it, and is free for the next one.
    let next = || {
        let mut command = mount_s3();
        command.arg("trace").arg(mounted.path());
        command.args(["--seconds", "0.1", "-o", "/dev/null"]);
        command.output().unwrap().status.success()
    };
    wait_until("the next trace", next);
}

#[test]
fn what_cannot_be_traced_is_said() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    let unmeasured = Mounted::new(&server, &["--no-metrics"]);
    let elsewhere = tempfile::tempdir().unwrap();
    let file = elsewhere.path().join("file");
    let inside = mounted.join("file");
    let somebody = Somebody::new("nobody");
    let refused = |mut command: Command, directory: &Path, file: &Path, expected: &str| {
        let output = command
            .args(["--seconds", "1", "-o"])
            .arg(file)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{directory:?}: {error}");
        assert!(error.contains(expected), "{directory:?}: {error}");
        assert!(!elsewhere.path().join("file").exists(), "{error}");
    };
    let of_root = |directory: &Path| {
        let mut command = mount_s3();
        command.arg("trace").arg(directory);
        command
    };
    let path = elsewhere.path();
    refused(of_root(path), path, &file, "it is in no mount of mount-s3");
    let proc = Path::new("/proc/self");
    refused(of_root(proc), proc, &file, "it is in no mount of mount-s3");
    let path = unmeasured.path();
    refused(of_root(path), path, &file, "--no-metrics");
    let path = mounted.path();
    refused(of_root(path), path, &inside, "is in the mount itself");
    refused(
        of_root(path),
        path,
        Path::new("/nowhere/file"),
        "/nowhere/file: No such file",
    );
    let mut command = somebody.mount_s3();
    command.arg("trace").arg(path);
    refused(command, path, &file, "that mount is of user 0");
    // One at a time.
    let capture = Capture::begin(mounted.path());
    refused(
        of_root(path),
        path,
        &file,
        "another trace of this mount runs",
    );
    let mode = fs::metadata(&capture.file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    capture.end();
    let directory = mounted.path().to_owned();
    assert!(mounted.unmount().success());
    refused(
        of_root(&directory),
        &directory,
        &file,
        "it is in no mount of mount-s3",
    );
}
