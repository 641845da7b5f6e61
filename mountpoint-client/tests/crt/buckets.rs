//! Kinds of buckets, and settings that every request carries, as the embedded server's log shows
//! them.

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use futures::executor::block_on;
use mountpoint_client::credentials::CredentialsMode;
use mountpoint_client::network::ProxySettings;
use mountpoint_client::testing::server::{
    Fault, Operation, RequestRecord, Rule, Server as Embedded, ServerOptions,
};
use mountpoint_client::types::{
    CopyHeaders, CopySource, KmsEncryption, ListRequest, ObjectHeaders, PartNumber, PutCondition,
    PutRequest,
};
use mountpoint_client::{
    BucketType, ClientError, CrtClient, CrtClientOptions, ErrorKind, ObjectClient,
    ServerSideEncryption, SseCustomerKey,
};

use crate::support::{Fixture, key};

/// Headers of a copy that takes all headers of its source.
fn same() -> CopyHeaders {
    CopyHeaders::Same(ObjectHeaders::default())
}

const BUCKET: &str = "bucket";
const DIRECTORY: &str = "b--usw2-az1--x-s3";

fn server_of(bucket: &str) -> Embedded {
    server_with(bucket, ServerOptions::default())
}

fn server_with(bucket: &str, options: ServerOptions) -> Embedded {
    let server = Embedded::start(options).expect("the server starts");
    server.store().put(bucket, "k", "0123456789");
    server
}

fn fixture(server: &Embedded, bucket: &str, change: impl FnOnce(&mut CrtClientOptions)) -> Fixture {
    let mut options = Fixture::options(server.address());
    options.bucket = bucket.to_owned();
    change(&mut options);
    Fixture::with(options)
}

fn put(name: &str) -> PutRequest {
    PutRequest {
        key: key(name),
        body: Bytes::from_static(b"bytes"),
        condition: PutCondition::None,
        checksum: None,
        headers: ObjectHeaders::default(),
    }
}

fn source() -> CopySource {
    CopySource {
        key: key("k"),
        if_match: None,
    }
}

/// One of each request that the file system makes.
fn one_of_each(fixture: &Fixture) -> Result<(), ClientError> {
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
fn carried<'a>(
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
fn carry(records: &[RequestRecord], setting: &str, value: &str, operations: &[&str]) {
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

const ALL: [&str; 16] = [
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

/// All but RenameObject, which general purpose buckets are not asked for.
fn all_but_rename() -> Vec<&'static str> {
    ALL.into_iter()
        .filter(|name| *name != "RenameObject")
        .collect()
}

#[test]
fn payer_and_owner_are_on_every_request() {
    let server = server_of(BUCKET);
    let fixture = fixture(&server, BUCKET, |options| {
        options.requester_pays = true;
        options.expected_bucket_owner = Some("123456789012".to_owned());
    });
    one_of_each(&fixture).unwrap();
    let records = server.log().take();
    carry(
        &records,
        "x-amz-request-payer",
        "requester",
        &all_but_rename(),
    );
    let owner = "123456789012";
    carry(
        &records,
        "x-amz-expected-bucket-owner",
        owner,
        &all_but_rename(),
    );
    let copies = ["CopyObject", "UploadPartCopy"];
    carry(
        &records,
        "x-amz-source-expected-bucket-owner",
        owner,
        &copies,
    );
}

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

#[test]
fn the_users_word_on_the_kind_counts() {
    let server = server_of(DIRECTORY);
    let plain = fixture(&server, DIRECTORY, |options| {
        options.bucket_type = Some(BucketType::GeneralPurpose);
    });
    // The server insists on a session; it is not asked for one.
    let error = block_on(plain.client.head(&key("k"))).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied, "{error}");
    assert_eq!(server.log().count(Operation::CreateSession), 0);

    let server = server_of(BUCKET);
    let directory = fixture(&server, BUCKET, |options| {
        options.bucket_type = Some(BucketType::Directory);
    });
    block_on(directory.client.head(&key("k"))).unwrap();
    let refused = [
        block_on(
            directory
                .client
                .rename(&key("k"), &key("l"), PutCondition::None),
        ),
        block_on(directory.client.create_session()),
    ];
    for error in refused {
        assert_eq!(error.unwrap_err().kind, ErrorKind::Unsupported);
    }
    assert_eq!(server.log().count_all(), 1);
}

#[test]
fn a_directory_bucket_is_asked_for_whole_directories_only() {
    let server = server_of(DIRECTORY);
    let fixture = fixture(&server, DIRECTORY, |_| {});
    let list = |prefix: &str, delimiter: Option<&str>, start_after: Option<&str>| {
        let request = ListRequest {
            prefix: prefix.to_owned(),
            delimiter: delimiter.map(str::to_owned),
            start_after: start_after.map(str::to_owned),
            ..ListRequest::default()
        };
        block_on(fixture.client.list(request)).map(drop)
    };
    for (outcome, reason) in [
        (list("a", Some("/"), None), "must end with /"),
        (list("", Some("-"), None), "no delimiter but /"),
        (list("", None, Some("k")), "from no key on"),
        (
            block_on(fixture.client.list_uploads("a")).map(drop),
            "must end with /",
        ),
    ] {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest);
        assert!(error.message.contains(reason), "{error}");
    }
    assert_eq!(server.log().count_all(), 0);
    list("a/", Some("/"), None).unwrap();
    list("", None, None).unwrap();
}

