//! Multipart uploads.

use super::*;
use crate::testing::server::store::checksum::{Algorithm, Hasher};

const MIB: usize = 1 << 20;

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    synthetic_bytes(seed, 0..len as u64)
}

fn create(wire: &mut Wire, headers: &[(&str, &str)]) -> String {
    let answer = wire.ask("POST /bucket/k?uploads", headers, b"");
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.element("UploadId")
}

fn put_part(wire: &mut Wire, id: &str, number: u32, body: &[u8]) -> Answer {
    wire.ask(
        &format!("PUT /bucket/k?partNumber={number}&uploadId={id}"),
        &[],
        body,
    )
}

fn part(number: u32, etag: &str, more: &str) -> String {
    format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag>{more}</Part>")
}

fn complete(wire: &mut Wire, id: &str, headers: &[(&str, &str)], parts: &[String]) -> Answer {
    let body = format!(
        "<CompleteMultipartUpload>{}</CompleteMultipartUpload>",
        parts.concat()
    );
    wire.ask(
        &format!("POST /bucket/k?uploadId={id}"),
        headers,
        body.as_bytes(),
    )
}

fn sum(algorithm: Algorithm, bytes: &[u8]) -> String {
    let mut hasher = Hasher::new(algorithm);
    hasher.update(bytes);
    hasher.finish().text()
}

#[test]
fn parts_become_an_object() {
    let server = start();
    let mut wire = Wire::open(&server);
    let id = create(&mut wire, &[("content-type", "a/b"), ("x-amz-meta-m", "1")]);
    let (first, second) = (bytes(1, 5 * MIB), bytes(2, 1000));
    let (one, two) = (
        put_part(&mut wire, &id, 2, &first),
        put_part(&mut wire, &id, 7, &second),
    );
    let (one, two) = (
        one.header("etag").unwrap().to_owned(),
        two.header("etag").unwrap().to_owned(),
    );
    assert!(server.store().object("bucket", "k").is_none());
    let whole = [first, second].concat();
    let crc = sum(Algorithm::Crc64Nvme, &whole);
    let size = whole.len().to_string();
    let headers = [
        ("x-amz-checksum-crc64nvme", &*crc),
        ("x-amz-mp-object-size", &*size),
    ];
    let done = complete(
        &mut wire,
        &id,
        &headers,
        &[part(2, &one, ""), part(7, &two, "")],
    );
    assert_eq!(done.status, 200, "{}", done.text());
    let object = server.store().object("bucket", "k").unwrap();
    assert_eq!(object.bytes(), whole);
    assert!(object.etag().ends_with("-2\"") && done.element("ETag") == object.etag());
    assert_eq!(object.checksum(), Some(("CRC64NVME", crc)));
    assert_eq!(object.headers().content_type.as_deref(), Some("a/b"));
    assert_eq!(server.store().uploads("bucket"), []);
    let got = wire.ask("GET /bucket/k?partNumber=2", &[], b"");
    assert_eq!(
        (got.status, got.header("x-amz-mp-parts-count")),
        (206, Some("2"))
    );
    assert_eq!(
        got.header("content-range"),
        Some("bytes 5242880-5243879/5243880")
    );
    assert_eq!(got.body, bytes(2, 1000));
    assert_eq!(
        wire.ask("GET /bucket/k?partNumber=3", &[], b"").code(),
        "InvalidPartNumber"
    );
    // A range across the parts.
    let got = wire.ask("GET /bucket/k", &[("range", "bytes=5242870-5242889")], b"");
    assert_eq!(got.body, whole[5_242_870..5_242_890]);
    assert_eq!(
        complete(&mut wire, &id, &[], &[part(2, &one, "")]).code(),
        "NoSuchUpload"
    );
}

