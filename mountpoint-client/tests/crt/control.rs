//! Everything but GET of `CrtClient`, against canned answers.

use bytes::Bytes;
use futures::executor::block_on;
use mountpoint_client::credentials::CredentialsMode;
use mountpoint_client::types::{
    Checksum, CopyHeaders, CopySource, ETag, ListRequest, ObjectHeaders, Part, PartNumber,
    PutCondition, PutRequest, Upload,
};
use mountpoint_client::{ErrorKind, ObjectClient, ServerSideEncryption};

use crate::support::{Fixture, Reply, Server, key};

/// Headers of a copy that takes all headers of its source.
fn same() -> CopyHeaders {
    CopyHeaders::Same(ObjectHeaders::default())
}

fn put(condition: PutCondition) -> PutRequest {
    PutRequest {
        key: key("dir//a b+ü/.."),
        body: Bytes::from_static(b"123456789"),
        condition,
        checksum: Some(Checksum::Crc32c(0xE306_9283)),
        headers: ObjectHeaders {
            content_type: Some("text/plain".to_owned()),
            storage_class: Some("STANDARD_IA".to_owned()),
            metadata: vec![("owner".to_owned(), "me".to_owned())],
            ..ObjectHeaders::default()
        },
    }
}

#[test]
fn put_sends_what_the_object_carries() {
    let server = Server::start(|_, _| Reply::new(200).header("ETag", "\"new\""));
    let fixture = Fixture::new(server.address);
    let output = block_on(fixture.client.put(put(PutCondition::Absent))).unwrap();
    assert_eq!(output.etag.as_str(), "\"new\"");
    let requests = server.requests();
    let request = &requests[0];
    assert_eq!(
        (&*request.method, &*request.path),
        ("PUT", "/b/dir//a%20b%2B%C3%BC/..")
    );
    assert_eq!(request.body, b"123456789");
    for (name, value) in [
        ("if-none-match", "*"),
        ("x-amz-checksum-crc32c", "4waSgw=="),
        ("content-type", "text/plain"),
        ("x-amz-storage-class", "STANDARD_IA"),
        ("x-amz-meta-owner", "me"),
        ("content-length", "9"),
    ] {
        assert_eq!(request.header(name), Some(value), "{name}");
    }
    assert!(request.header("authorization").is_some());
}

#[test]
fn an_empty_object_can_be_put() {
    let server = Server::start(|_, _| Reply::new(200).header("ETag", "\"new\""));
    let fixture = Fixture::new(server.address);
    let request = PutRequest {
        body: Bytes::new(),
        checksum: None,
        ..put(PutCondition::None)
    };
    block_on(fixture.client.put(request)).unwrap();
    let requests = server.requests();
    assert_eq!(requests[0].header("content-length"), Some("0"));
    assert!(requests[0].body.is_empty());
}

#[test]
fn a_lost_answer_to_a_conditional_put_is_admitted() {
    let server = Server::start(|_, number| match number {
        0 => Reply::hang_up(),
        _ => Reply::error(412, "PreconditionFailed"),
    });
    let fixture = Fixture::new(server.address);
    let error = block_on(
        fixture
            .client
            .put(put(PutCondition::Match(ETag::from_header("\"old\"")))),
    )
    .unwrap_err();
    assert_eq!(error.kind, ErrorKind::PreconditionFailed);
    assert!(error.message.contains("may have succeeded"), "{error}");
    assert_eq!(server.requests()[1].header("if-match"), Some("\"old\""));
}

