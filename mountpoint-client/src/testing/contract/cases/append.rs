//! PutObject behind the end of an object.

use crc_fast::CrcAlgorithm;

use super::super::bucket::{ensure, refused, same};
use super::super::{Bucket, Capability, Case, Failure};
use super::put::{crc32c, crc64nvme};
use crate::testing::sim::pattern_bytes;
use crate::types::{
    AppendRequest, Checksum, ChecksumAlgorithm, ETag, PutOutput, PutRequest, StoredChecksum,
};
use crate::{ClientError, ErrorKind};

pub(super) const CASES: &[Case] = &[
    Case::new("append", append).needs(&[Capability::Append]),
    Case::new("append_keeps_headers", append_keeps_headers).needs(&[Capability::Append]),
    Case::new("append_to_another_version", append_to_another_version).needs(&[Capability::Append]),
    Case::new("append_at_another_offset", append_at_another_offset).needs(&[Capability::Append]),
    Case::new("append_to_nothing", append_to_nothing).needs(&[Capability::Append]),
    Case::new("append_of_nothing", append_of_nothing).needs(&[Capability::Append]),
    Case::new("append_right_checksum", append_right_checksum).needs(&[Capability::Append]),
    Case::new("append_wrong_checksum", append_wrong_checksum).needs(&[Capability::Append]),
    Case::new("append_other_checksum", append_other_checksum).needs(&[Capability::Append]),
    Case::new("append_refused_without_harm", append_refused_without_harm).lacks(Capability::Append),
];

type Answer = Result<Result<PutOutput, ClientError>, Failure>;

fn append_with(
    bucket: &Bucket,
    (offset, version): (u64, &ETag),
    bytes: &[u8],
    checksum: Option<Checksum>,
) -> Answer {
    let request = AppendRequest {
        key: bucket.key("object")?,
        offset,
        if_match: version.clone(),
        body: bytes.to_vec().into(),
        checksum,
    };
    Ok(bucket.wait(bucket.client.append(request)))
}

fn append_at(bucket: &Bucket, at: (u64, &ETag), bytes: &[u8]) -> Answer {
    append_with(bucket, at, bytes, None)
}

/// An object with the checksum.
fn put(bucket: &Bucket, bytes: &[u8], checksum: Option<Checksum>) -> Result<ETag, Failure> {
    let request = PutRequest {
        checksum,
        ..bucket.put_request("object", bytes.to_vec())?
    };
    Ok(bucket.wait(bucket.client.put(request))?.etag)
}

fn append(bucket: &Bucket) -> Result<(), Failure> {
    let whole = pattern_bytes(7, 0..3_000_000);
    let mut etag = bucket.put("object", whole[..10].to_vec())?;
    let mut at = 10;
    for len in [1, 4096, 65_537, 2_000_000] {
        let output = append_at(bucket, (at as u64, &etag), &whole[at..at + len])??;
        at += len;
        ensure(!output.etag.matches(&etag), "the version has not changed")?;
        etag = output.etag;
        bucket.holds("object", &whole[..at])?;
        let found = bucket.head("object")??.etag;
        ensure(found.matches(&etag), "HEAD tells another ETag than PUT")?;
    }
    Ok(())
}

fn append_keeps_headers(bucket: &Bucket) -> Result<(), Failure> {
    let mut request = bucket.put_request("object", "one ")?;
    request.headers.content_type = Some("text/plain".to_owned());
    request.headers.metadata = vec![("colour".to_owned(), "red".to_owned())];
    let etag = bucket.wait(bucket.client.put(request))?.etag;
    append_at(bucket, (4, &etag), b"two")??;
    bucket.holds("object", b"one two")?;
    let key = bucket.key("object")?;
    let headers = bucket.wait(bucket.client.head_details(&key))?.headers;
    same(
        "content type",
        headers.content_type.as_deref(),
        Some("text/plain"),
    )?;
    let red = vec![("colour".to_owned(), "red".to_owned())];
    same("metadata", headers.metadata, red)
}

fn append_to_another_version(bucket: &Bucket) -> Result<(), Failure> {
    let old = bucket.put("object", "1234")?;
    bucket.put("object", "abcd")?;
    let answer = append_at(bucket, (4, &old), b"5")?;
    refused(answer, &[ErrorKind::PreconditionFailed])?;
    bucket.holds("object", b"abcd")
}

fn append_at_another_offset(bucket: &Bucket) -> Result<(), Failure> {
    let etag = bucket.put("object", "1234")?;
    for offset in [0, 3, 5, 1 << 40] {
        let answer = append_at(bucket, (offset, &etag), b"5")?;
        refused(answer, &[ErrorKind::PreconditionFailed])?;
        bucket.holds("object", b"1234")?;
    }
    Ok(())
}

fn append_to_nothing(bucket: &Bucket) -> Result<(), Failure> {
    let etag = bucket.put("object", "1234")?;
    bucket.delete("object", None)??;
    refused(append_at(bucket, (4, &etag), b"5")?, &[ErrorKind::NotFound])?;
    bucket.is_gone("object")
}

fn append_of_nothing(bucket: &Bucket) -> Result<(), Failure> {
    let etag = bucket.put("object", "1234")?;
    let answer = append_at(bucket, (4, &etag), b"")?;
    refused(answer, &[ErrorKind::InvalidRequest])?;
    bucket.holds("object", b"1234")
}

fn append_right_checksum(bucket: &Bucket) -> Result<(), Failure> {
    for (of, algorithm) in [
        (crc32c as fn(&[u8]) -> Checksum, ChecksumAlgorithm::Crc32c),
        (crc64nvme, ChecksumAlgorithm::Crc64Nvme),
    ] {
        let etag = put(bucket, b"one ", Some(of(b"one ")))?;
        append_with(bucket, (4, &etag), b"two", Some(of(b"two")))??;
        bucket.holds("object", b"one two")?;
        let key = bucket.key("object")?;
        let kept = bucket.wait(bucket.client.head_details(&key))?.checksum;
        same("checksum", kept, StoredChecksum::Of(algorithm))?;
    }
    Ok(())
}

fn append_wrong_checksum(bucket: &Bucket) -> Result<(), Failure> {
    let etag = put(bucket, b"one ", Some(crc32c(b"one ")))?;
    let wrong = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, b"one two");
    let wrong = Checksum::Crc32c(u32::try_from(wrong).unwrap_or_default());
    let answer = append_with(bucket, (4, &etag), b"two", Some(wrong))?;
    refused(answer, &[ErrorKind::InvalidRequest])?;
    bucket.holds("object", b"one ")
}

fn append_other_checksum(bucket: &Bucket) -> Result<(), Failure> {
    let etag = put(bucket, b"one ", Some(crc32c(b"one ")))?;
    let answer = append_with(bucket, (4, &etag), b"two", Some(crc64nvme(b"two")))?;
    refused(answer, &[ErrorKind::InvalidRequest])?;
    bucket.holds("object", b"one ")
}

/// A server that does not know the offset would put the bytes in the place of the object.
fn append_refused_without_harm(bucket: &Bucket) -> Result<(), Failure> {
    let etag = bucket.put("object", "1234")?;
    ensure(!bucket.client.appends(), "it appends")?;
    refused(
        append_at(bucket, (4, &etag), b"5")?,
        &[ErrorKind::Unsupported],
    )?;
    bucket.holds("object", b"1234")
}
