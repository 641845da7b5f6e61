//! Appending to objects of directory buckets: PutObject with `x-amz-write-offset-bytes`.
//!
//! Appended bytes become a part of the object, and the number of parts is bounded. The object keeps
//! its headers; its checksum is that of all its bytes.

use s3s::dto;
use s3s::dto::{PutObjectInput, PutObjectOutput};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};

use super::objects::{quirks, write_conditions};
use super::receive::{Claims, Received, receive};
use crate::testing::server::store::buckets::{Bucket, Store, is_directory_bucket};
use crate::testing::server::store::checksum::{
    Checksum, combined, given_checksums, hash, set_checksum,
};
use crate::testing::server::store::conditions::WriteConditions;
use crate::testing::server::store::object::{Extra, Object, Tag};

impl Store {
    /// PutObject behind the end of the object, which has `offset` bytes.
    pub(crate) async fn append_object(
        &self,
        request: S3Request<PutObjectInput>,
        offset: i64,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        let (mut claims, quirks) = (Claims::of(&request), quirks(&request));
        let mut input = request.input;
        let bucket = self.require_bucket(&input.bucket)?;
        if !is_directory_bucket(&input.bucket) {
            return Err(s3_error!(
                NotImplemented,
                "Appending needs a directory bucket"
            ));
        }
        if input.metadata.as_ref().is_some_and(|them| !them.is_empty()) {
            return Err(s3_error!(
                InvalidRequest,
                "Cannot specify both a write offset value and user-defined object metadata for existing objects."
            ));
        }
        claims.content_md5 = input.content_md5.take();
        claims.checksums = given_checksums!(input);
        claims.length = input.content_length;
        let is_given = !claims.checksums.is_empty();
        let conditions = write_conditions!(input, quirks);
        let kept = bucket.stored_checksum(&input.key);
        if !is_given {
            claims.algorithm = kept.as_ref().map(|kept| kept.algorithm);
        }
        let received = receive(input.body.take(), claims).await?;
        if received.content.size() == 0 {
            return Err(s3_error!(
                InvalidRequest,
                "Request body cannot be empty when 'write offset' is specified."
            ));
        }
        if let Some(kept) = kept.filter(|kept| kept.algorithm != received.checksum.algorithm) {
            let (expected, actual) = (kept.algorithm, received.checksum.algorithm);
            return Err(s3_error!(
                InvalidRequest,
                "Checksum Type mismatch occurred, expected checksum Type: {}, actual checksum Type: {}.",
                expected.as_str().to_lowercase(),
                actual.as_str().to_lowercase()
            ));
        }
        let offset = u64::try_from(offset).map_err(|_| invalid_offset())?;
        let (tag, size, checksum) = bucket.extend(
            &input.key,
            &conditions,
            (offset, self.append_parts_max),
            received,
        )?;
        let mut output = PutObjectOutput {
            e_tag: Some(dto::ETag::Strong(tag.text())),
            server_side_encryption: input.server_side_encryption.take(),
            ssekms_key_id: input.ssekms_key_id.take(),
            size: i64::try_from(size).ok(),
            ..Default::default()
        };
        set_checksum!(output, &checksum);
        output.checksum_type = checksum.as_ref().map(Checksum::type_of);
        Ok(S3Response::new(output))
    }
}

impl Bucket {
    fn stored_checksum(&self, key: &str) -> Option<Checksum> {
        let objects = self.objects.read();
        objects.get(key)?.extra.as_ref()?.checksum.clone()
    }

    /// Puts `received` behind the end of an object. Its tag, size and checksum afterwards.
    fn extend(
        &self,
        key: &str,
        conditions: &WriteConditions,
        (offset, parts_max): (u64, usize),
        received: Received,
    ) -> S3Result<(Tag, u64, Option<Checksum>)> {
        let mut objects = self.objects.write();
        let current = objects.get(key).cloned();
        conditions.require(current.as_deref())?;
        let Some(current) = current else {
            return Err(s3_error!(NoSuchKey, "The specified key does not exist."));
        };
        if current.size() != offset {
            return Err(invalid_offset());
        }
        let mut parts = current.parts().to_vec();
        if parts.is_empty() {
            parts.push(current.size());
        }
        if parts.len() >= parts_max {
            return Err(bad_request(
                "TooManyParts",
                "You have attempted to add more parts than the maximum of 10000 that are allowed for this object.",
            ));
        }
        let len = received.content.size();
        parts.push(len);
        let content = current.content.with(received.content);
        let before = current.extra.as_deref().cloned().unwrap_or_default();
        let checksum = before.checksum.as_ref().map(|kept| {
            let sums = [(Some(kept), offset), (Some(&received.checksum), len)];
            let joined = kept.composite_of.is_none().then_some(sums);
            joined
                .and_then(|sums| combined(kept.algorithm, &sums))
                .unwrap_or_else(|| hash(kept.algorithm, &content))
        });
        let size = content.size();
        let tag = Tag::of(&[current.tag.md5, received.md5].concat());
        let object = Object {
            content,
            tag,
            modified: received.at,
            extra: Some(Box::new(Extra {
                checksum: checksum.clone(),
                parts,
                ..before
            })),
        };
        objects.insert(key.into(), object.into());
        Ok((tag, size, checksum))
    }
}

fn invalid_offset() -> S3Error {
    bad_request(
        "InvalidWriteOffset",
        "The write offset value that you specified does not match the current object size.",
    )
}

fn bad_request(code: &'static str, message: &'static str) -> S3Error {
    let mut error = S3Error::with_message(S3ErrorCode::Custom(code.into()), message);
    error.set_status_code(hyper::StatusCode::BAD_REQUEST);
    error
}
