//! Ranges, conditions, archives, synthetic content.

use std::time::UNIX_EPOCH;

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
                assert_eq!(answer.code(), "InvalidRange");
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
    for ignored in ["bytes=3-1", "bytes=1-2,4-5", "lines=1-2", "bytes=x-"] {
        check("k", ignored, 200, "0123456789", None);
    }
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
        assert!(status == 200 || answer.code() == "InvalidObjectState");
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
