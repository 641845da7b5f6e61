//! Requests that change something and are answered with a conflict, with an error after the work,
//! or for the second time: the client's errors, and the content of the embedded server.

use std::time::Duration;

use bytes::Bytes;
use futures::executor::block_on;
use mountpoint_client::testing::server::{Fault, Operation, Rule, Server, ServerOptions};
use mountpoint_client::types::{
    CopyHeaders, CopySource, ETag, ObjectHeaders, PartNumber, PutCondition, PutRequest,
};
use mountpoint_client::{ClientError, CrtClientOptions, ErrorKind, ObjectClient as _};

use crate::support::embedded::{BUCKET, fixture};
use crate::support::{Fixture, key};

/// Requests that change the object `k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Put,
    Complete,
    Copy,
    Delete,
}

impl Change {
    fn operation(self) -> Operation {
        match self {
            Self::Put => Operation::PutObject,
            Self::Complete => Operation::CompleteMultipartUpload,
            Self::Copy => Operation::CopyObject,
            Self::Delete => Operation::DeleteObject,
        }
    }

    /// Makes the new object `k`, or deletes the version that is there.
    fn make(self, server: &Server, fixture: &Fixture) -> Result<(), ClientError> {
        let client = &fixture.client;
        let (k, body) = (key("k"), Bytes::from_static(b"mine"));
        match self {
            Self::Put => block_on(client.put(PutRequest {
                key: k,
                body,
                condition: PutCondition::Absent,
                checksum: None,
                headers: ObjectHeaders::default(),
            }))
            .map(drop),
            Self::Complete => {
                let upload = client.create_upload(&k, ObjectHeaders::default(), None);
                let upload = block_on(upload)?;
                let part = block_on(client.put_part(&upload, PartNumber(1), body, None))?;
                let completed = client.complete_upload(&upload, vec![part], PutCondition::Absent);
                block_on(completed).map(drop)
            }
            Self::Copy => {
                server.store().put(BUCKET, "source", "mine");
                let source = CopySource {
                    key: key("source"),
                    if_match: None,
                };
                let same = CopyHeaders::Same(ObjectHeaders::default());
                block_on(client.copy(source, &k, PutCondition::Absent, same)).map(drop)
            }
            Self::Delete => {
                let etag = server.store().put(BUCKET, "k", "theirs");
                let etag = ETag::from_header(&etag);
                block_on(client.delete(&k, Some(etag))).map(drop)
            }
        }
    }
}

/// The outcome: the error, whether an answer was lost, whether a conflict was met, whether it may
/// have been sent twice.
type Outcome = Result<(), (ErrorKind, bool, bool, bool)>;

#[track_caller]
fn check(change: Change, fault: &Fault, expected: &Outcome) {
    check_with(|_| {}, change, fault, expected);
}

#[track_caller]
fn check_with(
    options: impl FnOnce(&mut CrtClientOptions),
    change: Change,
    fault: &Fault,
    expected: &Outcome,
) {
    let server = Server::start(ServerOptions::default()).expect("the server starts");
    server.store().create_bucket(BUCKET);
    let fixture = fixture(&server, BUCKET, options);
    let rule = Rule::on(change.operation(), fault.clone()).times(1);
    let rule = server.faults().add(rule);
    let made = change.make(&server, &fixture).map_err(|error| {
        (
            error.kind,
            error.answer_was_lost,
            error.met_conflict,
            error.maybe_twice,
        )
    });
    assert_eq!(made, *expected, "{change:?} {fault:?}");
    assert_eq!(
        server.faults().remove(rule),
        Some(1),
        "{change:?} {fault:?}"
    );
}

#[test]
fn a_conflict_is_repeated_under_the_same_condition() {
    let conflict = Fault::Error {
        status: 409,
        code: "ConditionalRequestConflict",
    };
    for change in [Change::Put, Change::Complete, Change::Copy, Change::Delete] {
        check(change, &conflict, &Ok(()));
    }
}

#[test]
fn what_was_done_before_an_error_is_told() {
    let error = |status, code| Fault::ErrorAfterwards { status, code };
    let (lost, contested) = ((true, false), (true, true));
    for (fault, (was_lost, met_conflict)) in [
        (error(409, "ConditionalRequestConflict"), contested),
        (error(503, "SlowDown"), lost),
        (error(503, "ServiceUnavailable"), lost),
        (error(500, "InternalError"), lost),
        (Fault::PageAfterwards(502), lost),
        (Fault::PageAfterwards(503), lost),
        (Fault::PageAfterwards(504), lost),
        (Fault::DropConnectionAfterwards, lost),
        (Fault::Twice, (false, false)),
    ] {
        for (change, kind) in [
            (Change::Put, ErrorKind::PreconditionFailed),
            (Change::Complete, ErrorKind::NoSuchUpload),
            (Change::Copy, ErrorKind::PreconditionFailed),
        ] {
            check(change, &fault, &Err((kind, was_lost, met_conflict, true)));
        }
    }
    for code in ["SlowDown", "ServiceUnavailable", "InternalError"] {
        let fault = Fault::ErrorInBodyAfterwards(code);
        let told = |kind| Err((kind, true, false, true));
        check(Change::Complete, &fault, &told(ErrorKind::NoSuchUpload));
        check(Change::Copy, &fault, &told(ErrorKind::PreconditionFailed));
    }
}

#[test]
fn an_answer_that_is_never_heard_is_asked_for_again() {
    for (change, kind) in [
        (Change::Complete, ErrorKind::NoSuchUpload),
        (Change::Copy, ErrorKind::PreconditionFailed),
    ] {
        let check = |fault, expected| {
            // The second attempt, which waits twice as long, is to be answered in time.
            let silence = |options: &mut CrtClientOptions| {
                options.answer_silence_max = Duration::from_secs(3);
            };
            check_with(silence, change, &fault, &expected);
        };
        check(Fault::BlackHole, Ok(()));
        check(Fault::Stall(10), Err((kind, true, false, true)));
    }
}

#[test]
fn an_upload_that_a_conflict_ended_is_told() {
    let told = Err((ErrorKind::NoSuchUpload, true, true, true));
    check(Change::Complete, &Fault::ConflictEndsUpload, &told);
}

#[test]
fn a_refusal_at_once_is_no_lost_answer() {
    let fault = Fault::Error {
        status: 412,
        code: "PreconditionFailed",
    };
    let told = Err((ErrorKind::PreconditionFailed, false, false, true));
    for change in [Change::Put, Change::Complete, Change::Copy, Change::Delete] {
        check(change, &fault, &told);
    }
}
