//! Operations that change objects: put, delete, delete many.

use std::sync::Arc;

use s3s::dto;
use s3s::dto::{
    DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject,
    PutObjectInput, PutObjectOutput,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::receive::{Claims, Received, receive};
use crate::testing::server::http::faults::Quirks;
use crate::testing::server::store::buckets::{Bucket, Store};
use crate::testing::server::store::checksum::{given_checksums, set_checksum};
use crate::testing::server::store::conditions::WriteConditions;
use crate::testing::server::store::object::{Extra, Headers, Object, Tag};

/// Most keys of one DeleteObjects (S3's API reference).
const DELETE_KEYS_MAX: usize = 1000;

impl Store {
    pub(crate) fn require_object(&self, bucket: &str, key: &str) -> S3Result<Arc<Object>> {
        let object = self
            .require_bucket(bucket)?
            .objects
            .read()
            .get(key)
            .cloned();
        object.ok_or_else(|| s3_error!(NoSuchKey, "The specified key does not exist."))
    }
}

/// The faults of the operation.
pub(crate) fn quirks<T>(request: &S3Request<T>) -> Quirks {
    request
        .extensions
        .get::<Quirks>()
        .copied()
        .unwrap_or_default()
}

impl Store {
    pub(crate) async fn put_object(
        &self,
        request: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        let (mut claims, quirks) = (Claims::of(&request), quirks(&request));
        match request.input.write_offset_bytes {
            Some(offset) if !quirks.ignore_write_offset => {
                return self.append_object(request, offset).await;
            }
            _ => {}
        }
        let mut input = request.input;
        let bucket = self.require_bucket(&input.bucket)?;
        claims.content_md5 = input.content_md5.take();
        claims.checksums = given_checksums!(input);
        claims.length = input.content_length;
        let received = receive(input.body.take(), claims).await?;
        forget_encryption!(input, quirks);
        let headers = headers_of!(input);
        let conditions = write_conditions!(input, quirks);
        let tag = Tag {
            md5: received.md5,
            parts: 0,
        };
        let mut output = PutObjectOutput {
            e_tag: Some(dto::ETag::Strong(tag.text())),
            server_side_encryption: input.server_side_encryption.take(),
            ssekms_key_id: input.ssekms_key_id.take(),
            ..Default::default()
        };
        set_checksum!(output, Some(&received.checksum));
        output.checksum_type = Some(received.checksum.type_of());
        bucket.replace(&input.key, &conditions, received.into_object(headers))?;
        Ok(S3Response::new(output))
    }

    pub(crate) fn delete_object(
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

    pub(crate) fn delete_objects(
        &self,
        request: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        let quirks = quirks(&request);
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
            let version = identifier.e_tag.filter(|_| !quirks.ignore_conditions);
            let conditions = WriteConditions {
                matches: version.map(dto::ETagCondition::ETag),
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
    /// Replaces the object under `key`, if the conditions allow.
    pub(crate) fn replace(
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
            content: self.content,
            tag: Tag {
                md5: self.md5,
                parts: 0,
            },
            modified: self.at,
            extra: Some(Box::new(extra)),
        }
    }
}

/// The headers of a new object, out of one of `s3s`'s inputs.
macro_rules! headers_of {
    ($input:expr) => {
        $crate::testing::server::store::object::Headers {
            content_type: $input.content_type.take(),
            content_encoding: $crate::testing::server::api::objects::stored_encoding(
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
            storage_class: $crate::testing::server::api::objects::stored_class(
                $input.storage_class.take(),
            ),
            expires: $input
                .expires
                .take()
                .and_then($crate::testing::server::api::objects::http_date),
            website_redirect: $input.website_redirect_location.take(),
            encryption: $crate::testing::server::api::objects::encryption_of!($input),
        }
    };
}

/// The encryption that one of `s3s`'s inputs asks for.
macro_rules! encryption_of {
    ($input:expr) => {
        $input.server_side_encryption.as_ref().map(|algorithm| {
            $crate::testing::server::store::object::Encryption {
                algorithm: algorithm.as_str().to_owned(),
                key_id: $input.ssekms_key_id.clone(),
                bucket_key: $input.bucket_key_enabled.unwrap_or(false),
            }
        })
    };
}

/// Forgets the encryption that is asked for, where a rule says so.
macro_rules! forget_encryption {
    ($input:expr, $quirks:expr) => {
        if $quirks.ignore_encryption {
            $input.server_side_encryption = None;
            $input.ssekms_key_id = None;
        }
    };
}

/// The conditions of a write, out of one of `s3s`'s inputs.
macro_rules! write_conditions {
    ($input:expr, $quirks:expr) => {
        $crate::testing::server::store::conditions::WriteConditions {
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

pub(crate) use {encryption_of, forget_encryption, headers_of, write_conditions};

pub(crate) fn http_date(time: dto::Timestamp) -> Option<String> {
    let mut text = Vec::new();
    time.format(dto::TimestampFormat::HttpDate, &mut text)
        .ok()?;
    String::from_utf8(text).ok()
}

/// `Content-Encoding` without `aws-chunked`, which is about the transfer.
pub(crate) fn stored_encoding(encoding: Option<String>) -> Option<String> {
    let kept: Vec<_> = encoding
        .as_deref()?
        .split(',')
        .map(str::trim)
        .filter(|coding| *coding != "aws-chunked")
        .collect();
    Some(kept.join(",")).filter(|kept| !kept.is_empty())
}

/// The storage class, unless it is the default.
pub(crate) fn stored_class(class: Option<dto::StorageClass>) -> Option<String> {
    class
        .map(|class| class.as_str().to_owned())
        .filter(|class| class != dto::StorageClass::STANDARD)
}
