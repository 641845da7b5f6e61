//! Documents, good and bad.

use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;

use super::*;

const OPEN: &str = "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
const CLOSE: &str = "</ListBucketResult>";

/// As S3 words it.
const LISTING: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- s3 -->\n\
    <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name><Prefix>p/</Prefix>\
    <KeyCount>3</KeyCount><MaxKeys>1000</MaxKeys><Delimiter>%2F</Delimiter><EncodingType>url</EncodingType>\
    <IsTruncated>true</IsTruncated><NextContinuationToken>1/a+b=</NextContinuationToken>\
    <Contents><Key>p/%C3%BC</Key><LastModified>2026-01-02T03:04:05.678Z</LastModified><ETag>&quot;e1&quot;</ETag>\
    <ChecksumAlgorithm>CRC32</ChecksumAlgorithm><Size>5</Size>\
    <Owner><ID>o</ID><DisplayName><![CDATA[<me>]]></DisplayName></Owner><StorageClass>GLACIER</StorageClass>\
    <RestoreStatus><IsRestoreInProgress>false</IsRestoreInProgress>\
    <RestoreExpiryDate>2027-01-01T00:00:00Z</RestoreExpiryDate></RestoreStatus></Contents>\
    <Contents><Key>p/ \u{fc}</Key><ETag>e2</ETag><Size>0</Size></Contents>\
    <CommonPrefixes><Prefix>p/d/</Prefix></CommonPrefixes></ListBucketResult>";

fn page_of(body: &str) -> SentPage<'_> {
    read(body.as_bytes()).unwrap_or_else(|why| panic!("{why:?}: {body}"))
}

#[test]
fn a_listing_is_read_in_one_pass() {
    let page = page_of(LISTING);
    let first = SentObject {
        key: "p/%C3%BC".into(),
        size: Some(5),
        etag: Some("\"e1\"".into()),
        last_modified: Some(UNIX_EPOCH + Duration::from_millis(1_767_323_045_678)),
        storage_class: Some("GLACIER".into()),
        restored: true,
    };
    let second = SentObject {
        key: "p/ \u{fc}".into(),
        size: Some(0),
        etag: Some("e2".into()),
        ..SentObject::default()
    };
    let expected = SentPage {
        objects: vec![first, second],
        common_prefixes: vec!["p/d/".into()],
        is_encoded: true,
        is_truncated: true,
        next_token: Some("1/a+b=".into()),
    };
    assert_eq!(page, expected);
    assert!(matches!(page.objects[0].key, Cow::Borrowed(_)));
}

/// Wherever an answer stops early, it is known that it did.
#[test]
fn a_listing_that_is_cut_is_no_shorter_listing() {
    for end in 1..LISTING.len() {
        let cut = &LISTING.as_bytes()[..end];
        let cut_text = String::from_utf8_lossy(cut);
        assert_eq!(read(cut), Err(Unreadable::Cut), "{cut_text:?}");
    }
    assert!(matches!(read(b""), Err(Unreadable::Wrong(_))));
}

