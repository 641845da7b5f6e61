//! Control requests for objects and the bucket: HeadBucket, deletions, copies.

use std::collections::HashSet;
use std::sync::Arc;

use aws_sdk_s3::operation::copy_object::builders::CopyObjectFluentBuilder;
use aws_sdk_s3::types::{
    Delete, MetadataDirective, ObjectIdentifier, ServerSideEncryption as SdkEncryption,
    StorageClass,
};
use mountpoint_crt_sys::Message;

use super::answer::no_etag;
use super::exchange::{self, Exchange};
use super::object_head::{etag_there, is_absent};
use super::object_headers::condition_headers;
use super::prove_encryption::prove_encryption;
use crate::crt_client::core::{Call, Core, reading, refused, retry, writing};
use crate::crt_client::fault::of_sdk;
use crate::crt_client::fault::{ErrorAnswer, Fault, Operation};
use crate::endpoint::copy_source;
use crate::types::{
    BucketInfo, CopyHeaders, CopySource, DeleteFailure, ETag, Key, ObjectHeaders, PutCondition,
    PutOutput,
};
use crate::{ClientError, ErrorKind, Pending};

pub(in crate::crt_client) fn head_bucket(core: &Arc<Core>) -> Pending<BucketInfo> {
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
        retry(&core, Call::quick(operation.clone()), attempt).await
    })
}

pub(in crate::crt_client) fn delete(
    core: &Arc<Core>,
    key: &Key,
    if_match: Option<ETag>,
) -> Pending<()> {
    let (core_of_task, key) = (Arc::clone(core), key.clone());
    writing(core, async move {
        let core = core_of_task;
        let operation = core.on_key("DeleteObject", &key);
        let mut headers = core.headers_of("DeleteObject");
        if let Some(etag) = &if_match {
            headers.push(("If-Match".to_owned(), etag.as_str().to_owned()));
        }
        let message = Message {
            operation: "DeleteObject",
            method: "DELETE",
            path: core.endpoint.path(&key),
            headers,
        };
        let exchange = Exchange::control(&core, &operation, message);
        let attempt = || async {
            let Err(fault) = exchange.send().await else {
                return Ok(());
            };
            let is_gone = match fault.error.kind {
                // Some servers answer 404 where S3 answers 204.
                ErrorKind::NotFound => true,
                // So do gateways whose server is away: only the bucket tells.
                _ if fault.is_foreign && fault.error.status == Some(404) => {
                    is_absent(&core, &key).await
                }
                _ => false,
            };
            match is_gone && if_match.is_none() {
                true => Ok(()),
                false => Err(fault),
            }
        };
        exchange::retry(&core, Call::quick(operation.clone()), attempt).await
    })
}

pub(in crate::crt_client) fn delete_many(
    core: &Arc<Core>,
    objects: Vec<(Key, Option<ETag>)>,
) -> Pending<Vec<DeleteFailure>> {
    let operation = core.on_bucket("DeleteObjects");
    if objects.is_empty() {
        return Box::pin(std::future::ready(Ok(Vec::new())));
    }
    if objects.len() > DELETE_MANY_MAX {
        let what = format!("{} keys, {DELETE_MANY_MAX} at most", objects.len());
        return refused(operation.error(ErrorKind::InvalidRequest, &what));
    }
    let (listed, unlisted): (Vec<_>, Vec<_>) = objects
        .into_iter()
        .partition(|(key, _)| is_xml(key.as_str()));
    let core_of_task = Arc::clone(core);
    writing(core, async move {
        let core = core_of_task;
        let mut failures = delete_listed(&core, &operation, &listed).await?;
        for (key, if_match) in unlisted {
            if let Err(error) = delete(&core, &key, if_match).await {
                failures.push(DeleteFailure { key, error });
            }
        }
        Ok(failures)
    })
}

/// Whether XML can carry `text`: a DeleteObjects that names a key with another character is refused
/// as a whole.
fn is_xml(text: &str) -> bool {
    text.chars().all(|c| match c {
        '\t' | '\n' | '\r' => true,
        c => c >= ' ' && c != '\u{fffe}' && c != '\u{ffff}',
    })
}

async fn delete_listed(
    core: &Core,
    operation: &Operation,
    objects: &[(Key, Option<ETag>)],
) -> Result<Vec<DeleteFailure>, ClientError> {
    if objects.is_empty() {
        return Ok(Vec::new());
    }
    let attempt = || async {
        let delete = delete_list(operation, objects)?;
        let call = core
            .sdk
            .delete_objects()
            .bucket(&core.bucket)
            .delete(delete);
        let output = call
            .send()
            .await
            .map_err(|error| of_sdk(operation, &error))?;
        Ok(delete_failures(output.errors(), objects, |key| {
            core.on_key("DeleteObjects", key)
        }))
    };
    retry(core, Call::quick(operation.clone()), attempt).await
}

