//! Sessions of directory buckets, and keys that a server refuses.

use std::time::Duration;

use futures::executor::block_on;
use mountpoint_client::testing::server::{Fault, Operation, Rule, ServerOptions};
use mountpoint_client::types::{ListRequest, PutCondition};
use mountpoint_client::{ErrorKind, ObjectClient, ServerSideEncryption};

use crate::support::embedded::{
    ALL, BUCKET, DIRECTORY, carry, fixture, one_of_each, put, server_of, server_with,
};
use crate::support::key;

#[test]
fn one_session_signs_every_request_of_a_directory_bucket() {
    let server = server_of(DIRECTORY);
    let fixture = fixture(&server, DIRECTORY, |options| {
        options.expected_bucket_owner = Some("123456789012".to_owned());
        options.sse = Some(ServerSideEncryption::Aes256);
        options.user_agent = "mine/1".to_owned();
    });
    one_of_each(&fixture).unwrap();
    block_on(
        fixture
            .client
            .rename(&key("k"), &key("a b/+"), PutCondition::Absent),
    )
    .unwrap();
    assert!(server.store().object(DIRECTORY, "a b/+").is_some());
    block_on(fixture.client.create_session()).unwrap();
    let records = server.log().take();
    assert_eq!(server.log().count(Operation::CreateSession), 1);
    let (opening, signed): (Vec<_>, Vec<_>) = records
        .into_iter()
        .partition(|record| record.operation == Operation::CreateSession);
    let encryption = opening[0].setting("x-amz-server-side-encryption");
    assert_eq!(encryption, Some("AES256"));
    let agent = opening[0].setting("user-agent").unwrap();
    assert!(agent.starts_with("mine/1 "), "{agent}");
    let token = signed[0].setting("x-amz-s3session-token").unwrap();
    carry(&signed, "x-amz-s3session-token", token, &ALL);
    carry(&signed, "x-amz-expected-bucket-owner", "123456789012", &ALL);
    for record in opening.iter().chain(&signed) {
        let signature = record.signature.as_deref();
        let expected = "AWS4-HMAC-SHA256 us-east-1/s3express/aws4_request";
        assert_eq!(signature, Some(expected), "{record:?}");
    }
}

#[test]
fn a_session_that_ends_early_is_replaced_at_once() {
    let server = server_of(DIRECTORY);
    let fixture = fixture(&server, DIRECTORY, |_| {});
    fixture.get(0..10, None).1.unwrap();
    server.end_sessions();
    fixture.get(0..10, None).1.unwrap();
    server.end_sessions();
    block_on(fixture.client.head(&key("k"))).unwrap();
    assert_eq!(server.log().count(Operation::CreateSession), 3);
    assert_eq!(server.log().counters(Operation::HeadObject).errors, 1);
    assert_eq!(server.log().counters(Operation::GetObject).errors, 1);
}

#[test]
fn all_requests_survive_the_end_of_their_session() {
    let server = server_of(DIRECTORY);
    let fixture = fixture(&server, DIRECTORY, |_| {});
    block_on(fixture.client.create_session()).unwrap();
    for ended in 1..=3 {
        server.end_sessions();
        let heads = (0..32).map(|_| fixture.client.head(&key("k")));
        for outcome in block_on(futures::future::join_all(heads)) {
            outcome.unwrap_or_else(|error| panic!("after the end of session {ended}: {error}"));
        }
        assert_eq!(server.log().count(Operation::CreateSession), 1 + ended);
    }
}

#[test]
fn a_refusal_that_is_not_the_end_of_a_session_is_final() {
    let server = server_of(DIRECTORY);
    let fixture = fixture(&server, DIRECTORY, |_| {});
    block_on(fixture.client.create_session()).unwrap();
    let refused = Fault::Error {
        status: 403,
        code: "AccessDenied",
    };
    server
        .faults()
        .add(Rule::on(Operation::HeadObject, refused));
    let error = block_on(fixture.client.head(&key("k"))).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied, "{error}");
    assert_eq!(server.log().count(Operation::HeadObject), 2);
    assert_eq!(server.log().count(Operation::CreateSession), 2);
}

