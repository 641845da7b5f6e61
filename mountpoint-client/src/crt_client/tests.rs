//! Cases that need an endpoint which no loopback server has.

use std::sync::Arc;

use aws_sdk_s3::config::Region;
use bytes::Bytes;
use futures::executor::block_on;

use super::connect::{ResolvedBucket, connect_at, credentials};
use super::{CrtClient, CrtClientOptions};
use crate::ObjectClient;
use crate::credentials::{CredentialsMode, StaticKeys};
use crate::endpoint::Endpoint;
use crate::testing::server::Server;
use crate::types::{Key, ListRequest, ObjectHeaders, PutCondition, PutRequest};

/// A multi-region access point's requests, led to a bucket of the embedded server: those of the CRT
/// and those of the SDK are signed for every region.
#[test]
fn multi_region_access_points_are_signed_for_all_regions() {
    let server = Server::start_with_bucket("bucket").unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let mut options =
        CrtClientOptions::new("arn:aws:s3::123456789012:accesspoint/mfzwi23gnjvgw.mrap");
    options.credentials = CredentialsMode::Static(StaticKeys {
        access_key_id: "testkey".to_owned(),
        secret_access_key: "testsecret".to_owned(),
        session_token: Some("testtoken".to_owned()),
    });
    let region = Region::from_static("eu-west-1");
    let endpoint = block_on(Endpoint::resolve(
        &options.endpoint_question(region.as_ref()),
    ));
    let endpoint = endpoint.unwrap().moved_to(&server.url(), "bucket");
    let handle = runtime.handle().clone();
    let metadata = aws_config::imds::Client::builder().build();
    let credentials = runtime.block_on(credentials(&options, &region, metadata, &handle));
    let resolved = ResolvedBucket {
        endpoint,
        region,
        credentials: credentials.unwrap(),
        network_gbps: None,
    };
    let core = runtime.block_on(connect_at(resolved, options, handle));
    let client = CrtClient(Arc::new(core.unwrap()));
    assert_eq!(client.region(), "*");
    let request = PutRequest {
        key: Key::parse("k").unwrap(),
        body: Bytes::from_static(b"bytes"),
        condition: PutCondition::None,
        checksum: None,
        headers: ObjectHeaders::default(),
    };
    block_on(client.put(request)).unwrap();
    let listed = block_on(client.list(ListRequest::default())).unwrap();
    assert_eq!(listed.objects[0].key.as_str(), "k");
    let records = server.log().snapshot();
    assert_eq!(records.len(), 2);
    for record in records {
        let signature = record.signature.as_deref();
        assert_eq!(
            signature,
            Some("AWS4-ECDSA-P256-SHA256 s3/aws4_request"),
            "{record:?}"
        );
        assert_eq!(record.setting("x-amz-region-set"), Some("*"), "{record:?}");
    }
}
