//! PutObject and UploadPart: one request each, over the CRT, with a body that stays where it is in
//! memory.
//!
//! Repeating them is safe: the same bytes to the same place. Only a condition can make a repeated
//! PutObject fail on its own first attempt, whose answer was lost; the message says so then.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use mountpoint_crt_sys::{Message, ResponseHead};

use super::encryption_proof::prove_encryption;
use super::exchange::{self, Exchange};
use super::objects;
use crate::crt_client::core::{Call, Core, refused, writing};
use crate::crt_client::fault::{Fault, Operation};
use crate::endpoint::encode_query;
use crate::types::{
    Checksum, ETag, Key, ObjectHeaders, Part, PartNumber, PutCondition, PutOutput, PutRequest,
    Upload,
};
use crate::{ClientError, ErrorKind, Pending};

pub(in crate::crt_client) fn put(core: &Arc<Core>, request: PutRequest) -> Pending<PutOutput> {
    let operation = core.on_key("PutObject", &request.key);
    let headers = match headers_of(core, &request) {
        Ok(headers) => headers,
        Err(what) => return refused(operation.error(ErrorKind::InvalidRequest, &what)),
    };
    let message = Message {
        operation: "PutObject",
        method: "PUT",
        path: core.endpoint.path(&request.key),
        headers,
    };
    let (core_of_task, sent) = (Arc::clone(core), request.checksum);
    writing(core, async move {
        let core = core_of_task;
        prove_encryption(&core, &request.key).await?;
        let check = |operation: &Operation, head: &ResponseHead| {
            check_stored(operation, head, sent)?;
            core.check_encryption(
                operation,
                head.header("x-amz-server-side-encryption"),
                head.header("x-amz-server-side-encryption-aws-kms-key-id"),
            )
        };
        let etag = send(&core, operation, message, request.body, check).await?;
        Ok(PutOutput { etag })
    })
}

pub(in crate::crt_client) fn put_part(
    core: &Arc<Core>,
    upload: &Upload,
    number: PartNumber,
    body: Bytes,
    checksum: Option<Checksum>,
) -> Pending<Part> {
    let operation = core.on_key("UploadPart", &upload.key);
    let mut headers = core.headers_of("UploadPart");
    headers.extend(checksum.map(checksum_header));
    let path = part_path(core, &upload.key, number, &upload.upload_id);
    let message = Message {
        operation: "UploadPart",
        method: "PUT",
        path,
        headers,
    };
    let size = body.len() as u64;
    let core_of_task = Arc::clone(core);
    writing(core, async move {
        // How the object is encrypted was said when the upload began.
        let check =
            |operation: &Operation, head: &ResponseHead| check_stored(operation, head, checksum);
        let etag = send(&core_of_task, operation, message, body, check).await?;
        Ok(Part {
            number,
            etag,
            size,
            checksum,
        })
    })
}

fn part_path(core: &Core, key: &Key, number: PartNumber, upload_id: &str) -> String {
    format!(
        "{}?partNumber={}&uploadId={}",
        core.endpoint.path(key),
        number.0,
        encode_query(upload_id)
    )
}

/// Sends until it is answered; returns the ETag of an answer that `check` finds nothing wrong with.
pub(in crate::crt_client) async fn send(
    core: &Core,
    operation: Operation,
    message: Message,
    body: Bytes,
    check: impl Fn(&Operation, &ResponseHead) -> Result<(), Fault>,
) -> Result<ETag, ClientError> {
    let exchange = Exchange::upload(core, &operation, message, body);
    let attempt = || async {
        let answer = exchange.send().await?;
        check(&operation, &answer.head)?;
        etag_of(&operation, &answer.head)
    };
    exchange::retry(core, Call::upload(operation.clone()), attempt).await
}

/// The fault if the server says that it stored other bytes than those that `sent` is of. A server
/// without checksums says nothing.
fn check_stored(
    operation: &Operation,
    head: &ResponseHead,
    sent: Option<Checksum>,
) -> Result<(), Fault> {
    let Some(sent) = sent else { return Ok(()) };
    let (name, value) = checksum_header(sent);
    match head.header(&name).map(str::trim) {
        Some(stored) if stored != value => {
            let what = format!("the server stored other bytes: {name} is {stored}, not {value}");
            Err(operation.error(ErrorKind::InvalidResponse, &what).into())
        }
        _ => Ok(()),
    }
}

fn etag_of(operation: &Operation, head: &ResponseHead) -> Result<ETag, Fault> {
    objects::etag(operation, exchange::header(head, "etag"))
}

fn headers_of(core: &Core, request: &PutRequest) -> Result<Vec<(String, String)>, String> {
    let mut headers = core.headers_of("PutObject");
    match &request.condition {
        PutCondition::None => {}
        PutCondition::Match(etag) => {
            headers.push(("If-Match".to_owned(), etag.as_str().to_owned()));
        }
        PutCondition::Absent => headers.push(("If-None-Match".to_owned(), "*".to_owned())),
    }
    headers.extend(request.checksum.map(checksum_header));
    headers.extend(object_headers(
        &request.headers,
        core.headers.keeps_encryption(),
    )?);
    Ok(headers)
}

