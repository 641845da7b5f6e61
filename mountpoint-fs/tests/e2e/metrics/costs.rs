//! The costs of requests and the programs that caused them, compared with the server's counts.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use mountpoint_client::billing::RequestClass;
use mountpoint_client::testing::server::Operation;
use serde_json::Value;

use super::stats::{document, number, stats};
use crate::harness::{BUCKET, Mounted, mount_s3, server, wait_until};

const MIB: u64 = 1 << 20;

/// A GET costs 1, a PUT or LIST 1000, and a received GiB 1024: a MiB 1.
const PRICES: &str =
    r#"{"bucket": {"get_per_1000": 1000, "put_per_1000": 1000000, "download_per_gib": 1024}}"#;

/// Has a program of this name read a file.
fn read_by(program: &str, arguments: &[&str]) {
    let mut command = Command::new(program);
    let status = command.args(arguments).stdout(Stdio::null()).status();
    assert!(status.unwrap().success(), "{program}");
}

/// Requests of a class, as the client counts them without regard to programs and prices.
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
    let prices = directory.path().join("prices.json");
    fs::write(&prices, PRICES).unwrap();
    let log = directory.path().join("log");
    fs::create_dir(&log).unwrap();
    let flags = ["--price-file", prices.to_str().unwrap()];
    let logged = ["--log-metrics", "--log-directory", log.to_str().unwrap()];
    let mounted = Mounted::unhedged(&server, &[&flags[..], &logged].concat());
    let path = |name: &str| mounted.join(name).to_str().unwrap().to_owned();
    read_by("cat", &[&path("large")]);
    read_by("head", &["-c", "1048576", &path("small")]);
    read_by("cp", &[prices.to_str().unwrap(), &path("new")]);
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
    assert_eq!(of("cost.spent", "put"), 1000.0 * puts);
    assert_eq!(of("cost.spent", "get"), others);
    assert!(gets > 0.0 && others >= gets);
    assert!(lists > 0.0 && puts >= lists + seen.count(Operation::PutObject) as f64);
    assert_eq!(of("cost.spent", "received"), received / MIB as f64);
    assert!((of("program.cost", "") - of("cost.spent", "")).abs() < 0.001);
    // The bytes are on the accounts of those that read them.
    let received_by = |program| received_by(&document, program);
    assert_eq!(received_by("cat"), 3 * MIB);
    assert_eq!(received_by("head"), MIB);
    assert!(of("program.cost", "cp") >= 1000.0, "the upload");
    let output = stats(mounted.path(), &["--once"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let cost = text.lines().find(|line| line.starts_with("cost "));
    let source = format!("; prices: {}", prices.display());
    assert!(cost.is_some_and(|line| line.ends_with(&source)), "{text}");
    let after = |begin: &str| text.split(begin).nth(1).unwrap_or_default();
    assert!(after("program, so far").contains("\n  cat "), "{text}");
    assert!(mounted.unmount().success());
    let line = end_of_log(&log);
    for part in ["requests to S3", "about $", "by program: ", "cp $", "cat $"] {
        assert!(line.contains(part), "{part} in {line}");
    }
}

/// The line of the log about costs.
fn end_of_log(directory: &Path) -> String {
    let file = fs::read_dir(directory).unwrap().next().unwrap().unwrap();
    let text = fs::read_to_string(file.path()).unwrap();
    let line = text.lines().find(|line| line.contains("; by program: "));
    line.unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[test]
fn the_prices_of_another_store_are_not_known() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    let document = document(mounted.path());
    assert!(number(&document, "program.requests", "(mount)") >= 1.0);
    assert_eq!(number(&document, "cost.spent", ""), 0.0);
    assert!(document["mount"]["prices"].is_null());
    let output = stats(mounted.path(), &["--once"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("cost        not known: "), "{text}");
}

#[test]
fn a_broken_price_file_ends_the_start() {
    let server = server();
    let directory = tempfile::tempdir().unwrap();
    let prices = directory.path().join("prices.json");
    fs::write(&prices, r#"{"bucket": {"put": 1}}"#).unwrap();
    let mut command = mount_s3();
    command.args([BUCKET, "--endpoint-url", &server.url()]);
    command
        .arg(directory.path())
        .arg("--price-file")
        .arg(&prices);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("unknown field `put`"), "{text}");
}
