//! Multipart uploads, but for the parts' bytes: create, copy a part, complete, abort, list.
//!
//! Lists are read to their end, within named bounds.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::types::{
    CompletedMultipartUpload, CompletedPart, CopyPartResult, EncodingType, Part as SdkPart,
};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use mountpoint_crt_sys::{Message, Response};

use super::answer::{checksum_of_texts, etag, header, invalid, no_etag};
use super::exchange::{self, Exchange};
use super::listing::check_whole_directory;
use super::object_headers::{condition_headers, object_headers};
use crate::crt_client::core::{Call, Core, reading, refused, retry, writing};
use crate::crt_client::fault::of_sdk;
use crate::crt_client::fault::{Fault, Operation};
use crate::crt_client::text::{decode_form, xml_element};
use crate::endpoint::{copy_source, encode_query};
use crate::types::{
    Checksum, ChecksumAlgorithm, CopySource, ETag, Key, ObjectHeaders, Part, PartNumber,
    PutCondition, PutOutput, Upload,
};
use crate::{ClientError, ErrorKind, Pending};

pub(in crate::crt_client) fn create(
    core: &Arc<Core>,
    key: &Key,
    headers: ObjectHeaders,
    checksum: Option<ChecksumAlgorithm>,
) -> Pending<Upload> {
    let operation = core.on_key("CreateMultipartUpload", key);
    let mut sent = core.headers_of("CreateMultipartUpload");
    match object_headers(&headers, core.headers.keeps_encryption()) {
        Ok(headers) => sent.extend(headers),
        Err(what) => return refused(operation.error(ErrorKind::InvalidRequest, &what)),
    }
    if let Some((algorithm, kind)) = checksum.map(names_of) {
        sent.push(("x-amz-checksum-algorithm".to_owned(), algorithm.to_owned()));
        sent.push(("x-amz-checksum-type".to_owned(), kind.to_owned()));
    }
    let (core_of_task, key) = (Arc::clone(core), key.clone());
    writing(core, async move {
        let core = core_of_task;
        let message = Message {
            operation: "CreateMultipartUpload",
            method: "POST",
            path: format!("{}?uploads", core.endpoint.path(&key)),
            headers: sent,
        };
        let exchange = Exchange::control(&core, &operation, message);
        let (upload, checked) = begin(&core, &operation, key, &exchange).await?;
        match checked {
            Ok(()) => {
                core.encryption.proven();
                Ok(upload)
            }
            Err(fault) => {
                give_up(&core, &upload).await;
                Err(fault.error)
            }
        }
    })
}

/// The upload that the server has begun, and whether it encrypts as was asked for.
async fn begin(
    core: &Core,
    operation: &Operation,
    key: Key,
    exchange: &Exchange<'_>,
) -> Result<(Upload, Result<(), Fault>), ClientError> {
    // Attempts that were sent and not answered: each may have begun an upload all the same.
    let unanswered = AtomicU32::new(0);
    let attempt = || async {
        unanswered.fetch_add(1, Ordering::Relaxed);
        let answer = exchange.send().await;
        let answer = answer.and_then(|answer| Ok((upload_id_of(operation, &answer)?, answer)));
        // A server that says itself to slow down has begun none.
        let is_answered = !matches!(
            &answer,
            Err(fault) if fault.may_be_done
                && (fault.error.kind != ErrorKind::Throttled || fault.is_mute)
        );
        unanswered.fetch_sub(u32::from(is_answered), Ordering::Relaxed);
        let (upload_id, answer) = answer?;
        let checked = core.check_encryption(
            operation,
            header(&answer.head, "x-amz-server-side-encryption"),
            header(&answer.head, "x-amz-server-side-encryption-aws-kms-key-id"),
        );
        let key = key.clone();
        Ok((Upload { key, upload_id }, checked))
    };
    let begun = exchange::retry(core, Call::quick(operation.clone()), attempt).await;
    // Its id is not known, and its key does not tell it from another client's upload.
    if unanswered.load(Ordering::Relaxed) > 0 {
        tracing::warn!(
            %key,
            "the beginning of a multipart upload was not answered: an empty upload may stay in the bucket \
             (a lifecycle rule with AbortIncompleteMultipartUpload removes such)"
        );
    }
    begun
}

