//! Requests that S3 refuses, and its error codes for them.

use bytes::Bytes;
use crc_fast::CrcAlgorithm;

use crate::types::{Checksum, ETag, ObjectHeaders, PutCondition, USER_METADATA_LEN_MAX};
use crate::{ClientError, ErrorKind};

use super::content::Content;
use super::object::SimObject;

/// Storage classes of general purpose and directory buckets.
const STORAGE_CLASSES: [&str; 9] = [
    "STANDARD",
    "REDUCED_REDUNDANCY",
    "STANDARD_IA",
    "ONEZONE_IA",
    "INTELLIGENT_TIERING",
    "GLACIER",
    "GLACIER_IR",
    "DEEP_ARCHIVE",
    "EXPRESS_ONEZONE",
];

/// An error as a client would report it, `code` being S3's.
pub(crate) fn refuse(kind: ErrorKind, code: &str, what: &str) -> ClientError {
    let status = match kind {
        ErrorKind::NotFound | ErrorKind::NoSuchBucket | ErrorKind::NoSuchUpload => 404,
        ErrorKind::PreconditionFailed => 412,
        ErrorKind::Conflict => 409,
        ErrorKind::Archived | ErrorKind::Denied | ErrorKind::Credentials => 403,
        ErrorKind::WrongRegion(_) => 301,
        ErrorKind::Unsupported => 501,
        ErrorKind::InvalidRequest | ErrorKind::TooManyParts => 400,
        ErrorKind::Throttled => 503,
        ErrorKind::Transient => 500,
        ErrorKind::InvalidResponse | ErrorKind::Unreachable | ErrorKind::Cancelled => {
            return ClientError::new(kind, format!("{code}: {what}"));
        }
    };
    ClientError::new(kind, format!("{code}: {what}")).with_status(status)
}

/// A failure that a test asked for.
pub(crate) fn injected(kind: ErrorKind, what: &str) -> ClientError {
    refuse(kind, "Injected", what)
}

pub(crate) fn no_such_key(key: &str) -> ClientError {
    refuse(ErrorKind::NotFound, "NoSuchKey", key)
}

/// Whether the version that is there is the one a reader or a copy asks for.
pub(crate) fn check_version(object: &SimObject, wanted: Option<&ETag>) -> Result<(), ClientError> {
    match wanted {
        Some(etag) if !etag.matches(&object.etag) => Err(refuse(
            ErrorKind::PreconditionFailed,
            "PreconditionFailed",
            &format!("{} is {:?}, not {etag:?}", object.key, object.etag),
        )),
        _ => Ok(()),
    }
}

/// Whether an archived object can be read.
pub(crate) fn check_readable(object: &SimObject) -> Result<(), ClientError> {
    if object.is_archived() {
        return Err(refuse(
            ErrorKind::Archived,
            "InvalidObjectState",
            object.key.as_str(),
        ));
    }
    Ok(())
}

/// Whether a write may replace the present object. `If-Match` on nothing is 404, not 412.
pub(crate) fn check_write(
    key: &str,
    there: Option<&SimObject>,
    condition: &PutCondition,
) -> Result<(), ClientError> {
    match (condition, there) {
        (PutCondition::None, _) | (PutCondition::Absent, None) => Ok(()),
        (PutCondition::Match(_), None) => Err(no_such_key(key)),
        (PutCondition::Match(etag), Some(object)) => check_version(object, Some(etag)),
        (PutCondition::Absent, Some(_)) => Err(refuse(
            ErrorKind::PreconditionFailed,
            "PreconditionFailed",
            key,
        )),
    }
}

/// Whether a body has its checksum.
pub(crate) fn check_body(body: &Bytes, checksum: Option<Checksum>) -> Result<(), ClientError> {
    let is_right = match checksum {
        None => true,
        Some(Checksum::Crc32c(sum)) => {
            crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, body) == u64::from(sum)
        }
        Some(Checksum::Crc64Nvme(sum)) => crc_fast::checksum(CrcAlgorithm::Crc64Nvme, body) == sum,
    };
    if is_right {
        return Ok(());
    }
    Err(refuse(
        ErrorKind::InvalidRequest,
        "BadDigest",
        "the checksum does not match the body",
    ))
}

/// The CRC-32C of stored bytes.
pub(crate) fn crc32c(content: &Content) -> Checksum {
    let mut digest = crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi);
    content.read(0..content.size(), |bytes| digest.update(bytes));
    let low = digest.finalize() & u64::from(u32::MAX);
    Checksum::Crc32c(u32::try_from(low).expect("the high bits are masked"))
}

/// Whether S3 stores an object's headers.
pub(crate) fn check_headers(headers: &ObjectHeaders) -> Result<(), ClientError> {
    if let Some(class) = &headers.storage_class
        && !STORAGE_CLASSES.contains(&class.as_str())
    {
        return Err(refuse(
            ErrorKind::InvalidRequest,
            "InvalidStorageClass",
            class,
        ));
    }
    headers
        .check()
        .map_err(|what| refuse(ErrorKind::InvalidRequest, "InvalidArgument", &what))?;
    let stored = headers.stored_metadata();
    let len: usize = stored.map(|(name, value)| name.len() + value.len()).sum();
    if len > USER_METADATA_LEN_MAX {
        return Err(refuse(
            ErrorKind::InvalidRequest,
            "MetadataTooLarge",
            &format!("{len} bytes"),
        ));
    }
    Ok(())
}