#[test]
fn a_put_is_retried() {
    let server = Server::start(|_, number| match number {
        0 => Reply::error(503, "SlowDown"),
        _ => Reply::new(200).header("ETag", "\"new\""),
    });
    let fixture = Fixture::new(server.address);
    block_on(fixture.client.put(put(PutCondition::None))).unwrap();
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_gateway_may_say_yes_in_another_way() {
    let server = Server::start(|_, _| Reply::new(202));
    let fixture = Fixture::new(server.address);
    block_on(fixture.client.delete(&key("k"), None)).unwrap();
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn headers_cannot_be_smuggled() {
    let server = Server::start(|_, _| Reply::new(200).header("ETag", "\"new\""));
    let fixture = Fixture::new(server.address);
    let mut request = put(PutCondition::None);
    request.headers.content_type = Some("a\r\nX-Evil: 1".to_owned());
    let error = block_on(fixture.client.put(request)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidRequest, "{error}");
    assert!(server.requests().is_empty());
}

#[test]
fn a_part_names_its_upload() {
    let server = Server::start(|_, _| Reply::new(200).header("ETag", "\"part\""));
    let fixture = Fixture::new(server.address);
    let upload = Upload {
        key: key("k"),
        upload_id: "a/b=+".to_owned(),
    };
    let part = block_on(fixture.client.put_part(
        &upload,
        PartNumber(7),
        Bytes::from_static(b"xyz"),
        None,
    ))
    .unwrap();
    let expected = Part {
        number: PartNumber(7),
        etag: ETag::from_header("\"part\""),
        size: 3,
        checksum: None,
    };
    assert_eq!(part, expected);
    assert_eq!(
        server.requests()[0].path,
        "/b/k?partNumber=7&uploadId=a%2Fb%3D%2B"
    );
}

/// The meaning of a HEAD's status.
#[track_caller]
fn check_head(reply: Reply, of_object: &ErrorKind, of_bucket: &ErrorKind) {
    let reply = reply.header("x-amz-request-id", "1");
    let server = Server::start(move |_, _| reply.clone());
    let fixture = Fixture::new(server.address);
    let error = block_on(fixture.client.head(&key("k"))).expect_err("no success");
    assert_eq!(error.kind, *of_object, "{error}");
    assert!(
        error.message.starts_with("HeadObject s3://b/k: "),
        "{error}"
    );
    let error = block_on(fixture.client.head_bucket()).expect_err("no success");
    assert_eq!(error.kind, *of_bucket, "{error}");
}

#[test]
fn heads_have_no_body_but_a_meaning() {
    check_head(
        Reply::new(404),
        &ErrorKind::NotFound,
        &ErrorKind::NoSuchBucket,
    );
    check_head(Reply::new(403), &ErrorKind::Denied, &ErrorKind::Denied);
    check_head(
        Reply::new(400),
        &ErrorKind::InvalidRequest,
        &ErrorKind::InvalidRequest,
    );
    check_head(
        Reply::new(501),
        &ErrorKind::Unsupported,
        &ErrorKind::Unsupported,
    );
    let there = ErrorKind::WrongRegion(Some("eu-west-1".to_owned()));
    let elsewhere = ErrorKind::WrongRegion(Some("eu-west-1".to_owned()));
    let reply = Reply::new(400).header("x-amz-bucket-region", "eu-west-1");
    check_head(reply, &elsewhere, &elsewhere);
    let reply = Reply::new(400).header("x-amz-bucket-region", "us-east-1");
    check_head(
        reply,
        &ErrorKind::InvalidRequest,
        &ErrorKind::InvalidRequest,
    );
    check_head(
        Reply::new(301).header("x-amz-bucket-region", "eu-west-1"),
        &there,
        &there,
    );
}

#[test]
fn head_tells_what_is_known() {
    let server = Server::start(|_, _| {
        Reply::new(200)
            .header("Content-Length", "42")
            .header("ETag", "\"e\"")
            .header("Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT")
            .header("x-amz-storage-class", "GLACIER")
            .header(
                "x-amz-restore",
                "ongoing-request=\"false\", expiry-date=\"Fri, 01 Jan 2027 00:00:00 GMT\"",
            )
    });
    let fixture = Fixture::new(server.address);
    let info = block_on(fixture.client.head(&key("/lead/./x"))).unwrap();
    assert_eq!(
        (info.size, info.etag.as_str(), info.restored),
        (42, "\"e\"", true)
    );
    assert_eq!(info.storage_class.as_deref(), Some("GLACIER"));
    assert_eq!(
        info.last_modified
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_secs(),
        1_767_323_045
    );
    assert_eq!(server.requests()[0].path, "/b//lead/./x");
}

#[test]
fn control_requests_are_retried_and_say_so() {
    let server = Server::start(|_, number| match number {
        0 => Reply::hang_up(),
        1 => Reply::new(503).body("<html>wait</html>"),
        2 => Reply::error(400, "ExpiredToken"),
        _ => Reply::error(404, "NoSuchBucket"),
    });
    let fixture = Fixture::new(server.address);
    let error = block_on(fixture.client.list(ListRequest::default())).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NoSuchBucket, "{error}");
    assert!(error.message.contains("after 4 attempts"), "{error}");
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn an_unreachable_server_is_named() {
    // Where no other test listens: what was given back here stays free.
    let listener = std::net::TcpListener::bind("127.0.0.9:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let fixture = Fixture::new(address);
    let error = block_on(fixture.client.head_bucket()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
}

#[test]
fn delete_many_names_what_is_left() {
    let server = Server::start(|_, _| {
        Reply::new(200).body(
            "<DeleteResult><Error><Key>a</Key><Code>AccessDenied</Code><Message>no</Message></Error>\
             <Error><Key>b</Key><Code>NoSuchKey</Code></Error></DeleteResult>",
        )
    });
    let fixture = Fixture::new(server.address);
    let failures = block_on(
        fixture
            .client
            .delete_many(["a", "b", "c"].map(|name| (key(name), None)).into()),
    )
    .unwrap();
    assert_eq!(failures.len(), 1);
    assert_eq!(
        (failures[0].key.as_str(), &failures[0].error.kind),
        ("a", &ErrorKind::Denied)
    );
}

#[test]
fn an_error_in_a_200_answer_is_an_error() {
    let server = Server::start(|_, number| {
        match number {
        0 => Reply::new(200).body("<Error><Code>InternalError</Code><Message>again</Message></Error>"),
        _ => Reply::new(200).body("<CompleteMultipartUploadResult><ETag>\"done-1\"</ETag></CompleteMultipartUploadResult>"),
    }
    });
    let fixture = Fixture::new(server.address);
    let upload = Upload {
        key: key("k"),
        upload_id: "u".to_owned(),
    };
    let parts = vec![Part {
        number: PartNumber(1),
        etag: ETag::from_header("\"p\""),
        size: 1,
        checksum: None,
    }];
    let output = block_on(
        fixture
            .client
            .complete_upload(&upload, parts, PutCondition::Absent),
    )
    .unwrap();
    assert_eq!(output.etag.as_str(), "\"done-1\"");
    assert_eq!(server.requests().len(), 2);
    assert_eq!(server.requests()[1].header("if-none-match"), Some("*"));
}

#[test]
fn unsigned_requests_carry_no_signature() {
    let server = Server::start(|request, _| match &*request.method {
        "PUT" => Reply::new(200).header("ETag", "\"new\""),
        _ => Reply::error(403, "AccessDenied").header("x-amz-request-id", "1"),
    });
    let mut options = Fixture::options(server.address);
    options.credentials = CredentialsMode::Unsigned;
    let fixture = Fixture::with(options);
    block_on(fixture.client.put(put(PutCondition::None))).unwrap();
    let error = block_on(fixture.client.list(ListRequest::default())).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied, "{error}");
    assert_eq!(
        block_on(fixture.client.head(&key("k"))).unwrap_err().kind,
        ErrorKind::Denied
    );
    assert_eq!(server.requests().len(), 3);
    for request in server.requests() {
        assert_eq!(request.header("authorization"), None, "{request:?}");
        assert!(!request.path.contains("Signature"), "{request:?}");
    }
}

#[test]
fn rename_sends_nothing() {
    let server = Server::start(|_, _| Reply::new(200));
    let fixture = Fixture::new(server.address);
    let error = block_on(
        fixture
            .client
            .rename(&key("a"), &key("b"), PutCondition::None),
    )
    .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(server.requests().is_empty());
}

#[test]
fn an_answer_that_tells_of_another_encryption_is_an_error() {
    let server = Server::start(|request, _| {
        let reply = Reply::new(200)
            .header("ETag", "\"new\"")
            .header("x-amz-server-side-encryption", "AES256");
        let body = match request.header("x-amz-copy-source") {
            Some(_) => "<CopyObjectResult><ETag>\"new\"</ETag></CopyObjectResult>",
            None if request.method == "POST" => {
                "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
            }
            None => "",
        };
        reply.body(body)
    });
    let outcomes = |sse: ServerSideEncryption| {
        let mut options = Fixture::options(server.address);
        options.sse = Some(sse);
        let fixture = Fixture::with(options);
        let client = &fixture.client;
        let source = CopySource {
            key: key("a"),
            if_match: None,
        };
        let condition = PutCondition::None;
        [
            block_on(client.put(put(condition.clone()))).map(drop),
            block_on(client.copy(source, &key("b"), condition, same())).map(drop),
            block_on(client.create_upload(&key("c"), ObjectHeaders::default(), None)).map(drop),
        ]
    };
    for outcome in outcomes(ServerSideEncryption::Aes256) {
        outcome.expect("it is encrypted as it was asked for");
    }
    for outcome in outcomes(ServerSideEncryption::Kms { key_id: None }) {
        let error = outcome.expect_err("it is encrypted otherwise");
        assert_eq!(error.kind, ErrorKind::InvalidResponse, "{error}");
        assert!(error.message.contains("aws:kms was asked for"), "{error}");
    }
    // Nothing is stored before an upload has shown how the server encrypts, and no upload is left
    // behind.
    let requests = server.requests();
    let methods: Vec<_> = requests.iter().map(|request| &*request.method).collect();
    let proven = ["POST", "DELETE", "PUT", "PUT", "POST"];
    assert_eq!(
        methods,
        [&proven[..], &["POST", "DELETE"].repeat(3)].concat()
    );
    for request in requests.iter().filter(|request| request.method == "DELETE") {
        assert!(request.path.contains("uploadId=u"), "{request:?}");
    }
}
