//! HeadObject and HeadBucket.

use std::time::{Duration, SystemTime};

use super::super::bucket::{ensure, same};
use super::super::{Bucket, Capability, Case, Failure};
use crate::types::ObjectHeaders;

pub(super) const CASES: &[Case] = &[
    Case::new("head_every_attribute", head_every_attribute),
    Case::new("head_of_empty_object", head_of_empty_object),
    Case::new("head_of_missing_key", |bucket| bucket.is_gone("object")),
    Case::new("head_follows_overwrite", head_follows_overwrite),
    Case::new("head_storage_class", head_storage_class).needs(&[Capability::StorageClasses]),
    Case::new("head_prefix_is_no_object", head_prefix_is_no_object),
    Case::new("head_bucket", |bucket| {
        Ok(bucket.wait(bucket.client.head_bucket()).map(drop)?)
    }),
];

fn head_every_attribute(bucket: &Bucket) -> Result<(), Failure> {
    let etag = bucket.put("object", "0123456789")?;
    let info = bucket.head("object")??;
    same("key", &info.key, &bucket.key("object")?)?;
    same("size", info.size, 10)?;
    ensure(info.etag.matches(&etag), "HEAD tells another ETag than PUT")?;
    let class = info.storage_class.as_deref().unwrap_or("STANDARD");
    same("class", class, "STANDARD")?;
    same("restored", info.restored, false)?;
    ensure(
        info.last_modified > SystemTime::UNIX_EPOCH,
        "no time of modification",
    )?;

    let listing = bucket.list("", None, None)?;
    let [listed] = &listing.objects[..] else {
        return Err(Failure::new(format!("listed: {listing:?}")));
    };
    same("listed size", listed.size, 10)?;
    ensure(
        listed.etag.matches(&etag),
        "the listing tells another ETag than PUT",
    )?;
    // HEAD tells whole seconds, a listing may tell more.
    let apart = listed
        .last_modified
        .duration_since(info.last_modified)
        .unwrap_or_default();
    let early = info
        .last_modified
        .duration_since(listed.last_modified)
        .unwrap_or_default();
    ensure(
        apart.max(early) < Duration::from_secs(1),
        "HEAD and listing tell different times",
    )
}

fn head_of_empty_object(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("object", "")?;
    same("size", bucket.head("object")??.size, 0)
}

fn head_follows_overwrite(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("object", "first")?;
    let first = bucket.head("object")??;
    let etag = bucket.put("object", "another")?;
    let second = bucket.head("object")??;
    same("size", second.size, 7)?;
    ensure(second.etag.matches(&etag), "not the new ETag")?;
    ensure(
        !second.etag.matches(&first.etag),
        "other bytes with the same ETag",
    )?;
    ensure(
        second.last_modified >= first.last_modified,
        "modified before it was written",
    )
}

fn head_storage_class(bucket: &Bucket) -> Result<(), Failure> {
    let class = Some("STANDARD_IA".to_owned());
    let headers = ObjectHeaders {
        storage_class: class.clone(),
        ..ObjectHeaders::default()
    };
    let mut request = bucket.put_request("object", "bytes")?;
    request.headers = headers;
    bucket.wait(bucket.client.put(request))?;
    same(
        "class",
        bucket.head("object")??.storage_class,
        class.clone(),
    )?;
    same(
        "listed class",
        bucket.list("", None, None)?.objects[0]
            .storage_class
            .clone(),
        class,
    )
}

fn head_prefix_is_no_object(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("directory/object", "bytes")?;
    bucket.is_gone("directory")?;
    bucket.is_gone("directory/")
}
