//! Writes: conditions, checksums, copies, deletes, buckets, refusals.

use super::*;

const BODY: &[u8] = b"0123456789";

#[test]
fn write_conditions() {
    let server = start();
    let mut wire = Wire::open(&server);
    let mut check = |headers: &[(&str, &str)], key: &str, status: u16| {
        let answer = wire.ask(&format!("PUT /bucket/{key}"), headers, b"new");
        assert_eq!(answer.status, status, "{headers:?} {key}");
        let copied = wire.ask(
            &format!("PUT /bucket/{key}"),
            &[headers, &[("x-amz-copy-source", "/bucket/source")]].concat(),
            b"",
        );
        assert_eq!(copied.status, status, "copy {headers:?} {key}");
    };
    let etag = server.store().put("bucket", "k", BODY);
    server.store().put("bucket", "source", "new");
    check(&[("if-none-match", "*")], "k", 412);
    check(&[("if-match", "\"0123\"")], "k", 412);
    check(&[("if-none-match", &etag)], "k", 501);
    check(&[("if-match", &etag)], "nothing", 404);
    assert_eq!(server.store().object("bucket", "k").unwrap().bytes(), BODY);
    let new = server.store().object("bucket", "source").unwrap().etag();
    server.store().put("bucket", "k", "new");
    check(&[("if-match", &new)], "k", 200);
    let deletes = [
        (Some("\"0123\""), 412),
        (Some(&*new), 204),
        (Some(&*new), 404),
        (None, 204),
    ];
    for (condition, status) in deletes {
        let headers: Vec<_> = condition
            .map(|etag| ("if-match", etag))
            .into_iter()
            .collect();
        assert_eq!(
            wire.ask("DELETE /bucket/k", &headers, b"").status,
            status,
            "{condition:?}"
        );
    }
}

#[test]
fn what_was_put_comes_back() {
    let server = start();
    let mut wire = Wire::open(&server);
    let headers = [
        ("content-type", "text/plain"),
        ("content-encoding", "gzip, aws-chunked"),
        ("content-disposition", "attachment"),
        ("content-language", "en"),
        ("cache-control", "no-cache"),
        ("x-amz-meta-one", "1"),
        ("x-amz-meta-two", "second"),
        ("x-amz-storage-class", "STANDARD_IA"),
    ];
    let put = wire.ask("PUT /bucket/a%20key/%E2%82%AC//x%2B", &headers, BODY);
    assert_eq!(put.status, 200);
    assert_eq!(
        put.header("etag"),
        Some("\"781e5e245d69b566979b86e28d23f2c7\"")
    );
    assert_eq!(server.store().keys("bucket"), ["a key/€//x+"]);
    let got = wire.ask(
        "GET /bucket/a%20key/%E2%82%AC//x%2B",
        &[("x-amz-checksum-mode", "ENABLED")],
        b"",
    );
    assert_eq!(got.body, BODY);
    for (name, value) in headers {
        let value = if name == "content-encoding" {
            "gzip"
        } else {
            value
        };
        assert_eq!(got.header(name), Some(value));
    }
    assert_eq!(
        got.header("x-amz-checksum-crc64nvme"),
        server
            .store()
            .object("bucket", "a key/€//x+")
            .unwrap()
            .checksum()
            .as_ref()
            .map(|(_, text)| &**text)
    );
    let got = wire.ask(
        "GET /bucket/a%20key/%E2%82%AC//x%2B?response-content-type=a%2Fb",
        &[],
        b"",
    );
    assert_eq!(got.header("content-type"), Some("a/b"));
    assert_eq!(
        wire.ask("GET /bucket/nothing", &[], b"").code(),
        "NoSuchKey"
    );
    assert_eq!(wire.ask("GET /nowhere/k", &[], b"").code(), "NoSuchBucket");
    assert_eq!(
        wire.ask(&format!("PUT /bucket/{}", "k".repeat(1024)), &[], BODY)
            .status,
        200
    );
    assert_eq!(
        wire.ask(&format!("PUT /bucket/{}", "k".repeat(1025)), &[], BODY)
            .code(),
        "KeyTooLongError"
    );
}