/// The headers an object carries, checked: a line break in a value would be a header of its own.
pub(in crate::crt_client) fn object_headers(
    headers: &ObjectHeaders,
    keeps_encryption: bool,
) -> Result<Vec<(String, String)>, String> {
    let mut all = Vec::new();
    if let Some(content_type) = &headers.content_type {
        all.push(("Content-Type".to_owned(), content_type.clone()));
    }
    let others = [
        ("Cache-Control", &headers.cache_control),
        ("Content-Disposition", &headers.content_disposition),
        ("Content-Encoding", &headers.content_encoding),
        ("Content-Language", &headers.content_language),
        ("Expires", &headers.expires),
    ];
    for (name, value) in others {
        if let Some(value) = value {
            all.push((name.to_owned(), value.clone()));
        }
    }
    if let Some(class) = &headers.storage_class {
        all.push(("x-amz-storage-class".to_owned(), class.clone()));
    }
    for (name, value) in &headers.metadata {
        all.push((format!("x-amz-meta-{name}"), value.clone()));
    }
    all.extend(uncopied_headers(headers, keeps_encryption));
    for (name, value) in &all {
        if !name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        {
            return Err(format!("{name:?} cannot be the name of a header"));
        }
        if !value
            .bytes()
            .all(|b| b == b'\t' || (b' '..=b'~').contains(&b))
        {
            return Err(format!(
                "the value of {name} cannot be sent: only printable ASCII can"
            ));
        }
    }
    Ok(all)
}

/// Headers that S3 does not take from the source of a copy, whatever its directive, besides the
/// storage class.
pub(in crate::crt_client) fn uncopied_headers(
    headers: &ObjectHeaders,
    keeps_encryption: bool,
) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut add = |name: &str, value: &str| all.push((name.to_owned(), value.to_owned()));
    if let Some(redirect) = &headers.website_redirect {
        add("x-amz-website-redirect-location", redirect);
    }
    if let Some(encryption) = headers.encryption.as_ref().filter(|_| keeps_encryption) {
        add("x-amz-server-side-encryption", &encryption.algorithm);
        if let Some(key_id) = &encryption.key_id {
            add("x-amz-server-side-encryption-aws-kms-key-id", key_id);
        }
        if encryption.bucket_key {
            add("x-amz-server-side-encryption-bucket-key-enabled", "true");
        }
    }
    all
}

/// The checksum's header: base64 of its big-endian bytes.
pub(in crate::crt_client) fn checksum_header(checksum: Checksum) -> (String, String) {
    let (name, value) = match checksum {
        Checksum::Crc32c(sum) => (
            "x-amz-checksum-crc32c",
            BASE64_STANDARD.encode(sum.to_be_bytes()),
        ),
        Checksum::Crc64Nvme(sum) => (
            "x-amz-checksum-crc64nvme",
            BASE64_STANDARD.encode(sum.to_be_bytes()),
        ),
    };
    (name.to_owned(), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_base64_of_big_endian() {
        // CRC-32C of "123456789" is 0xE3069283, CRC-64/NVME is 0xAE8B14860A799888.
        let (name, value) = checksum_header(Checksum::Crc32c(0xE306_9283));
        assert_eq!((&*name, &*value), ("x-amz-checksum-crc32c", "4waSgw=="));
        let (name, value) = checksum_header(Checksum::Crc64Nvme(0xAE8B_1486_0A79_9888));
        assert_eq!(
            (&*name, &*value),
            ("x-amz-checksum-crc64nvme", "rosUhgp5mIg=")
        );
    }

    #[test]
    fn an_answer_with_another_checksum_is_a_failure() {
        let key = Key::parse("key").unwrap();
        let operation = Operation::on_key("PutObject", "bucket", &key);
        let check = |sent, answered: Option<(&str, &str)>| {
            let headers = answered.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let head = ResponseHead {
                status: 200,
                headers: headers.into_iter().collect(),
            };
            check_stored(&operation, &head, sent).map_err(|fault| fault.error.kind)
        };
        let sent = Some(Checksum::Crc32c(0xE306_9283));
        let wrong = Err(ErrorKind::InvalidResponse);
        for (sent, answered, expected) in [
            (sent, Some(("x-amz-checksum-crc32c", "4waSgw==")), Ok(())),
            (sent, Some(("X-Amz-Checksum-Crc32c", " 4waSgw== ")), Ok(())),
            (
                sent,
                Some(("x-amz-checksum-crc32c", "4waSgA==")),
                wrong.clone(),
            ),
            (sent, Some(("x-amz-checksum-crc32c", "")), wrong),
            // A server that says nothing, or something else.
            (sent, None, Ok(())),
            (
                sent,
                Some(("x-amz-checksum-crc64nvme", "rosUhgp5mIg=")),
                Ok(()),
            ),
            (None, Some(("x-amz-checksum-crc32c", "4waSgA==")), Ok(())),
        ] {
            assert_eq!(check(sent, answered), expected, "{sent:?} {answered:?}");
        }
    }

    #[test]
    fn no_header_is_smuggled_in() {
        let with = |name: &str, value: &str| ObjectHeaders {
            metadata: vec![(name.to_owned(), value.to_owned())],
            ..ObjectHeaders::default()
        };
        assert!(object_headers(&with("a-b_c.d", "plain value ~"), true).is_ok());
        for (name, value) in [
            ("a", "b\r\nX: y"),
            ("a", "ü"),
            ("a b", "c"),
            ("a:", "c"),
            ("a\n", "c"),
            ("a", "\0"),
        ] {
            assert!(
                object_headers(&with(name, value), true).is_err(),
                "{name:?} {value:?}"
            );
        }
    }
}
