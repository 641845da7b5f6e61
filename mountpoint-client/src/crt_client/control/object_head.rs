//! HeadObject, and the description of an object in the head of any answer.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use mountpoint_crt_sys::{Message, Response, ResponseHead};

use super::answer::{content_length, etag, header, invalid, parse_content_range};
use super::exchange::{self, Exchange};
use crate::crt_client::core::{Call, Core, reading};
use crate::crt_client::fault::{Fault, Operation, is_signed, may_be_page, of_page};
use crate::crt_client::text::http_time;
use crate::types::{
    ChecksumAlgorithm, ETag, Key, KmsEncryption, ObjectDetails, ObjectHeaders, ObjectInfo,
    StoredChecksum, WriteToken,
};
use crate::{ClientError, ErrorKind, Pending};

pub(in crate::crt_client) fn head(core: &Arc<Core>, key: &Key) -> Pending<ObjectInfo> {
    head_with(core, key, false, sized_info)
}

pub(in crate::crt_client) fn head_details(core: &Arc<Core>, key: &Key) -> Pending<ObjectDetails> {
    // An append needs the object's checksum. Elsewhere the question might need a permission that
    // the mount does not have.
    head_with(core, key, core.is_directory_bucket, object_details)
}

/// Sends HeadObject and reads its answer by `read`.
fn head_with<T: Send + 'static>(
    core: &Arc<Core>,
    key: &Key,
    with_checksums: bool,
    read: ReadHead<T>,
) -> Pending<T> {
    let (core_of_task, key) = (Arc::clone(core), key.clone());
    reading(core, async move {
        let core = core_of_task;
        let send = |checksum_mode| ask(&core, &key, checksum_mode, read);
        match with_checksums {
            true => core.checksum_mode.ask(send).await,
            false => send(None).await,
        }
    })
}

async fn ask<T>(
    core: &Core,
    key: &Key,
    checksum_mode: Option<(String, String)>,
    read: ReadHead<T>,
) -> Result<T, ClientError> {
    let operation = core.on_key("HeadObject", key);
    let mut headers = core.headers_of("HeadObject");
    headers.extend(checksum_mode);
    let message = Message {
        operation: "HeadObject",
        method: "HEAD",
        path: core.endpoint.path(key),
        headers,
    };
    let exchange = Exchange::control(core, &operation, message);
    let attempt = || async {
        let head = match exchange.send().await {
            Ok(Response { head, .. }) if is_clear(&head) => head,
            Err(fault) if core.is_unexplained(&fault) => {
                return Err(explained_by_get(core, key, fault).await);
            }
            Err(fault) if !fault.is_foreign => return Err(fault),
            unclear => described_by_get(core, key, unclear.ok()).await?,
        };
        read(&operation, key, &head)
    };
    exchange::retry(core, Call::quick(operation.clone()), attempt).await
}

/// A refusal that tells whether the keys are behind it, which an answer to HEAD does not tell, from
/// a GET of the first byte. If that is not refused, the keys were replaced between the two.
async fn explained_by_get(core: &Core, key: &Key, fault: Fault) -> Fault {
    match described_by_get(core, key, None).await {
        Err(told) if told.expired || told.is_unknown_key => told,
        Err(told) if !is_unsatisfiable(&told) => fault,
        _ => Fault {
            is_unknown_key: true,
            ..fault
        },
    }
}

/// The version of a copy that a document of the server's own has confirmed without telling it, as
/// `rclone serve s3` does. If HeadObject fails, the outcome is unknown.
pub(super) async fn etag_there(core: &Arc<Core>, key: &Key) -> Result<ETag, ClientError> {
    let there = head(core, key).await.map_err(|error| ClientError {
        answer_was_lost: true,
        ..error
    });
    Ok(there?.etag)
}

/// Whether S3 says that there is no such object.
pub(super) async fn is_absent(core: &Core, key: &Key) -> bool {
    let described = described_by_get(core, key, None).await;
    described.is_err_and(|fault| fault.error.kind == ErrorKind::NotFound)
}

/// Whether the head of a successful answer is that of an object, and tells its size.
fn is_clear(head: &ResponseHead) -> bool {
    content_length(head).is_some() && !may_be_page(head)
}

