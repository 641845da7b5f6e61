//! DeleteObject and DeleteObjects.

use super::super::bucket::{refused, same};
use super::super::{Bucket, Capability, Case, Failure};
use crate::ErrorKind;

pub(super) const CASES: &[Case] = &[
    Case::new("delete_existing", delete_existing),
    Case::new("delete_missing", |bucket| {
        Ok(bucket.delete("object", None)??)
    }),
    Case::new("delete_leaves_others", delete_leaves_others),
    Case::new("delete_if_match", delete_if_match).needs(&[Capability::ConditionalDelete]),
    Case::new("delete_many", delete_many),
    Case::new("delete_many_missing", delete_many_missing),
    Case::new("delete_many_versions", delete_many_versions),
    Case::new("delete_many_odd_names", delete_many_odd_names),
    Case::new(
        "delete_many_control_characters",
        delete_many_control_characters,
    ),
    Case::new("delete_a_thousand", delete_a_thousand),
];

fn delete_existing(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("object", "bytes")?;
    bucket.delete("object", None)??;
    bucket.is_gone("object")?;
    bucket.put("object", "again")?;
    bucket.holds("object", b"again")
}

fn delete_leaves_others(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put_many(&["a/b", "a/c", "a/bc", "d"])?;
    bucket.delete("a/b", None)??;
    bucket.delete("a", None)??;
    let mut keys = bucket.list("", None, None)?.keys;
    keys.sort();
    same(
        "keys",
        keys,
        ["a/bc", "a/c", "d"].map(str::to_owned).to_vec(),
    )
}

fn delete_if_match(bucket: &Bucket) -> Result<(), Failure> {
    let stale = bucket.put("object", "first")?;
    bucket.put("object", "second")?;
    refused(
        bucket.delete("object", Some(&stale))?,
        &[ErrorKind::PreconditionFailed],
    )?;
    bucket.holds("object", b"second")?;
    let current = bucket.head("object")??.etag;
    bucket.delete("object", Some(&current))??;
    bucket.is_gone("object")
}

/// Deletes `names` in one request, which must report no failure.
fn delete_all(bucket: &Bucket, names: &[&str]) -> Result<(), Failure> {
    let keys = names
        .iter()
        .map(|name| Ok((bucket.key(name)?, None)))
        .collect::<Result<Vec<_>, Failure>>()?;
    let failures = bucket.wait(bucket.client.delete_many(keys))?;
    match failures.first() {
        None => Ok(()),
        Some(failure) => Err(Failure::new(format!("{failure:?}"))),
    }
}

fn delete_many(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put_many(&["a", "b", "c/d", "e"])?;
    delete_all(bucket, &["a", "c/d", "e"])?;
    same(
        "keys",
        bucket.list("", None, None)?.keys,
        vec!["b".to_owned()],
    )
}

fn delete_many_missing(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put_many(&["a", "b"])?;
    delete_all(bucket, &["a", "missing", "b", "missing/too"])?;
    same("keys", bucket.list("", None, None)?.keys, vec![])
}

/// Deletes each object in the version that it is. Of another version a server deletes nothing and
/// says so, or takes no notice.
fn delete_many_versions(bucket: &Bucket) -> Result<(), Failure> {
    let stale = bucket.put("a", "first")?;
    bucket.put("a", "second")?;
    let current = bucket.put("b", "bytes")?;
    let objects = vec![
        (bucket.key("a")?, Some(stale)),
        (bucket.key("b")?, Some(current.clone())),
        (bucket.key("missing")?, Some(current.clone())),
    ];
    let failures = bucket.wait(bucket.client.delete_many(objects))?;
    bucket.is_gone("b")?;
    let left = failures.iter().filter(|it| it.key.as_str().ends_with('a'));
    match left.map(|failure| &failure.error.kind).next() {
        Some(ErrorKind::PreconditionFailed) => bucket.holds("a", b"second"),
        Some(kind) => Err(Failure::new(format!("{kind:?}"))),
        None => bucket.is_gone("a"),
    }
}

fn delete_many_odd_names(bucket: &Bucket) -> Result<(), Failure> {
    let names = ["a b", "a+b", "a%20b", "<&>\"'", "ä", "日本/語", "😀"];
    bucket.put_many(&names)?;
    delete_all(bucket, &names)?;
    same("keys", bucket.list("", None, None)?.keys, vec![])
}

/// XML, in which the keys are sent, has no control characters but three.
fn delete_many_control_characters(bucket: &Bucket) -> Result<(), Failure> {
    let names = ["a", "b\nc", "d\te", "f\rg", "h\u{1}i", "j\u{1b}k"];
    bucket.put_many(&names)?;
    delete_all(bucket, &names)?;
    for name in names {
        bucket.is_gone(name)?;
    }
    Ok(())
}

fn delete_a_thousand(bucket: &Bucket) -> Result<(), Failure> {
    let names: Vec<String> = (0..1000).map(|n| format!("{n:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // One in fifty exists: what counts is the size of the request.
    let existing: Vec<&str> = names.iter().copied().step_by(50).collect();
    bucket.put_many(&existing)?;
    bucket.put("kept", "bytes")?;
    delete_all(bucket, &names)?;
    same(
        "keys",
        bucket.list("", None, None)?.keys,
        vec!["kept".to_owned()],
    )
}
