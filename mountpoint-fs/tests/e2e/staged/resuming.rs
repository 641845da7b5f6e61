//! Uploads in parts that a kill cuts short: the next mount sends the parts that S3 does not have.

use std::path::Path;

use mountpoint_client::testing::server::{Fault, Operation, Rule, Server};
use nix::sys::signal::Signal;

use super::write_back::{UPLOADS, command};
use super::{Staged, stored};
use crate::harness::{BUCKET, read, server, wait_until};

/// Bytes of a part, and the parts of the file.
const PARTS: [&str; 2] = ["--write-part-size", "5242880"];
const COUNT: u64 = 8;

/// Parts that S3 has when the mount is killed.
const SENT: u64 = 3;

fn arguments() -> Vec<&'static str> {
    [&UPLOADS[..], &PARTS].concat()
}

/// Parts that the checkpoints of the directory name as sent.
fn noted_parts(staging: &Path) -> u64 {
    let files = std::fs::read_dir(staging.join("mount-s3-staging/files")).unwrap();
    let paths = files.map(|entry| entry.unwrap().path());
    let checkpoints = paths.filter(|path| path.extension().is_some_and(|it| it == "u"));
    // The mount may be about to write the first line, or to remove the file.
    let texts = checkpoints.map(|path| std::fs::read_to_string(path).unwrap_or_default());
    let parts = texts.map(|text| text.lines().skip(1).count() as u64);
    parts.sum()
}

/// A mount that was killed when S3 had some parts of the file `large`, and its successor with the
/// fault. The bytes of the file are in `$L/large`.
#[track_caller]
fn killed(server: &Server, fault: Option<Rule>) -> Staged {
    let staged = Staged::new(server, &arguments());
    let held = server.faults().add(Rule {
        skip: SENT,
        ..Rule::on(Operation::UploadPart, Fault::Hold)
    });
    staged.run("head -c 41943040 /dev/urandom > $L/large && cp $L/large large");
    wait_until("the first parts", || {
        noted_parts(staged.staging.path()) == SENT
    });
    let before = server.log().count(Operation::CreateMultipartUpload);
    assert_eq!(before, 1);
    if let Some(fault) = fault {
        server.faults().add(fault);
    }
    let hold = server
        .faults()
        .add(Rule::on(Operation::ListParts, Fault::Hold));
    let staged = staged.again(Some(Signal::SIGKILL), server, &arguments());
    server.log().clear();
    server.faults().remove(held);
    server.faults().remove(hold);
    staged
}

/// Waits for the upload. Returns the parts that it has sent.
#[track_caller]
fn finish(server: &Server, staged: &Staged) -> u64 {
    let flushed = command(staged, "flush --json");
    assert!(flushed.contains("\"left\":0"), "{flushed}");
    let expected = read(&staged.local.path().join("large"));
    assert!(stored(server, "large") == expected);
    server.log().count(Operation::UploadPart)
}

#[test]
fn parts_that_were_sent_before_a_kill_are_not_sent_again() {
    let server = server();
    let staged = killed(&server, None);
    assert_eq!(finish(&server, &staged), COUNT - SENT);
    assert_eq!(server.log().count(Operation::CreateMultipartUpload), 0);
    assert_eq!(server.store().uploads(BUCKET), []);
    // The file is whole in the next mount as well, and nothing is left of the upload.
    server.log().clear();
    let staged = staged.again(None, &server, &arguments());
    staged.run("cmp large $L/large");
    assert_eq!(server.log().count(Operation::CreateMultipartUpload), 0);
    assert_eq!(noted_parts(staged.staging.path()), 0);
}

/// A server gets each part that it does not confirm, and all if it has lost the upload.
#[test]
fn parts_that_the_server_does_not_confirm_are_sent_again() {
    let other_tags = Fault::ElementText("ETag", "&quot;0123&quot;");
    let lost = Fault::Error {
        status: 404,
        code: "NoSuchUpload",
    };
    let unknown = Fault::Error {
        status: 501,
        code: "NotImplemented",
    };
    // One part has another tag. An upload that the server has forgotten is not aborted.
    let one_more = COUNT - SENT + 1;
    for (fault, sent, left) in [
        (other_tags, one_more, 0),
        (lost, COUNT, 1),
        (unknown, COUNT, 0),
    ] {
        let server = server();
        let rule = Rule::on(Operation::ListParts, fault.clone());
        let staged = killed(&server, Some(rule));
        assert_eq!(finish(&server, &staged), sent, "{fault:?}");
        assert_eq!(server.store().uploads(BUCKET).len(), left, "{fault:?}");
    }
}