#[test]
fn wrong_completions_change_nothing() {
    let server = start();
    let before = server.store().put("bucket", "k", "old");
    let mut wire = Wire::open(&server);
    let id = create(&mut wire, &[]);
    let etags: Vec<_> = (1..=2)
        .map(|number| {
            put_part(&mut wire, &id, number, b"small")
                .header("etag")
                .unwrap()
                .to_owned()
        })
        .collect();
    let (one, two) = (part(1, &etags[0], ""), part(2, &etags[1], ""));
    let crc = part(1, &etags[0], "<ChecksumCRC32>AAAAAA==</ChecksumCRC32>");
    let lists = [
        (vec![], "MalformedXML"),
        (vec![two.clone(), one.clone()], "InvalidPartOrder"),
        (vec![one.clone(), one.clone()], "InvalidPartOrder"),
        (vec![one.clone(), two], "EntityTooSmall"),
        (vec![part(3, &etags[0], "")], "InvalidPart"),
        (vec![part(1, "\"0\"", "")], "InvalidPart"),
        (vec![crc], "InvalidPart"),
    ];
    for (parts, code) in lists {
        let answer = complete(&mut wire, &id, &[], &parts);
        assert_eq!(answer.code(), code, "{parts:?}");
    }
    let headers = [
        (("if-none-match", "*"), "PreconditionFailed"),
        (("if-match", "\"0\""), "PreconditionFailed"),
        (("x-amz-mp-object-size", "4"), "InvalidRequest"),
        (("x-amz-checksum-crc64nvme", "AAAAAAAAAAA="), "BadDigest"),
    ];
    for (header, code) in headers {
        let answer = complete(&mut wire, &id, &[header], std::slice::from_ref(&one));
        assert_eq!(answer.code(), code, "{header:?}");
    }
    assert_eq!(server.store().object("bucket", "k").unwrap().etag(), before);
    assert_eq!(put_part(&mut wire, &id, 0, b"").code(), "InvalidArgument");
    assert_eq!(
        put_part(&mut wire, &id, 10_001, b"").code(),
        "InvalidArgument"
    );
    assert_eq!(put_part(&mut wire, "none", 1, b"").code(), "NoSuchUpload");
    assert_eq!(
        complete(&mut wire, &id, &[("if-match", &before)], &[one]).status,
        200
    );
    assert_eq!(
        server.store().object("bucket", "k").unwrap().bytes(),
        &b"small"[..]
    );
}

/// Uploads two parts with their checksums and completes. `None` if S3 does not know this
/// combination.
fn upload_with(
    wire: &mut Wire,
    algorithm: Algorithm,
    kind: Option<&str>,
    parts: [&[u8]; 2],
) -> Option<Answer> {
    let mut headers = vec![("x-amz-checksum-algorithm", algorithm.as_str())];
    headers.extend(kind.map(|kind| ("x-amz-checksum-type", kind)));
    let created = wire.ask("POST /bucket/k?uploads", &headers, b"");
    if created.code() == "InvalidRequest" {
        return None;
    }
    let id = created.element("UploadId");
    let mut listed = Vec::new();
    for (number, body) in (1..).zip(parts) {
        let text = sum(algorithm, body);
        let request = format!("PUT /bucket/k?partNumber={number}&uploadId={id}");
        let put = wire.ask(&request, &[(algorithm.header(), &text)], body);
        assert_eq!(
            (put.status, put.header(algorithm.header())),
            (200, Some(&*text))
        );
        let name = format!("Checksum{}", algorithm.as_str());
        listed.push(part(
            number,
            put.header("etag").unwrap(),
            &format!("<{name}>{text}</{name}>"),
        ));
    }
    Some(complete(wire, &id, &[], &listed))
}

