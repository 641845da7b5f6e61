//! Listings against a plain model: sort, filter, roll up, cut into pages.

use std::collections::BTreeSet;

use super::*;

const KEYS: &[&str] = &[
    "a",
    "a b",
    "a+b",
    "a/",
    "a/b",
    "a//",
    "a//c",
    "a/b/c",
    "a%2Fb",
    "a&b",
    "a<b",
    "b\u{1}c",
    "b\n",
    "ba",
    "c/d/e/f",
    "c/d/g",
    "c0",
    "é",
    "é/ü",
    "日本/語",
    "\u{D7FF}x",
    "\u{E000}x",
    "\u{10FFFF}",
    "\u{10FFFF}/z",
    "~",
    " lead",
    "/",
    "//x",
];

fn filled() -> Server {
    let server = start();
    for key in KEYS {
        server.store().put("bucket", key, key.to_string());
    }
    server
}

/// S3's entries behind `after`: keys and common prefixes in one order.
fn model(prefix: &str, delimiter: &str, after: &str) -> Vec<(String, bool)> {
    let mut entries = BTreeSet::new();
    for key in KEYS
        .iter()
        .filter(|key| key.starts_with(prefix) && **key > after)
    {
        let at = (!delimiter.is_empty())
            .then(|| key[prefix.len()..].find(delimiter))
            .flatten();
        let group = at.map(|at| key[..prefix.len() + at + delimiter.len()].to_owned());
        match group {
            Some(group) if group == after => {}
            Some(group) => drop(entries.insert((group, true))),
            None => drop(entries.insert((key.to_string(), false))),
        }
    }
    entries.into_iter().collect()
}

fn encode_query(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => {
                bytes.push(
                    u8::from_str_radix(std::str::from_utf8(&tail[..2]).unwrap(), 16).unwrap(),
                );
                rest = &tail[2..];
            }
            other => bytes.push(*other),
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// The entries of one page, keys before prefixes.
fn entries(answer: &Answer) -> (Vec<String>, Vec<String>) {
    let keys = answer
        .elements("Key")
        .iter()
        .map(|key| decode(key))
        .collect();
    let groups = answer.elements("CommonPrefixes");
    let strip = |group: &String| {
        group
            .trim_start_matches("<Prefix>")
            .trim_end_matches("</Prefix>")
            .to_owned()
    };
    (
        keys,
        groups
            .iter()
            .map(strip)
            .map(|group| decode(&group))
            .collect(),
    )
}

/// Reads every page and compares with the model.
#[track_caller]
fn check(wire: &mut Wire, v1: bool, prefix: &str, delimiter: &str, after: &str, page_len: usize) {
    let case = format!(
        "v1={v1} prefix={prefix:?} delimiter={delimiter:?} after={after:?} page_len={page_len}"
    );
    let base = format!(
        "GET /bucket?encoding-type=url&prefix={}&delimiter={}&max-keys={page_len}",
        encode_query(prefix),
        encode_query(delimiter)
    );
    let mut found = Vec::new();
    let mut marker = after.to_owned();
    let mut token = String::new();
    loop {
        let request = match (v1, token.is_empty()) {
            (true, _) => format!("{base}&marker={}", encode_query(&marker)),
            (false, true) => format!("{base}&list-type=2&start-after={}", encode_query(after)),
            (false, false) => format!("{base}&list-type=2&continuation-token={token}"),
        };
        let answer = wire.ask(&request, &[], b"");
        assert_eq!(answer.status, 200, "{case}");
        let (keys, groups) = entries(&answer);
        assert!(keys.is_sorted() && groups.is_sorted(), "{case}");
        let mut page: Vec<_> = keys.into_iter().map(|key| (key, false)).collect();
        page.extend(groups.into_iter().map(|group| (group, true)));
        page.sort();
        assert!(page.len() <= page_len, "{case}");
        if !v1 {
            assert_eq!(answer.element("KeyCount"), page.len().to_string(), "{case}");
        }
        let last = page.last().cloned();
        found.extend(page);
        if answer.element("IsTruncated") != "true" {
            break;
        }
        let next = answer.element("NextMarker");
        assert!(
            !v1 || delimiter.is_empty() || decode(&next) == last.as_ref().unwrap().0,
            "{case}"
        );
        marker = last.expect("a truncated page is not empty").0;
        token = answer.element("NextContinuationToken");
    }
    let expected = if page_len == 0 {
        Vec::new()
    } else {
        model(prefix, delimiter, after)
    };
    assert_eq!(found, expected, "{case}");
}

#[test]
fn every_page_length_prefix_and_delimiter() {
    let server = filled();
    let mut wire = Wire::open(&server);
    for prefix in ["", "a", "a/", "a//", "c/d", "é", "\u{10FFFF}", "none"] {
        for delimiter in ["", "/", "//", "b", "é/"] {
            for page_len in [0, 1, 2, 3, 7, KEYS.len(), 1000] {
                check(&mut wire, false, prefix, delimiter, "", page_len);
                check(&mut wire, true, prefix, delimiter, "", page_len);
            }
        }
    }
}

#[test]
fn every_place_to_start_behind() {
    let server = filled();
    let mut wire = Wire::open(&server);
    for after in KEYS.iter().chain(&["a/a", "c/", "c/d", "c/d/", "zzz"]) {
        for (prefix, delimiter) in [("", ""), ("", "/"), ("a", "/"), ("c/", "/")] {
            for page_len in [1, 3, 1000] {
                check(&mut wire, false, prefix, delimiter, after, page_len);
                check(&mut wire, true, prefix, delimiter, after, page_len);
            }
        }
    }
}

#[test]
fn names_are_encoded_as_s3_does_and_only_when_asked() {
    let server = start();
    server.store().put("bucket", "a b/é+*~_-.%", "");
    let mut wire = Wire::open(&server);
    let plain = wire.ask("GET /bucket?list-type=2&prefix=a%20", &[], b"");
    assert_eq!(
        (plain.element("Key"), plain.element("Prefix")),
        ("a b/é+*~_-.%".to_owned(), "a ".to_owned())
    );
    let encoded = wire.ask(
        "GET /bucket?list-type=2&prefix=a%20&encoding-type=url&start-after=a%20",
        &[],
        b"",
    );
    assert_eq!(encoded.element("Key"), "a+b/%C3%A9%2B*%7E_-.%25");
    assert_eq!(
        (encoded.element("Prefix"), encoded.element("StartAfter")),
        ("a+".to_owned(), "a+".to_owned())
    );
    assert_eq!(encoded.element("EncodingType"), "url");
    assert_eq!(encoded.element("Size"), "0");
    assert_eq!(
        encoded.element("ETag"),
        "\"d41d8cd98f00b204e9800998ecf8427e\""
    );
}

#[test]
fn wrong_parameters_are_refused() {
    let server = start();
    let mut wire = Wire::open(&server);
    for query in [
        "max-keys=-1",
        "encoding-type=xml",
        "continuation-token=nonsense%20",
        "continuation-token=eHg",
    ] {
        let answer = wire.ask(&format!("GET /bucket?list-type=2&{query}"), &[], b"");
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "InvalidArgument"),
            "{query}"
        );
    }
    let answer = wire.ask("GET /bucket?list-type=2&max-keys=2000", &[], b"");
    assert_eq!(answer.element("MaxKeys"), "1000");
    assert_eq!(
        wire.ask("GET /nowhere?list-type=2", &[], b"").code(),
        "NoSuchBucket"
    );
}
