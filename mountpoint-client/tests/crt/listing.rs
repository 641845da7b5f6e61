//! Listings, of servers whose pages are canned, empty, or come again.

use futures::executor::block_on;
use mountpoint_client::testing::server::{
    Fault, Operation, Rule, Server as Embedded, ServerOptions,
};
use mountpoint_client::types::{ListOutput, ListRequest};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient as _};

use crate::support::{Fixture, Reply, Server};

fn bucket(name: &str) -> (Embedded, Fixture) {
    let server = Embedded::start(ServerOptions::default()).expect("the server starts");
    for key in ["d/a", "d/b", "d/c"] {
        server.store().put(name, key, "x");
    }
    let mut options = Fixture::options(server.address());
    options.bucket = name.to_owned();
    let fixture = Fixture::with(options);
    (server, fixture)
}

fn page(fixture: &Fixture, token: Option<String>) -> Result<ListOutput, ClientError> {
    block_on(fixture.client.list(ListRequest {
        prefix: "d/".to_owned(),
        max_keys: Some(2),
        continuation_token: token,
        ..ListRequest::default()
    }))
}

#[test]
fn pages_without_entries_are_followed() {
    for name in ["bucket", "b--usw2-az1--x-s3"] {
        let (server, fixture) = bucket(name);
        let rule = Rule::on(Operation::ListObjectsV2, Fault::EmptyPages(7));
        server.faults().add(rule);
        let first = page(&fixture, None).unwrap();
        assert_eq!(first.objects.len(), 2, "{name}");
        let second = page(&fixture, first.continuation_token).unwrap();
        assert_eq!(second.objects.len(), 1, "{name}");
        assert_eq!(second.continuation_token, None, "{name}");
        assert_eq!(server.log().counters(Operation::ListObjectsV2).requests, 16);
    }
}

#[test]
fn pages_without_entries_come_to_an_end() {
    let (server, fixture) = bucket("bucket");
    let rule = Rule::on(Operation::ListObjectsV2, Fault::EmptyPages(u32::MAX));
    server.faults().add(rule);
    let error = page(&fixture, None).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidResponse, "{error}");
    assert!(error.message.contains("1000 pages in a row"), "{error}");
}

const LISTING: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><Prefix>p%2B/</Prefix>
<KeyCount>3</KeyCount><MaxKeys>1000</MaxKeys><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>
<NextContinuationToken>next/token=</NextContinuationToken>
<Contents><Key>p%2B/%01+x</Key><LastModified>2026-01-02T03:04:05.678Z</LastModified><ETag>&quot;e1&quot;</ETag>
<Size>5</Size><StorageClass>GLACIER</StorageClass><RestoreStatus><IsRestoreInProgress>false</IsRestoreInProgress>
<RestoreExpiryDate>2027-01-01T00:00:00Z</RestoreExpiryDate></RestoreStatus></Contents>
<Contents><Key>p%2B/y</Key><LastModified>2026-01-02T03:04:05Z</LastModified><ETag>e2-4</ETag><Size>0</Size></Contents>
<CommonPrefixes><Prefix>p%2B/%C3%BC+d/</Prefix></CommonPrefixes></ListBucketResult>"#;

