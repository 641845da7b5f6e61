//! The embedded server with one object, and requests of every kind to it.

use bytes::Bytes;
use futures::executor::block_on;
use mountpoint_client::testing::server::{RequestRecord, Server, ServerOptions};
use mountpoint_client::types::{
    CopyHeaders, CopySource, ListRequest, ObjectHeaders, PartNumber, PutCondition, PutRequest,
};
use mountpoint_client::{ClientError, CrtClientOptions, ObjectClient};

use super::{Fixture, key};

pub(crate) const BUCKET: &str = "bucket";
pub(crate) const DIRECTORY: &str = "b--usw2-az1--x-s3";

pub(crate) fn server_of(bucket: &str) -> Server {
    server_with(bucket, ServerOptions::default())
}

pub(crate) fn server_with(bucket: &str, options: ServerOptions) -> Server {
    let server = Server::start(options).expect("the server starts");
    server.store().put(bucket, "k", "0123456789");
    server
}

pub(crate) fn fixture(
    server: &Server,
    bucket: &str,
    change: impl FnOnce(&mut CrtClientOptions),
) -> Fixture {
    let mut options = Fixture::options(server.address());
    options.bucket = bucket.to_owned();
    change(&mut options);
    Fixture::with(options)
}

pub(crate) fn put(name: &str) -> PutRequest {
    PutRequest {
        key: key(name),
        body: Bytes::from_static(b"bytes"),
        condition: PutCondition::None,
        checksum: None,
        headers: ObjectHeaders::default(),
    }
}

pub(crate) fn source() -> CopySource {
    CopySource {
        key: key("k"),
        if_match: None,
    }
}

/// Headers of a copy that takes all headers of its source.
pub(crate) fn same() -> CopyHeaders {
    CopyHeaders::Same(ObjectHeaders::default())
}

/// One of each request that the file system makes.
pub(crate) fn one_of_each(fixture: &Fixture) -> Result<(), ClientError> {
    let client = &fixture.client;
    fixture.get(0..10, None).1?;
    block_on(client.head_bucket())?;
    block_on(client.head(&key("k")))?;
    block_on(client.list(ListRequest::default()))?;
    block_on(client.put(put("p")))?;
    let condition = PutCondition::None;
    block_on(client.copy(source(), &key("c"), condition.clone(), same()))?;
    let upload = block_on(client.create_upload(&key("m"), ObjectHeaders::default(), None))?;
    let body = Bytes::from(vec![7; 5 << 20]);
    let first = block_on(client.put_part(&upload, PartNumber(1), body, None))?;
    let second = block_on(client.copy_part(&upload, PartNumber(2), source(), 0..10))?;
    block_on(client.list_parts(&upload))?;
    block_on(client.list_uploads(""))?;
    block_on(client.complete_upload(&upload, vec![first, second], condition))?;
    let upload = block_on(client.create_upload(&key("m"), ObjectHeaders::default(), None))?;
    block_on(client.abort_upload(&upload))?;
    block_on(client.delete(&key("c"), None))?;
    let failures = block_on(client.delete_many(vec![(key("p"), None), (key("m"), None)]))?;
    assert!(failures.is_empty());
    Ok(())
}

/// The headers of a setting that each operation carried, once for each.
pub(crate) fn carried<'a>(
    records: &'a [RequestRecord],
    setting: &str,
) -> Vec<(&'static str, Option<&'a str>)> {
    let mut found: Vec<_> = records
        .iter()
        .map(|record| (record.operation.as_str(), record.setting(setting)))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[track_caller]
pub(crate) fn carry(records: &[RequestRecord], setting: &str, value: &str, operations: &[&str]) {
    for (operation, found) in carried(records, setting) {
        let expected = operations.contains(&operation).then_some(value);
        assert_eq!(found, expected, "{setting} of {operation}");
    }
    for operation in operations {
        let is_there = records
            .iter()
            .any(|record| record.operation.as_str() == *operation);
        assert!(is_there, "{operation} was never sent");
    }
}

pub(crate) const ALL: [&str; 16] = [
    "AbortMultipartUpload",
    "CompleteMultipartUpload",
    "CopyObject",
    "CreateMultipartUpload",
    "DeleteObject",
    "DeleteObjects",
    "GetObject",
    "HeadBucket",
    "HeadObject",
    "ListMultipartUploads",
    "ListObjectsV2",
    "ListParts",
    "PutObject",
    "RenameObject",
    "UploadPart",
    "UploadPartCopy",
];