/// The element's text, as `Key` of the only object.
#[track_caller]
fn check_text(written: &str, expected: Result<&str, &str>) {
    let body = format!("{OPEN}<Contents><Key>{written}</Key></Contents>{CLOSE}");
    let found = read(body.as_bytes());
    let found = found.map(|page| page.objects[0].key.clone().into_owned());
    match (found, expected) {
        (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{written:?}"),
        (Err(Unreadable::Wrong(found)), Err(expected)) => {
            assert!(found.contains(expected), "{written:?}: {found}");
        }
        (found, _) => panic!("{written:?}: {found:?}"),
    }
}

#[test]
fn text_is_read_as_xml_writes_it() {
    for (written, text) in [
        ("", ""),
        ("a", "a"),
        (" a b ", " a b "),
        ("a&amp;b", "a&b"),
        ("&lt;&gt;&quot;&apos;&amp;", "<>\"'&"),
        ("&#65;&#x41;&#xfc;&#128512;", "AA\u{fc}\u{1f600}"),
        ("&#x1;&#10;", "\u{1}\n"),
        ("<![CDATA[<a>&amp;]]>", "<a>&amp;"),
        ("x<![CDATA[]]>y<!-- z -->w<?z z?>", "xyw"),
        ("\u{1f600}\u{fc}\u{1}", "\u{1f600}\u{fc}\u{1}"),
    ] {
        check_text(written, Ok(text));
    }
    for (written, reason) in [
        ("&nbsp;", "stands for nothing known"),
        ("&#xD800;", "stands for nothing known"),
        ("&#x110000;", "stands for nothing known"),
        ("&#99999999999999999999;", "stands for nothing known"),
        ("&#;", "stands for nothing known"),
        ("a & b", "begins nothing"),
        ("a&b</Key><Key>;", "begins nothing"),
        ("a<b>c</b>", "an element where text is expected"),
        ("a<b/>", "an element where text is expected"),
        ("</Size>", "expected"),
    ] {
        check_text(written, Err(reason));
    }
}

/// Checks a page without names that has `inside` between its first tag and its last.
#[track_caller]
fn check_page(inside: &str, expected: Result<SentPage<'_>, &str>) {
    let body = format!("{OPEN}{inside}{CLOSE}");
    match (read(body.as_bytes()), expected) {
        (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{inside}"),
        (Err(Unreadable::Wrong(found)), Err(expected)) => {
            assert!(found.contains(expected), "{inside}: {found}");
        }
        (found, _) => panic!("{inside}: {found:?}"),
    }
}

#[test]
fn values_are_read_as_servers_write_them() {
    let page = SentPage::default;
    let with = |change: fn(&mut SentPage<'static>)| {
        let mut page = page();
        change(&mut page);
        Ok(page)
    };
    let truncated = || with(|page| page.is_truncated = true);
    for inside in [
        "",
        " \r\n\t ",
        "<!-- x --><?x?>",
        "<KeyCount>99999999999999999999999</KeyCount><MaxKeys>x</MaxKeys><Unknown><Key>k</Key><Unknown/></Unknown>",
        "<IsTruncated/><NextContinuationToken/><EncodingType/>",
        "<IsTruncated>false</IsTruncated>",
        "<EncodingType>base64</EncodingType>",
        "stray text &amp; <![CDATA[more]]>",
    ] {
        check_page(inside, Ok(page()));
    }
    check_page(" <IsTruncated>\n true </IsTruncated>", truncated());
    check_page(
        "<x:IsTruncated xmlns:x='y'>true</x:IsTruncated >",
        truncated(),
    );
    let last_counts = "<IsTruncated>false</IsTruncated><IsTruncated>true</IsTruncated>";
    check_page(last_counts, truncated());
    check_page(
        "<IsTruncated>TRUE</IsTruncated>",
        Err("IsTruncated is \"TRUE\""),
    );
    check_page(
        "<EncodingType>url</EncodingType>",
        with(|page| page.is_encoded = true),
    );
    check_page(
        "<CommonPrefixes/><CommonPrefixes><Prefix>a/</Prefix><Prefix>b/</Prefix></CommonPrefixes>",
        with(|page| page.common_prefixes = vec!["".into(), "b/".into()]),
    );
    let nested = format!("{}{}", "<a>".repeat(40), "</a>".repeat(40));
    check_page(&nested, Err("in 32 others"));
}

#[track_caller]
fn check_object(inside: &str, expected: Result<SentObject<'static>, &str>) {
    let page = expected.map(|object| SentPage {
        objects: vec![object],
        ..SentPage::default()
    });
    check_page(&format!("<Contents>{inside}</Contents>"), page);
}

#[test]
fn objects_are_read_as_servers_write_them() {
    let object = SentObject::default;
    let sized = |size| {
        Ok(SentObject {
            size,
            ..SentObject::default()
        })
    };
    for (size, expected) in [
        ("", None),
        (" 12\n", Some(12)),
        ("0012", Some(12)),
        ("9223372036854775807", Some(i64::MAX.cast_unsigned())),
        ("9223372036854775808", None),
        ("-1", None),
        ("1e3", None),
        ("0x10", None),
    ] {
        check_object(&format!("<Size>{size}</Size>"), sized(expected));
    }
    check_object(
        "<ETag/><StorageClass></StorageClass><LastModified/>",
        Ok(object()),
    );
    check_object(
        "<LastModified>yesterday</LastModified>",
        Err("\"yesterday\" is not a time"),
    );
    for (status, restored) in [
        ("", false),
        ("<IsRestoreInProgress>false</IsRestoreInProgress>", false),
        (
            "<RestoreExpiryDate>2027-01-01T00:00:00Z</RestoreExpiryDate>",
            true,
        ),
        (
            "<IsRestoreInProgress>true</IsRestoreInProgress><RestoreExpiryDate>2027-01-01T00:00:00Z</RestoreExpiryDate>",
            false,
        ),
    ] {
        let expected = SentObject {
            restored,
            ..SentObject::default()
        };
        check_object(
            &format!("<RestoreStatus>{status}</RestoreStatus>"),
            Ok(expected),
        );
    }
}

#[test]
fn what_is_no_listing_is_said_to_be_none() {
    for (body, reason) in [
        ("", "nothing at all"),
        (" \n", "nothing at all"),
        ("no XML at all", "not XML"),
        ("{\"a\": 1}", "not XML"),
        ("&amp;", "not XML"),
        ("</a>", "</a>"),
        ("<html>502", "<html> is no listing"),
        (
            "<?xml version=\"1.0\"?><Error><Code>No</Code></Error>",
            "<Error> is no listing",
        ),
        ("<ListBucketResults/>", "<ListBucketResults> is no listing"),
        ("<ListBucketResult/><a/>", "behind the listing"),
        ("<ListBucketResult/>x", "behind the listing"),
        ("<ListBucketResult></ListBucketResult></a>", "</a>"),
        (
            "<ListBucketResult><a></b></a></ListBucketResult>",
            "expected",
        ),
    ] {
        match read(body.as_bytes()) {
            Err(Unreadable::Wrong(what)) => assert!(what.contains(reason), "{body:?}: {what}"),
            other => panic!("{body:?}: {other:?}"),
        }
    }
    let latin = b"<ListBucketResult><Contents><Key>\xFC</Key></Contents></ListBucketResult>";
    assert!(matches!(read(latin), Err(Unreadable::Wrong(what)) if what.contains("not UTF-8")));
}

#[test]
fn prologues_and_ends_of_all_kinds() {
    for body in [
        "\u{FEFF}<ListBucketResult/>",
        " \r\n <?xml version='1.0'?>\n<ListBucketResult ></ListBucketResult >\n <!-- end --> \n",
        "<?xml-stylesheet href='a>b'?><ListBucketResult a='>'/>",
        "<!DOCTYPE a [ <!ELEMENT a (#PCDATA)> ]><s3:ListBucketResult xmlns:s3='x'></s3:ListBucketResult>",
    ] {
        assert_eq!(page_of(body), SentPage::default(), "{body}");
    }
}

/// An object as servers write it: five characters are escaped.
fn written(page: &SentPage<'_>) -> String {
    let escaped = |text: &str| quick_xml::escape::escape(text).into_owned();
    let mut body = OPEN.to_owned();
    for object in &page.objects {
        write!(body, "<Contents><Key>{}</Key>", escaped(&object.key)).unwrap();
        for (name, value) in [
            ("ETag", &object.etag),
            ("StorageClass", &object.storage_class),
        ] {
            if let Some(value) = value {
                write!(body, "<{name}>{}</{name}>", escaped(value)).unwrap();
            }
        }
        if let Some(size) = object.size {
            write!(body, "<Size>{size}</Size>").unwrap();
        }
        body.push_str("</Contents>");
    }
    for prefix in &page.common_prefixes {
        write!(
            body,
            "<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>",
            escaped(prefix)
        )
        .unwrap();
    }
    write!(
        body,
        "<IsTruncated>{}</IsTruncated>{CLOSE}",
        page.is_truncated
    )
    .unwrap();
    body
}

prop_compose! {
    fn any_object()(
        key in ".*",
        etag in proptest::option::of(".+"),
        storage_class in proptest::option::of("[A-Z_]+"),
        size in proptest::option::of(0..=i64::MAX.cast_unsigned()),
    ) -> SentObject<'static> {
        SentObject {
            key: key.into(),
            etag: etag.map(Cow::Owned),
            storage_class: storage_class.map(Cow::Owned),
            size,
            ..SentObject::default()
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        objects in proptest::collection::vec(any_object(), 0..5),
        prefixes in proptest::collection::vec(".*", 0..5),
        is_truncated: bool,
    ) {
        let page = SentPage {
            objects,
            common_prefixes: prefixes.into_iter().map(Cow::Owned).collect(),
            is_truncated,
            ..SentPage::default()
        };
        let body = written(&page);
        prop_assert_eq!(read(body.as_bytes()), Ok(page));
    }

    /// Whatever the bytes are, they are read or refused.
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        drop(read(&bytes));
    }

    /// A real listing with some bytes replaced and some taken out.
    #[test]
    fn a_damaged_listing_is_survived(
        damage in proptest::collection::vec((0..LISTING.len(), any::<u8>()), 1..8),
        cut in 0..LISTING.len(),
        cut_len in 0..40_usize,
    ) {
        let mut bytes = LISTING.as_bytes().to_vec();
        for (at, byte) in damage {
            bytes[at] = byte;
        }
        let end = (cut + cut_len).min(bytes.len());
        bytes.drain(cut..end);
        drop(read(&bytes));
    }
}
