//! Encryption by the server, as the embedded server's log shows it.

use bytes::Bytes;
use futures::executor::block_on;
use mountpoint_client::testing::server::{Fault, Operation, Rule};
use mountpoint_client::types::{
    CopyHeaders, CopySource, KmsEncryption, ObjectHeaders, PartNumber, PutCondition, PutRequest,
};
use mountpoint_client::{ErrorKind, ObjectClient, ServerSideEncryption, SseCustomerKey};

use crate::support::embedded::{BUCKET, carry, fixture, one_of_each, same, server_of};
use crate::support::key;

#[test]
fn encryption_is_named_where_an_object_begins() {
    let server = server_of(BUCKET);
    let key_id = "arn:aws:kms:us-east-1:123456789012:key/k";
    let fixture = fixture(&server, BUCKET, |options| {
        let key_id = Some(key_id.to_owned());
        options.sse = Some(ServerSideEncryption::Kms { key_id });
    });
    one_of_each(&fixture).unwrap();
    let records = server.log().take();
    let begins = ["PutObject", "CreateMultipartUpload", "CopyObject"];
    carry(&records, "x-amz-server-side-encryption", "aws:kms", &begins);
    let name = "x-amz-server-side-encryption-aws-kms-key-id";
    carry(&records, name, key_id, &begins);
}

/// A server that ignores `--sse` is found out before an object is replaced, and asked no more once
/// it was seen to encrypt.
#[test]
fn nothing_is_replaced_where_the_server_does_not_encrypt() {
    let server = server_of(BUCKET);
    server.store().put(BUCKET, "old", "old bytes");
    let fixture = fixture(&server, BUCKET, |options| {
        options.sse = Some(ServerSideEncryption::Aes256);
    });
    let client = &fixture.client;
    let put = |name: &str| {
        let put = client.put(PutRequest {
            key: key(name),
            body: Bytes::from_static(b"new bytes"),
            condition: PutCondition::None,
            checksum: None,
            headers: ObjectHeaders::default(),
        });
        block_on(put).map(drop)
    };
    let copy = |name: &str| {
        let source = CopySource {
            key: key("source"),
            if_match: None,
        };
        block_on(client.copy(source, &key(name), PutCondition::None, same())).map(drop)
    };
    server.store().put(BUCKET, "source", "new bytes");
    let rule = server.faults().add(Rule::always(Fault::IgnoreEncryption));
    for outcome in [put("old"), copy("old"), put("new"), copy("new")] {
        let error = outcome.expect_err("it would not be encrypted");
        assert_eq!(error.kind, ErrorKind::InvalidResponse, "{error}");
        assert!(error.message.contains("AES256 was asked for"), "{error}");
    }
    assert_eq!(server.store().keys(BUCKET), ["k", "old", "source"]);
    let old = server.store().object(BUCKET, "old").unwrap();
    assert_eq!(old.bytes(), "old bytes");
    server.faults().remove(rule);
    drop(server.log().take());
    for outcome in [put("old"), copy("new"), put("old")] {
        outcome.unwrap();
    }
    let sent: Vec<_> = server
        .log()
        .take()
        .iter()
        .map(|record| record.operation)
        .collect();
    let proof = [
        Operation::CreateMultipartUpload,
        Operation::AbortMultipartUpload,
    ];
    let stores = [
        Operation::PutObject,
        Operation::CopyObject,
        Operation::PutObject,
    ];
    assert_eq!(sent, [&proof[..], &stores].concat());
    assert!(server.store().uploads(BUCKET).is_empty());
}

/// Headers that S3 does not take from the source of a copy go with the request; `--sse` goes before
/// an object's own encryption.
#[test]
fn an_object_keeps_what_it_carries_through_copies_and_uploads() {
    let own = KmsEncryption {
        algorithm: "aws:kms".to_owned(),
        key_id: Some("arn:aws:kms:us-east-1:1:key/own".to_owned()),
        bucket_key: true,
    };
    let carried = ObjectHeaders {
        content_type: Some("text/html".to_owned()),
        cache_control: Some("no-store".to_owned()),
        expires: Some("Thu, 01 Dec 1994 16:00:00 GMT".to_owned()),
        website_redirect: Some("/elsewhere".to_owned()),
        encryption: Some(own.clone()),
        metadata: vec![("owner".to_owned(), "me".to_owned())],
        ..ObjectHeaders::default()
    };
    for sse in [None, Some(ServerSideEncryption::Aes256)] {
        let server = server_of(BUCKET);
        let encryption = sse.is_none().then(|| own.clone());
        let fixture = fixture(&server, BUCKET, |options| options.sse = sse);
        let client = &fixture.client;
        let put = PutRequest {
            key: key("a"),
            body: Bytes::from_static(b"bytes"),
            condition: PutCondition::None,
            checksum: None,
            headers: carried.clone(),
        };
        block_on(client.put(put)).unwrap();
        let expected = ObjectHeaders {
            encryption,
            ..carried.clone()
        };
        let headers = |name: &str| block_on(client.head_details(&key(name))).unwrap().headers;
        assert_eq!(headers("a"), expected, "put");
        let copy = |name: &str, what: CopyHeaders| {
            let source = CopySource {
                key: key("a"),
                if_match: None,
            };
            block_on(client.copy(source, &key(name), PutCondition::None, what)).unwrap();
            headers(name)
        };
        let kept = copy("b", CopyHeaders::Same(expected.clone()));
        assert_eq!(kept, expected, "a copy of another name");
        let kept = copy("a", CopyHeaders::New(expected.clone()));
        assert_eq!(kept, expected, "a copy onto itself");
        let upload = client.create_upload(&key("c"), expected.clone(), None);
        let upload = block_on(upload).unwrap();
        let source = CopySource {
            key: key("a"),
            if_match: None,
        };
        let part = block_on(client.copy_part(&upload, PartNumber(1), source, 0..5)).unwrap();
        block_on(client.complete_upload(&upload, vec![part], PutCondition::None)).unwrap();
        assert_eq!(headers("c"), expected, "a copy in parts");
    }
}

#[test]
fn a_customers_key_is_where_bytes_are() {
    let server = server_of(BUCKET);
    let fixture = fixture(&server, BUCKET, |options| {
        options.sse_customer_key = Some(SseCustomerKey::new([0; 32]));
    });
    one_of_each(&fixture).unwrap();
    let records = server.log().take();
    let (value, md5) = (
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "cLyPS3KoaSFGi/joRB3OUQ==",
    );
    let bytes = [
        "CompleteMultipartUpload",
        "CopyObject",
        "CreateMultipartUpload",
        "GetObject",
        "HeadObject",
        "ListParts",
        "PutObject",
        "UploadPart",
        "UploadPartCopy",
    ];
    let copies = ["CopyObject", "UploadPartCopy"];
    let name = "x-amz-server-side-encryption-customer-key";
    carry(&records, name, value, &bytes);
    carry(&records, &format!("{name}-md5"), md5, &bytes);
    let name = "x-amz-copy-source-server-side-encryption-customer-key";
    carry(&records, name, value, &copies);
    carry(&records, &format!("{name}-md5"), md5, &copies);
}