#[test]
fn checksums_of_an_upload_are_verified() {
    let server = start();
    let mut wire = Wire::open(&server);
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[("content-md5", "eB5eJF1ptWaXm4bijSPyxw==")], ""),
        (&[("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==")], "BadDigest"),
        (&[("content-md5", "short")], "InvalidDigest"),
        (&[("x-amz-checksum-crc32", "phVYaQ==")], "BadDigest"),
        (&[("x-amz-checksum-crc32", "poTHxg==")], ""),
        (&[("x-amz-checksum-crc32c", "KAwGng==")], ""),
        (&[("x-amz-checksum-crc32c", "AAAAAA==")], "BadDigest"),
        (&[("x-amz-checksum-crc64nvme", "AAAAAAAAAAA=")], "BadDigest"),
        (
            &[("x-amz-checksum-sha1", "h6zsF82dzSCnFstzz2dPccgXH0Q=")],
            "BadDigest",
        ),
        (
            &[(
                "x-amz-checksum-sha256",
                "hNiYd/DUBB77a/kaFvAktI/VcecKH65LuO1ng6iLG7g=",
            )],
            "BadDigest",
        ),
        (&[("x-amz-checksum-crc32", "AAAA")], "InvalidRequest"),
        (
            &[
                ("x-amz-checksum-crc32", "poTHxg=="),
                ("x-amz-checksum-crc32c", "KAwGng=="),
            ],
            "InvalidRequest",
        ),
    ];
    for (headers, code) in cases {
        let answer = wire.ask("PUT /bucket/k", headers, BODY);
        assert_eq!(answer.code(), *code, "{headers:?} {}", answer.text());
        if code.is_empty() {
            for (name, value) in headers.iter().filter(|(name, _)| name.starts_with("x-amz")) {
                assert_eq!(answer.header(name), Some(*value));
                let headed = wire.ask("HEAD /bucket/k", &[("x-amz-checksum-mode", "ENABLED")], b"");
                assert_eq!(headed.header(name), Some(*value));
                assert_eq!(headed.header("x-amz-checksum-type"), Some("FULL_OBJECT"));
            }
        }
    }
    // A ranged answer carries no checksum of the whole.
    let part = wire.ask(
        "GET /bucket/k",
        &[("x-amz-checksum-mode", "ENABLED"), ("range", "bytes=0-3")],
        b"",
    );
    assert!(
        part.headers
            .iter()
            .all(|(name, _)| !name.starts_with("x-amz-checksum"))
    );
}

#[test]
fn a_chunked_body_without_verification_is_decoded() {
    let server = start();
    let framed = b"4\r\n0123\r\n6;chunk-signature=00\r\n456789\r\n0\r\nx-amz-checksum-crc32:poTHxg==\r\n\r\n";
    let headers = [
        (
            "authorization",
            "AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00",
        ),
        ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
        ("x-amz-decoded-content-length", "10"),
        ("x-amz-trailer", "x-amz-checksum-crc32"),
    ];
    let answer = ask(&server, "PUT /bucket/k", &headers, framed);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let object = server.store().object("bucket", "k").unwrap();
    assert_eq!(object.bytes(), BODY);
    assert_eq!(object.checksum(), Some(("CRC32", "poTHxg==".to_owned())));
    let wrong = b"1\r\n0\r\n0\r\nx-amz-checksum-crc32:poTHxg==\r\n\r\n";
    assert_eq!(
        ask(&server, "PUT /bucket/k", &headers, wrong).code(),
        "BadDigest"
    );
}

#[test]
fn copies() {
    let server = start();
    let mut wire = Wire::open(&server);
    wire.ask(
        "PUT /bucket/a",
        &[("x-amz-meta-m", "1"), ("content-type", "text/plain")],
        BODY,
    );
    let etag = server.store().object("bucket", "a").unwrap().etag();
    let source = ("x-amz-copy-source", "bucket/a");
    let (early, late) = (
        "Fri, 01 Jan 2010 00:00:00 GMT",
        "Fri, 01 Jan 2100 00:00:00 GMT",
    );
    let cases: &[(&[(&str, &str)], u16)] = &[
        (&[("x-amz-copy-source-if-match", &etag)], 200),
        (&[("x-amz-copy-source-if-match", "\"0\"")], 412),
        (&[("x-amz-copy-source-if-none-match", &etag)], 412),
        (&[("x-amz-copy-source-if-none-match", "\"0\"")], 200),
        (&[("x-amz-copy-source-if-modified-since", late)], 412),
        (&[("x-amz-copy-source-if-unmodified-since", early)], 412),
    ];
    for (headers, status) in cases {
        let answer = wire.ask("PUT /bucket/b", &[&[source], *headers].concat(), b"");
        assert_eq!(answer.status, *status, "{headers:?}");
        assert!(
            *status != 200 || answer.element("ETag") == etag,
            "{}",
            answer.text()
        );
    }
    let copy = server.store().object("bucket", "b").unwrap();
    assert_eq!(
        (copy.bytes(), copy.etag(), copy.headers()),
        (
            BODY.into(),
            etag,
            server.store().object("bucket", "a").unwrap().headers()
        )
    );
}