/// Names of the parts' checksum and of the kind of the object's in the headers of an upload.
fn names_of(algorithm: ChecksumAlgorithm) -> (&'static str, &'static str) {
    match algorithm {
        ChecksumAlgorithm::Crc32c => ("CRC32C", "COMPOSITE"),
        ChecksumAlgorithm::Crc64Nvme => ("CRC64NVME", "FULL_OBJECT"),
    }
}

fn upload_id_of(operation: &Operation, answer: &Response) -> Result<String, Fault> {
    let body = String::from_utf8_lossy(&answer.body);
    if let Some(id) = xml_element(&body, "UploadId").filter(|id| !id.is_empty()) {
        return Ok(id);
    }
    if body.trim_end().ends_with("Result>") {
        return Err(invalid(operation, "the answer has no upload id"));
    }
    let what = "the answer ends before its upload id";
    Err(operation.error(ErrorKind::Transient, what).into())
}

/// Aborts an upload whose caller gets an error instead.
pub(in crate::crt_client) async fn give_up(core: &Arc<Core>, upload: &Upload) {
    if let Err(error) = abort(core, upload).await {
        tracing::warn!("an unfinished upload stays on the server: {error}");
    }
}

pub(in crate::crt_client) fn copy_part(
    core: &Arc<Core>,
    upload: &Upload,
    number: PartNumber,
    source: CopySource,
    range: Range<u64>,
) -> Pending<Part> {
    let operation = core.on_key("UploadPartCopy", &upload.key);
    if range.is_empty() {
        return refused(
            operation.error(ErrorKind::InvalidRequest, "an empty range cannot be copied"),
        );
    }
    let (core_of_task, upload) = (Arc::clone(core), upload.clone());
    writing(core, async move {
        let core = core_of_task;
        let if_match = source.if_match.as_ref();
        let attempt = || async {
            let call = core
                .sdk
                .upload_part_copy()
                .bucket(&core.bucket)
                .key(upload.key.as_str())
                .upload_id(&upload.upload_id)
                .part_number(i32::from(number.0))
                .copy_source(copy_source(&core.bucket, source.key.as_str()))
                .copy_source_range(format!("bytes={}-{}", range.start, range.end - 1))
                .set_copy_source_if_match(if_match.map(|etag| etag.as_str().to_owned()));
            let (etag, checksum) = match call.send().await {
                Ok(output) => copied(&operation, output.copy_part_result())?,
                Err(error) => match copied_otherwise(&error) {
                    Some(etag) => (etag, None),
                    None => return Err(of_sdk(&operation, &error)),
                },
            };
            Ok(Part {
                number,
                etag,
                size: range.end - range.start,
                checksum,
            })
        };
        retry(&core, Call::slow(operation.clone()), attempt).await
    })
}

/// The tag of a part that was copied, and the checksum that the server computed: an upload whose
/// checksum is made of its parts' wants each when it is completed.
fn copied(
    operation: &Operation,
    result: Option<&CopyPartResult>,
) -> Result<(ETag, Option<Checksum>), Fault> {
    let etag = etag(operation, result.and_then(CopyPartResult::e_tag))?;
    let checksum = result.and_then(|result| {
        checksum_of_texts(result.checksum_crc64_nvme(), result.checksum_crc32_c())
    });
    Ok((etag, checksum))
}

/// The tag of a part that was copied, where the server tells it in the document of another
/// operation: s3proxy does so in that of CopyObject.
fn copied_otherwise<E>(error: &SdkError<E, HttpResponse>) -> Option<ETag> {
    let raw = error.raw_response()?;
    let body = raw.status().is_success().then(|| raw.body().bytes())??;
    let body = String::from_utf8_lossy(body);
    let document = body.contains("<CopyObjectResult");
    let etag = document.then(|| xml_element(&body, "ETag"))??;
    ETag::parse(&etag)
}

