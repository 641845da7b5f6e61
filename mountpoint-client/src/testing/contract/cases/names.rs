//! Keys that are hard to send, to sign, to list or to store.

use super::super::bucket::{same, same_bytes};
use super::super::{Bucket, Capability, Case, Failure};
use crate::types::Key;

pub(super) const CASES: &[Case] = &[
    Case::new("name_spaces", |bucket| {
        round_trip(bucket, &[" ", "a b", " a", "a ", "a  b"])
    }),
    Case::new("name_unicode", |bucket| {
        round_trip(
            bucket,
            &["äöü", "日本語", "😀", "e\u{301}", "\u{e9}", "عربي", "ñ/ñ"],
        )
    }),
    Case::new("name_plus", |bucket| {
        round_trip(bucket, &["+", "a+b", "a b", "a%2Bb"])
    }),
    Case::new("name_percent", |bucket| {
        round_trip(bucket, &["%", "100%", "a%20b", "a%2Fb", "%%", "%zz"])
    }),
    Case::new("name_query_characters", |bucket| {
        round_trip(
            bucket,
            &[
                "a?b", "a#b", "a=b&c=d", "a;b", "a:b", "a@b", "a,b", "a$b", "a!b",
            ],
        )
    }),
    Case::new("name_xml_characters", |bucket| {
        round_trip(
            bucket,
            &["a&b", "a<b", "a>b", "a\"b", "a'b", "&amp;", "<a/>", "]]>"],
        )
    }),
    Case::new("name_brackets_and_slashes", |bucket| {
        round_trip(
            bucket,
            &[
                "a\\b", "{a}", "[a]", "a|b", "a^b", "a`b", "~a", "(a)", "*", "a*b",
            ],
        )
    }),
    Case::new("name_hidden", |bucket| {
        round_trip(bucket, &[".a", "..a", "a..", "...", "a/.b"])
    }),
    Case::new("name_dot_components", |bucket| {
        round_trip(bucket, &["./a", "a/./b", "a/../b", "../c", "a/.", "a/.."])
    })
    .needs(&[Capability::DotComponents]),
    Case::new("name_empty_components", |bucket| {
        round_trip(bucket, &["a//b", "/a", "//", "a///b"])
    })
    .needs(&[Capability::EmptyComponents, Capability::TrailingSlash]),
    Case::new("name_trailing_slash", |bucket| {
        round_trip(bucket, &["a/", "b/c/"])
    })
    .needs(&[Capability::TrailingSlash]),
    Case::new("name_object_and_prefix", |bucket| {
        round_trip(bucket, &["a", "a/b", "a/b/c"])
    })
    .needs(&[Capability::ObjectAndPrefix]),
    Case::new("name_control_characters", |bucket| {
        round_trip(
            bucket,
            &["a\tb", "a\nb", "a\rb", "a\u{1}b", "a\u{7f}b", "\u{b}"],
        )
    })
    .needs(&[Capability::ControlCharacters]),
    Case::new("name_255_bytes", |bucket| {
        round_trip(bucket, &[&"x".repeat(255)])
    }),
    Case::new("name_1024_bytes", |bucket| {
        round_trip(bucket, &[&"x".repeat(Key::LEN_MAX - bucket.prefix.len())])
    })
    .needs(&[Capability::LongComponents]),
    Case::new("name_1024_bytes_of_components", |bucket| {
        let name = format!("{}/", "é".repeat(50)).repeat(10);
        let len = Key::LEN_MAX - bucket.prefix.len();
        let mut end = len.min(name.len());
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        let name = format!("{}{}", &name[..end], "x".repeat(len - end));
        round_trip(bucket, &[&name])
    }),
    Case::new("name_case_matters", |bucket| {
        round_trip(bucket, &["a", "A", "aB", "Ab"])
    }),
];

/// Objects with these names are written, found, listed, read and deleted, and not mixed up.
fn round_trip(bucket: &Bucket, names: &[&str]) -> Result<(), Failure> {
    for name in names {
        let what = |failure: Failure| Failure::new(format!("{name:?}: {failure}"));
        bucket.put(name, format!("bytes of {name}")).map_err(what)?;
    }
    let mut expected: Vec<&str> = names.to_vec();
    expected.sort_unstable();
    let mut listed = bucket.list("", None, None)?.keys;
    listed.sort_unstable();
    same(
        "listed",
        listed.iter().map(String::as_str).collect(),
        expected.clone(),
    )?;
    let mut listed = bucket.list("", None, Some(1))?.keys;
    listed.sort_unstable();
    same(
        "listed one by one",
        listed.iter().map(String::as_str).collect(),
        expected,
    )?;
    for name in names {
        let what = |failure: Failure| Failure::new(format!("{name:?}: {failure}"));
        read_and_delete(bucket, name).map_err(what)?;
    }
    same(
        "listed at the end",
        bucket.list("", None, None)?.keys,
        vec![],
    )
}

fn read_and_delete(bucket: &Bucket, name: &str) -> Result<(), Failure> {
    let expected = format!("bytes of {name}");
    same("size", bucket.head(name)??.size, expected.len() as u64)?;
    same_bytes(
        &bucket.get_all(name, 0..expected.len() as u64)?.0,
        expected.as_bytes(),
    )?;
    bucket.delete(name, None)??;
    bucket.is_gone(name)
}