#[test]
fn a_copy_to_itself_changes_headers() {
    let server = start();
    let mut wire = Wire::open(&server);
    server.store().put("bucket", "a", BODY);
    let source = ("x-amz-copy-source", "bucket/a");
    let replaced = [
        source,
        ("x-amz-metadata-directive", "REPLACE"),
        ("x-amz-meta-n", "2"),
    ];
    assert_eq!(wire.ask("PUT /bucket/a", &replaced, b"").status, 200);
    let headers = server.store().object("bucket", "a").unwrap().headers();
    assert_eq!(
        headers.metadata.into_iter().collect::<Vec<_>>(),
        [("n".to_owned(), "2".to_owned())]
    );
    assert_eq!(
        wire.ask("PUT /bucket/a", &[source], b"").code(),
        "InvalidRequest"
    );
    assert_eq!(
        wire.ask(
            "PUT /bucket/c",
            &[("x-amz-copy-source", "bucket/none")],
            b""
        )
        .code(),
        "NoSuchKey"
    );
}

#[test]
fn many_are_deleted_at_once() {
    let server = start();
    for key in ["a", "b & c", "d"] {
        server.store().put("bucket", key, "");
    }
    let object = |key: &str| format!("<Object><Key>{key}</Key></Object>");
    let body = format!(
        "<Delete>{}{}{}</Delete>",
        object("a"),
        object("b &amp; c"),
        object("none")
    );
    let answer = ask(&server, "POST /bucket?delete", &[], body.as_bytes());
    assert_eq!(answer.elements("Key"), ["a", "b & c", "none"]);
    assert_eq!(server.store().keys("bucket"), ["d"]);
    let body = format!("<Delete><Quiet>true</Quiet>{}</Delete>", object("d"));
    let answer = ask(&server, "POST /bucket?delete", &[], body.as_bytes());
    assert_eq!((answer.status, answer.elements("Key")), (200, vec![]));
    let body = format!(
        "<Delete>{}</Delete>",
        (0..1001)
            .map(|i| object(&i.to_string()))
            .collect::<String>()
    );
    assert_eq!(
        ask(&server, "POST /bucket?delete", &[], body.as_bytes()).code(),
        "MalformedXML"
    );
}

#[test]
fn buckets() {
    let server = Server::start(ServerOptions {
        region: "eu-west-3".to_owned(),
        ..ServerOptions::default()
    })
    .unwrap();
    let mut wire = Wire::open(&server);
    assert_eq!(wire.ask("PUT /one", &[], b"").status, 200);
    assert_eq!(
        wire.ask("PUT /one", &[], b"").code(),
        "BucketAlreadyOwnedByYou"
    );
    let head = wire.ask("HEAD /one", &[], b"");
    assert_eq!(
        (head.status, head.header("x-amz-bucket-region")),
        (200, Some("eu-west-3"))
    );
    assert!(
        wire.ask("GET /one?location", &[], b"")
            .text()
            .contains("eu-west-3")
    );
    assert_eq!(wire.ask("HEAD /two", &[], b"").status, 404);
    server.store().put("one", "k", "");
    assert_eq!(wire.ask("DELETE /one", &[], b"").code(), "BucketNotEmpty");
    server.store().delete("one", "k");
    assert_eq!(wire.ask("DELETE /one", &[], b"").status, 204);
    assert_eq!(wire.ask("DELETE /one", &[], b"").code(), "NoSuchBucket");
}

#[test]
fn unknown_subresources_are_refused() {
    let server = start();
    server.store().put("bucket", "k", BODY);
    let mut wire = Wire::open(&server);
    for request in [
        "PUT /bucket/k?renameObject",
        "PUT /bucket/k?append=1",
        "PUT /bucket/k?acl",
        "DELETE /bucket/k?tagging",
        "DELETE /bucket/k?other",
        "DELETE /bucket?policy",
        "GET /bucket/k?acl",
        "GET /bucket?versions",
        "GET /bucket?session",
    ] {
        let answer = wire.ask(request, &[("x-amz-rename-source", "/bucket/k")], b"");
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (501, "NotImplemented"),
            "{request}"
        );
    }
    assert_eq!(server.store().object("bucket", "k").unwrap().bytes(), BODY);
}
