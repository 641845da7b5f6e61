//! ListObjectsV2: pages, order, delimiters.

use super::super::bucket::{ensure, same};
use super::super::{Bucket, Capability, Case, Failure};
use crate::types::ListRequest;

pub(super) const CASES: &[Case] = &[
    Case::new("list_nothing", list_nothing),
    Case::new("list_in_byte_order", list_in_byte_order).needs(&[Capability::OrderedListing]),
    Case::new("list_without_delimiter", list_without_delimiter),
    Case::new("list_with_delimiter", list_with_delimiter),
    Case::new("list_nested", list_nested),
    Case::new("list_other_delimiter", list_other_delimiter).needs(&[Capability::AnyPrefix]),
    Case::new("list_partial_prefix", list_partial_prefix).needs(&[Capability::AnyPrefix]),
    Case::new("list_start_after", list_start_after).needs(&[Capability::StartAfter]),
    Case::new("list_pages_of_keys", |bucket| pages(bucket, None)),
    Case::new("list_pages_with_prefixes", |bucket| {
        pages(bucket, Some("/"))
    }),
    Case::new("list_counts_prefixes", list_counts_prefixes),
    Case::new("list_last_page_exactly_full", list_last_page_exactly_full),
    Case::new("list_start_after_with_pages", list_start_after_with_pages)
        .needs(&[Capability::StartAfter, Capability::OrderedListing]),
    Case::new("list_max_keys_0", list_max_keys_0).needs(&[Capability::MaxKeysZero]),
    Case::new("list_more_than_a_thousand", list_more_than_a_thousand),
    Case::new("list_sees_writes_at_once", list_sees_writes_at_once),
];

/// The names in the order of a listing: exactly, or sorted where a listing has no order.
fn same_names(bucket: &Bucket, got: &[String], expected: &[&str]) -> Result<(), Failure> {
    let mut got: Vec<&str> = got.iter().map(String::as_str).collect();
    if !bucket.capabilities.has(Capability::OrderedListing) {
        got.sort_unstable();
    }
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    same("names", got, expected)
}

fn list_nothing(bucket: &Bucket) -> Result<(), Failure> {
    for delimiter in [None, Some("/")] {
        let listing = bucket.list("", delimiter, None)?;
        same("keys", listing.keys, vec![])?;
        same("prefixes", listing.prefixes, vec![])?;
    }
    Ok(())
}

fn list_in_byte_order(bucket: &Bucket) -> Result<(), Failure> {
    let names = [
        "a", "B", "aa", "a b", "a-b", "a.b", "ä", "z", "0", "Z", "日本", "~", "a0", "😀",
        "\u{ff5e}",
    ];
    bucket.put_many(&names)?;
    same_names(bucket, &bucket.list("", None, None)?.keys, &names)?;
    same_names(bucket, &bucket.list("", None, Some(2))?.keys, &names)
}

fn list_without_delimiter(bucket: &Bucket) -> Result<(), Failure> {
    let names = ["a", "b/c", "b/d/e", "f"];
    bucket.put_many(&names)?;
    let listing = bucket.list("", None, None)?;
    same_names(bucket, &listing.keys, &names)?;
    same("prefixes", listing.prefixes, vec![])
}

fn list_with_delimiter(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put_many(&["a", "b/c", "b/d/e", "b/x", "f", "g/h"])?;
    let listing = bucket.list("", Some("/"), None)?;
    same_names(bucket, &listing.keys, &["a", "f"])?;
    same_names(bucket, &listing.prefixes, &["b/", "g/"])
}

fn list_nested(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put_many(&["a/b/c/d", "a/b/e", "a/f", "a/b-c/d", "ab/c"])?;
    for (prefix, keys, prefixes) in [
        ("a/", &["a/f"][..], &["a/b-c/", "a/b/"][..]),
        ("a/b/", &["a/b/e"], &["a/b/c/"]),
        ("a/b/c/", &["a/b/c/d"], &[]),
        ("a/b/c/d/", &[], &[]),
    ] {
        let listing = bucket.list(prefix, Some("/"), None)?;
        same_names(bucket, &listing.keys, keys)?;
        same_names(bucket, &listing.prefixes, prefixes)?;
    }
    Ok(())
}

fn list_other_delimiter(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put_many(&["a-b", "a-c", "d", "e--f"])?;
    let listing = bucket.list("", Some("-"), None)?;
    same_names(bucket, &listing.keys, &["d"])?;
    same_names(bucket, &listing.prefixes, &["a-", "e-"])
}