#[test]
fn a_listing_is_decoded() {
    let server = Server::start(|_, _| Reply::new(200).body(LISTING));
    let fixture = Fixture::new(server.address);
    let request = ListRequest {
        prefix: "p+/".to_owned(),
        delimiter: Some("/".to_owned()),
        start_after: Some("p+/\u{1}".to_owned()),
        continuation_token: None,
        max_keys: Some(3),
    };
    let page = block_on(fixture.client.list(request)).unwrap();
    let keys: Vec<_> = page
        .objects
        .iter()
        .map(|object| object.key.as_str())
        .collect();
    assert_eq!(keys, ["p+/\u{1} x", "p+/y"]);
    assert_eq!(page.common_prefixes, ["p+/ü d/"]);
    assert_eq!(page.continuation_token.as_deref(), Some("next/token="));
    let first = &page.objects[0];
    assert_eq!(
        (first.size, first.etag.as_str(), first.restored),
        (5, "\"e1\"", true)
    );
    assert_eq!(first.storage_class.as_deref(), Some("GLACIER"));
    let since_1970 = first
        .last_modified
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    assert_eq!(since_1970.as_millis(), 1_767_323_045_678);
    assert_eq!(page.objects[1].etag.as_str(), "\"e2-4\"");
    let target = &server.requests()[0].path;
    for part in [
        "list-type=2",
        "encoding-type=url",
        "prefix=p%2B%2F",
        "delimiter=%2F",
        "start-after=p%2B%2F%01",
        "max-keys=3",
    ] {
        assert!(target.contains(part), "{part} in {target}");
    }
}

#[test]
fn a_cut_listing_is_asked_for_again() {
    let server = Server::start(|_, number| {
        let reply = Reply::new(200).body(LISTING);
        if number == 0 { reply.cut(400) } else { reply }
    });
    let fixture = Fixture::new(server.address);
    let request = ListRequest {
        prefix: "p+/".to_owned(),
        delimiter: Some("/".to_owned()),
        ..ListRequest::default()
    };
    assert_eq!(
        block_on(fixture.client.list(request))
            .unwrap()
            .objects
            .len(),
        2
    );
    assert_eq!(server.requests().len(), 2);
}

/// A server or a proxy may stop early and frame what it has sent as all of it.
#[test]
fn a_listing_that_ends_early_is_asked_for_again() {
    let server = Server::start(|_, number| {
        let body = if number == 0 {
            &LISTING[..400]
        } else {
            LISTING
        };
        Reply::new(200).body(body)
    });
    let fixture = Fixture::new(server.address);
    let page = block_on(fixture.client.list(ListRequest {
        prefix: "p+/".to_owned(),
        delimiter: Some("/".to_owned()),
        ..ListRequest::default()
    }));
    assert_eq!(page.unwrap().objects.len(), 2);
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn an_error_instead_of_a_listing_is_that_error() {
    let server = Server::start(|_, number| match number {
        0 => Reply::error(200, "SlowDown"),
        _ => Reply::error(200, "AccessDenied"),
    });
    let fixture = Fixture::new(server.address);
    let error = block_on(fixture.client.list(ListRequest::default())).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied, "{error}");
    assert!(error.message.contains("AccessDenied: because"), "{error}");
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_listing_without_an_end_is_refused() {
    for is_chunked in [false, true] {
        let server = Server::start(move |_, _| {
            let reply = Reply::new(200).body(vec![b' '; 9 << 20]);
            if is_chunked { reply.chunked() } else { reply }
        });
        let fixture = Fixture::new(server.address);
        let error = block_on(fixture.client.list(ListRequest::default())).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidResponse, "{error}");
        assert!(
            error.message.contains("larger than this client reads"),
            "{error}"
        );
        assert_eq!(server.requests().len(), 1);
    }
}

#[test]
fn a_broken_listing_is_an_error() {
    for body in [
        "",
        "<html>",
        "<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>",
    ] {
        let server = Server::start(move |_, _| Reply::new(200).body(body));
        let fixture = Fixture::new(server.address);
        let error = block_on(fixture.client.list(ListRequest::default())).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidResponse, "{body:?}: {error}");
    }
}

/// A server closes connections that idle; the next request hears nothing of it.
#[test]
fn closed_connections_are_made_anew() {
    let server = Server::start(|_, _| Reply::new(200).body(LISTING).cut(LISTING.len()));
    let fixture = Fixture::new(server.address);
    let request = ListRequest {
        prefix: "p+/".to_owned(),
        delimiter: Some("/".to_owned()),
        ..ListRequest::default()
    };
    for _ in 0..20 {
        let page = block_on(fixture.client.list(request.clone())).unwrap();
        assert_eq!(page.objects.len(), 2);
    }
}
