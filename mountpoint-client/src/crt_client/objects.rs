//! Control requests for single objects and the bucket: head, delete, copy.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_sdk_s3::operation::copy_object::builders::CopyObjectFluentBuilder;
use aws_sdk_s3::operation::head_object::HeadObjectOutput;
use aws_sdk_s3::primitives::DateTime;
use aws_sdk_s3::types::{
    ChecksumMode, Delete, MetadataDirective, ObjectIdentifier,
    ServerSideEncryption as SdkEncryption, StorageClass,
};

use super::core::{Call, Core, reading, refused, writing};
use super::fault::{ErrorAnswer, Fault, Operation};
use super::sdk_fault::of_sdk;
use super::upload::object_headers;
use crate::endpoint::copy_source;
use crate::types::{
    BucketInfo, ChecksumAlgorithm, CopyHeaders, CopySource, DeleteFailure, ETag, KeptChecksum, Key,
    ObjectDetails, ObjectHeaders, ObjectInfo, PutCondition, PutOutput,
};
use crate::{ClientError, ErrorKind, Pending};

pub(super) fn head(core: &Arc<Core>, key: &Key) -> Pending<ObjectInfo> {
    head_with(core, key, None, object_info)
}

pub(super) fn head_details(core: &Arc<Core>, key: &Key) -> Pending<ObjectDetails> {
    // It is of use where bytes can be appended. Elsewhere it might ask for a permission that nobody needs.
    let checksums = core.is_directory_bucket.then_some(ChecksumMode::Enabled);
    head_with(core, key, checksums, object_details)
}

/// What HeadObject says, as `read` sees it.
fn head_with<T: Send + 'static>(
    core: &Arc<Core>,
    key: &Key,
    checksums: Option<ChecksumMode>,
    read: fn(&Operation, &Key, &HeadObjectOutput) -> Result<T, Fault>,
) -> Pending<T> {
    let (core_of_task, key) = (Arc::clone(core), key.clone());
    reading(core, async move {
        let core = core_of_task;
        let operation = core.on_key("HeadObject", &key);
        let attempt = || async {
            let call = core
                .sdk
                .head_object()
                .bucket(&core.bucket)
                .key(key.as_str())
                .set_checksum_mode(checksums.clone());
            let output = call
                .send()
                .await
                .map_err(|error| of_sdk(&operation, &error))?;
            read(&operation, &key, &output)
        };
        core.retry(Call::quick(operation.clone()), attempt).await
    })
}

/// What an object carries besides its bytes.
fn carried(output: &HeadObjectOutput) -> ObjectHeaders {
    let text = |value: Option<&str>| value.filter(|value| !value.is_empty()).map(str::to_owned);
    let mut metadata: Vec<(String, String)> = output
        .metadata()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    metadata.sort_unstable();
    ObjectHeaders {
        content_type: text(output.content_type()),
        storage_class: text(output.storage_class().map(StorageClass::as_str)),
        metadata,
        cache_control: text(output.cache_control()),
        content_disposition: text(output.content_disposition()),
        content_encoding: text(output.content_encoding()),
        content_language: text(output.content_language()),
    }
}

fn object_info(
    operation: &Operation,
    key: &Key,
    output: &HeadObjectOutput,
) -> Result<ObjectInfo, Fault> {
    let size = output
        .content_length()
        .and_then(|length| u64::try_from(length).ok());
    let Some(size) = size else {
        return Err(invalid(
            operation,
            "the answer has no valid Content-Length header",
        ));
    };
    Ok(ObjectInfo {
        key: key.clone(),
        size,
        etag: etag(operation, output.e_tag())?,
        last_modified: system_time(output.last_modified()),
        storage_class: output
            .storage_class()
            .map(|class| class.as_str().to_owned()),
        restored: is_restored(output.restore()),
    })
}

/// What the `x-amz-restore` header says: whether an archived object has a copy that can be read.
pub(super) fn is_restored(restore: Option<&str>) -> bool {
    restore.is_some_and(|restore| restore.contains("ongoing-request=\"false\""))
}

fn object_details(
    operation: &Operation,
    key: &Key,
    output: &HeadObjectOutput,
) -> Result<ObjectDetails, Fault> {
    let info = object_info(operation, key, output)?;
    Ok(ObjectDetails {
        checksum: kept_checksum(output),
        headers: carried(output),
        version_id: output.version_id().map(str::to_owned),
        info,
    })
}

