//! Listings of servers whose pages are empty, or come again.

use futures::executor::block_on;
use mountpoint_client::testing::server::{Fault, Operation, Rule, Server, ServerOptions};
use mountpoint_client::types::{ListOutput, ListRequest};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient as _};

use crate::support::Fixture;

fn bucket(name: &str) -> (Server, Fixture) {
    let server = Server::start(ServerOptions::default()).expect("the server starts");
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
