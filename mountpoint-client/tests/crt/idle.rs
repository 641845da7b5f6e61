//! Connections between requests that come seldom.

use std::time::Duration;

use futures::executor::block_on;
use mountpoint_client::ObjectClient;
use mountpoint_client::types::{ListRequest, ObjectHeaders, PutCondition, PutRequest};

use crate::support::{Fixture, Reply, Server, key};

/// Longer than the CRT keeps connections by itself, shorter than we do.
const BREAK: Duration = Duration::from_secs(7);

/// Reads, writes and control requests keep a connection each, whatever the pause between requests.
#[test]
fn requests_after_a_break_go_over_the_connections_of_those_before() {
    let server = Server::start(|request, _| match request.method.as_str() {
        "PUT" => Reply::new(200).header("ETag", "\"e\""),
        _ if request.path.contains("list-type=2") => {
            Reply::new(200).body("<ListBucketResult></ListBucketResult>")
        }
        _ => Reply::range(b"object", "\"e\"", request),
    });
    let fixture = Fixture::new(server.address);
    let one_of_each = || {
        fixture.get(0..6, None).1.expect("the GET succeeds");
        let request = PutRequest {
            key: key("k"),
            body: b"x".as_slice().into(),
            condition: PutCondition::None,
            checksum: None,
            headers: ObjectHeaders::default(),
        };
        block_on(fixture.client.put(request)).expect("the PUT succeeds");
        block_on(fixture.client.list(ListRequest::default())).expect("the LIST succeeds");
    };
    one_of_each();
    assert_eq!(server.connections(), 3);
    std::thread::sleep(BREAK);
    one_of_each();
    assert_eq!(server.connections(), 3);
    assert_eq!(server.requests().len(), 6);
}
