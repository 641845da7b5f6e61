//! Operations of multipart uploads: create, upload a part, complete, abort.

use std::collections::BTreeMap;

use s3s::dto;
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, ChecksumAlgorithm, ChecksumType,
    CompleteMultipartUploadInput, CompleteMultipartUploadOutput, CreateMultipartUploadInput,
    CreateMultipartUploadOutput, UploadPartInput, UploadPartOutput,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::objects::{forget_encryption, headers_of, quirks, write_conditions};
use super::receive::{Claims, receive};
use crate::testing::server::clock;
use crate::testing::server::options::PartTags;
use crate::testing::server::store::buckets::Store;
use crate::testing::server::store::checksum::{
    Algorithm, Checksum, given_checksums, set_checksum, verify,
};
use crate::testing::server::store::upload::{Part, Upload, checksum_type, no_such_upload};

/// Highest part number.
pub(crate) const PART_NUMBER_MAX: i32 = 10_000;

/// The part number, if S3 takes it.
pub(crate) fn check_part_number(number: i32) -> S3Result<()> {
    match number {
        1..=PART_NUMBER_MAX => Ok(()),
        _ => Err(s3_error!(
            InvalidArgument,
            "Part number must be an integer between 1 and 10000, inclusive"
        )),
    }
}

/// Which checksum an upload is made with, and whether it is composite.
fn checksum_plan(algorithm: Option<Algorithm>, kind: Option<&ChecksumType>) -> S3Result<bool> {
    use Algorithm::{Crc64Nvme, Sha1, Sha256};
    let Some(algorithm) = algorithm else {
        return Ok(false);
    };
    match (algorithm, kind.map(ChecksumType::as_str)) {
        (Crc64Nvme, Some(ChecksumType::COMPOSITE))
        | (Sha1 | Sha256, Some(ChecksumType::FULL_OBJECT)) => {
            let name = algorithm.as_str();
            Err(s3_error!(
                InvalidRequest,
                "The checksum type cannot be used with the {name} checksum algorithm."
            ))
        }
        (Crc64Nvme, _) | (_, Some(ChecksumType::FULL_OBJECT)) => Ok(false),
        (_, _) => Ok(true),
    }
}

impl Store {
    pub(crate) fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        let quirks = quirks(&request);
        let mut input = request.input;
        forget_encryption!(input, quirks);
        let bucket = self.require_bucket(&input.bucket)?;
        let algorithm = input
            .checksum_algorithm
            .take()
            .map(|name| Algorithm::parse(name.as_str()))
            .transpose()?;
        let is_composite = checksum_plan(algorithm, input.checksum_type.as_ref())?;
        let id = self.new_upload_id();
        let headers = headers_of!(input);
        let upload = Upload {
            headers,
            algorithm,
            is_composite,
            parts: BTreeMap::new(),
            created: clock::now(),
        };
        let checksum_type = algorithm.map(|_| checksum_type(&upload));
        bucket
            .uploads
            .lock()
            .insert((input.key.clone(), id.clone()), upload);
        Ok(S3Response::new(CreateMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            upload_id: Some(id),
            checksum_algorithm: algorithm
                .map(|algorithm| ChecksumAlgorithm::from_static(algorithm.as_str())),
            checksum_type,
            server_side_encryption: input.server_side_encryption,
            ssekms_key_id: input.ssekms_key_id,
            ..CreateMultipartUploadOutput::default()
        }))
    }

    pub(crate) async fn upload_part(
        &self,
        request: S3Request<UploadPartInput>,
    ) -> S3Result<S3Response<UploadPartOutput>> {
        let mut claims = Claims::of(&request);
        let mut input = request.input;
        check_part_number(input.part_number)?;
        let bucket = self.require_bucket(&input.bucket)?;
        claims.algorithm =
            bucket.with_upload(&input.key, &input.upload_id, |upload| upload.algorithm)?;
        claims.content_md5 = input.content_md5.take();
        claims.checksums = given_checksums!(input);
        claims.length = input.content_length;
        claims.needs_md5 = self.part_tags == PartTags::Md5;
        let received = receive(input.body.take(), claims).await?;
        let part = Part {
            content: received.content,
            md5: received.md5,
            checksum: Some(received.checksum),
            modified: received.at,
        };
        let mut output = UploadPartOutput {
            e_tag: Some(dto::ETag::Strong(part.etag())),
            ..Default::default()
        };
        set_checksum!(output, &part.checksum);
        bucket.with_upload(&input.key, &input.upload_id, |upload| {
            upload.parts.insert(input.part_number, part)
        })?;
        Ok(S3Response::new(output))
    }

    pub(crate) fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        let input = request.input;
        let bucket = self.require_bucket(&input.bucket)?;
        let removed = bucket.uploads.lock().remove(&(input.key, input.upload_id));
        removed
            .map(|_| S3Response::new(AbortMultipartUploadOutput::default()))
            .ok_or_else(no_such_upload)
    }

    pub(crate) fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let quirks = quirks(&request);
        let mut input = request.input;
        let bucket = self.require_bucket(&input.bucket)?;
        let given = given_checksums!(input);
        let conditions = write_conditions!(input, quirks);
        let listed = input
            .multipart_upload
            .and_then(|upload| upload.parts)
            .unwrap_or_default();
        let (id, key) = (input.upload_id, input.key);
        let object =
            bucket.with_upload(&key, &id, |upload| upload.assemble(listed, self.part_sizes))??;
        if input
            .mpu_object_size
            .is_some_and(|size| u64::try_from(size) != Ok(object.size()))
        {
            return Err(s3_error!(
                InvalidRequest,
                "The provided 'x-amz-mp-object-size' header does not match"
            ));
        }
        let checksum = object
            .extra
            .as_ref()
            .and_then(|extra| extra.checksum.clone());
        for (algorithm, text) in given {
            match &checksum {
                Some(checksum) if checksum.algorithm == algorithm => verify_whole(&text, checksum)?,
                _ => {
                    return Err(s3_error!(
                        InvalidRequest,
                        "The upload has no {} checksum",
                        algorithm.as_str()
                    ));
                }
            }
        }
        let etag = dto::ETag::Strong(object.tag.text());
        bucket.replace(&key, &conditions, object)?;
        bucket.uploads.lock().remove(&(key.clone(), id));
        let mut output = CompleteMultipartUploadOutput {
            location: Some(format!("/{}/{key}", input.bucket)),
            bucket: Some(input.bucket),
            key: Some(key),
            e_tag: Some(etag),
            checksum_type: checksum.as_ref().map(Checksum::type_of),
            ..CompleteMultipartUploadOutput::default()
        };
        set_checksum!(output, &checksum);
        Ok(S3Response::new(output))
    }
}

/// Clients give a composite checksum with or without the number of parts.
fn verify_whole(given: &str, checksum: &Checksum) -> S3Result<()> {
    let value = match checksum.composite_of {
        Some(parts) => given.strip_suffix(&format!("-{parts}")).unwrap_or(given),
        None => given,
    };
    verify(value, checksum)
}
