//! Answers of S3-like servers that differ from S3's, as the embedded server's fault rules imitate
//! them.

use bytes::Bytes;
use futures::executor::block_on;
use mountpoint_client::testing::server::{Fault, Operation, Rule, Server, ServerOptions};
use mountpoint_client::types::{
    CopyHeaders, CopySource, ETag, ObjectHeaders, Part, PartNumber, PutCondition,
};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient};

use crate::support::{Fixture, key};

const BUCKET: &str = "bucket";

fn server() -> (Server, Fixture) {
    let server = Server::start(ServerOptions::default()).expect("a server on loopback");
    server.store().put(BUCKET, "source", "0123456789");
    let mut options = Fixture::options(server.address());
    options.bucket = BUCKET.to_owned();
    (server, Fixture::with(options))
}

fn source() -> CopySource {
    CopySource {
        key: key("source"),
        if_match: None,
    }
}

fn copy(fixture: &Fixture) -> Result<ETag, ClientError> {
    let same = CopyHeaders::Same(ObjectHeaders::default());
    let copied = fixture
        .client
        .copy(source(), &key("copy"), PutCondition::None, same);
    block_on(copied).map(|output| output.etag)
}

fn copy_part(fixture: &Fixture) -> Result<Part, ClientError> {
    let client = &fixture.client;
    let upload = client.create_upload(&key("parts"), ObjectHeaders::default(), None);
    let upload = block_on(upload)?;
    let part = block_on(client.copy_part(&upload, PartNumber(1), source(), 2..7))?;
    let done = client.complete_upload(&upload, vec![part.clone()], PutCondition::None);
    block_on(done).map(|_| part)
}

/// s3proxy answers UploadPartCopy with the document of CopyObject.
#[test]
fn a_part_is_copied_whatever_its_document_is_called() {
    let (server, fixture) = server();
    let other = Fault::RenameElement("CopyPartResult", "CopyObjectResult");
    server
        .faults()
        .add(Rule::on(Operation::UploadPartCopy, other));
    copy_part(&fixture).unwrap();
    let made = server.store().object(BUCKET, "parts").unwrap();
    assert_eq!(made.bytes(), "23456");
    assert_eq!(server.log().count(Operation::UploadPartCopy), 1);
    // Any other document is none.
    server.faults().clear();
    let other = Fault::RenameElement("CopyPartResult", "SomethingResult");
    server
        .faults()
        .add(Rule::on(Operation::UploadPartCopy, other));
    let error = copy_part(&fixture).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidResponse, "{error}");
}

/// `rclone serve s3` tells no ETag of a copy.
#[test]
fn the_version_of_a_copy_is_asked_for_where_its_answer_does_not_tell() {
    let (server, fixture) = server();
    let silent = Fault::RenameElement("ETag", "");
    server.faults().add(Rule::on(Operation::CopyObject, silent));
    let etag = copy(&fixture).unwrap();
    let made = server.store().object(BUCKET, "copy").unwrap();
    assert_eq!(
        (etag.as_str(), made.bytes()),
        (&*made.etag(), "0123456789".into())
    );
    assert_eq!(server.log().count(Operation::CopyObject), 1);
    assert_eq!(server.log().count(Operation::HeadObject), 1);
    // It was made: if its version cannot be asked for, that is what nobody knows.
    let denied = Fault::Error {
        status: 403,
        code: "AccessDenied",
    };
    server.faults().add(Rule::on(Operation::HeadObject, denied));
    let error = copy(&fixture).unwrap_err();
    assert!(error.answer_was_lost, "{error:?}");
}

#[test]
fn requests_without_a_body_tell_their_length() {
    let (server, fixture) = server();
    server.faults().add(Rule::always(Fault::RequireLength));
    copy(&fixture).unwrap();
    copy_part(&fixture).unwrap();
    let put = mountpoint_client::types::PutRequest {
        key: key("empty"),
        body: Bytes::new(),
        condition: PutCondition::None,
        checksum: None,
        headers: ObjectHeaders::default(),
    };
    block_on(fixture.client.put(put)).unwrap();
}

#[test]
fn a_request_that_is_too_large_names_the_limit() {
    let (server, fixture) = server();
    let upload = fixture
        .client
        .create_upload(&key("parts"), ObjectHeaders::default(), None);
    let upload = block_on(upload).unwrap();
    let too_large = Fault::Error {
        status: 413,
        code: "RequestEntityTooLarge",
    };
    server
        .faults()
        .add(Rule::on(Operation::UploadPart, too_large));
    let body = Bytes::from_static(b"bytes");
    let part = fixture.client.put_part(&upload, PartNumber(1), body, None);
    let error = block_on(part).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidRequest, "{error}");
    for word in ["client_max_body_size", "--write-part-size"] {
        assert!(error.message.contains(word), "{error}");
    }
}