#[test]
fn checksums_are_composite_or_of_the_whole() {
    let server = start();
    let mut wire = Wire::open(&server);
    let (first, second) = (bytes(1, 5 * MIB), bytes(2, 77));
    let whole = [first.clone(), second.clone()].concat();
    for algorithm in Algorithm::ALL {
        for kind in [None, Some("COMPOSITE"), Some("FULL_OBJECT")] {
            let case = format!("{algorithm:?} {kind:?}");
            let is_sha = matches!(algorithm, Algorithm::Sha1 | Algorithm::Sha256);
            let is_crc64 = algorithm == Algorithm::Crc64Nvme;
            let is_known = !matches!(
                (is_sha, is_crc64, kind),
                (true, _, Some("FULL_OBJECT")) | (_, true, Some("COMPOSITE"))
            );
            let done = upload_with(&mut wire, algorithm, kind, [&first, &second]);
            assert_eq!(done.is_some(), is_known, "{case}");
            let Some(done) = done else { continue };
            assert_eq!(done.status, 200, "{case} {}", done.text());
            let is_composite = kind != Some("FULL_OBJECT") && !is_crc64;
            let (_, text) = server
                .store()
                .object("bucket", "k")
                .unwrap()
                .checksum()
                .unwrap();
            assert_eq!(text.ends_with("-2"), is_composite, "{case}");
            assert!(is_composite || text == sum(algorithm, &whole), "{case}");
            let head = wire.ask("HEAD /bucket/k", &[("x-amz-checksum-mode", "ENABLED")], b"");
            assert_eq!(head.header(algorithm.header()), Some(&*text), "{case}");
            let kind = if is_composite {
                "COMPOSITE"
            } else {
                "FULL_OBJECT"
            };
            assert_eq!(head.header("x-amz-checksum-type"), Some(kind), "{case}");
        }
    }
    let id = create(&mut wire, &[("x-amz-checksum-algorithm", "CRC32C")]);
    let put = put_part(&mut wire, &id, 1, b"x");
    let parts = [part(1, put.header("etag").unwrap(), "")];
    assert_eq!(
        complete(&mut wire, &id, &[], &parts).code(),
        "InvalidRequest"
    );
}

#[test]
fn parts_are_copied() {
    let server = start();
    server.store().put("bucket", "source", bytes(3, 6 * MIB));
    server.store().put_synthetic("bucket", "huge", 1 << 40, 4);
    let mut wire = Wire::open(&server);
    let id = create(&mut wire, &[]);
    let mut copy = |number: u32, headers: &[(&str, &str)]| {
        wire.ask(
            &format!("PUT /bucket/k?partNumber={number}&uploadId={id}"),
            headers,
            b"",
        )
    };
    let source = ("x-amz-copy-source", "bucket/source");
    let range = ("x-amz-copy-source-range", "bytes=100-5242979");
    let one = copy(1, &[source, range]);
    assert_eq!(one.status, 200, "{}", one.text());
    let huge = ("x-amz-copy-source", "bucket/huge");
    let two = copy(
        2,
        &[
            huge,
            ("x-amz-copy-source-range", "bytes=1000000000-1000000099"),
        ],
    );
    assert_eq!(
        copy(3, &[source, ("x-amz-copy-source-range", "bytes=0-6291456")]).code(),
        "InvalidArgument"
    );
    assert_eq!(
        copy(3, &[source, ("x-amz-copy-source-range", "bytes=7-")]).code(),
        "InvalidArgument"
    );
    assert_eq!(copy(3, &[huge]).code(), "InvalidRequest");
    assert_eq!(
        copy(3, &[source, ("x-amz-copy-source-if-match", "\"0\"")]).code(),
        "PreconditionFailed"
    );
    let parts = [
        part(1, &one.element("ETag"), ""),
        part(2, &two.element("ETag"), ""),
    ];
    assert_eq!(complete(&mut wire, &id, &[], &parts).status, 200);
    let expected = [
        synthetic_bytes(3, 100..5_242_980),
        synthetic_bytes(4, 1_000_000_000..1_000_000_100),
    ]
    .concat();
    assert_eq!(
        server.store().object("bucket", "k").unwrap().bytes(),
        expected
    );
}

