//! PutObject and UploadPart: one request each, over the CRT, with a body that is not copied.
//!
//! A repetition is safe: equal bytes to the same key. Only a condition can make a repeated
//! PutObject fail because of its own first attempt, whose answer was lost; then the message tells
//! so.

use std::sync::Arc;

use bytes::Bytes;
use mountpoint_crt_sys::{Message, ResponseHead};

use super::answer::no_etag;
use super::exchange::{self, Exchange};
use super::object_headers::{checksum_header, object_headers};
use super::prove_encryption::prove_encryption;
use crate::crt_client::core::{Call, Core, refused, writing};
use crate::crt_client::fault::{Fault, Operation};
use crate::endpoint::encode_query;
use crate::types::{
    Checksum, ETag, Key, Part, PartNumber, PutCondition, PutOutput, PutRequest, Upload,
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
        let body = request.body.clone();
        let etag = send(&core, operation.clone(), message, body, check).await?;
        let etag = etag.ok_or_else(|| no_etag(&operation))?;
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
        let etag = send(&core_of_task, operation.clone(), message, body, check).await?;
        Ok(Part {
            number,
            etag: etag.ok_or_else(|| no_etag(&operation))?,
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

/// Sends until it is answered; returns the ETag, if it has one, of an answer that `check` finds
/// nothing wrong with.
pub(in crate::crt_client) async fn send(
    core: &Core,
    operation: Operation,
    message: Message,
    body: Bytes,
    check: impl Fn(&Operation, &ResponseHead) -> Result<(), Fault>,
) -> Result<Option<ETag>, ClientError> {
    let exchange = Exchange::upload(core, &operation, message, body);
    let attempt = || async {
        let answer = exchange.send().await?;
        check(&operation, &answer.head)?;
        Ok(answer.head.header("etag").and_then(ETag::parse))
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
