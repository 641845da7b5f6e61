//! Answers of a gateway in the place of S3's, with statuses and pages of its own, and answers of
//! servers that tell less than S3.

use bytes::Bytes;
use futures::executor::block_on;
use mountpoint_client::testing::server::{Fault, Operation, Rule};
use mountpoint_client::types::{
    CopyHeaders, CopySource, ETag, ListRequest, ObjectHeaders, PartNumber, PutCondition,
    PutRequest, Upload,
};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient};

use crate::support::embedded::{BUCKET, fixture, one_of_each, put, same, server_of, source};
use crate::support::{Fixture, Reply, Server, key};

/// What an ingress says whose server is away, what a firewall says, a balancer, and a site that is
/// being mended.
const STATUSES: [u16; 5] = [404, 403, 400, 502, 200];

#[test]
fn a_page_in_the_place_of_an_answer_is_asked_for_again() {
    let server = server_of(BUCKET);
    let fixture = fixture(&server, BUCKET, |_| {});
    block_on(fixture.client.head(&key("k"))).unwrap();
    for status in STATUSES {
        let operations = Operation::ALL.iter().map(|operation| {
            let page = Rule::on(*operation, Fault::Page(status));
            server.faults().add(page.times(1))
        });
        let rules: Vec<_> = operations.collect();
        one_of_each(&fixture).unwrap_or_else(|error| panic!("{status}: {error}"));
        let fired = rules.into_iter().map(|rule| server.faults().remove(rule));
        assert!(fired.flatten().sum::<u64>() >= 15, "{status}");
        let made = server.store().object(BUCKET, "m");
        assert!(made.is_none(), "{status}: it was deleted at last");
    }
}

/// The outcomes of requests that change something, or tell of an object.
fn outcomes(fixture: &Fixture) -> Vec<(&'static str, Result<(), ClientError>)> {
    let client = &fixture.client;
    let absent = PutRequest {
        condition: PutCondition::Absent,
        ..put("new")
    };
    let upload = Upload {
        key: key("k"),
        upload_id: "u".to_owned(),
    };
    let pinned = CopySource {
        if_match: Some(ETag::from_header("\"e\"")),
        ..source()
    };
    let none = PutCondition::None;
    vec![
        ("get", fixture.get(0..10, Some("\"e\"")).1.map(drop)),
        ("head", block_on(client.head(&key("k"))).map(drop)),
        (
            "first bytes",
            block_on(client.first_bytes(&key("k"), 9)).map(drop),
        ),
        (
            "list",
            block_on(client.list(ListRequest::default())).map(drop),
        ),
        ("put", block_on(client.put(absent)).map(drop)),
        ("delete", block_on(client.delete(&key("k"), None))),
        (
            "delete a version",
            block_on(client.delete(&key("k"), Some(ETag::from_header("\"e\"")))),
        ),
        (
            "delete many",
            block_on(client.delete_many(vec![(key("k"), None)])).map(drop),
        ),
        (
            "copy",
            block_on(client.copy(pinned, &key("c"), none.clone(), same())).map(drop),
        ),
        (
            "create",
            block_on(client.create_upload(&key("k"), ObjectHeaders::default(), None)).map(drop),
        ),
        (
            "part",
            block_on(client.put_part(&upload, PartNumber(1), Bytes::from_static(b"b"), None))
                .map(drop),
        ),
        ("parts", block_on(client.list_parts(&upload)).map(drop)),
        ("abort", block_on(client.abort_upload(&upload))),
        (
            "complete",
            block_on(client.complete_upload(&upload, Vec::new(), none)).map(drop),
        ),
    ]
}

#[test]
fn pages_tell_nothing_of_an_object() {
    let server = server_of(BUCKET);
    let fixture = fixture(&server, BUCKET, |options| options.max_attempts = 2);
    block_on(fixture.client.head(&key("k"))).unwrap();
    for status in STATUSES {
        server.faults().clear();
        server.faults().add(Rule::always(Fault::Page(status)));
        for (what, outcome) in outcomes(&fixture) {
            let error = outcome.expect_err(what);
            assert_eq!(
                error.kind,
                ErrorKind::Transient,
                "{status}, {what}: {error}"
            );
        }
    }
    assert!(server.store().object(BUCKET, "k").is_some());
}

/// The deletion may have been done, or another client has deleted the object.
#[test]
fn a_page_is_no_reason_to_fail_where_the_object_is_gone() {
    let server = server_of(BUCKET);
    let fixture = fixture(&server, BUCKET, |_| {});
    let page = Rule::on(Operation::DeleteObject, Fault::Page(404));
    server.faults().add(page);
    block_on(fixture.client.delete(&key("absent"), None)).unwrap();
    assert_eq!(server.log().count(Operation::DeleteObject), 1);
}

