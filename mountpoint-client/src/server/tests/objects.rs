//! Objects: reads, ranges, conditions, writes, copies, deletes, buckets, and the log of it.

use std::time::{Duration, UNIX_EPOCH};

use super::*;

const BODY: &[u8] = b"0123456789";

#[test]
fn ranges() {
    let server = start();
    server.store().put("bucket", "k", BODY);
    server.store().put("bucket", "empty", "");
    let mut wire = Wire::open(&server);
    let mut check =
        |key: &str, range: &str, status: u16, body: &str, content_range: Option<&str>| {
            let headers: Vec<_> = (!range.is_empty())
                .then_some(("range", range))
                .into_iter()
                .collect();
            let answer = wire.ask(&format!("GET /bucket/{key}"), &headers, b"");
            assert_eq!(answer.status, status, "{key} {range}");
            assert_eq!(
                answer.header("content-range"),
                content_range,
                "{key} {range}"
            );
            let headed = wire.ask(&format!("HEAD /bucket/{key}"), &headers, b"");
            assert_eq!(headed.status, status, "HEAD {key} {range}");
            if status < 300 {
                assert_eq!(answer.text(), body, "{key} {range}");
                assert_eq!(
                    headed.header("content-length"),
                    Some(&*body.len().to_string()),
                    "HEAD {key} {range}"
                );
                assert_eq!(headed.header("etag"), answer.header("etag"));
            } else {
                assert_eq!(answer.element("Code"), "InvalidRange");
            }
        };
    check("k", "", 200, "0123456789", None);
    check("k", "bytes=0-0", 206, "0", Some("bytes 0-0/10"));
    check("k", "bytes=2-4", 206, "234", Some("bytes 2-4/10"));
    check("k", "bytes=7-", 206, "789", Some("bytes 7-9/10"));
    check("k", "bytes=-3", 206, "789", Some("bytes 7-9/10"));
    check("k", "bytes=-30", 206, "0123456789", Some("bytes 0-9/10"));
    check("k", "bytes=8-100", 206, "89", Some("bytes 8-9/10"));
    check("k", "bytes=0-9", 206, "0123456789", Some("bytes 0-9/10"));
    check("k", "bytes=10-", 416, "", Some("bytes */10"));
    check("k", "bytes=10-20", 416, "", Some("bytes */10"));
    check("k", "bytes=-0", 416, "", Some("bytes */10"));
    check("empty", "", 200, "", None);
    check("empty", "bytes=0-0", 416, "", Some("bytes */0"));
    check("empty", "bytes=-5", 416, "", Some("bytes */0"));
}

