//! CopyObject and RenameObject.

use super::super::bucket::{ensure, refused, same};
use super::super::{Bucket, Capability, Case, Failure};
use crate::ErrorKind;
use crate::testing::sim::pattern_bytes;
use crate::types::{CopyHeaders, CopySource, ObjectHeaders, PutCondition};

pub(super) const CASES: &[Case] = &[
    Case::new("copy_plain", copy_plain),
    Case::new("copy_empty", copy_empty),
    Case::new("copy_carries_on", copy_carries_on),
    Case::new("copy_with_new_headers", copy_with_new_headers)
        .needs(&[Capability::CopyDropsHeaders]),
    Case::new("copy_overwrites", copy_overwrites),
    Case::new("copy_odd_names", copy_odd_names),
    Case::new("copy_missing_source", copy_missing_source),
    Case::new("copy_source_version", copy_source_version).needs(&[Capability::CopySourceCondition]),
    Case::new("copy_if_absent", copy_if_absent).needs(&[Capability::CopyDestinationCondition]),
    Case::new("copy_if_match", copy_if_match).needs(&[Capability::CopyDestinationCondition]),
    Case::new("copy_to_itself", copy_to_itself).needs(&[Capability::CopyToItselfRefused]),
    Case::new("rename_moves", rename_moves).needs(&[Capability::Rename]),
    Case::new("rename_overwrites", rename_overwrites).needs(&[Capability::Rename]),
    Case::new("rename_if_absent", rename_if_absent).needs(&[Capability::Rename]),
    Case::new("rename_missing_source", rename_missing_source).needs(&[Capability::Rename]),
    Case::new("rename_refused_without_harm", rename_refused_without_harm).lacks(Capability::Rename),
    Case::new("create_session", |bucket| {
        Ok(bucket.wait(bucket.client.create_session())?)
    })
    .needs(&[Capability::Rename]),
];

fn copy_plain(bucket: &Bucket) -> Result<(), Failure> {
    let bytes = pattern_bytes(4, 0..1_000_003);
    bucket.put("source", bytes.clone())?;
    let copied = bucket.copy("source", None, "destination", PutCondition::None)??;
    bucket.holds("destination", &bytes)?;
    bucket.holds("source", &bytes)?;
    let info = bucket.head("destination")??;
    ensure(
        info.etag.matches(&copied.etag),
        "HEAD tells another ETag than the copy",
    )
}

/// Puts an object with headers and returns these.
fn put_with_headers(bucket: &Bucket, name: &str) -> Result<ObjectHeaders, Failure> {
    let mut request = bucket.put_request(name, "bytes")?;
    request.headers = ObjectHeaders {
        content_type: Some("text/plain".to_owned()),
        metadata: vec![("owner".to_owned(), "nobody".to_owned())],
        cache_control: Some("no-store".to_owned()),
        ..ObjectHeaders::default()
    };
    let sent = request.headers.clone();
    bucket.wait(bucket.client.put(request))?;
    Ok(sent)
}

/// The headers that HEAD tells, but for the storage class.
fn headers(bucket: &Bucket, name: &str) -> Result<ObjectHeaders, Failure> {
    let key = bucket.key(name)?;
    let details = bucket.wait(bucket.client.head_details(&key))?;
    Ok(ObjectHeaders {
        storage_class: None,
        ..details.headers
    })
}

fn copy_carries_on(bucket: &Bucket) -> Result<(), Failure> {
    let sent = put_with_headers(bucket, "source")?;
    bucket.copy("source", None, "destination", PutCondition::None)??;
    same("headers", headers(bucket, "destination")?, sent)
}

/// Also of an object that is copied onto itself.
fn copy_with_new_headers(bucket: &Bucket) -> Result<(), Failure> {
    put_with_headers(bucket, "source")?;
    let new = ObjectHeaders {
        content_type: Some("image/png".to_owned()),
        metadata: vec![("mode".to_owned(), "33188".to_owned())],
        ..ObjectHeaders::default()
    };
    for name in ["destination", "source"] {
        let source = CopySource {
            key: bucket.key("source")?,
            if_match: None,
        };
        let copied = bucket.client.copy(
            source,
            &bucket.key(name)?,
            PutCondition::None,
            CopyHeaders::New(new.clone()),
        );
        bucket.wait(copied)?;
        bucket.holds(name, b"bytes")?;
        same("new headers", headers(bucket, name)?, new.clone())?;
    }
    Ok(())
}

fn copy_empty(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("source", "")?;
    bucket.copy("source", None, "destination", PutCondition::None)??;
    bucket.holds("destination", b"")
}

