//! Multipart uploads that S3 refuses to complete: nothing has changed afterwards.

use super::super::bucket::refused;
use super::super::{Bucket, Capability, Case, Failure};
use super::multipart::PART;
use crate::ErrorKind;
use crate::types::{CopySource, Part, PartNumber, PutCondition, Upload};

pub(super) const CASES: &[Case] = &[
    Case::new("complete_with_missing_part", complete_with_missing_part),
    Case::new("complete_with_small_part", complete_with_small_part)
        .needs(&[Capability::SmallPartsRefused]),
    Case::new("complete_in_wrong_order", complete_in_wrong_order)
        .needs(&[Capability::PartListChecked]),
    Case::new("complete_with_replaced_part", complete_with_replaced_part)
        .needs(&[Capability::PartListChecked]),
    Case::new("complete_with_no_parts", complete_with_no_parts),
    Case::new("complete_unknown_upload", complete_unknown_upload),
    Case::new("complete_if_absent", complete_if_absent).needs(&[Capability::ConditionalComplete]),
    Case::new("complete_if_match", complete_if_match).needs(&[Capability::ConditionalComplete]),
    Case::new("part_number_out_of_range", part_number_out_of_range),
    Case::new("copy_part_of_missing_source", copy_part_of_missing_source)
        .needs(&[Capability::CopyPart]),
    Case::new("copy_part_of_other_version", copy_part_of_other_version)
        .needs(&[Capability::CopyPart, Capability::CopySourceCondition]),
];

/// The upload cannot be completed so, the old object is still there, and the upload can be aborted.
fn is_refused(
    bucket: &Bucket,
    upload: &Upload,
    parts: &[Part],
    condition: PutCondition,
    kinds: &[ErrorKind],
) -> Result<(), Failure> {
    refused(bucket.complete(upload, parts, condition), kinds)?;
    bucket.holds("object", b"old")?;
    Ok(bucket.wait(bucket.client.abort_upload(upload))?)
}

/// An upload over an object that exists.
fn begin(bucket: &Bucket) -> Result<Upload, Failure> {
    bucket.put("object", "old")?;
    bucket.create_upload("object")
}

const INVALID: &[ErrorKind] = &[ErrorKind::InvalidRequest];

fn complete_with_missing_part(bucket: &Bucket) -> Result<(), Failure> {
    let upload = begin(bucket)?;
    let first = bucket.put_part(&upload, 1, PART.clone())?;
    let missing = Part {
        number: PartNumber(2),
        ..first.clone()
    };
    is_refused(
        bucket,
        &upload,
        &[first, missing],
        PutCondition::None,
        INVALID,
    )
}

fn complete_with_small_part(bucket: &Bucket) -> Result<(), Failure> {
    let upload = begin(bucket)?;
    let first = bucket.put_part(&upload, 1, PART.slice(1..))?;
    let second = bucket.put_part(&upload, 2, "the end")?;
    is_refused(
        bucket,
        &upload,
        &[first, second],
        PutCondition::None,
        INVALID,
    )
}

fn complete_in_wrong_order(bucket: &Bucket) -> Result<(), Failure> {
    let upload = begin(bucket)?;
    let first = bucket.put_part(&upload, 1, PART.clone())?;
    let second = bucket.put_part(&upload, 2, PART.clone())?;
    is_refused(
        bucket,
        &upload,
        &[second, first],
        PutCondition::None,
        INVALID,
    )
}

fn complete_with_replaced_part(bucket: &Bucket) -> Result<(), Failure> {
    let upload = begin(bucket)?;
    let stale = bucket.put_part(&upload, 1, "first try")?;
    bucket.put_part(&upload, 1, "second try")?;
    is_refused(bucket, &upload, &[stale], PutCondition::None, INVALID)
}

fn complete_with_no_parts(bucket: &Bucket) -> Result<(), Failure> {
    let upload = begin(bucket)?;
    is_refused(bucket, &upload, &[], PutCondition::None, INVALID)
}

fn complete_unknown_upload(bucket: &Bucket) -> Result<(), Failure> {
    let upload = bucket.create_upload("object")?;
    let part = bucket.put_part(&upload, 1, "bytes")?;
    bucket.wait(bucket.client.abort_upload(&upload))?;
    refused(
        bucket.complete(&upload, &[part], PutCondition::None),
        &[ErrorKind::NoSuchUpload],
    )?;
    bucket.is_gone("object")
}

fn complete_if_absent(bucket: &Bucket) -> Result<(), Failure> {
    let upload = begin(bucket)?;
    let part = bucket.put_part(&upload, 1, "new")?;
    let kinds = [ErrorKind::PreconditionFailed];
    is_refused(bucket, &upload, &[part], PutCondition::Absent, &kinds)?;

    bucket.delete("object", None)??;
    let upload = bucket.create_upload("object")?;
    let part = bucket.put_part(&upload, 1, "new")?;
    bucket.complete(&upload, &[part], PutCondition::Absent)?;
    bucket.holds("object", b"new")
}

fn complete_if_match(bucket: &Bucket) -> Result<(), Failure> {
    let upload = begin(bucket)?;
    let other = bucket.put("elsewhere", "other")?;
    let part = bucket.put_part(&upload, 1, "new")?;
    let kinds = [ErrorKind::PreconditionFailed];
    is_refused(bucket, &upload, &[part], PutCondition::Match(other), &kinds)?;

    let current = bucket.head("object")??.etag;
    let upload = bucket.create_upload("object")?;
    let part = bucket.put_part(&upload, 1, "new")?;
    bucket.complete(&upload, &[part], PutCondition::Match(current))?;
    bucket.holds("object", b"new")
}

fn part_number_out_of_range(bucket: &Bucket) -> Result<(), Failure> {
    let upload = bucket.create_upload("object")?;
    for number in [0, 10_001] {
        refused(bucket.put_part(&upload, number, "bytes"), INVALID)?;
    }
    Ok(bucket.wait(bucket.client.abort_upload(&upload))?)
}

fn copy_part(bucket: &Bucket, source: CopySource, kinds: &[ErrorKind]) -> Result<(), Failure> {
    let upload = bucket.create_upload("object")?;
    refused(
        bucket.wait(
            bucket
                .client
                .copy_part(&upload, PartNumber(1), source, 0..3),
        ),
        kinds,
    )?;
    Ok(bucket.wait(bucket.client.abort_upload(&upload))?)
}

fn copy_part_of_missing_source(bucket: &Bucket) -> Result<(), Failure> {
    let source = CopySource {
        key: bucket.key("source")?,
        if_match: None,
    };
    copy_part(bucket, source, &[ErrorKind::NotFound])
}

fn copy_part_of_other_version(bucket: &Bucket) -> Result<(), Failure> {
    let stale = bucket.put("source", "first")?;
    bucket.put("source", "second")?;
    let source = CopySource {
        key: bucket.key("source")?,
        if_match: Some(stale),
    };
    copy_part(bucket, source, &[ErrorKind::PreconditionFailed])
}