#[test]
fn parts_are_listed_page_by_page_and_aborted() {
    let server = start();
    let mut wire = Wire::open(&server);
    let id = create(&mut wire, &[]);
    for number in [1, 3, 5, 10_000] {
        put_part(&mut wire, &id, number, b"x");
    }
    let mut found = Vec::new();
    let mut marker = "0".to_owned();
    loop {
        let query = format!("uploadId={id}&max-parts=2&part-number-marker={marker}");
        let page = wire.ask(&format!("GET /bucket/k?{query}"), &[], b"");
        found.extend(page.elements("PartNumber"));
        if page.element("IsTruncated") != "true" {
            break;
        }
        marker = page.element("NextPartNumberMarker");
    }
    assert_eq!(found, ["1", "3", "5", "10000"]);
    let upload = format!("/bucket/k?uploadId={id}");
    assert_eq!(wire.ask(&format!("DELETE {upload}"), &[], b"").status, 204);
    assert_eq!(
        wire.ask(&format!("DELETE {upload}"), &[], b"").code(),
        "NoSuchUpload"
    );
    assert_eq!(
        wire.ask(&format!("GET {upload}"), &[], b"").code(),
        "NoSuchUpload"
    );
    assert_eq!(server.store().uploads("bucket"), []);
}

#[test]
fn uploads_are_listed_page_by_page() {
    let server = start();
    let mut wire = Wire::open(&server);
    for key in ["k", "a/x", "a/y", "b", "k"] {
        wire.ask(&format!("POST /bucket/{key}?uploads"), &[], b"");
    }
    for page_len in 1..=6 {
        let mut found = Vec::new();
        let mut next = String::new();
        loop {
            let request = format!("GET /bucket?uploads&max-uploads={page_len}{next}");
            let page = wire.ask(&request, &[], b"");
            found.extend(
                page.elements("Key")
                    .into_iter()
                    .zip(page.elements("UploadId")),
            );
            if page.element("IsTruncated") != "true" {
                break;
            }
            let key = page.element("NextKeyMarker").replace('/', "%2F");
            let id = page.element("NextUploadIdMarker");
            next = format!("&key-marker={key}&upload-id-marker={id}");
        }
        assert_eq!(
            found,
            server.store().uploads("bucket"),
            "pages of {page_len}"
        );
    }
    let page = wire.ask("GET /bucket?uploads&delimiter=%2F", &[], b"");
    assert_eq!(page.elements("Key"), ["b", "k", "k"]);
    assert_eq!(page.elements("CommonPrefixes"), ["<Prefix>a/</Prefix>"]);
    let page = wire.ask("GET /bucket?uploads&prefix=a%2F", &[], b"");
    assert_eq!(page.elements("Key"), ["a/x", "a/y"]);
}

#[test]
fn tags_of_parts_need_no_md5() {
    let server = Server::start(ServerOptions {
        part_tags: PartTags::Checksum,
        ..ServerOptions::default()
    })
    .unwrap();
    server.store().create_bucket("bucket");
    let mut wire = Wire::open(&server);
    let id = create(&mut wire, &[]);
    let mut tag = |body: &[u8], headers: &[(&str, &str)]| {
        let target = format!("PUT /bucket/k?partNumber=1&uploadId={id}");
        let answer = wire.ask(&target, headers, body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.header("etag").unwrap().to_owned()
    };
    // The MD5 of "a".
    let md5 = "\"0cc175b9c0f1b6a831c399e269772661\"";
    assert_eq!(
        tag(b"a", &[("content-md5", "DMF1ucDxtqgxw5niaXcmYQ==")]),
        md5
    );
    assert_ne!(tag(b"a", &[]), md5);
    assert_eq!(tag(b"a", &[]), tag(b"a", &[]));
    assert_ne!(tag(b"a", &[]), tag(b"b", &[]));
    assert_ne!(tag(b"", &[]), tag(b"\0", &[]));
}