/// The head that an answer to HEAD would have, from a GET of the object's first byte: an answer
/// with a body tells whether S3 gave it, and its range how large the object is. `answered` is a
/// successful answer to HEAD that was not clear.
async fn described_by_get(
    core: &Core,
    key: &Key,
    answered: Option<Response>,
) -> Result<ResponseHead, Fault> {
    let operation = core.on_key("GetObject", key);
    let mut headers = core.headers_of("GetObject");
    headers.push(("Range".to_owned(), "bytes=0-0".to_owned()));
    let message = Message {
        operation: "GetObject",
        method: "GET",
        path: core.endpoint.path(key),
        headers,
    };
    let head = match Exchange::control(core, &operation, message).send().await {
        Ok(Response { head, .. }) => head,
        Err(fault) => match answered {
            // An empty object has no first byte.
            Some(answered) if is_unsatisfiable(&fault) => return Ok(with_length(answered.head, 0)),
            _ => return Err(fault),
        },
    };
    match header(&head, "content-range").map(parse_content_range) {
        Some(Some((_, Some(size)))) => Ok(with_length(head, size)),
        None if !is_signed(|name| head.header(name)) => Err(of_page(&operation, &head, b"")),
        // The server ignored the range.
        None if head.status != PARTIAL => Ok(head),
        // Some proxies drop the header: the length is that of the part.
        Some(_) | None => Err(invalid(
            &operation,
            "the answer does not say how large the object is",
        )),
    }
}

/// The head with the length of the whole object.
fn with_length(mut head: ResponseHead, size: u64) -> ResponseHead {
    let is_length = |name: &str| name.eq_ignore_ascii_case("content-length");
    head.headers.retain(|(name, _)| !is_length(name));
    head.headers
        .push(("Content-Length".to_owned(), size.to_string()));
    head
}

fn is_unsatisfiable(fault: &Fault) -> bool {
    fault.error.status == Some(RANGE_NOT_SATISFIABLE) && !fault.is_foreign
}

/// Reads the head of an answer.
type ReadHead<T> = fn(&Operation, &Key, &ResponseHead) -> Result<T, Fault>;

fn sized_info(operation: &Operation, key: &Key, head: &ResponseHead) -> Result<ObjectInfo, Fault> {
    match content_length(head) {
        Some(size) => object_info(operation, key, size, head),
        None => Err(invalid(
            operation,
            "the answer has no valid Content-Length header",
        )),
    }
}

/// Version and times of an object of this size.
pub(in crate::crt_client) fn object_info(
    operation: &Operation,
    key: &Key,
    size: u64,
    head: &ResponseHead,
) -> Result<ObjectInfo, Fault> {
    let last_modified = match header(head, "last-modified") {
        None => UNIX_EPOCH,
        Some(text) => http_time(text).ok_or_else(|| {
            let what = format!("the Last-Modified header {text:?} is not a time");
            invalid(operation, &what)
        })?,
    };
    Ok(ObjectInfo {
        key: key.clone(),
        size,
        etag: etag(operation, header(head, "etag"))?,
        last_modified,
        storage_class: owned(head, "x-amz-storage-class"),
        restored: header(head, "x-amz-restore").is_some_and(is_restored),
    })
}

/// Whether the `x-amz-restore` header tells of a copy that can be read.
fn is_restored(restore: &str) -> bool {
    restore.contains("ongoing-request=\"false\"")
}

pub(in crate::crt_client) fn object_details(
    operation: &Operation,
    key: &Key,
    head: &ResponseHead,
) -> Result<ObjectDetails, Fault> {
    let mut headers = object_headers(head);
    Ok(ObjectDetails {
        info: sized_info(operation, key, head)?,
        checksum: stored_checksum(head),
        token: take_token(&mut headers.metadata),
        headers,
        version_id: owned(head, "x-amz-version-id"),
    })
}

/// The headers and the metadata of an object.
fn object_headers(head: &ResponseHead) -> ObjectHeaders {
    let metadata = head.headers.iter().filter_map(|(name, value)| {
        let (start, name) = name.split_at_checked(METADATA.len())?;
        let is_metadata = start.eq_ignore_ascii_case(METADATA) && !name.is_empty();
        is_metadata.then(|| (name.to_ascii_lowercase(), value.trim().to_owned()))
    });
    let mut metadata: Vec<_> = metadata.collect();
    metadata.sort_unstable();
    ObjectHeaders {
        content_type: owned(head, "content-type"),
        storage_class: owned(head, "x-amz-storage-class"),
        metadata,
        cache_control: owned(head, "cache-control"),
        content_disposition: owned(head, "content-disposition"),
        content_encoding: owned(head, "content-encoding"),
        content_language: owned(head, "content-language"),
        expires: owned(head, "expires"),
        website_redirect: owned(head, "x-amz-website-redirect-location"),
        encryption: kms_encryption(head),
        token: None,
    }
}

/// The token of the write that made the object, taken out of its metadata.
fn take_token(metadata: &mut Vec<(String, String)>) -> Option<WriteToken> {
    let is_token = |(name, _): &mut (String, String)| name == WriteToken::METADATA_NAME;
    let tokens: Vec<_> = metadata.extract_if(.., is_token).collect();
    let (_, text) = tokens.first()?;
    WriteToken::parse(text)
}

