//! `mount-s3 bench` on a real server, through the client and through a mount.

use std::process::Output;

use mountpoint_client::testing::server::{Operation, Server};

use crate::harness::{BUCKET, is_mounted, mount_s3, put, server};

/// Runs the command with steps of a second.
fn bench(server: &Server, bucket: &str, args: &[&str]) -> Output {
    let mut command = mount_s3();
    command.args(["bench", bucket, "--seconds", "1", "--force-path-style"]);
    command.args(["--endpoint-url", &server.url()]).args(args);
    command.output().unwrap()
}

/// The figures of a run with `--json`.
#[track_caller]
fn figures(output: &Output) -> serde_json::Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"))
}

/// The steps of a run: the way, the name, and how many at once.
fn steps(figures: &serde_json::Value) -> Vec<String> {
    let steps = figures["steps"].as_array().unwrap().iter();
    let text = |step: &serde_json::Value| {
        let (way, name) = (step["through"].as_str(), step["step"].as_str());
        format!("{} {} {}", way.unwrap(), name.unwrap(), step["at_once"])
    };
    steps.map(text).collect()
}

#[test]
fn temporary_objects_are_measured_and_removed() {
    let server = server();
    put(&server, "dir/file", "hello");
    let folder = tempfile::tempdir().unwrap();
    let mount = folder.path().join("mnt");
    std::fs::create_dir(&mount).unwrap();
    let args = [mount.to_str().unwrap(), "--write", "--json"];
    let output = bench(&server, &format!("{BUCKET}/dir"), &args);
    assert!(output.status.success(), "{output:?}");
    let figures = figures(&output);
    let expected = [
        "client write 8 MiB 16",
        "client write 16 KiB 16",
        "client list 1",
        "client first byte 1",
        "client read 1",
        "client read 4",
        "client read 16",
        "client read 64",
        "client small files 16",
        "mount names 1",
        "mount read 1",
        "mount read 4",
        "mount small files 16",
    ];
    assert_eq!(steps(&figures), expected);
    for step in figures["steps"].as_array().unwrap() {
        assert!(step["operations"].as_u64().unwrap() > 0, "{step}");
        assert_eq!(step["failures"], 0, "{step}");
    }
    assert_eq!(figures["steps"][0]["bytes"], 128 << 20);
    assert!(figures["bound"].is_string(), "{figures}");
    assert_eq!(server.store().keys(BUCKET), ["dir/file"]);
    assert!(!is_mounted(&mount));
}

/// Without `--write` no request changes anything, and what cannot be measured is named.
#[test]
fn what_is_there_is_read_and_nothing_is_changed() {
    let server = server();
    for number in 0..3 {
        put(&server, &format!("file-{number}"), "hello");
    }
    server.log().clear();
    let output = bench(&server, BUCKET, &[]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    for part in ["first byte", "small files", "--write", "empty directory"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for operation in [
        Operation::PutObject,
        Operation::DeleteObject,
        Operation::DeleteObjects,
        Operation::CreateMultipartUpload,
    ] {
        let requests = server.log().counters(operation).requests;
        assert_eq!(requests, 0, "{operation:?}");
    }
}

#[test]
fn wrong_uses_are_told() {
    let server = server();
    let output = bench(&server, BUCKET, &["--seconds", "0"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let output = bench(&server, "no-such-bucket", &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("does not exist"), "{stderr}");
    // Nothing is there to be read.
    let output = bench(&server, BUCKET, &["--json"]);
    let remarks = figures(&output)["remarks"].to_string();
    assert!(remarks.contains("nothing to read"), "{remarks}");
    put(&server, "file", "hello");
    let output = bench(&server, BUCKET, &["/proc/none", "--json"]);
    let remarks = figures(&output)["remarks"].to_string();
    assert!(remarks.contains("no mount was measured"), "{remarks}");
}