fn kept_checksum(output: &HeadObjectOutput) -> KeptChecksum {
    let others = [
        output.checksum_crc32(),
        output.checksum_sha1(),
        output.checksum_sha256(),
    ];
    if output.checksum_crc32_c().is_some() {
        KeptChecksum::Of(ChecksumAlgorithm::Crc32c)
    } else if output.checksum_crc64_nvme().is_some() {
        KeptChecksum::Of(ChecksumAlgorithm::Crc64Nvme)
    } else if others.iter().any(Option::is_some) {
        KeptChecksum::Other
    } else {
        KeptChecksum::None
    }
}

pub(super) fn head_bucket(core: &Arc<Core>) -> Pending<BucketInfo> {
    let core_of_task = Arc::clone(core);
    reading(core, async move {
        let core = core_of_task;
        let operation = core.on_bucket("HeadBucket");
        let attempt = || async {
            let output = core.sdk.head_bucket().bucket(&core.bucket).send().await;
            let output = output.map_err(|error| of_sdk(&operation, &error))?;
            Ok(BucketInfo {
                region: output.bucket_region().map(str::to_owned),
            })
        };
        core.retry(Call::quick(operation.clone()), attempt).await
    })
}

pub(super) fn delete(core: &Arc<Core>, key: &Key, if_match: Option<ETag>) -> Pending<()> {
    let (core_of_task, key) = (Arc::clone(core), key.clone());
    writing(core, async move {
        let core = core_of_task;
        let operation = core.on_key("DeleteObject", &key);
        let attempt = || async {
            let call = core
                .sdk
                .delete_object()
                .bucket(&core.bucket)
                .key(key.as_str());
            let call = call.set_if_match(if_match.as_ref().map(|etag| etag.as_str().to_owned()));
            match call
                .send()
                .await
                .map_err(|error| of_sdk(&operation, &error))
            {
                // Some servers answer 404 where S3 answers 204.
                Err(fault) if fault.error.kind == ErrorKind::NotFound && if_match.is_none() => {
                    Ok(())
                }
                outcome => outcome.map(drop),
            }
        };
        core.retry(Call::quick(operation.clone()), attempt).await
    })
}

pub(super) fn delete_many(core: &Arc<Core>, keys: Vec<Key>) -> Pending<Vec<DeleteFailure>> {
    let operation = core.on_bucket("DeleteObjects");
    if keys.is_empty() {
        return Box::pin(std::future::ready(Ok(Vec::new())));
    }
    if keys.len() > DELETE_MANY_MAX {
        let what = format!("{} keys, {DELETE_MANY_MAX} at most", keys.len());
        return refused(operation.error(ErrorKind::InvalidRequest, &what));
    }
    let (listed, unlisted): (Vec<Key>, Vec<Key>) =
        keys.into_iter().partition(|key| is_xml(key.as_str()));
    let core_of_task = Arc::clone(core);
    writing(core, async move {
        let core = core_of_task;
        let mut failures = delete_listed(&core, &operation, &listed).await?;
        for key in unlisted {
            if let Err(error) = delete(&core, &key, None).await {
                failures.push(DeleteFailure { key, error });
            }
        }
        Ok(failures)
    })
}

/// Whether XML can carry `text`: a DeleteObjects that names a key with another character is refused as a whole.
fn is_xml(text: &str) -> bool {
    text.chars().all(|c| match c {
        '\t' | '\n' | '\r' => true,
        c => c >= ' ' && c != '\u{fffe}' && c != '\u{ffff}',
    })
}

async fn delete_listed(
    core: &Core,
    operation: &Operation,
    keys: &[Key],
) -> Result<Vec<DeleteFailure>, ClientError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let attempt = || async {
        let delete = delete_list(operation, keys)?;
        let call = core
            .sdk
            .delete_objects()
            .bucket(&core.bucket)
            .delete(delete);
        let output = call
            .send()
            .await
            .map_err(|error| of_sdk(operation, &error))?;
        Ok(output
            .errors()
            .iter()
            .filter_map(|error| delete_failure(core, error))
            .collect())
    };
    core.retry(Call::quick(operation.clone()), attempt).await
}

fn delete_list(operation: &Operation, keys: &[Key]) -> Result<Delete, Fault> {
    let build = || {
        let mut list = Delete::builder().quiet(true);
        for key in keys {
            list = list.objects(ObjectIdentifier::builder().key(key.as_str()).build()?);
        }
        list.build()
    };
    build().map_err(|error| {
        operation
            .error(ErrorKind::InvalidRequest, &error.to_string())
            .into()
    })
}

