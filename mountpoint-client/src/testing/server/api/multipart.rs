//! Multipart uploads: the state of one, and the operations that make, fill, finish and abort it.
//!
//! Parts are kept as they came; a finished object refers to them and copies nothing.

use std::collections::BTreeMap;
use std::time::SystemTime;

use md5::{Digest, Md5};
use s3s::dto;
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, ChecksumAlgorithm, ChecksumType,
    CompleteMultipartUploadInput, CompleteMultipartUploadOutput, CompletedPart,
    CreateMultipartUploadInput, CreateMultipartUploadOutput, UploadPartInput, UploadPartOutput,
};
use s3s::{S3Error, S3Request, S3Response, S3Result, s3_error};

use super::objects::{forget_encryption, headers_of, quirks, write_conditions};
use super::receive::{Claims, receive};
use crate::testing::server::clock;
use crate::testing::server::embedded::{PartSizes, PartTags};
use crate::testing::server::store::buckets::{Bucket, Store};
use crate::testing::server::store::checksum::{
    Algorithm, Checksum, Hasher, combined, composite, given_checksums, set_checksum, verify,
};
use crate::testing::server::store::content::Content;
use crate::testing::server::store::object::{Extra, Headers, Object, Tag};

/// Least size of every part but the last (S3 user guide, "multipart upload limits").
const PART_SIZE_MIN: u64 = 5 << 20;

/// Highest part number.
pub(crate) const PART_NUMBER_MAX: i32 = 10_000;

/// A multipart upload in progress.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) headers: Headers,
    pub(crate) algorithm: Option<Algorithm>,
    /// Whether the object's checksum is one of the parts' checksums.
    pub(crate) is_composite: bool,
    pub(crate) parts: BTreeMap<i32, Part>,
    pub(crate) created: SystemTime,
}

/// A part of it.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) content: Content,
    pub(crate) md5: [u8; 16],
    pub(crate) checksum: Option<Checksum>,
    pub(crate) modified: SystemTime,
}

impl Part {
    pub(crate) fn etag(&self) -> String {
        Tag {
            md5: self.md5,
            parts: 0,
        }
        .text()
    }
}

pub(crate) fn no_such_upload() -> S3Error {
    s3_error!(
        NoSuchUpload,
        "The specified multipart upload does not exist."
    )
}

impl Bucket {
    /// Reads or changes an upload in progress.
    pub(crate) fn with_upload<T>(
        &self,
        key: &str,
        id: &str,
        f: impl FnOnce(&mut Upload) -> T,
    ) -> S3Result<T> {
        let mut uploads = self.uploads.lock();
        let upload = uploads
            .get_mut(&(key.to_owned(), id.to_owned()))
            .ok_or_else(no_such_upload)?;
        Ok(f(upload))
    }
}

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

pub(crate) fn checksum_type(upload: &Upload) -> ChecksumType {
    ChecksumType::from_static(if upload.is_composite {
        ChecksumType::COMPOSITE
    } else {
        ChecksumType::FULL_OBJECT
    })
}

impl Upload {
    /// The object that the listed parts make.
    fn assemble(&self, listed: Vec<CompletedPart>, sizes: PartSizes) -> S3Result<Object> {
        if listed.is_empty() {
            return Err(s3_error!(MalformedXML, "The list of parts is empty"));
        }
        let number = |part: &CompletedPart| part.part_number.unwrap_or(0);
        if !listed.is_sorted_by(|before, part| number(before) < number(part)) {
            return Err(s3_error!(
                InvalidPartOrder,
                "The list of parts was not in ascending order."
            ));
        }
        let mut parts = Vec::with_capacity(listed.len());
        let last = listed.len() - 1;
        for (at, listed) in listed.into_iter().enumerate() {
            let part = self.find(number(&listed), listed)?;
            if at < last && part.content.size() < PART_SIZE_MIN {
                return Err(s3_error!(
                    EntityTooSmall,
                    "Your proposed upload is smaller than the minimum allowed size"
                ));
            }
            parts.push(part);
        }
        if sizes == PartSizes::Equal && !are_equal(&parts) {
            return Err(s3_error!(
                InvalidPart,
                "All non-trailing parts must have the same length."
            ));
        }
        let mut md5 = Md5::new();
        parts.iter().for_each(|part| md5.update(part.md5));
        let tag = Tag {
            md5: md5.finalize().into(),
            parts: u16::try_from(parts.len()).unwrap_or(u16::MAX),
        };
        let content = Content::join(parts.iter().map(|part| part.content.clone()).collect());
        let extra = Extra {
            headers: self.headers.clone(),
            checksum: self.checksum(&parts, &content),
            restore: None,
            parts: parts.iter().map(|part| part.content.size()).collect(),
        };
        Ok(Object {
            content,
            tag,
            modified: clock::now(),
            extra: Some(Box::new(extra)),
        })
    }

    /// The part that the client lists, if it is the one that was uploaded.
    fn find(&self, number: i32, mut listed: CompletedPart) -> S3Result<&Part> {
        let invalid = || {
            s3_error!(
                InvalidPart,
                "Part {number} could not be found, or its ETag or checksum is another one."
            )
        };
        let part = self.parts.get(&number).ok_or_else(invalid)?;
        let etag = listed.e_tag.take().ok_or_else(invalid)?;
        if etag.value() != part.etag() {
            return Err(invalid());
        }
        let given = given_checksums!(listed);
        if given.is_empty() && self.is_composite {
            return Err(s3_error!(
                InvalidRequest,
                "The upload was created with a checksum of its parts' checksums. The complete request must \
                 include the checksum for each part. It was missing for part {number}."
            ));
        }
        for (algorithm, text) in given {
            let checksum = part
                .checksum
                .as_ref()
                .filter(|checksum| checksum.algorithm == algorithm);
            verify(&text, checksum.ok_or_else(invalid)?).map_err(|_| invalid())?;
        }
        Ok(part)
    }

    fn checksum(&self, parts: &[&Part], content: &Content) -> Option<Checksum> {
        let algorithm = self.algorithm.unwrap_or(Algorithm::Crc64Nvme);
        let sums: Vec<_> = parts
            .iter()
            .map(|part| (part.checksum.as_ref(), part.content.size()))
            .collect();
        if self.is_composite {
            return composite(algorithm, &sums);
        }
        // Parts that were copied from synthetic content have no checksum, and then the whole has none.
        let is_known = parts.iter().all(|part| part.checksum.is_some());
        is_known.then(|| combined(algorithm, &sums).unwrap_or_else(|| hash(algorithm, content)))
    }
}

/// Whether all parts but the last are equally large, and the last is not larger.
fn are_equal(parts: &[&Part]) -> bool {
    let sizes: Vec<_> = parts.iter().map(|part| part.content.size()).collect();
    match &*sizes {
        [first, middle @ .., last] => middle.iter().all(|size| size == first) && last <= first,
        _ => true,
    }
}

/// The checksum of all bytes.
pub(crate) fn hash(algorithm: Algorithm, content: &Content) -> Checksum {
    let mut hasher = Hasher::new(algorithm);
    content.pieces().for_each(|piece| hasher.update(&piece));
    hasher.finish()
}
