//! Appends to objects of a directory bucket, as the embedded server sees them.

use bytes::Bytes;
use futures::executor::block_on;
use mountpoint_client::testing::server::{Fault, Operation, Rule, Server, ServerOptions};
use mountpoint_client::types::{AppendRequest, ETag, PutOutput};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient as _};

use crate::support::{Fixture, key};

const BUCKET: &str = "b--usw2-az1--x-s3";

/// A bucket with the object `k`, which holds `0123456789`.
fn bucket(options: ServerOptions) -> (Server, Fixture, ETag) {
    let server = Server::start(options).expect("the server starts");
    let etag = server.store().put(BUCKET, "k", "0123456789");
    let mut options = Fixture::options(server.address());
    options.bucket = BUCKET.to_owned();
    let fixture = Fixture::with(options);
    (server, fixture, ETag::from_header(&etag))
}

fn append(fixture: &Fixture, (at, version): (u64, &ETag)) -> Result<PutOutput, ClientError> {
    block_on(fixture.client.append(AppendRequest {
        key: key("k"),
        offset: at,
        if_match: version.clone(),
        body: Bytes::from_static(b"abc"),
        checksum: None,
    }))
}

fn content(server: &Server) -> Vec<u8> {
    let object = server.store().object(BUCKET, "k");
    object.expect("it is there").bytes().to_vec()
}

#[test]
fn each_append_is_one_request_with_offset_and_condition() {
    let (server, fixture, mut version) = bucket(ServerOptions::default());
    for at in [10, 13, 16] {
        // Nobody notices that the server forgets the session.
        server.end_sessions();
        let before = version.clone();
        server.log().clear();
        version = append(&fixture, (at, &version)).unwrap().etag;
        let records = server.log().take();
        let puts: Vec<_> = records
            .iter()
            .filter(|record| record.operation == Operation::PutObject)
            .collect();
        let done = puts.iter().filter(|put| put.status == 200);
        assert_eq!(done.count(), 1, "{records:?}");
        for put in puts {
            assert_eq!(put.if_match.as_deref(), Some(before.as_str()));
            let offset = put.setting("x-amz-write-offset-bytes");
            assert_eq!(offset, Some(&*at.to_string()));
        }
    }
    assert_eq!(content(&server), b"0123456789abcabcabc");
}

#[test]
fn an_answer_that_was_lost_is_told_and_nothing_is_there_twice() {
    let (server, fixture, version) = bucket(ServerOptions::default());
    let lost = Rule::on(Operation::PutObject, Fault::DropConnectionAfterwards);
    server.faults().add(lost.times(1));
    let error = append(&fixture, (10, &version)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::PreconditionFailed, "{error}");
    assert!(error.answer_was_lost, "{error}");
    assert_eq!(content(&server), b"0123456789abc");
    // By the offset alone, where the version is not looked at.
    let here = ETag::from_header(&server.store().object(BUCKET, "k").unwrap().etag());
    server.faults().add(Rule::always(Fault::IgnoreConditions));
    let lost = Rule::on(Operation::PutObject, Fault::DropConnectionAfterwards);
    server.faults().add(lost.times(1));
    let error = append(&fixture, (13, &here)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::PreconditionFailed, "{error}");
    assert!(error.answer_was_lost, "{error}");
    assert_eq!(content(&server), b"0123456789abcabc");
}

#[test]
fn an_object_has_so_many_parts() {
    let (server, fixture, mut version) = bucket(ServerOptions {
        append_parts_max: 3,
        ..ServerOptions::default()
    });
    for at in [10, 13] {
        version = append(&fixture, (at, &version)).unwrap().etag;
    }
    let error = append(&fixture, (16, &version)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooManyParts, "{error}");
    assert!(!error.answer_was_lost, "{error}");
    // It may be full by what was not answered.
    let lost = Rule::on(Operation::PutObject, Fault::DropConnection);
    server.faults().add(lost.times(1));
    let error = append(&fixture, (16, &version)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooManyParts, "{error}");
    assert!(error.answer_was_lost, "{error}");
    assert_eq!(content(&server), b"0123456789abcabc");
}

/// The server has destroyed the object by then; an append that goes on unnoticed would be worse.
#[test]
fn a_server_that_ignores_the_offset_is_found_out() {
    let (server, fixture, version) = bucket(ServerOptions::default());
    server.faults().add(Rule::always(Fault::IgnoreWriteOffset));
    let error = append(&fixture, (10, &version)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidResponse, "{error}");
    assert!(error.message.contains("the server appends nothing"));
}