fn copy_overwrites(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("source", "new")?;
    bucket.put("destination", "older")?;
    bucket.copy("source", None, "destination", PutCondition::None)??;
    bucket.holds("destination", b"new")
}

fn copy_odd_names(bucket: &Bucket) -> Result<(), Failure> {
    let names = ["a b", "a+b", "a%20b", "a?b", "a&b=c", "ä/日本", "😀", "a#b"];
    for name in names {
        bucket.put(name, name.as_bytes().to_vec())?;
        let destination = format!("copy of {name}");
        let copied = bucket.copy(name, None, &destination, PutCondition::None)?;
        copied.map_err(|error| Failure::new(format!("{name:?}: {error:?}")))?;
        bucket.holds(&destination, name.as_bytes())?;
    }
    Ok(())
}

fn copy_missing_source(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("destination", "bytes")?;
    let copied = bucket.copy("source", None, "destination", PutCondition::None)?;
    refused(copied, &[ErrorKind::NotFound])?;
    bucket.holds("destination", b"bytes")
}

fn copy_source_version(bucket: &Bucket) -> Result<(), Failure> {
    let stale = bucket.put("source", "first")?;
    bucket.put("source", "second")?;
    let copied = bucket.copy("source", Some(&stale), "destination", PutCondition::None)?;
    refused(copied, &[ErrorKind::PreconditionFailed])?;
    bucket.is_gone("destination")?;
    let current = bucket.head("source")??.etag;
    bucket.copy("source", Some(&current), "destination", PutCondition::None)??;
    bucket.holds("destination", b"second")
}

fn copy_if_absent(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("source", "new")?;
    bucket.put("taken", "old")?;
    let copied = bucket.copy("source", None, "taken", PutCondition::Absent)?;
    refused(copied, &[ErrorKind::PreconditionFailed])?;
    bucket.holds("taken", b"old")?;
    bucket.copy("source", None, "free", PutCondition::Absent)??;
    bucket.holds("free", b"new")
}

fn copy_if_match(bucket: &Bucket) -> Result<(), Failure> {
    let source = bucket.put("source", "new")?;
    bucket.put("destination", "old")?;
    let wrong = PutCondition::Match(source);
    let copied = bucket.copy("source", None, "destination", wrong)?;
    refused(copied, &[ErrorKind::PreconditionFailed])?;
    bucket.holds("destination", b"old")?;
    let right = PutCondition::Match(bucket.head("destination")??.etag);
    bucket.copy("source", None, "destination", right)??;
    bucket.holds("destination", b"new")
}

fn copy_to_itself(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("object", "bytes")?;
    let copied = bucket.copy("object", None, "object", PutCondition::None)?;
    refused(copied, &[ErrorKind::InvalidRequest])?;
    bucket.holds("object", b"bytes")
}

fn rename(
    bucket: &Bucket,
    condition: PutCondition,
) -> Result<Result<(), crate::ClientError>, Failure> {
    let (source, destination) = (bucket.key("source")?, bucket.key("destination")?);
    Ok(bucket.wait(bucket.client.rename(&source, &destination, condition)))
}

fn rename_moves(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("source", "bytes")?;
    rename(bucket, PutCondition::None)??;
    bucket.is_gone("source")?;
    bucket.holds("destination", b"bytes")
}

fn rename_overwrites(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("source", "new")?;
    bucket.put("destination", "old")?;
    rename(bucket, PutCondition::None)??;
    bucket.is_gone("source")?;
    bucket.holds("destination", b"new")
}

fn rename_if_absent(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("source", "new")?;
    bucket.put("destination", "old")?;
    refused(
        rename(bucket, PutCondition::Absent)?,
        &[ErrorKind::PreconditionFailed],
    )?;
    bucket.holds("source", b"new")?;
    bucket.holds("destination", b"old")
}

fn rename_missing_source(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("destination", "old")?;
    refused(rename(bucket, PutCondition::None)?, &[ErrorKind::NotFound])?;
    bucket.holds("destination", b"old")
}

/// The trap of `?renameObject`: a server that ignores it would empty the destination.
fn rename_refused_without_harm(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("source", "new")?;
    for exists in [false, true] {
        refused(
            rename(bucket, PutCondition::None)?,
            &[ErrorKind::Unsupported],
        )?;
        bucket.holds("source", b"new")?;
        if exists {
            bucket.holds("destination", b"old")?;
        } else {
            bucket.is_gone("destination")?;
            bucket.put("destination", "old")?;
        }
    }
    Ok(())
}
