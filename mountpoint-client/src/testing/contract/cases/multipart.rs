//! Multipart uploads that work.

use std::sync::LazyLock;

use bytes::Bytes;

use super::super::bucket::{ensure, refused, same};
use super::super::{Bucket, Capability, Case, Failure};
use super::put::{crc32c, crc64nvme};
use crate::ErrorKind;
use crate::testing::sim::pattern_bytes;
use crate::types::{
    Checksum, ChecksumAlgorithm, CopySource, ObjectHeaders, PartNumber, PutCondition, Upload,
};

pub(super) const CASES: &[Case] = &[
    Case::new("upload_three_parts", upload_three_parts),
    Case::new("upload_one_small_part", upload_one_small_part),
    Case::new("upload_parts_in_any_order", upload_parts_in_any_order),
    Case::new("upload_parts_in_parallel", upload_parts_in_parallel),
    Case::new("upload_numbers_with_gaps", upload_numbers_with_gaps),
    Case::new("upload_some_of_the_parts", upload_some_of_the_parts),
    Case::new("upload_replaces_part", upload_replaces_part),
    Case::new("upload_replaces_object", upload_replaces_object),
    Case::new(
        "upload_is_invisible_before_complete",
        upload_is_invisible_before_complete,
    ),
    Case::new("upload_two_of_one_key", upload_two_of_one_key),
    Case::new("upload_headers", upload_headers),
    Case::new("upload_crc32c", |bucket| {
        checksums(bucket, ChecksumAlgorithm::Crc32c, crc32c)
    })
    .needs(&[Capability::PartChecksums, Capability::Crc32c]),
    Case::new("upload_crc64nvme", |bucket| {
        checksums(bucket, ChecksumAlgorithm::Crc64Nvme, crc64nvme)
    })
    .needs(&[Capability::PartChecksums, Capability::Crc64Nvme]),
    Case::new("upload_copies_parts", upload_copies_parts).needs(&[Capability::CopyPart]),
    Case::new("list_parts", list_parts),
    Case::new(
        "list_parts_of_what_is_complete",
        list_parts_of_what_is_complete,
    ),
    Case::new("list_uploads", list_uploads).needs(&[Capability::ListUploads]),
    Case::new("abort_upload", abort_upload),
];

/// The smallest part that is not the last: 5 MiB.
pub(super) static PART: LazyLock<Bytes> =
    LazyLock::new(|| Bytes::from(pattern_bytes(77, 0..5 << 20)));

fn upload_three_parts(bucket: &Bucket) -> Result<(), Failure> {
    let upload = bucket.create_upload("object")?;
    let mut parts = Vec::new();
    for (number, bytes) in [
        (1, PART.clone()),
        (2, PART.clone()),
        (3, Bytes::from("the end")),
    ] {
        parts.push(bucket.put_part(&upload, number, bytes)?);
    }
    let put = bucket.complete(&upload, &parts, PutCondition::None)?;
    bucket.holds("object", &[&PART[..], &PART, b"the end"].concat())?;
    ensure(
        bucket.head("object")??.etag.matches(&put.etag),
        "HEAD tells another ETag",
    )
}

fn upload_one_small_part(bucket: &Bucket) -> Result<(), Failure> {
    let upload = bucket.create_upload("object")?;
    let part = bucket.put_part(&upload, 1, "x")?;
    bucket.complete(&upload, &[part], PutCondition::None)?;
    bucket.holds("object", b"x")
}

fn upload_parts_in_any_order(bucket: &Bucket) -> Result<(), Failure> {
    let upload = bucket.create_upload("object")?;
    let third = bucket.put_part(&upload, 3, "3")?;
    let first = bucket.put_part(&upload, 1, PART.clone())?;
    let second = bucket.put_part(&upload, 2, PART.slice(..PART.len()))?;
    bucket.complete(&upload, &[first, second, third], PutCondition::None)?;
    bucket.holds("object", &[&PART[..], &PART, b"3"].concat())
}

fn upload_parts_in_parallel(bucket: &Bucket) -> Result<(), Failure> {
    let upload = bucket.create_upload("object")?;
    let pending: Vec<_> = (1..=4)
        .map(|number| {
            bucket
                .client
                .put_part(&upload, PartNumber(number), PART.clone(), None)
        })
        .collect();
    let mut parts = Vec::new();
    for part in pending {
        parts.push(bucket.wait(part)?);
    }
    bucket.complete(&upload, &parts, PutCondition::None)?;
    bucket.holds("object", &PART.repeat(4))
}