#[test]
fn an_error_without_an_end_is_none_of_s3() {
    let server = server_of(BUCKET);
    let fixture = fixture(&server, BUCKET, |options| options.max_attempts = 2);
    block_on(fixture.client.head(&key("k"))).unwrap();
    let endless = Rule::always(Fault::EndlessError(404));
    server.faults().add(endless);
    for (what, outcome) in outcomes(&fixture) {
        let error = outcome.expect_err(what);
        assert_eq!(error.kind, ErrorKind::Transient, "{what}: {error}");
    }
}

/// At the start a page is most likely a wrong endpoint.
#[test]
fn a_server_that_has_never_been_s3_is_told_soon() {
    let server = Server::start(|_, _| Reply::new(404).body("<html>nothing here</html>"));
    let fixture = Fixture::new(server.address);
    let error = block_on(fixture.client.list(ListRequest::default())).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidResponse, "{error}");
    assert!(error.message.contains("nothing here"), "{error}");
    assert!(server.requests().len() <= 4);
}

/// What a HEAD without headers of S3 leaves open is asked with a body.
#[test]
fn a_head_that_proves_nothing_is_asked_for_by_get() {
    let object = |status| Reply::new(status).header("ETag", "\"e\"");
    for (of_head, of_get, expected) in [
        (
            Reply::new(404),
            Reply::error(404, "NoSuchKey"),
            Err(ErrorKind::NotFound),
        ),
        (
            Reply::new(403),
            Reply::error(403, "AccessDenied"),
            Err(ErrorKind::Denied),
        ),
        (
            Reply::new(404),
            Reply::new(404).body("no"),
            Err(ErrorKind::Transient),
        ),
        (
            Reply::new(404)
                .header("x-amz-request-id", "1")
                .header("Content-Type", "text/plain"),
            Reply::new(404)
                .header("x-amz-request-id", "1")
                .body("default backend - 404"),
            Err(ErrorKind::Transient),
        ),
        // Without a length, chunked or not.
        (
            object(200).chunked(),
            object(206).header("Content-Range", "bytes 0-0/7").body("a"),
            Ok(7),
        ),
        (
            object(200).chunked(),
            Reply::error(416, "InvalidRange"),
            Ok(0),
        ),
        (
            object(200).chunked(),
            object(206).header("Content-Range", "bytes 0-0/*").body("a"),
            Err(ErrorKind::InvalidResponse),
        ),
        // A page of a gateway.
        (
            object(200).header("Content-Type", "text/html"),
            object(206).header("Content-Range", "bytes 0-0/7").body("a"),
            Ok(7),
        ),
        (
            Reply::new(200).header("Content-Type", "text/html"),
            object(200).body("<html></html>"),
            Err(ErrorKind::Transient),
        ),
    ] {
        let case = format!("{of_head:?} {of_get:?}");
        let server = Server::start(move |request, _| match &*request.method {
            "HEAD" => of_head.clone(),
            "GET" if request.path.contains("list-type") => {
                Reply::new(200).body("<ListBucketResult></ListBucketResult>")
            }
            _ => of_get.clone(),
        });
        let mut options = Fixture::options(server.address);
        options.max_attempts = 2;
        let fixture = Fixture::with(options);
        // It is S3.
        block_on(fixture.client.list(ListRequest::default())).unwrap();
        let found = block_on(fixture.client.head(&key("k")));
        let found = found.map(|info| info.size).map_err(|error| error.kind);
        assert_eq!(found, expected, "{case}");
    }
}

#[test]
fn a_listing_of_nothing_may_be_a_missing_key() {
    let server = Server::start(|_, _| Reply::error(404, "NoSuchKey"));
    let fixture = Fixture::new(server.address);
    let listed = block_on(fixture.client.list(ListRequest::default())).unwrap();
    assert!(listed.objects.is_empty() && listed.continuation_token.is_none());
}

/// An answer without an ETag may be that of a gateway which has stored nothing: only the token in
/// the object's metadata tells.
#[test]
fn a_success_without_an_etag_is_no_answer() {
    let server = Server::start(|_, _| Reply::new(200));
    let fixture = Fixture::new(server.address);
    let stored = block_on(fixture.client.put(put("p")));
    let source = CopySource {
        key: key("k"),
        if_match: None,
    };
    let made = CopyHeaders::New(ObjectHeaders::default());
    let copied = block_on(
        fixture
            .client
            .copy(source, &key("p"), PutCondition::None, made),
    );
    for answer in [stored, copied] {
        let error = answer.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidResponse, "{error:?}");
        assert!(error.answer_was_lost, "{error:?}");
    }
}