fn list_partial_prefix(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put_many(&["abc/d", "abd", "ab", "b", "abcd/e"])?;
    let listing = bucket.list("ab", Some("/"), None)?;
    same_names(bucket, &listing.keys, &["ab", "abd"])?;
    same_names(bucket, &listing.prefixes, &["abc/", "abcd/"])?;
    same_names(
        bucket,
        &bucket.list("abc", None, None)?.keys,
        &["abc/d", "abcd/e"],
    )
}

fn list_start_after(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put_many(&["a", "b", "c", "d"])?;
    for (after, expected) in [
        ("", &["a", "b", "c", "d"][..]),
        ("b", &["c", "d"]),
        ("bb", &["c", "d"]),
        ("d", &[]),
    ] {
        let start_after = Some(after.to_owned());
        let listing = bucket.list_all(ListRequest {
            start_after,
            ..ListRequest::default()
        })?;
        same_names(bucket, &listing.keys, expected)?;
    }
    Ok(())
}

/// Each entry once, whatever the size of a page.
fn pages(bucket: &Bucket, delimiter: Option<&str>) -> Result<(), Failure> {
    let mut names: Vec<String> = (0..12).map(|n| format!("key-{n:02}")).collect();
    names.extend((0..10).map(|n| format!("key-{:02}x/{n}", n / 3)));
    bucket.put_many(&names)?;
    let is_below = |name: &&str| name.contains('/');
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (below, flat): (Vec<_>, Vec<_>) = names.iter().copied().partition(is_below);
    for max_keys in [1, 2, 3, 7, 11, 12, 13, 16, 1000] {
        let listing = bucket.list("", delimiter, Some(max_keys))?;
        if delimiter.is_none() {
            same_names(bucket, &listing.keys, &names)?;
            continue;
        }
        let mut prefixes: Vec<_> = below
            .iter()
            .filter_map(|name| name.split_inclusive('/').next())
            .collect();
        prefixes.dedup();
        same_names(bucket, &listing.keys, &flat)?;
        same_names(bucket, &listing.prefixes, &prefixes)?;
    }
    Ok(())
}

fn list_counts_prefixes(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put_many(&["a/1", "a/2", "a/3", "b/1", "b/2", "c/1"])?;
    let page = bucket.wait(bucket.client.list(ListRequest {
        prefix: bucket.prefix.clone(),
        delimiter: Some("/".to_owned()),
        max_keys: Some(2),
        ..ListRequest::default()
    }))?;
    same("prefixes in a page of 2", page.common_prefixes.len(), 2)?;
    ensure(
        page.continuation_token.is_some(),
        "a third prefix is to come",
    )
}

fn list_last_page_exactly_full(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put_many(&["a", "b", "c", "d"])?;
    for max_keys in [2, 4] {
        let listing = bucket.list("", None, Some(max_keys))?;
        same_names(bucket, &listing.keys, &["a", "b", "c", "d"])?;
    }
    Ok(())
}

fn list_start_after_with_pages(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put_many(&["a", "b", "c", "d", "e", "f"])?;
    let listing = bucket.list_all(ListRequest {
        start_after: Some("b".to_owned()),
        max_keys: Some(2),
        ..ListRequest::default()
    })?;
    same_names(bucket, &listing.keys, &["c", "d", "e", "f"])
}

fn list_max_keys_0(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("object", "bytes")?;
    let listing = bucket.list("", None, Some(0))?;
    same("keys", listing.keys, vec![])
}

fn list_more_than_a_thousand(bucket: &Bucket) -> Result<(), Failure> {
    let names: Vec<String> = (0..1005).map(|n| format!("{n:04}")).collect();
    bucket.put_many(&names)?;
    let page = bucket.wait(bucket.client.list(ListRequest {
        prefix: bucket.prefix.clone(),
        ..ListRequest::default()
    }))?;
    same("keys of the first page", page.objects.len(), 1000)?;
    ensure(page.continuation_token.is_some(), "five more are to come")?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    same_names(bucket, &bucket.list("", None, None)?.keys, &names)
}

fn list_sees_writes_at_once(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("a", "bytes")?;
    same_names(bucket, &bucket.list("", None, None)?.keys, &["a"])?;
    bucket.put("b", "bytes")?;
    same_names(bucket, &bucket.list("", None, None)?.keys, &["a", "b"])?;
    bucket.delete("a", None)??;
    same_names(bucket, &bucket.list("", None, None)?.keys, &["b"])
}
