//! Operations on one object: get, head, put, delete, delete many.

use std::ops::Range;
use std::sync::Arc;

use hyper::header::{self, HeaderMap, HeaderValue};
use s3s::dto;
use s3s::dto::{
    DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject,
    GetObjectInput, GetObjectOutput, HeadObjectInput, HeadObjectOutput, Metadata, PutObjectInput,
    PutObjectOutput, Timestamp, TimestampFormat,
};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};

use super::checksum::{Checksum, given_checksums, set_checksum};
use super::conditions::{ReadConditions, Verdict, WriteConditions, precondition_failed};
use super::content::Content;
use super::faults::Quirks;
use super::object::{Extra, Headers, Object, Restore, Tag};
use super::receive::{Claims, Received, receive};
use super::store::{Bucket, Store};

/// Most keys of one DeleteObjects (S3's API reference).
const DELETE_KEYS_MAX: usize = 1000;

impl Store {
    pub(super) fn require_bucket(&self, name: &str) -> S3Result<Arc<Bucket>> {
        self.bucket(name)
            .ok_or_else(|| s3_error!(NoSuchBucket, "The specified bucket does not exist"))
    }

    pub(super) fn require_object(&self, bucket: &str, key: &str) -> S3Result<Arc<Object>> {
        let object = self
            .require_bucket(bucket)?
            .objects
            .read()
            .get(key)
            .cloned();
        object.ok_or_else(|| s3_error!(NoSuchKey, "The specified key does not exist."))
    }
}

/// What part of an object a read asks for.
struct Selection {
    range: Range<u64>,
    is_partial: bool,
    parts_count: Option<i32>,
}

fn select(object: &Object, range: Option<dto::Range>, part: Option<i32>) -> S3Result<Selection> {
    let size = object.size();
    if range.is_some() && part.is_some() {
        return Err(s3_error!(
            InvalidRequest,
            "Cannot specify both Range header and partNumber query parameter"
        ));
    }
    if let Some(range) = range {
        let range = range
            .check(size)
            .ok()
            .filter(|range| !range.is_empty())
            .ok_or_else(|| unsatisfiable(size))?;
        return Ok(Selection {
            range,
            is_partial: true,
            parts_count: None,
        });
    }
    let Some(part) = part else {
        return Ok(Selection {
            range: 0..size,
            is_partial: false,
            parts_count: None,
        });
    };
    let no_such_part = || {
        let code = S3ErrorCode::Custom("InvalidPartNumber".into());
        let mut error = S3Error::with_message(code, "The requested partnumber is not satisfiable");
        error.set_status_code(hyper::StatusCode::RANGE_NOT_SATISFIABLE);
        error
    };
    let part = usize::try_from(part)
        .ok()
        .filter(|part| *part > 0)
        .ok_or_else(|| {
            s3_error!(
                InvalidArgument,
                "Part number must be an integer between 1 and 10000, inclusive"
            )
        })?;
    if object.parts().is_empty() {
        return match part {
            1 => Ok(Selection {
                range: 0..size,
                is_partial: size > 0,
                parts_count: None,
            }),
            _ => Err(no_such_part()),
        };
    }
    let len = *object.parts().get(part - 1).ok_or_else(no_such_part)?;
    let start = object.parts()[..part - 1].iter().sum();
    let parts_count = i32::try_from(object.parts().len()).ok();
    Ok(Selection {
        range: start..start + len,
        is_partial: size > 0,
        parts_count,
    })
}

fn unsatisfiable(size: u64) -> S3Error {
    let mut error = s3_error!(InvalidRange, "The requested range is not satisfiable");
    let mut headers = HeaderMap::new();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/xml"),
    );
    if let Ok(value) = HeaderValue::try_from(format!("bytes */{size}")) {
        headers.insert(header::CONTENT_RANGE, value);
    }
    error.set_headers(headers);
    error
}

fn not_modified(object: &Object) -> S3Error {
    let mut error = S3Error::new(S3ErrorCode::NotModified);
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::try_from(object.etag()) {
        headers.insert(header::ETAG, value);
    }
    error.set_headers(headers);
    error
}