pub(in crate::crt_client) fn complete(
    core: &Arc<Core>,
    upload: &Upload,
    parts: Vec<Part>,
    condition: PutCondition,
) -> Pending<PutOutput> {
    let (core_of_task, upload) = (Arc::clone(core), upload.clone());
    writing(core, async move {
        let core = core_of_task;
        let operation = core.on_key("CompleteMultipartUpload", &upload.key);
        let attempt = || async {
            let (if_match, if_none_match) = condition_headers(&condition);
            let list = CompletedMultipartUpload::builder()
                .set_parts(Some(parts.iter().map(completed).collect()));
            let call = core
                .sdk
                .complete_multipart_upload()
                .bucket(&core.bucket)
                .key(upload.key.as_str())
                .upload_id(&upload.upload_id)
                .multipart_upload(list.build())
                .set_if_match(if_match)
                .set_if_none_match(if_none_match);
            let output = call
                .send()
                .await
                .map_err(|error| of_sdk(&operation, &error))?;
            Ok(output.e_tag().and_then(ETag::parse))
        };
        let told = retry(&core, Call::slow(operation.clone()), attempt).await?;
        let etag = told.ok_or_else(|| no_etag(&operation))?;
        Ok(PutOutput { etag })
    })
}

fn completed(part: &Part) -> CompletedPart {
    let (mut crc32c, mut crc64) = (None, None);
    match part.checksum {
        None => {}
        Some(Checksum::Crc32c(sum)) => crc32c = Some(BASE64_STANDARD.encode(sum.to_be_bytes())),
        Some(Checksum::Crc64Nvme(sum)) => crc64 = Some(BASE64_STANDARD.encode(sum.to_be_bytes())),
    }
    CompletedPart::builder()
        .part_number(i32::from(part.number.0))
        .e_tag(part.etag.as_str())
        .set_checksum_crc32_c(crc32c)
        .set_checksum_crc64_nvme(crc64)
        .build()
}

pub(in crate::crt_client) fn abort(core: &Arc<Core>, upload: &Upload) -> Pending<()> {
    let (core_of_task, upload) = (Arc::clone(core), upload.clone());
    writing(core, async move {
        let core = core_of_task;
        let operation = core.on_key("AbortMultipartUpload", &upload.key);
        let message = Message {
            operation: "AbortMultipartUpload",
            method: "DELETE",
            path: format!(
                "{}?uploadId={}",
                core.endpoint.path(&upload.key),
                encode_query(&upload.upload_id)
            ),
            headers: core.headers_of("AbortMultipartUpload"),
        };
        let exchange = Exchange::control(&core, &operation, message);
        let attempt = || async { exchange.send().await.map(drop) };
        exchange::retry(&core, Call::quick(operation.clone()), attempt).await
    })
}

pub(in crate::crt_client) fn list_parts(core: &Arc<Core>, upload: &Upload) -> Pending<Vec<Part>> {
    let (core_of_task, upload) = (Arc::clone(core), upload.clone());
    reading(core, async move {
        let core = core_of_task;
        let operation = core.on_key("ListParts", &upload.key);
        let mut parts: Vec<Part> = Vec::new();
        loop {
            let marker = parts.last().map(|part| part.number.0.to_string());
            let attempt = || async {
                let call = core
                    .sdk
                    .list_parts()
                    .bucket(&core.bucket)
                    .key(upload.key.as_str());
                let call = call
                    .upload_id(&upload.upload_id)
                    .set_part_number_marker(marker.clone());
                let output = call
                    .send()
                    .await
                    .map_err(|error| of_sdk(&operation, &error))?;
                let page = output
                    .parts()
                    .iter()
                    .map(|part| part_of_sdk(&operation, part));
                Ok((
                    page.collect::<Result<Vec<_>, _>>()?,
                    output.is_truncated().unwrap_or(false),
                ))
            };
            let (mut page, is_truncated) =
                retry(&core, Call::quick(operation.clone()), attempt).await?;
            page.sort_unstable_by_key(|part| part.number);
            let last = parts.last().map(|last| last.number);
            let first = page.first().map(|first| first.number);
            let leads_on = match first {
                None => !is_truncated,
                Some(first) => last.is_none_or(|last| first > last),
            };
            if !leads_on || !page.is_sorted_by(|a, b| a.number < b.number) {
                return Err(operation.error(
                    ErrorKind::InvalidResponse,
                    "the list of parts does not lead on, or has a part twice",
                ));
            }
            parts.extend(page);
            if !is_truncated {
                return Ok(parts);
            }
        }
    })
}

