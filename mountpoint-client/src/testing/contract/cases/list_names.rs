//! Listings of names that sort or roll up in surprising ways.

use super::super::bucket::same;
use super::super::{Bucket, Capability, Case, Failure};

const ODD: &[Capability] = &[
    Capability::EmptyComponents,
    Capability::TrailingSlash,
    Capability::ObjectAndPrefix,
];

pub(super) const CASES: &[Case] = &[
    Case::new("list_object_beside_prefix", |bucket| {
        check(
            bucket,
            &["a", "a/b", "a-b", "a.b", "a0"],
            "",
            &["a", "a-b", "a.b", "a0"],
            &["a/"],
        )
    })
    .needs(&[Capability::ObjectAndPrefix]),
    Case::new("list_directory_marker", |bucket| {
        check(bucket, &["a/", "a/b"], "a/", &["a/", "a/b"], &[])
    })
    .needs(&[Capability::TrailingSlash]),
    Case::new("list_directory_marker_from_above", |bucket| {
        check(bucket, &["a/", "a/b", "c/"], "", &[], &["a/", "c/"])
    })
    .needs(&[Capability::TrailingSlash]),
    Case::new("list_double_slash", |bucket| {
        check(bucket, &["a//b", "a/c"], "a/", &["a/c"], &["a//"])
    })
    .needs(ODD),
    Case::new("list_below_double_slash", |bucket| {
        check(
            bucket,
            &["a//b", "a/c", "a///d"],
            "a//",
            &["a//b"],
            &["a///"],
        )
    })
    .needs(ODD),
    Case::new("list_leading_slash", |bucket| {
        check(bucket, &["/a", "/b/c", "d"], "", &["d"], &["/"])
    })
    .needs(ODD),
    Case::new("list_dots", |bucket| {
        check(
            bucket,
            &["./a", "../b", "c/./d"],
            "",
            &[],
            &["./", "../", "c/"],
        )
    })
    .needs(&[Capability::DotComponents]),
    Case::new("list_prefix_with_spaces_and_percent", |bucket| {
        check(
            bucket,
            &["a b+c%20/d e", "a b+c%20/f/g", "a b+c /x"],
            "a b+c%20/",
            &["a b+c%20/d e"],
            &["a b+c%20/f/"],
        )
    }),
    Case::new("list_prefix_in_unicode", |bucket| {
        check(
            bucket,
            &["ä/ö", "ä/ü/x", "a\u{308}/y", "日本/語"],
            "ä/",
            &["ä/ö"],
            &["ä/ü/"],
        )
    }),
    Case::new("list_prefix_in_xml_characters", |bucket| {
        check(
            bucket,
            &["<&>/\"'", "<&>/a&b/c", "<"],
            "<&>/",
            &["<&>/\"'"],
            &["<&>/a&b/"],
        )
    }),
    Case::new("list_prefixes_that_sort_around_the_delimiter", |bucket| {
        check(
            bucket,
            &["a/x", "a!/x", "a0/x", "a-/x"],
            "",
            &[],
            &["a!/", "a-/", "a/", "a0/"],
        )
    }),
];

/// Lists `prefix` with `/`, in pages of several sizes.
fn check(
    bucket: &Bucket,
    names: &[&str],
    prefix: &str,
    keys: &[&str],
    prefixes: &[&str],
) -> Result<(), Failure> {
    bucket.put_many(names)?;
    for max_keys in [None, Some(1), Some(2)] {
        let listing = bucket.list(prefix, Some("/"), max_keys)?;
        same_sorted("keys", listing.keys, keys)?;
        same_sorted("prefixes", listing.prefixes, prefixes)?;
    }
    Ok(())
}

fn same_sorted(what: &str, mut got: Vec<String>, expected: &[&str]) -> Result<(), Failure> {
    got.sort_unstable();
    let mut expected: Vec<_> = expected.iter().map(|name| (*name).to_owned()).collect();
    expected.sort_unstable();
    same(what, got, expected)
}