/// Decides whether a GET or HEAD proceeds, and sets the fields that both answers share.
macro_rules! describe {
    ($object:expr, $selection:expr, $checksums:expr, $output:ident) => {{
        let (object, selection) = (&$object, &$selection);
        let Range { start, end } = selection.range;
        let mut output = $output {
            accept_ranges: Some("bytes".to_owned()),
            content_length: i64::try_from(end - start).ok(),
            content_range: selection
                .is_partial
                .then(|| format!("bytes {start}-{}/{}", end - 1, object.size())),
            e_tag: Some(dto::ETag::Strong(object.tag.text())),
            last_modified: Some(Timestamp::from(object.modified)),
            parts_count: selection.parts_count,
            content_type: Some("binary/octet-stream".to_owned()),
            ..$output::default()
        };
        if let Some(extra) = &object.extra {
            let headers = &extra.headers;
            if headers.content_type.is_some() {
                output.content_type = headers.content_type.clone();
            }
            output.content_encoding = headers.content_encoding.clone();
            output.content_disposition = headers.content_disposition.clone();
            output.content_language = headers.content_language.clone();
            output.cache_control = headers.cache_control.clone();
            output.metadata = to_metadata(headers);
            output.storage_class = headers.storage_class.clone().map(dto::StorageClass::from);
            output.restore = extra.restore.map(restore_header);
            // The checksum is that of the whole object, so it is sent with the whole object only.
            if $checksums && end - start == object.size() {
                set_checksum!(output, &extra.checksum);
                output.checksum_type = extra.checksum.as_ref().map(Checksum::type_of);
            }
        }
        output
    }};
}

fn to_metadata(headers: &Headers) -> Option<Metadata> {
    let pairs = headers
        .metadata
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()));
    (!headers.metadata.is_empty()).then(|| pairs.collect())
}

fn restore_header(restore: Restore) -> String {
    match restore {
        Restore::InProgress => "ongoing-request=\"true\"".to_owned(),
        Restore::Until(time) => {
            let mut date = Vec::new();
            let formatted = Timestamp::from(time).format(TimestampFormat::HttpDate, &mut date);
            let date = formatted
                .map(|()| String::from_utf8_lossy(&date).into_owned())
                .unwrap_or_default();
            format!("ongoing-request=\"false\", expiry-date=\"{date}\"")
        }
    }
}

macro_rules! read_conditions {
    ($input:expr) => {
        ReadConditions {
            matches: $input.if_match.take(),
            none_match: $input.if_none_match.take(),
            modified_since: $input.if_modified_since.take(),
            unmodified_since: $input.if_unmodified_since.take(),
        }
    };
}

fn judge(conditions: &ReadConditions, object: &Object, quirks: Quirks) -> S3Result<()> {
    match conditions.judge(object) {
        _ if quirks.ignore_conditions => Ok(()),
        Verdict::Proceed => Ok(()),
        Verdict::NotModified => Err(not_modified(object)),
        Verdict::Failed => Err(precondition_failed()),
    }
}

pub(super) fn quirks<T>(request: &S3Request<T>) -> Quirks {
    request
        .extensions
        .get::<Quirks>()
        .copied()
        .unwrap_or_default()
}

impl Store {
    pub(super) fn get_object(
        &self,
        request: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        let quirks = quirks(&request);
        let mut input = request.input;
        let object = self.require_object(&input.bucket, &input.key)?;
        judge(&read_conditions!(input), &object, quirks)?;
        if object.is_archived() {
            let message = "The operation is not valid for the object's storage class";
            return Err(S3Error::with_message(
                S3ErrorCode::InvalidObjectState,
                message,
            ));
        }
        let range = input.range.filter(|_| !quirks.ignore_range);
        let selection = select(&object, range, input.part_number)?;
        let mut output = describe!(
            object,
            selection,
            input.checksum_mode.is_some(),
            GetObjectOutput
        );
        output.body = Some(object.content.slice(selection.range).into_body());
        Ok(S3Response::new(output))
    }

    pub(super) fn head_object(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        let quirks = quirks(&request);
        let mut input = request.input;
        let object = self.require_object(&input.bucket, &input.key)?;
        judge(&read_conditions!(input), &object, quirks)?;
        let range = input.range.filter(|_| !quirks.ignore_range);
        let selection = select(&object, range, input.part_number)?;
        let output = describe!(
            object,
            selection,
            input.checksum_mode.is_some(),
            HeadObjectOutput
        );
        let mut response = S3Response::new(output);
        response.status = selection
            .is_partial
            .then_some(hyper::StatusCode::PARTIAL_CONTENT);
        Ok(response)
    }

    pub(super) async fn put_object(
        &self,
        request: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        let (mut claims, quirks) = (Claims::of(&request), quirks(&request));
        let mut input = request.input;
        let bucket = self.require_bucket(&input.bucket)?;
        if input.write_offset_bytes.is_some() {
            return Err(s3_error!(
                NotImplemented,
                "Appending needs a directory bucket"
            ));
        }
        claims.content_md5 = input.content_md5.take();
        claims.checksums = given_checksums!(input);
        claims.length = input.content_length;
        let received = receive(input.body.take(), claims).await?;
        let headers = headers_of!(input);
        let conditions = write_conditions!(input, quirks);
        let tag = Tag {
            md5: received.md5,
            parts: 0,
        };
        let mut output = PutObjectOutput {
            e_tag: Some(dto::ETag::Strong(tag.text())),
            ..Default::default()
        };
        set_checksum!(output, Some(&received.checksum));
        output.checksum_type = Some(received.checksum.type_of());
        bucket.replace(&input.key, &conditions, received.into_object(headers))?;
        Ok(S3Response::new(output))
    }

