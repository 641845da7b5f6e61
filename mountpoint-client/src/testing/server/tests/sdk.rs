//! The server as the AWS SDK sees it: signatures, trailers, paginators, errors.

use aws_sdk_s3::Client;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{ChecksumAlgorithm, CompletedMultipartUpload, CompletedPart};

use super::*;

const KEYS: (&str, &str) = ("testkey", "testsecret");

fn with_credentials() -> Server {
    let credentials = Some((KEYS.0.to_owned(), KEYS.1.to_owned()));
    let server = Server::start(ServerOptions {
        credentials,
        ..ServerOptions::default()
    })
    .unwrap();
    server.store().create_bucket("bucket");
    server
}

fn client(server: &Server, access_key: &str, secret_key: &str) -> Client {
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(server.url())
        .force_path_style(true)
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new(access_key, secret_key, None, None, "test"))
        .build();
    Client::from_conf(config)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

#[test]
fn signed_requests_with_every_checksum_in_a_trailer() {
    let server = with_credentials();
    let client = client(&server, KEYS.0, KEYS.1);
    block_on(async {
        for name in ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"] {
            let algorithm = ChecksumAlgorithm::from(name);
            let put = client
                .put_object()
                .bucket("bucket")
                .key("a b/é+")
                .checksum_algorithm(algorithm);
            put.body(ByteStream::from_static(b"0123456789"))
                .send()
                .await
                .unwrap();
            let object = server.store().object("bucket", "a b/é+").unwrap();
            assert_eq!(
                (object.bytes(), object.checksum().unwrap().0),
                (b"0123456789"[..].into(), name)
            );
            let got = client
                .get_object()
                .bucket("bucket")
                .key("a b/é+")
                .send()
                .await
                .unwrap();
            assert_eq!(
                got.body.collect().await.unwrap().into_bytes(),
                &b"0123456789"[..]
            );
        }
    });
}

#[test]
fn uploads_listings_and_errors() {
    let server = with_credentials();
    let client = client(&server, KEYS.0, KEYS.1);
    block_on(async {
        let created = client
            .create_multipart_upload()
            .bucket("bucket")
            .key("k")
            .send()
            .await
            .unwrap();
        let id = created.upload_id().unwrap();
        let part = client
            .upload_part()
            .bucket("bucket")
            .key("k")
            .upload_id(id)
            .part_number(1);
        let part = part
            .body(ByteStream::from(synthetic_bytes(1, 0..6_000_000)))
            .send()
            .await
            .unwrap();
        let part = CompletedPart::builder()
            .part_number(1)
            .e_tag(part.e_tag().unwrap())
            .set_checksum_crc32(part.checksum_crc32().map(str::to_owned))
            .build();
        let parts = CompletedMultipartUpload::builder().parts(part).build();
        let done = client
            .complete_multipart_upload()
            .bucket("bucket")
            .key("k")
            .upload_id(id);
        done.multipart_upload(parts).send().await.unwrap();
        assert_eq!(
            server.store().object("bucket", "k").unwrap().size(),
            6_000_000
        );

        for n in 0..2500 {
            server.store().put("bucket", &format!("many/{n:04}"), "");
        }
        let mut pages = client
            .list_objects_v2()
            .bucket("bucket")
            .prefix("many/")
            .into_paginator()
            .send();
        let mut sizes = Vec::new();
        while let Some(page) = pages.next().await {
            sizes.push(page.unwrap().contents().len());
        }
        assert_eq!(sizes, [1000, 1000, 500]);

        let missing = client
            .get_object()
            .bucket("bucket")
            .key("none")
            .send()
            .await
            .unwrap_err();
        assert!(missing.into_service_error().is_no_such_key());
        let missing = client
            .head_object()
            .bucket("bucket")
            .key("none")
            .send()
            .await
            .unwrap_err();
        assert!(missing.into_service_error().is_not_found());
    });
}