#[test]
fn sessions_are_replaced_before_they_expire() {
    let session_lifetime = Duration::from_secs(4);
    let options = ServerOptions {
        session_lifetime,
        ..ServerOptions::default()
    };
    let server = server_with(DIRECTORY, options);
    let fixture = fixture(&server, DIRECTORY, |_| {});
    while server.log().count(Operation::CreateSession) < 3 {
        fixture.get(0..10, None).1.unwrap();
        block_on(fixture.client.head(&key("k"))).unwrap();
    }
    for operation in [Operation::GetObject, Operation::HeadObject] {
        assert_eq!(server.log().counters(operation).errors, 0, "{operation}");
    }
}

#[test]
fn why_there_is_no_session_is_told() {
    for (status, code, kind, hint) in [
        (
            403,
            "AccessDenied",
            ErrorKind::Denied,
            "need s3express:CreateSession",
        ),
        (404, "NoSuchBucket", ErrorKind::NoSuchBucket, ""),
        (
            501,
            "NotImplemented",
            ErrorKind::Unsupported,
            "--bucket-type general-purpose",
        ),
    ] {
        let server = server_of(DIRECTORY);
        let refused = Fault::Error { status, code };
        server
            .faults()
            .add(Rule::on(Operation::CreateSession, refused));
        let fixture = fixture(&server, DIRECTORY, |_| {});
        let client = &fixture.client;
        for error in [
            fixture.get(0..10, None).1.unwrap_err(),
            block_on(client.list(ListRequest::default())).unwrap_err(),
            block_on(client.put(put("p"))).unwrap_err(),
            block_on(client.create_session()).unwrap_err(),
        ] {
            assert_eq!(error.kind, kind, "{error}");
            assert!(error.message.contains("CreateSession"), "{error}");
            assert!(error.message.contains(code), "{error}");
            assert!(error.message.contains(hint), "{error}");
        }
        assert_eq!(server.log().count(Operation::GetObject), 0);
    }
}

#[test]
fn a_session_is_asked_for_again_when_there_is_no_answer() {
    let server = server_of(DIRECTORY);
    let mute = Rule::on(Operation::CreateSession, Fault::BlackHole).times(1);
    server.faults().add(mute);
    let fixture = fixture(&server, DIRECTORY, |_| {});
    block_on(fixture.client.create_session()).unwrap();
    assert_eq!(server.log().count(Operation::CreateSession), 2);
}

#[test]
fn a_session_is_asked_for_again_when_the_server_is_busy() {
    let server = server_of(DIRECTORY);
    let busy = || Rule::on(Operation::CreateSession, Fault::SlowDown).times(1);
    server.faults().add(busy());
    let fixture = fixture(&server, DIRECTORY, |_| {});
    fixture.get(0..10, None).1.unwrap();
    server.end_sessions();
    server.faults().add(busy());
    block_on(fixture.client.head(&key("k"))).unwrap();
    assert_eq!(server.log().count(Operation::CreateSession), 4);
}

/// S3 answers HEAD with expired keys by 400 and no word of the reason.
#[test]
fn keys_are_replaced_after_a_refusal_without_a_reason() {
    let server = server_of(BUCKET);
    let code = "ExpiredToken";
    let fault = Fault::Error { status: 400, code };
    server.faults().add(Rule::on(Operation::HeadObject, fault));
    let fixture = fixture(&server, BUCKET, |_| {});
    let head = || block_on(fixture.client.head(&key("k"))).unwrap_err();
    assert_eq!(head().kind, ErrorKind::InvalidRequest);
    assert_eq!(server.log().count(Operation::HeadObject), 2);
    // Not for each of many refusals.
    assert_eq!(head().kind, ErrorKind::InvalidRequest);
    assert_eq!(server.log().count(Operation::HeadObject), 3);
}