/// The encryption of an object that is encrypted by KMS. S3's own key is everybody's.
fn kms_encryption(head: &ResponseHead) -> Option<KmsEncryption> {
    let algorithm = owned(head, "x-amz-server-side-encryption")?;
    algorithm.starts_with("aws:kms").then(|| KmsEncryption {
        algorithm,
        key_id: owned(head, "x-amz-server-side-encryption-aws-kms-key-id"),
        bucket_key: header(head, "x-amz-server-side-encryption-bucket-key-enabled")
            .is_some_and(|value| value.eq_ignore_ascii_case("true")),
    })
}

fn stored_checksum(head: &ResponseHead) -> StoredChecksum {
    let has = |algorithm| head.header(algorithm).is_some();
    if has("x-amz-checksum-crc32c") {
        StoredChecksum::Of(ChecksumAlgorithm::Crc32c)
    } else if has("x-amz-checksum-crc64nvme") {
        StoredChecksum::Of(ChecksumAlgorithm::Crc64Nvme)
    } else if OTHER_CHECKSUMS.into_iter().any(has) {
        StoredChecksum::Other
    } else {
        StoredChecksum::None
    }
}

fn owned(head: &ResponseHead, name: &str) -> Option<String> {
    header(head, name).map(str::to_owned)
}

const PARTIAL: u16 = 206;
const RANGE_NOT_SATISFIABLE: u16 = 416;
const METADATA: &str = "x-amz-meta-";
const OTHER_CHECKSUMS: [&str; 3] = [
    "x-amz-checksum-crc32",
    "x-amz-checksum-sha1",
    "x-amz-checksum-sha256",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn details(headers: &[(&str, &str)]) -> Result<ObjectDetails, (ErrorKind, String)> {
        let key = Key::parse("k").unwrap();
        let operation = Operation::on_key("HeadObject", "b", &key);
        let headers = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let head = ResponseHead {
            status: 200,
            headers: headers.collect(),
        };
        object_details(&operation, &key, &head)
            .map_err(|fault| (fault.error.kind, fault.error.message))
    }

    #[test]
    fn a_head_is_read_whatever_the_case_of_its_names() {
        let found = details(&[
            ("Content-Length", "42"),
            ("ETAG", " \"e\" "),
            ("last-modified", "Fri, 02 Jan 2026 03:04:05 GMT"),
            ("X-Amz-Storage-Class", "GLACIER"),
            (
                "x-amz-restore",
                "ongoing-request=\"false\", expiry-date=\"x\"",
            ),
            ("X-Amz-Meta-Owner", " me "),
            ("x-amz-meta-a.b", ""),
            ("x-amz-meta-Mount-S3-Token", "one-write_"),
            ("x-amz-meta-", "nameless"),
            ("x-amz-version-id", "v1"),
            ("Content-Type", "text/plain"),
            ("Cache-Control", ""),
            ("x-amz-checksum-crc64nvme", "AAAAAAAAAAA="),
        ])
        .unwrap();
        assert_eq!((found.info.size, found.info.etag.as_str()), (42, "\"e\""));
        assert_eq!(
            found.info.last_modified.duration_since(UNIX_EPOCH).unwrap(),
            std::time::Duration::from_secs(1_767_323_045)
        );
        assert_eq!(found.info.storage_class.as_deref(), Some("GLACIER"));
        assert!(found.info.restored);
        let metadata: Vec<_> = found
            .headers
            .metadata
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        assert_eq!(metadata, [("a.b", ""), ("owner", "me")]);
        assert_eq!(found.token, WriteToken::parse("one-write_"));
        assert_eq!(found.version_id.as_deref(), Some("v1"));
        assert_eq!(found.headers.content_type.as_deref(), Some("text/plain"));
        assert_eq!(found.headers.cache_control, None);
        let crc64 = StoredChecksum::Of(ChecksumAlgorithm::Crc64Nvme);
        assert_eq!(found.checksum, crc64);
    }

    #[test]
    fn wrong_heads_are_refused() {
        let (etag, length) = (("ETag", "\"e\""), ("Content-Length", "1"));
        for (headers, reason) in [
            (&[etag][..], "no valid Content-Length"),
            (&[etag, ("Content-Length", "-1")], "no valid Content-Length"),
            (&[etag, ("Content-Length", "x")], "no valid Content-Length"),
            (
                &[etag, ("Content-Length", "9223372036854775808")],
                "no valid Content-Length",
            ),
            (&[length], "no ETag"),
            (&[length, ("ETag", " ")], "no ETag"),
            (
                &[etag, length, ("Last-Modified", "yesterday")],
                "\"yesterday\" is not a time",
            ),
        ] {
            let (kind, what) = details(headers).unwrap_err();
            assert_eq!(kind, ErrorKind::InvalidResponse, "{what}");
            assert!(what.contains(reason), "{what}");
        }
        assert!(details(&[etag, length]).is_ok());
    }
}