fn delete_list(operation: &Operation, objects: &[(Key, Option<ETag>)]) -> Result<Delete, Fault> {
    let build = || {
        let mut list = Delete::builder().quiet(true);
        for (key, if_match) in objects {
            let object = ObjectIdentifier::builder().key(key.as_str());
            let version = if_match.as_ref().map(|etag| etag.as_str().to_owned());
            list = list.objects(object.set_e_tag(version).build()?);
        }
        list.build()
    };
    build().map_err(|error| {
        operation
            .error(ErrorKind::InvalidRequest, &error.to_string())
            .into()
    })
}

/// The `objects` that a deletion left. An object that was missing counts as deleted.
///
/// An error that names none of them, as where a server spells a key in another way, may be of any:
/// then nothing is said to be deleted.
fn delete_failures(
    errors: &[aws_sdk_s3::types::Error],
    objects: &[(Key, Option<ETag>)],
    on_key: impl Fn(&Key) -> Operation,
) -> Vec<DeleteFailure> {
    let asked: HashSet<&str> = objects.iter().map(|(key, _)| key.as_str()).collect();
    let mut failures = Vec::new();
    for error in errors {
        let answer = ErrorAnswer {
            status: 200,
            code: Some(error.code().unwrap_or("UnknownError")),
            message: error.message(),
            ..ErrorAnswer::default()
        };
        let failure = |key: &Key| DeleteFailure {
            key: key.clone(),
            error: answer.fault(&on_key(key)).error,
        };
        match error.key().filter(|key| asked.contains(key)) {
            Some(_) if answer.kind() == ErrorKind::NotFound => {}
            Some(key) => failures.extend(Key::parse(key).as_ref().map(failure)),
            None => return objects.iter().map(|(key, _)| failure(key)).collect(),
        }
    }
    failures
}

pub(in crate::crt_client) fn copy(
    core: &Arc<Core>,
    source: CopySource,
    destination: &Key,
    condition: PutCondition,
    headers: CopyHeaders,
) -> Pending<PutOutput> {
    let keeps_encryption = core.headers.keeps_encryption();
    if let Err(what) = check_headers(&headers) {
        let operation = core.on_key("CopyObject", destination);
        return refused(operation.error(ErrorKind::InvalidRequest, &what));
    }
    let (core_of_task, destination) = (Arc::clone(core), destination.clone());
    writing(core, async move {
        let core = core_of_task;
        let operation = core.on_key("CopyObject", &destination);
        prove_encryption(&core, &destination).await?;
        let attempt = || async {
            let call = copy_call(&core, &source, &destination, &condition);
            let more = headers_of_copy(&headers, keeps_encryption);
            let sent = with_headers(call, &headers)
                .customize()
                .mutate_request(move |request| {
                    for (name, value) in &more {
                        request.headers_mut().insert(name.clone(), value.clone());
                    }
                })
                .send()
                .await;
            let output = sent.map_err(|error| of_sdk(&operation, &error))?;
            let algorithm = output.server_side_encryption().map(SdkEncryption::as_str);
            core.check_encryption(&operation, algorithm, output.ssekms_key_id())?;
            let Some(result) = output.copy_object_result() else {
                // A gateway may have answered.
                return Err(no_etag(&operation).into());
            };
            Ok(result.e_tag().and_then(ETag::parse))
        };
        let copied = retry(&core, Call::slow(operation.clone()), attempt).await?;
        let etag = match copied {
            Some(etag) => etag,
            None => etag_there(&core, &destination).await?,
        };
        Ok(PutOutput { etag })
    })
}

fn copy_call(
    core: &Core,
    source: &CopySource,
    destination: &Key,
    condition: &PutCondition,
) -> CopyObjectFluentBuilder {
    let source_version = source.if_match.as_ref();
    let (if_match, if_none_match) = condition_headers(condition);
    core.sdk
        .copy_object()
        .bucket(&core.bucket)
        .key(destination.as_str())
        .copy_source(copy_source(&core.bucket, source.key.as_str()))
        .set_copy_source_if_match(source_version.map(|etag| etag.as_str().to_owned()))
        .set_if_match(if_match)
        .set_if_none_match(if_none_match)
}

