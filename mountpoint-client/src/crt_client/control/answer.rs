//! Values in the head of an answer.

use std::ops::Range;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use mountpoint_crt_sys::ResponseHead;

use crate::crt_client::fault::{Fault, Operation};
use crate::types::{Checksum, ETag};
use crate::{ClientError, ErrorKind};

/// A header that is not empty.
pub(in crate::crt_client) fn header<'a>(head: &'a ResponseHead, name: &str) -> Option<&'a str> {
    head.header(name)
        .map(str::trim)
        .filter(|value| !value.is_empty())
}

/// The length of the answer's body, or the one it would have. No object is larger than a signed
/// number can say.
pub(in crate::crt_client) fn content_length(head: &ResponseHead) -> Option<u64> {
    let length: i64 = header(head, "content-length")?.parse().ok()?;
    length.try_into().ok()
}

/// `bytes 0-9/100`, as a half-open range and the size of the object; `None` for a size of `*`.
pub(in crate::crt_client) fn parse_content_range(value: &str) -> Option<(Range<u64>, Option<u64>)> {
    let (range, size) = value
        .trim()
        .strip_prefix("bytes")?
        .trim_start()
        .split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    let size: Option<u64> = match size.trim() {
        "*" => None,
        size => Some(size.parse().ok()?),
    };
    let is_possible = first <= last && last < size.unwrap_or(u64::MAX);
    is_possible.then(|| (first..last + 1, size))
}

/// The ETag of an answer, which no S3 server may leave out.
pub(in crate::crt_client) fn etag(
    operation: &Operation,
    value: Option<&str>,
) -> Result<ETag, Fault> {
    read_etag(value).map_err(|what| invalid(operation, what))
}

/// The ETag of an answer, or why it has none.
pub(in crate::crt_client) fn read_etag(value: Option<&str>) -> Result<ETag, &'static str> {
    let value = value.unwrap_or_default();
    ETag::parse(value).ok_or_else(|| match value.trim().trim_matches('"') {
        "" => "the answer has no ETag; Mountpoint needs one to tell versions apart",
        _ => "the ETag is too long, or has characters that no header can have",
    })
}

/// The checksum in an answer, where it has one of those that are used here.
pub(in crate::crt_client) fn checksum_of_texts(
    crc64: Option<&str>,
    crc32c: Option<&str>,
) -> Option<Checksum> {
    let decode = |text: &str| BASE64_STANDARD.decode(text).ok();
    if let Some(sum) = crc64 {
        return Some(Checksum::Crc64Nvme(u64::from_be_bytes(
            decode(sum)?.try_into().ok()?,
        )));
    }
    Some(Checksum::Crc32c(u32::from_be_bytes(
        decode(crc32c?)?.try_into().ok()?,
    )))
}

pub(in crate::crt_client) fn invalid(operation: &Operation, what: &str) -> Fault {
    operation.error(ErrorKind::InvalidResponse, what).into()
}
/// The error of a write whose answer names no version: a gateway may have given it. The caller
/// looks whether the bucket has the write's token.
pub(in crate::crt_client) fn no_etag(operation: &Operation) -> ClientError {
    ClientError {
        answer_was_lost: true,
        ..operation.error(ErrorKind::InvalidResponse, "the answer has no ETag")
    }
}