#[test]
fn an_ipv6_address_is_an_endpoint() {
    let address = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    let options = ServerOptions {
        address,
        ..ServerOptions::default()
    };
    let server = server_with(BUCKET, options);
    let fixture = fixture(&server, BUCKET, |options| options.force_path_style = false);
    fixture.get(0..10, None).1.unwrap();
    block_on(fixture.client.head(&key("k"))).unwrap();
}

fn connect(change: impl FnOnce(&mut CrtClientOptions)) -> Result<String, ClientError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime can be started");
    let mut options = Fixture::options(SocketAddr::from(([127, 0, 0, 1], 9)));
    change(&mut options);
    let client = block_on(CrtClient::connect(options, runtime.handle().clone()))?;
    Ok(client.region().to_owned())
}

#[test]
fn the_region_of_an_arn_counts() {
    let region = connect(|options| {
        options.bucket = "arn:aws-cn:s3:cn-north-1:123456789012:accesspoint/p".to_owned();
        options.endpoint_url = None;
        options.force_path_style = false;
        options.region = None;
    });
    assert_eq!(region.unwrap(), "cn-north-1");
}

#[test]
fn what_cannot_be_sent_is_refused_at_the_start() {
    let customer_key = |options: &mut CrtClientOptions| {
        options.sse_customer_key = Some(SseCustomerKey::new([0; 32]));
    };
    let proxies = |no_proxy| ProxySettings::parse(Some("http://p:3128"), None, no_proxy).unwrap();
    type Change<'a> = &'a dyn Fn(&mut CrtClientOptions);
    let cases: [(Change<'_>, &str); 5] = [
        (
            &|options| {
                customer_key(options);
                options.endpoint_url = Some("http://s3.example.org".to_owned());
            },
            "must be https://",
        ),
        (
            &|options| {
                customer_key(options);
                options.proxy = proxies(None);
            },
            "must be https:// or in no_proxy",
        ),
        (
            &|options| {
                customer_key(options);
                options.bucket = DIRECTORY.to_owned();
            },
            "directory buckets know no keys of customers",
        ),
        (
            &|options| {
                options.sse = Some(ServerSideEncryption::KmsDsse { key_id: None });
                options.bucket = DIRECTORY.to_owned();
            },
            "AES256 and aws:kms only",
        ),
        (
            &|options| options.dual_stack = true,
            "--dual-stack cannot be combined",
        ),
    ];
    for (change, reason) in cases {
        let error = connect(change).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest, "{error}");
        assert!(error.message.contains(reason), "{error}");
    }
    connect(|options| {
        customer_key(options);
        options.proxy = proxies(Some("127.0.0.1"));
        options.credentials = CredentialsMode::Unsigned;
    })
    .unwrap();
}