fn upload_numbers_with_gaps(bucket: &Bucket) -> Result<(), Failure> {
    let upload = bucket.create_upload("object")?;
    let first = bucket.put_part(&upload, 5, PART.clone())?;
    let last = bucket.put_part(&upload, 10_000, "last")?;
    bucket.complete(&upload, &[first, last], PutCondition::None)?;
    bucket.holds("object", &[&PART[..], b"last"].concat())
}

fn upload_some_of_the_parts(bucket: &Bucket) -> Result<(), Failure> {
    let upload = bucket.create_upload("object")?;
    bucket.put_part(&upload, 1, "left out")?;
    let second = bucket.put_part(&upload, 2, "taken")?;
    bucket.complete(&upload, &[second], PutCondition::None)?;
    bucket.holds("object", b"taken")
}

fn upload_replaces_part(bucket: &Bucket) -> Result<(), Failure> {
    let upload = bucket.create_upload("object")?;
    bucket.put_part(&upload, 1, "first try")?;
    let part = bucket.put_part(&upload, 1, "second try")?;
    bucket.complete(&upload, &[part], PutCondition::None)?;
    bucket.holds("object", b"second try")
}

fn upload_replaces_object(bucket: &Bucket) -> Result<(), Failure> {
    bucket.put("object", "old")?;
    let upload = bucket.create_upload("object")?;
    let part = bucket.put_part(&upload, 1, "new")?;
    bucket.holds("object", b"old")?;
    bucket.complete(&upload, &[part], PutCondition::None)?;
    bucket.holds("object", b"new")
}

fn upload_is_invisible_before_complete(bucket: &Bucket) -> Result<(), Failure> {
    let upload = bucket.create_upload("object")?;
    bucket.put_part(&upload, 1, "bytes")?;
    bucket.is_gone("object")?;
    same("keys", bucket.list("", None, None)?.keys, vec![])?;
    Ok(bucket.wait(bucket.client.abort_upload(&upload))?)
}

fn upload_two_of_one_key(bucket: &Bucket) -> Result<(), Failure> {
    let first = bucket.create_upload("object")?;
    let second = bucket.create_upload("object")?;
    ensure(
        first.upload_id != second.upload_id,
        "two uploads with one name",
    )?;
    let of_first = bucket.put_part(&first, 1, "first")?;
    let of_second = bucket.put_part(&second, 1, "second")?;
    bucket.complete(&second, &[of_second], PutCondition::None)?;
    bucket.holds("object", b"second")?;
    bucket.complete(&first, &[of_first], PutCondition::None)?;
    bucket.holds("object", b"first")
}

fn upload_headers(bucket: &Bucket) -> Result<(), Failure> {
    let headers = ObjectHeaders {
        content_type: Some("text/plain".to_owned()),
        storage_class: Some("STANDARD".to_owned()),
        metadata: vec![("owner".to_owned(), "nobody".to_owned())],
        ..ObjectHeaders::default()
    };
    let key = bucket.key("object")?;
    let upload = bucket.wait(bucket.client.create_upload(&key, headers, None))?;
    let part = bucket.put_part(&upload, 1, "bytes")?;
    bucket.complete(&upload, &[part], PutCondition::None)?;
    bucket.holds("object", b"bytes")
}

/// Right checksums are taken and a wrong one is refused.
fn checksums(
    bucket: &Bucket,
    algorithm: ChecksumAlgorithm,
    sum: fn(&[u8]) -> Checksum,
) -> Result<(), Failure> {
    let key = bucket.key("object")?;
    let headers = ObjectHeaders::default();
    let upload = bucket.wait(bucket.client.create_upload(&key, headers, Some(algorithm)))?;
    let put = |number, bytes: Bytes, sum| {
        bucket.wait(
            bucket
                .client
                .put_part(&upload, PartNumber(number), bytes, Some(sum)),
        )
    };
    let wrong = put(1, PART.clone(), sum(b"other bytes"));
    refused(wrong, &[ErrorKind::InvalidRequest])?;
    let first = put(1, PART.clone(), sum(&PART))?;
    let second = put(2, Bytes::from("the end"), sum(b"the end"))?;
    bucket.complete(&upload, &[first, second], PutCondition::None)?;
    bucket.holds("object", &[&PART[..], b"the end"].concat())
}

