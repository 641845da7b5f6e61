//! `mount-s3 doctor --check-writes`: its findings, and that nothing stays in the bucket.

use std::time::Instant;

use mountpoint_client::testing::server::{Fault, Operation, Rule, Server};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::doctor::{Diagnosis, doctor_at};
use crate::harness::{BUCKET, PATIENCE, put, server, wait_until};

/// A server with an object that is not the doctor's.
fn server_with_file() -> Server {
    let server = server();
    put(&server, "a/file", "contents");
    server
}

fn examine(server: &Server) -> Diagnosis {
    let bucket = format!("s3://{BUCKET}/a/");
    Diagnosis::of(doctor_at(&server.url(), &[&bucket, "--check-writes"]))
}

#[track_caller]
fn check_nothing_stays(server: &Server) {
    assert_eq!(server.store().keys(BUCKET), ["a/file"]);
    assert_eq!(server.store().uploads(BUCKET), []);
}

#[test]
fn a_server_that_can_all() {
    let server = server_with_file();
    let diagnosis = examine(&server);
    let shown = diagnosis.document.to_string();
    assert_eq!(diagnosis.code, Some(0), "{shown}");
    for check in [
        "PutObject",
        "conditional PutObject",
        "replacing PutObject",
        "upload checksums",
        "checksums of reads",
        "CopyObject",
        "conditional CopyObject",
        "multipart upload",
        "ETags of uploads",
        "conditional completion",
        "replacing completion",
        "conditional DeleteObject",
        "DeleteObjects",
        "UploadPartCopy",
        "temporary objects",
    ] {
        let row = diagnosis.row(check);
        assert!(row.starts_with("ok: "), "{check}: {row}");
    }
    check_nothing_stays(&server);
    let written = server.log().snapshot().into_iter().filter(|record| {
        matches!(
            record.operation,
            Operation::PutObject | Operation::CopyObject | Operation::DeleteObject
        )
    });
    for record in written {
        let key = record.key.clone();
        assert!(key.starts_with("a/.mountpoint-doctor-"), "{record:?}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of what a server lacks")]
fn what_a_server_lacks() {
    let server = server_with_file();
    let refuse = |status, code| Fault::Error { status, code };
    for (operation, fault, check, expected) in [
        (
            Operation::PutObject,
            Fault::IgnoreConditions,
            "conditional PutObject",
            "ignores If-None-Match",
        ),
        (
            Operation::CopyObject,
            Fault::IgnoreConditions,
            "conditional CopyObject",
            "ignores If-None-Match of copies",
        ),
        (
            Operation::CompleteMultipartUpload,
            Fault::IgnoreConditions,
            "conditional completion",
            "ignores If-None-Match",
        ),
        (
            Operation::PutObject,
            Fault::IgnoreConditions,
            "replacing PutObject",
            "ignores If-Match",
        ),
        (
            Operation::CompleteMultipartUpload,
            Fault::IgnoreConditions,
            "replacing completion",
            "ignores If-Match",
        ),
        (
            Operation::PutObject,
            Fault::UnknownHeader("if-none-match"),
            "conditional PutObject",
            "refuses If-None-Match",
        ),
        (
            Operation::PutObject,
            Fault::UnknownHeader("x-amz-checksum-crc32c"),
            "upload checksums",
            "--upload-checksums off",
        ),
        (
            Operation::HeadObject,
            Fault::UnknownHeader("x-amz-checksum-mode"),
            "checksums of reads",
            "refuses x-amz-checksum-mode",
        ),
        (
            Operation::CompleteMultipartUpload,
            Fault::ElementText("ETag", "of-the-completion"),
            "ETags of uploads",
            "tells another ETag",
        ),
        (
            Operation::UploadPartCopy,
            refuse(501, "NotImplemented"),
            "UploadPartCopy",
            "through this machine",
        ),
        (
            Operation::CopyObject,
            refuse(501, "NotImplemented"),
            "CopyObject",
            "cannot be renamed",
        ),
        (
            Operation::DeleteObjects,
            refuse(501, "NotImplemented"),
            "DeleteObjects",
            "refuses lists:",
        ),
        (
            Operation::DeleteObjects,
            Fault::IgnoreConditions,
            "DeleteObjects",
            "ignores ETags in lists",
        ),
        (
            Operation::DeleteObject,
            Fault::IgnoreConditions,
            "conditional DeleteObject",
            "ignores If-Match",
        ),
        (
            Operation::PutObject,
            refuse(403, "AccessDenied"),
            "PutObject",
            "s3:PutObject",
        ),
    ] {
        let rule = server.faults().add(Rule::on(operation, fault));
        let diagnosis = examine(&server);
        assert!(server.faults().remove(rule) > Some(0), "{check}");
        let row = diagnosis.row(check);
        assert_eq!(diagnosis.code, Some(0), "{}", diagnosis.document);
        assert!(row.starts_with("warning: "), "{check}: {row}");
        assert!(row.contains(expected), "{check}: {row}");
        let row = diagnosis.row("temporary objects");
        assert!(row.starts_with("ok: "), "{row}");
        check_nothing_stays(&server);
    }
}

#[test]
fn what_cannot_be_removed_is_named() {
    let server = server_with_file();
    for operation in [Operation::DeleteObject, Operation::AbortMultipartUpload] {
        let deny = Fault::Error {
            status: 403,
            code: "AccessDenied",
        };
        server.faults().add(Rule::on(operation, deny));
    }
    let row = examine(&server).row("temporary objects");
    let keys = server.store().keys(BUCKET);
    let keys = keys.iter().filter(|key| *key != "a/file");
    let uploads = server.store().uploads(BUCKET).into_iter();
    let left: Vec<_> = keys.cloned().chain(uploads.map(|(_, id)| id)).collect();
    assert!(left.len() > 1, "{left:?}");
    assert!(row.starts_with("warning: not removed: "), "{row}");
    // An earlier run on a starved machine, whose objects stay as well, is not named.
    let named = left.iter().filter(|name| row.contains(*name));
    assert!(named.count() > 1, "{row} of {left:?}");
}

/// The request in flight is awaited, no further one is sent, and all is removed.
#[test]
fn a_signal_ends_the_checks_and_leaves_nothing() {
    let started = Instant::now();
    loop {
        let server = server_with_file();
        let hold = Rule::on(Operation::CopyObject, Fault::Hold);
        let rule = server.faults().add(hold);
        let mut command = doctor_at(&server.url(), &[&format!("s3://{BUCKET}/a/")]);
        command.args(["--check-writes", "--json"]);
        let diagnosis = Diagnosis::disturbed(&mut command, |doctor| {
            wait_until("the copy", || {
                server.faults().fired(rule) == Some(1) || doctor.try_wait().unwrap().is_some()
            });
            // A doctor that ran out of time has ended.
            kill(Pid::from_raw(doctor.id().cast_signed()), Signal::SIGINT).ok();
            server.faults().remove(rule);
        });
        if diagnosis.is_out_of_time() && started.elapsed() < PATIENCE {
            continue;
        }
        let shown = diagnosis.document.to_string();
        assert_eq!(diagnosis.code, Some(1), "{shown}");
        let row = diagnosis.row("write checks");
        assert!(row.contains("broken off by a signal"), "{row}");
        check_nothing_stays(&server);
        break;
    }
}