fn part_of_sdk(operation: &Operation, part: &SdkPart) -> Result<Part, Fault> {
    let number = part
        .part_number()
        .and_then(|number| u16::try_from(number).ok());
    let Some(number) = number.filter(|number| (1..=PART_NUMBER_MAX).contains(number)) else {
        return Err(invalid(operation, "a part has no valid number"));
    };
    Ok(Part {
        number: PartNumber(number),
        etag: etag(operation, part.e_tag())?,
        size: part
            .size()
            .and_then(|size| u64::try_from(size).ok())
            .unwrap_or(0),
        checksum: part_checksum(part),
    })
}

fn part_checksum(part: &SdkPart) -> Option<Checksum> {
    checksum_of_texts(part.checksum_crc64_nvme(), part.checksum_crc32_c())
}

pub(in crate::crt_client) fn list_uploads(core: &Arc<Core>, prefix: &str) -> Pending<Vec<Upload>> {
    let operation = core.on_bucket("ListMultipartUploads");
    if core.is_directory_bucket
        && let Err(what) = check_whole_directory(prefix, None)
    {
        return refused(operation.error(ErrorKind::InvalidRequest, what));
    }
    let (core_of_task, prefix) = (Arc::clone(core), prefix.to_owned());
    reading(core, async move {
        let core = core_of_task;
        let mut uploads = Vec::new();
        let mut marker = (None, None);
        for _ in 0..UPLOAD_PAGES_MAX {
            let attempt = || uploads_page(&core, &operation, &prefix, &marker);
            let (page, next) = retry(&core, Call::quick(operation.clone()), attempt).await?;
            uploads.extend(page);
            match next {
                None => return Ok(uploads),
                Some(next) if next == marker => {
                    let what = "the list of uploads does not lead on";
                    return Err(operation.error(ErrorKind::InvalidResponse, what));
                }
                Some(next) => marker = next,
            }
        }
        let what = format!("more than {UPLOAD_PAGES_MAX} pages of uploads; use a longer prefix");
        Err(operation.error(ErrorKind::InvalidRequest, &what))
    })
}

/// Where a list of uploads goes on: key and upload id.
type UploadMarker = (Option<String>, Option<String>);

async fn uploads_page(
    core: &Core,
    operation: &Operation,
    prefix: &str,
    marker: &UploadMarker,
) -> Result<(Vec<Upload>, Option<UploadMarker>), Fault> {
    let call = core
        .sdk
        .list_multipart_uploads()
        .bucket(&core.bucket)
        .encoding_type(EncodingType::Url)
        .set_prefix((!prefix.is_empty()).then(|| prefix.to_owned()))
        .set_key_marker(marker.0.clone())
        .set_upload_id_marker(marker.1.clone());
    let output = call
        .send()
        .await
        .map_err(|error| of_sdk(operation, &error))?;
    let is_encoded = output.encoding_type() == Some(&EncodingType::Url);
    let decode = |name: &str| match is_encoded {
        true => decode_form(name),
        false => Some(name.to_owned()),
    };
    let mut page = Vec::with_capacity(output.uploads().len());
    for upload in output.uploads() {
        let key = upload.key().and_then(decode);
        let key = key.as_deref().and_then(Key::parse);
        // An abort without an id would be the deletion of the object.
        let id = upload.upload_id().filter(|id| !id.is_empty());
        let (Some(key), Some(id)) = (key, id) else {
            let what = "an upload has no valid key or upload id";
            return Err(invalid(operation, what));
        };
        // Some servers take the prefix for a hint.
        if key.as_str().starts_with(prefix) {
            let upload_id = id.to_owned();
            page.push(Upload { key, upload_id });
        }
    }
    let next = output.is_truncated().unwrap_or(false).then(|| {
        (
            output.next_key_marker().and_then(decode),
            output.next_upload_id_marker().map(str::to_owned),
        )
    });
    Ok((page, next))
}

/// S3's limit.
const PART_NUMBER_MAX: u16 = 10_000;
/// Mountpoint leaves fewer than 100,000 unfinished uploads under one prefix.
const UPLOAD_PAGES_MAX: usize = 100;