fn upload_copies_parts(bucket: &Bucket) -> Result<(), Failure> {
    let bytes = pattern_bytes(5, 0..(5 << 20) + 1000);
    let etag = bucket.put("source", bytes.clone())?;
    let upload = bucket.create_upload("object")?;
    let source = CopySource {
        key: bucket.key("source")?,
        if_match: Some(etag),
    };
    let copy = |number, range| {
        let source = source.clone();
        bucket.wait(
            bucket
                .client
                .copy_part(&upload, PartNumber(number), source, range),
        )
    };
    let first = copy(1, 500..(5 << 20) + 500)?;
    let second = copy(2, 10..20)?;
    bucket.complete(&upload, &[first, second], PutCondition::None)?;
    bucket.holds(
        "object",
        &[&bytes[500..(5 << 20) + 500], &bytes[10..20]].concat(),
    )
}

fn list_parts(bucket: &Bucket) -> Result<(), Failure> {
    let upload = bucket.create_upload("object")?;
    let parts = |upload: &Upload| bucket.wait(bucket.client.list_parts(upload));
    same("parts", parts(&upload)?, vec![])?;
    let mut put = Vec::new();
    for number in [7, 2, 1, 30] {
        put.push(bucket.put_part(&upload, number, vec![b'x'; usize::from(number)])?);
    }
    put.sort_by_key(|part| part.number);
    let listed = parts(&upload)?;
    let numbers: Vec<u16> = listed.iter().map(|part| part.number.0).collect();
    same("numbers", numbers, vec![1, 2, 7, 30])?;
    for (listed, put) in listed.iter().zip(&put) {
        same("size", listed.size, u64::from(put.number.0))?;
        ensure(
            listed.etag.matches(&put.etag),
            "another ETag than the upload told",
        )?;
    }
    Ok(bucket.wait(bucket.client.abort_upload(&upload))?)
}

/// How it is told that an upload was completed whose answer was lost: some servers let it be
/// aborted all the same.
fn list_parts_of_what_is_complete(bucket: &Bucket) -> Result<(), Failure> {
    let upload = bucket.create_upload("object")?;
    let part = bucket.put_part(&upload, 1, "bytes")?;
    bucket.complete(&upload, &[part], PutCondition::None)?;
    let gone = [ErrorKind::NoSuchUpload];
    refused(bucket.wait(bucket.client.list_parts(&upload)), &gone)
}

fn list_uploads(bucket: &Bucket) -> Result<(), Failure> {
    let mut uploads = Vec::new();
    for name in ["a/2", "a/1", "a/1", "b/1", "a"] {
        uploads.push(bucket.create_upload(name)?);
    }
    for (prefix, expected) in [("a/", &[0, 1, 2][..]), ("b/", &[3]), ("c/", &[])] {
        let prefix = format!("{}{prefix}", bucket.prefix);
        let listed = bucket.wait(bucket.client.list_uploads(&prefix))?;
        same("uploads", listed.len(), expected.len())?;
        let is_listed = |at: &usize| listed.contains(&uploads[*at]);
        ensure(
            expected.iter().all(is_listed),
            format!("{listed:?} of {uploads:?}"),
        )?;
    }
    for upload in &uploads {
        bucket.wait(bucket.client.abort_upload(upload))?;
    }
    let left = bucket.wait(bucket.client.list_uploads(&bucket.prefix))?;
    same("uploads after abort", left, vec![])
}

fn abort_upload(bucket: &Bucket) -> Result<(), Failure> {
    let upload = bucket.create_upload("object")?;
    let part = bucket.put_part(&upload, 1, "bytes")?;
    bucket.wait(bucket.client.abort_upload(&upload))?;
    let gone = [ErrorKind::NoSuchUpload];
    refused(bucket.put_part(&upload, 2, "bytes"), &gone)?;
    refused(bucket.complete(&upload, &[part], PutCondition::None), &gone)?;
    refused(bucket.wait(bucket.client.list_parts(&upload)), &gone)?;
    bucket.is_gone("object")
}