#[test]
fn read_conditions() {
    let server = start();
    let etag = server.store().put("bucket", "k", BODY);
    // 784111777 is RFC 9110's example date.
    server
        .store()
        .set_modified("bucket", "k", UNIX_EPOCH + Duration::from_secs(784_111_777));
    let (before, at, after) = (
        "Sun, 06 Nov 1994 08:49:36 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:38 GMT",
    );
    let bare = etag.trim_matches('"');
    let other = "\"0123\"";
    let cases: &[(&[(&str, &str)], u16)] = &[
        (&[("if-match", &etag)], 200),
        (&[("if-match", bare)], 200),
        (&[("if-match", "*")], 200),
        (&[("if-match", other)], 412),
        (&[("if-none-match", &etag)], 304),
        (&[("if-none-match", "*")], 304),
        (&[("if-none-match", other)], 200),
        (&[("if-modified-since", before)], 200),
        (&[("if-modified-since", at)], 304),
        (&[("if-modified-since", after)], 304),
        (&[("if-unmodified-since", before)], 412),
        (&[("if-unmodified-since", at)], 200),
        (&[("if-unmodified-since", after)], 200),
        (&[("if-match", &etag), ("if-unmodified-since", before)], 200),
        (
            &[("if-none-match", &etag), ("if-modified-since", before)],
            304,
        ),
        (
            &[("if-none-match", other), ("if-modified-since", after)],
            200,
        ),
        (&[("if-match", &etag), ("if-none-match", &etag)], 304),
        (&[("if-match", other), ("range", "bytes=100-")], 412),
    ];
    let mut wire = Wire::open(&server);
    for (headers, status) in cases {
        for method in ["GET", "HEAD"] {
            let answer = wire.ask(&format!("{method} /bucket/k"), headers, b"");
            assert_eq!(answer.status, *status, "{method} {headers:?}");
            assert!(
                *status == 412 || answer.header("etag") == Some(&etag),
                "{method} {headers:?}"
            );
        }
    }
    assert_eq!(
        wire.ask("GET /bucket/k", &[], b"").header("last-modified"),
        Some(at)
    );
}

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
        wire.ask("GET /bucket/nothing", &[], b"").element("Code"),
        "NoSuchKey"
    );
    assert_eq!(
        wire.ask("GET /nowhere/k", &[], b"").element("Code"),
        "NoSuchBucket"
    );
    assert_eq!(
        wire.ask(&format!("PUT /bucket/{}", "k".repeat(1024)), &[], BODY)
            .status,
        200
    );
    assert_eq!(
        wire.ask(&format!("PUT /bucket/{}", "k".repeat(1025)), &[], BODY)
            .element("Code"),
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
        (&[("x-amz-checksum-crc32", "phXHwg==")], ""),
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
                ("x-amz-checksum-crc32", "phXHwg=="),
                ("x-amz-checksum-crc32c", "KAwGng=="),
            ],
            "InvalidRequest",
        ),
    ];
    for (headers, code) in cases {
        let answer = wire.ask("PUT /bucket/k", headers, BODY);
        assert_eq!(
            answer.element("Code"),
            *code,
            "{headers:?} {}",
            answer.text()
        );
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
    let framed = b"4\r\n0123\r\n6;chunk-signature=00\r\n456789\r\n0\r\nx-amz-checksum-crc32:phXHwg==\r\n\r\n";
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
    assert_eq!(object.checksum(), Some(("CRC32", "phXHwg==".to_owned())));
    let wrong = b"1\r\n0\r\n0\r\nx-amz-checksum-crc32:phXHwg==\r\n\r\n";
    assert_eq!(
        ask(&server, "PUT /bucket/k", &headers, wrong).element("Code"),
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
    let cases: &[(&[(&str, &str)], u16)] = &[
        (&[("x-amz-copy-source-if-match", &etag)], 200),
        (&[("x-amz-copy-source-if-match", "\"0\"")], 412),
        (&[("x-amz-copy-source-if-none-match", &etag)], 412),
        (&[("x-amz-copy-source-if-none-match", "\"0\"")], 200),
        (
            &[(
                "x-amz-copy-source-if-modified-since",
                "Fri, 01 Jan 2100 00:00:00 GMT",
            )],
            412,
        ),
        (
            &[(
                "x-amz-copy-source-if-unmodified-since",
                "Fri, 01 Jan 2010 00:00:00 GMT",
            )],
            412,
        ),
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
        wire.ask("PUT /bucket/a", &[source], b"").element("Code"),
        "InvalidRequest"
    );
    assert_eq!(
        wire.ask(
            "PUT /bucket/c",
            &[("x-amz-copy-source", "bucket/none")],
            b""
        )
        .element("Code"),
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
        ask(&server, "POST /bucket?delete", &[], body.as_bytes()).element("Code"),
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
        wire.ask("PUT /one", &[], b"").element("Code"),
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
    assert_eq!(
        wire.ask("DELETE /one", &[], b"").element("Code"),
        "BucketNotEmpty"
    );
    server.store().delete("one", "k");
    assert_eq!(wire.ask("DELETE /one", &[], b"").status, 204);
    assert_eq!(
        wire.ask("DELETE /one", &[], b"").element("Code"),
        "NoSuchBucket"
    );
}

#[test]
fn archived_objects_are_read_only_after_their_restore() {
    let server = start();
    server.store().put("bucket", "k", BODY);
    let until = UNIX_EPOCH + Duration::from_secs(1_861_920_000);
    let cases = [
        (Some("GLACIER"), None, 403),
        (Some("DEEP_ARCHIVE"), None, 403),
        (Some("GLACIER"), Some(Restore::InProgress), 403),
        (Some("GLACIER"), Some(Restore::Until(until)), 200),
        (Some("GLACIER_IR"), None, 200),
        (None, None, 200),
    ];
    for (class, restore, status) in cases {
        server
            .store()
            .set_storage_class("bucket", "k", class, restore);
        let answer = ask(&server, "GET /bucket/k", &[], b"");
        assert_eq!(answer.status, status, "{class:?} {restore:?}");
        assert!(status == 200 || answer.element("Code") == "InvalidObjectState");
        let head = ask(&server, "HEAD /bucket/k", &[], b"");
        assert_eq!(
            (head.status, head.header("x-amz-storage-class")),
            (200, class)
        );
        let expected = restore.map(|restore| match restore {
            Restore::InProgress => "ongoing-request=\"true\"",
            Restore::Until(_) => {
                "ongoing-request=\"false\", expiry-date=\"Mon, 01 Jan 2029 00:00:00 GMT\""
            }
        });
        assert_eq!(head.header("x-amz-restore"), expected);
        let list = ask(
            &server,
            "GET /bucket?list-type=2",
            &[("x-amz-optional-object-attributes", "RestoreStatus")],
            b"",
        );
        assert_eq!(list.element("StorageClass"), class.unwrap_or("STANDARD"));
        assert_eq!(
            !list.element("IsRestoreInProgress").is_empty(),
            restore.is_some()
        );
    }
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
        "PUT /bucket/k?tagging",
        "DELETE /bucket/k?tagging",
        "DELETE /bucket/k?other",
        "DELETE /bucket?policy",
        "POST /bucket/k?restore",
        "GET /bucket/k?acl",
        "GET /bucket?versions",
        "GET /bucket?session",
    ] {
        let answer = wire.ask(request, &[("x-amz-rename-source", "/bucket/k")], b"");
        assert_eq!(
            (answer.status, answer.element("Code").as_str()),
            (501, "NotImplemented"),
            "{request}"
        );
    }
    assert_eq!(server.store().object("bucket", "k").unwrap().bytes(), BODY);
}

#[test]
fn synthetic_objects_of_any_size_are_served() {
    let server = start();
    let size = 3 << 40;
    let etag = server.store().put_synthetic("bucket", "huge", size, 7);
    assert_eq!(
        etag,
        server.store().put_synthetic("bucket", "again", size, 7)
    );
    assert_ne!(
        etag,
        server.store().put_synthetic("bucket", "other", size, 8)
    );
    let start = size - 700_000;
    let answer = ask(
        &server,
        "GET /bucket/huge",
        &[("range", &format!("bytes={start}-"))],
        b"",
    );
    assert_eq!(answer.header("etag"), Some(&*etag));
    assert_eq!(answer.body, synthetic_bytes(7, start..size));
    assert_eq!(
        ask(&server, "HEAD /bucket/huge", &[], b"").header("content-length"),
        Some("3298534883328")
    );
}

#[test]
fn the_log_has_every_request() {
    let server = start();
    server.store().put_synthetic("bucket", "k", 1 << 20, 1);
    let mut wire = Wire::open(&server);
    wire.ask(
        "GET /bucket/k",
        &[("range", "bytes=100-299"), ("if-match", "*")],
        b"",
    );
    wire.ask("GET /bucket/k", &[("range", "bytes=-10")], b"");
    wire.ask("GET /bucket/none", &[], b"");
    wire.ask("HEAD /bucket/k", &[], b"");
    wire.ask("GET /bucket?list-type=2&prefix=a%20b", &[], b"");
    let records = server.log().snapshot();
    let seen: Vec<_> = records
        .iter()
        .map(|r| {
            (
                r.sequence,
                r.operation.as_str(),
                r.key.as_str(),
                r.range.clone(),
                r.status,
                r.complete,
            )
        })
        .collect();
    let end = 1 << 20;
    assert_eq!(
        seen,
        [
            (0, "GetObject", "k", Some(100..300), 206, true),
            (1, "GetObject", "k", Some(end - 10..end), 206, true),
            (2, "GetObject", "none", None, 404, true),
            (3, "HeadObject", "k", None, 200, true),
            (4, "ListObjectsV2", "", None, 200, true),
        ]
    );
    assert_eq!(
        (
            records[0].bytes_sent,
            records[1].bytes_sent,
            records[3].bytes_sent
        ),
        (200, 10, 0)
    );
    assert_eq!(records[0].if_match.as_deref(), Some("*"));
    assert_eq!(records[4].prefix.as_deref(), Some("a b"));
    let gets = server.log().counters(Operation::GetObject);
    assert_eq!(
        (
            gets.requests,
            gets.finished,
            gets.errors,
            gets.in_flight,
            gets.in_flight_max
        ),
        (3, 3, 1, 0, 1)
    );
    assert_eq!(server.log().count_all(), 5);
    assert_eq!(server.log().take().len(), 5);
    assert_eq!(
        (server.log().snapshot().len(), server.log().count_all()),
        (0, 5)
    );
    server.log().clear();
    assert_eq!(server.log().count_all(), 0);
}

#[test]
fn the_log_without_records_still_counts() {
    let options = ServerOptions {
        log: LogMode::Counters,
        ..ServerOptions::default()
    };
    let server = Server::start(options).unwrap();
    server.store().put("bucket", "k", BODY);
    ask(&server, "GET /bucket/k", &[], b"");
    assert_eq!(server.log().counters(Operation::GetObject).bytes_sent, 10);
    assert!(server.log().snapshot().is_empty());
}

#[test]
fn requests_in_flight_at_once_are_counted() {
    let server = start();
    server.store().put("bucket", "k", BODY);
    let slow = Rule::always(Fault::BlackHole);
    let rule = server.faults().add(slow);
    let mut wires: Vec<_> = (0..64).map(|_| Wire::open(&server)).collect();
    wires
        .iter_mut()
        .for_each(|wire| wire.send("GET /bucket/k", &[], b""));
    assert!(
        server
            .log()
            .wait_until(Operation::GetObject, TIMEOUT, |counters| counters.in_flight
                == 64)
    );
    drop(wires);
    assert!(
        server
            .log()
            .wait_until(Operation::GetObject, TIMEOUT, |counters| counters.finished
                == 64)
    );
    assert_eq!(server.faults().remove(rule), Some(64));
    assert_eq!(
        server.log().counters(Operation::GetObject).in_flight_max,
        64
    );
    assert!(
        server
            .log()
            .snapshot()
            .iter()
            .all(|record| record.status == 0 && !record.complete)
    );
}