/// A key that is still there. What was not there is what the caller wanted.
fn delete_failure(core: &Core, error: &aws_sdk_s3::types::Error) -> Option<DeleteFailure> {
    let key = Key::parse(error.key().unwrap_or_default())?;
    let answer = ErrorAnswer {
        status: 200,
        code: Some(error.code().unwrap_or("UnknownError")),
        message: error.message(),
        ..ErrorAnswer::default()
    };
    let error = answer.fault(&core.on_key("DeleteObjects", &key)).error;
    (error.kind != ErrorKind::NotFound).then_some(DeleteFailure { key, error })
}

pub(super) fn copy(
    core: &Arc<Core>,
    source: CopySource,
    destination: &Key,
    condition: PutCondition,
    headers: CopyHeaders,
) -> Pending<PutOutput> {
    if let CopyHeaders::New(headers) = &headers
        && let Err(what) = object_headers(headers)
    {
        let operation = core.on_key("CopyObject", destination);
        return refused(operation.error(ErrorKind::InvalidRequest, &what));
    }
    let (core_of_task, destination) = (Arc::clone(core), destination.clone());
    writing(core, async move {
        let core = core_of_task;
        let operation = core.on_key("CopyObject", &destination);
        let attempt = || async {
            let (if_match, if_none_match) = condition_headers(&condition);
            let call = core
                .sdk
                .copy_object()
                .bucket(&core.bucket)
                .key(destination.as_str())
                .copy_source(copy_source(&core.bucket, source.key.as_str()))
                .set_copy_source_if_match(
                    source
                        .if_match
                        .as_ref()
                        .map(|etag| etag.as_str().to_owned()),
                )
                .set_if_match(if_match)
                .set_if_none_match(if_none_match);
            let output = with_headers(call, &headers)
                .send()
                .await
                .map_err(|error| of_sdk(&operation, &error))?;
            let algorithm = output.server_side_encryption().map(SdkEncryption::as_str);
            core.check_encryption(&operation, algorithm, output.ssekms_key_id())?;
            let result = output.copy_object_result();
            Ok(PutOutput {
                etag: etag(&operation, result.and_then(|result| result.e_tag()))?,
            })
        };
        core.retry(Call::slow(operation.clone()), attempt).await
    })
}

/// What the copy carries.
fn with_headers(call: CopyObjectFluentBuilder, headers: &CopyHeaders) -> CopyObjectFluentBuilder {
    match headers {
        CopyHeaders::Same { storage_class } => {
            call.set_storage_class(storage_class.as_deref().map(StorageClass::from))
        }
        CopyHeaders::New(headers) => call
            .metadata_directive(MetadataDirective::Replace)
            .set_storage_class(headers.storage_class.as_deref().map(StorageClass::from))
            .set_metadata(Some(headers.metadata.iter().cloned().collect()))
            .set_content_type(headers.content_type.clone())
            .set_cache_control(headers.cache_control.clone())
            .set_content_disposition(headers.content_disposition.clone())
            .set_content_encoding(headers.content_encoding.clone())
            .set_content_language(headers.content_language.clone()),
    }
}

/// `If-Match` and `If-None-Match` of a write.
pub(super) fn condition_headers(condition: &PutCondition) -> (Option<String>, Option<String>) {
    match condition {
        PutCondition::None => (None, None),
        PutCondition::Match(etag) => (Some(etag.as_str().to_owned()), None),
        PutCondition::Absent => (None, Some("*".to_owned())),
    }
}

/// The ETag of an answer, which no S3 server may leave out.
pub(super) fn etag(operation: &Operation, value: Option<&str>) -> Result<ETag, Fault> {
    match value.filter(|value| !value.is_empty()) {
        Some(value) => Ok(ETag::from_header(value)),
        None => Err(invalid(
            operation,
            "the answer has no ETag; Mountpoint needs one to tell versions apart",
        )),
    }
}

pub(super) fn invalid(operation: &Operation, what: &str) -> Fault {
    operation.error(ErrorKind::InvalidResponse, what).into()
}

/// A time as the server sent it; 1970 where it sent none or one that cannot be represented.
pub(super) fn system_time(time: Option<&DateTime>) -> SystemTime {
    time.and_then(|time| SystemTime::try_from(*time).ok())
        .unwrap_or(UNIX_EPOCH)
}

/// S3's limit for one DeleteObjects.
const DELETE_MANY_MAX: usize = 1000;