    pub(super) fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        let quirks = quirks(&request);
        let input = request.input;
        let bucket = self.require_bucket(&input.bucket)?;
        let conditions = WriteConditions {
            matches: input.if_match.filter(|_| !quirks.ignore_conditions),
            none_match: None,
        };
        let mut objects = bucket.objects.write();
        conditions.require(objects.get(&*input.key).map(|object| &**object))?;
        objects.remove(&*input.key);
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }

    pub(super) fn delete_objects(
        &self,
        request: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        let input = request.input;
        let bucket = self.require_bucket(&input.bucket)?;
        let keys = input.delete.objects;
        if keys.is_empty() || keys.len() > DELETE_KEYS_MAX {
            return Err(s3_error!(
                MalformedXML,
                "DeleteObjects takes 1 to {DELETE_KEYS_MAX} keys"
            ));
        }
        let (mut deleted, mut errors) = (Vec::new(), Vec::new());
        let mut objects = bucket.objects.write();
        for identifier in keys {
            let matches = identifier.e_tag.map(dto::ETagCondition::ETag);
            let conditions = WriteConditions {
                matches,
                none_match: None,
            };
            match conditions.require(objects.get(&*identifier.key).map(|object| &**object)) {
                Ok(()) => {
                    objects.remove(&*identifier.key);
                    deleted.push(DeletedObject {
                        key: Some(identifier.key),
                        ..DeletedObject::default()
                    });
                }
                Err(error) => errors.push(dto::Error {
                    code: Some(error.code().as_str().to_owned()),
                    key: Some(identifier.key),
                    message: error.message().map(str::to_owned),
                    version_id: None,
                }),
            }
        }
        let quiet = input.delete.quiet.unwrap_or(false);
        let deleted = (!quiet).then_some(deleted);
        Ok(S3Response::new(DeleteObjectsOutput {
            deleted,
            errors: Some(errors),
            ..Default::default()
        }))
    }
}

impl Bucket {
    /// Puts an object in the place of what is there, if the conditions allow.
    pub(super) fn replace(
        &self,
        key: &str,
        conditions: &WriteConditions,
        object: Object,
    ) -> S3Result<()> {
        let mut objects = self.objects.write();
        conditions.require(objects.get(key).map(|object| &**object))?;
        objects.insert(key.into(), Arc::new(object));
        Ok(())
    }
}

impl Received {
    fn into_object(self, headers: Headers) -> Object {
        let extra = Extra {
            headers,
            checksum: Some(self.checksum),
            ..Extra::default()
        };
        Object {
            content: Content::Stored(self.bytes),
            tag: Tag {
                md5: self.md5,
                parts: 0,
            },
            modified: self.at,
            extra: Some(Box::new(extra)),
        }
    }
}

/// What an object shall carry, out of one of `s3s`'s inputs.
macro_rules! headers_of {
    ($input:expr) => {
        $crate::server::object::Headers {
            content_type: $input.content_type.take(),
            content_encoding: $crate::server::objects::stored_encoding(
                $input.content_encoding.take(),
            ),
            content_disposition: $input.content_disposition.take(),
            content_language: $input.content_language.take(),
            cache_control: $input.cache_control.take(),
            metadata: $input
                .metadata
                .take()
                .unwrap_or_default()
                .into_iter()
                .collect(),
            storage_class: $crate::server::objects::stored_class($input.storage_class.take()),
        }
    };
}

/// The conditions of a write, out of one of `s3s`'s inputs.
macro_rules! write_conditions {
    ($input:expr, $quirks:expr) => {
        $crate::server::conditions::WriteConditions {
            matches: $input
                .if_match
                .take()
                .filter(|_| !$quirks.ignore_conditions),
            none_match: $input
                .if_none_match
                .take()
                .filter(|_| !$quirks.ignore_conditions),
        }
    };
}

pub(super) use {headers_of, write_conditions};

/// `Content-Encoding` without `aws-chunked`, which is about the transfer.
pub(super) fn stored_encoding(encoding: Option<String>) -> Option<String> {
    let kept: Vec<_> = encoding
        .as_deref()?
        .split(',')
        .map(str::trim)
        .filter(|coding| *coding != "aws-chunked")
        .collect();
    Some(kept.join(",")).filter(|kept| !kept.is_empty())
}

/// The storage class, unless it is the default.
pub(super) fn stored_class(class: Option<dto::StorageClass>) -> Option<String> {
    class
        .map(|class| class.as_str().to_owned())
        .filter(|class| class != dto::StorageClass::STANDARD)
}
