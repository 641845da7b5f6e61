//! The programs that caused requests, compared with the server's counts.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use mountpoint_client::billing::RequestClass;
use mountpoint_client::testing::server::Operation;
use serde_json::Value;

use super::stats::{document, number, stats};
use crate::harness::{BUCKET, Mounted, server, wait_until};

const MIB: u64 = 1 << 20;

/// Has a program of this name read a file.
fn read_by(program: &str, arguments: &[&str]) {
    let mut command = Command::new(program);
    let status = command.args(arguments).stdout(Stdio::null()).status();
    assert!(status.unwrap().success(), "{program}");
}

/// Requests of a class, as the client counts them without regard to programs.
fn requests_of(document: &Value, class: RequestClass) -> f64 {
    let metrics = document["metrics"].as_array().unwrap().iter();
    let requests = metrics.filter(|metric| metric["name"] == "s3.request_count");
    let is_it = |metric: &&Value| {
        let operation = metric["labels"]["s3_request"].as_str();
        RequestClass::of(operation.unwrap()) == class
    };
    let found = requests.filter(is_it);
    found.map(|it| it["counter"].as_f64().unwrap()).sum()
}

/// Bytes of objects that a program has received.
fn received_by(document: &Value, program: &str) -> u64 {
    let metrics = document["metrics"].as_array().unwrap().iter();
    let is_it = |metric: &&Value| {
        let labels = &metric["labels"];
        let is_received = labels["program"] == program && labels["type"] == "received";
        metric["name"] == "program.bytes" && is_received
    };
    let found = metrics.filter(is_it);
    found.map(|it| it["counter"].as_u64().unwrap()).sum()
}

#[test]
fn each_program_has_what_it_causes() {
    let server = server();
    server.store().put_synthetic(BUCKET, "large", 3 * MIB, 1);
    server.store().put_synthetic(BUCKET, "small", MIB, 2);
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("source");
    fs::write(&source, "content").unwrap();
    let log = directory.path().join("log");
    fs::create_dir(&log).unwrap();
    let logged = ["--log-metrics", "--log-directory", log.to_str().unwrap()];
    let mounted = Mounted::unhedged(&server, &logged);
    let path = |name: &str| mounted.join(name).to_str().unwrap().to_owned();
    read_by("cat", &[&path("large")]);
    read_by("head", &["-c", "1048576", &path("small")]);
    read_by("cp", &[source.to_str().unwrap(), &path("new")]);
    let shown = || document(mounted.path());
    wait_until("the end of all requests", || {
        number(&shown(), "s3.requests_in_flight", "") == 0.0
    });
    let document = shown();
    let of = |name: &str, label: &str| number(&document, name, label);
    let sent = |class| requests_of(&document, class);
    let (puts, others) = (sent(RequestClass::Put), sent(RequestClass::Get));
    let seen = server.log();
    let gets = seen.count(Operation::GetObject) as f64;
    let lists = seen.count(Operation::ListObjectsV2) as f64;
    let received = seen.counters(Operation::GetObject).bytes_sent as f64;
    // All that the server has seen is on somebody's account.
    let attempts = of("s3.request_count", "");
    assert_eq!(of("program.requests", ""), attempts);
    assert_eq!(of("program.requests", "put"), puts);
    assert_eq!(of("program.requests", "get"), others);
    assert!(gets > 0.0 && others >= gets);
    assert!(lists > 0.0 && puts >= lists + seen.count(Operation::PutObject) as f64);
    assert_eq!(of("program.bytes", "received"), received);
    // The bytes are on the accounts of those that read them.
    let received_by = |program| received_by(&document, program);
    assert_eq!(received_by("cat"), 3 * MIB);
    assert_eq!(received_by("head"), MIB);
    assert!(of("program.requests", "cp") >= 1.0, "the upload");
    let output = stats(mounted.path(), &["--once"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let after = |begin: &str| text.split(begin).nth(1).unwrap_or_default();
    assert!(after("program, so far").contains("\n  cat "), "{text}");
    assert!(mounted.unmount().success());
    let line = end_of_log(&log);
    for part in ["requests to S3", "by program: ", "cp ", "cat "] {
        assert!(line.contains(part), "{part} in {line}");
    }
}

/// The line of the log about programs.
fn end_of_log(directory: &Path) -> String {
    let file = fs::read_dir(directory).unwrap().next().unwrap().unwrap();
    let text = fs::read_to_string(file.path()).unwrap();
    let line = text.lines().find(|line| line.contains("; by program: "));
    line.unwrap_or_else(|| panic!("{text}")).to_owned()
}