/// The header of the copy that the request cannot carry, if there is one. The SDK sends UTF-8 only.
fn check_headers(headers: &CopyHeaders) -> Result<(), String> {
    let sent = match headers {
        CopyHeaders::New(headers) => headers.clone(),
        CopyHeaders::Same(named) => ObjectHeaders {
            website_redirect: named.website_redirect.clone(),
            storage_class: named.storage_class.clone(),
            encryption: named.encryption.clone(),
            ..ObjectHeaders::default()
        },
    };
    sent.check()?;
    match sent.are_utf8() {
        true => Ok(()),
        false => Err("a header is not UTF-8, which no copy can carry".to_owned()),
    }
}

/// The call with the metadata of the copy.
fn with_headers(call: CopyObjectFluentBuilder, headers: &CopyHeaders) -> CopyObjectFluentBuilder {
    match headers {
        CopyHeaders::Same(named) => {
            call.set_storage_class(named.storage_class.as_deref().map(StorageClass::from))
        }
        CopyHeaders::New(headers) => call
            .metadata_directive(MetadataDirective::Replace)
            .set_storage_class(headers.storage_class.as_deref().map(StorageClass::from))
            .set_metadata(Some(headers.stored_metadata().collect()))
            .set_content_type(headers.content_type.clone())
            .set_cache_control(headers.cache_control.clone())
            .set_content_disposition(headers.content_disposition.clone())
            .set_content_encoding(headers.content_encoding.clone())
            .set_content_language(headers.content_language.clone()),
    }
}

/// Headers of the copy that the SDK has no method for: the SDK wants an `Expires` that is a time,
/// S3 does not.
fn headers_of_copy(headers: &CopyHeaders, keeps_encryption: bool) -> Vec<(String, String)> {
    let (CopyHeaders::Same(named) | CopyHeaders::New(named)) = headers;
    let mut more = named.uncopied_fields(keeps_encryption);
    if let CopyHeaders::New(new) = headers {
        more.extend(
            new.expires
                .iter()
                .map(|expires| ("expires".to_owned(), expires.clone())),
        );
    }
    more
}

/// S3's limit for one DeleteObjects.
const DELETE_MANY_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys among `a`, `b` and `c` that an answer with these errors leaves.
    fn failures(errors: &[(Option<&str>, Option<&str>)]) -> Vec<(String, ErrorKind)> {
        let error = |(key, code): &(Option<&str>, Option<&str>)| {
            aws_sdk_s3::types::Error::builder()
                .set_key(key.map(str::to_owned))
                .set_code(code.map(str::to_owned))
                .build()
        };
        let errors: Vec<_> = errors.iter().map(error).collect();
        let objects = ["a", "b", "c"].map(|key| (Key::parse(key).unwrap(), None));
        let on_key = |key: &Key| Operation::on_key("DeleteObjects", "bucket", key);
        let failures = delete_failures(&errors, &objects, on_key).into_iter();
        let shown = |failure: DeleteFailure| (failure.key.to_string(), failure.error.kind);
        failures.map(shown).collect()
    }

    #[test]
    fn each_key_of_a_deletion_has_its_own_error() {
        for (code, kind) in [
            (Some("AccessDenied"), ErrorKind::Denied),
            (Some("InternalError"), ErrorKind::Transient),
            (Some("SlowDown"), ErrorKind::Throttled),
            (Some("ServiceUnavailable"), ErrorKind::Throttled),
            (Some("InvalidArgument"), ErrorKind::InvalidRequest),
            (Some("MalformedXML"), ErrorKind::InvalidRequest),
            (Some("InvalidRequest"), ErrorKind::InvalidRequest),
            (Some("PreconditionFailed"), ErrorKind::PreconditionFailed),
            (Some("ConditionalRequestConflict"), ErrorKind::Conflict),
            (Some("NotImplemented"), ErrorKind::Unsupported),
            (Some("MethodNotAllowed"), ErrorKind::Unsupported),
            (Some("SomethingNew"), ErrorKind::InvalidResponse),
            (None, ErrorKind::InvalidResponse),
        ] {
            let expected = [("b".to_owned(), kind)];
            assert_eq!(failures(&[(Some("b"), code)]), expected, "{code:?}");
        }
        assert_eq!(failures(&[]), []);
        assert_eq!(failures(&[(Some("b"), Some("NoSuchKey"))]), []);
    }

    #[test]
    fn an_error_of_a_key_that_was_not_asked_leaves_nothing_deleted() {
        for key in [None, Some(""), Some("d"), Some("%62")] {
            let errors = [(Some("a"), Some("NoSuchKey")), (key, Some("AccessDenied"))];
            let expected = ["a", "b", "c"].map(|key| (key.to_owned(), ErrorKind::Denied));
            assert_eq!(failures(&errors), expected, "{key:?}");
        }
    }
}
