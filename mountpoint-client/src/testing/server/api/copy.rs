//! CopyObject and UploadPartCopy. Nothing is copied but references.

use std::sync::Arc;

use hyper::header::{self, HeaderMap};
use md5::{Digest, Md5};
use s3s::dto;
use s3s::dto::{
    CopyObjectInput, CopyObjectOutput, CopyObjectResult, CopyPartResult, CopySource, ETagCondition,
    MetadataDirective, Timestamp, UploadPartCopyInput, UploadPartCopyOutput,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::multipart::check_part_number;
use super::objects::{encryption_of, forget_encryption, headers_of, quirks};
use crate::testing::server::clock;
use crate::testing::server::store::buckets::Store;
use crate::testing::server::store::checksum::{Algorithm, Checksum, hash, set_checksum};
use crate::testing::server::store::conditions::{ReadConditions, WriteConditions};
use crate::testing::server::store::content::Content;
use crate::testing::server::store::object::{Extra, Object, Tag};
use crate::testing::server::store::synthetic;
use crate::testing::server::store::upload::Part;

/// Largest source of one copy (S3's API reference).
const COPY_SIZE_MAX: u64 = 5 << 30;

macro_rules! source_conditions {
    ($input:expr) => {
        ReadConditions {
            matches: $input.copy_source_if_match.take(),
            none_match: $input.copy_source_if_none_match.take(),
            modified_since: $input.copy_source_if_modified_since.take(),
            unmodified_since: $input.copy_source_if_unmodified_since.take(),
        }
    };
}

impl Store {
    fn source(&self, source: &CopySource, conditions: &ReadConditions) -> S3Result<Arc<Object>> {
        let CopySource::Bucket { bucket, key, .. } = source else {
            return Err(s3_error!(NotImplemented, "There are no access points here"));
        };
        let object = self.require_object(bucket, key)?;
        conditions.require(&object)?;
        if object.is_archived() {
            return Err(s3_error!(
                InvalidObjectState,
                "The source object is archived and has no restored copy"
            ));
        }
        Ok(object)
    }

    pub(crate) fn copy_object(
        &self,
        request: S3Request<CopyObjectInput>,
    ) -> S3Result<S3Response<CopyObjectOutput>> {
        // `s3s` has no fields for the conditions on the destination.
        let quirks = quirks(&request);
        let conditions = match quirks.ignore_conditions {
            true => WriteConditions::default(),
            false => destination_conditions(&request.headers)?,
        };
        let mut input = request.input;
        forget_encryption!(input, quirks);
        let bucket = self.require_bucket(&input.bucket)?;
        let source = self.source(&input.copy_source, &source_conditions!(input))?;
        if source.size() > COPY_SIZE_MAX {
            return Err(s3_error!(
                InvalidRequest,
                "The specified copy source is larger than the maximum allowable size"
            ));
        }
        let replaces_headers = input
            .metadata_directive
            .as_ref()
            .is_some_and(|directive| directive.as_str() == MetadataDirective::REPLACE);
        let changes_class = input.storage_class.is_some();
        let is_itself = is_same(&input.copy_source, &input.bucket, &input.key);
        if is_itself && !replaces_headers && !changes_class {
            return Err(s3_error!(
                InvalidRequest,
                "This copy request is illegal because it is trying to copy an object to itself without changing it."
            ));
        }
        let mut headers = if replaces_headers {
            headers_of!(input)
        } else {
            source.headers()
        };
        if !replaces_headers {
            headers.storage_class = super::objects::stored_class(input.storage_class.take());
            // Neither does S3 take these from the source.
            headers.website_redirect = input.website_redirect_location.take();
            headers.encryption = encryption_of!(input);
        }
        let checksum = source
            .extra
            .as_ref()
            .and_then(|extra| extra.checksum.clone());
        // A composite checksum is about parts, and the copy has none.
        let checksum = checksum.filter(|checksum| checksum.composite_of.is_none());
        let object = Object {
            content: source.content.clone(),
            tag: Tag {
                md5: source.tag.md5,
                parts: 0,
            },
            modified: clock::now(),
            extra: Some(Box::new(Extra {
                headers,
                checksum,
                ..Extra::default()
            })),
        };
        let result = copy_result(&object);
        bucket.replace(&input.key, &conditions, object)?;
        Ok(S3Response::new(CopyObjectOutput {
            copy_object_result: Some(result),
            server_side_encryption: input.server_side_encryption,
            ssekms_key_id: input.ssekms_key_id,
            ..CopyObjectOutput::default()
        }))
    }

    pub(crate) fn upload_part_copy(
        &self,
        request: S3Request<UploadPartCopyInput>,
    ) -> S3Result<S3Response<UploadPartCopyOutput>> {
        let mut input = request.input;
        check_part_number(input.part_number)?;
        let bucket = self.require_bucket(&input.bucket)?;
        let source = self.source(&input.copy_source, &source_conditions!(input))?;
        let algorithm =
            bucket.with_upload(&input.key, &input.upload_id, |upload| upload.algorithm)?;
        let range = match &input.copy_source_range {
            None => 0..source.size(),
            Some(text) => copy_range(text, source.size())?,
        };
        if range.end - range.start > COPY_SIZE_MAX {
            return Err(s3_error!(
                InvalidRequest,
                "The specified copy source is larger than the maximum allowable size"
            ));
        }
        let part = copied_part(
            source.content.slice(range),
            algorithm.unwrap_or(Algorithm::Crc64Nvme),
        );
        let mut result = CopyPartResult {
            e_tag: Some(dto::ETag::Strong(part.etag())),
            last_modified: Some(Timestamp::from(part.modified)),
            ..CopyPartResult::default()
        };
        set_checksum!(result, &part.checksum);
        bucket.with_upload(&input.key, &input.upload_id, |upload| {
            upload.parts.insert(input.part_number, part)
        })?;
        Ok(S3Response::new(UploadPartCopyOutput {
            copy_part_result: Some(result),
            ..UploadPartCopyOutput::default()
        }))
    }
}

fn copy_result(object: &Object) -> CopyObjectResult {
    let checksum = object
        .extra
        .as_ref()
        .and_then(|extra| extra.checksum.as_ref());
    let mut result = CopyObjectResult {
        e_tag: Some(dto::ETag::Strong(object.tag.text())),
        last_modified: Some(Timestamp::from(object.modified)),
        checksum_type: checksum.map(Checksum::type_of),
        ..CopyObjectResult::default()
    };
    set_checksum!(result, checksum);
    result
}

fn is_same(source: &CopySource, to_bucket: &str, to_key: &str) -> bool {
    matches!(source, CopySource::Bucket { bucket, key, .. } if **bucket == *to_bucket && **key == *to_key)
}

fn destination_conditions(headers: &HeaderMap) -> S3Result<WriteConditions> {
    let parse = |name: header::HeaderName| {
        let parsed = headers
            .get(name)
            .map(|value| ETagCondition::parse_http_header(value.as_bytes()));
        parsed
            .transpose()
            .map_err(|_| s3_error!(InvalidArgument, "A condition is not an ETag"))
    };
    Ok(WriteConditions {
        matches: parse(header::IF_MATCH)?,
        none_match: parse(header::IF_NONE_MATCH)?,
    })
}

/// `x-amz-copy-source-range`: both ends, within the source.
fn copy_range(text: &str, size: u64) -> S3Result<std::ops::Range<u64>> {
    match dto::Range::parse(text) {
        Ok(dto::Range::Int {
            first,
            last: Some(last),
        }) if last < size => Ok(first..last + 1),
        Ok(dto::Range::Int { last: Some(_), .. }) => Err(s3_error!(
            InvalidArgument,
            "Range specified is not valid for source object of size: {size}"
        )),
        _ => Err(s3_error!(
            InvalidArgument,
            "The x-amz-copy-source-range value must be of the form bytes=first-last"
        )),
    }
}

fn copied_part(content: Content, algorithm: Algorithm) -> Part {
    let modified = clock::now();
    if let Content::Synthetic { seed, start, len } = content {
        // Synthetic content is never hashed: it may be terabytes.
        return Part {
            md5: synthetic::synthetic_md5(seed.wrapping_add(start), len),
            checksum: None,
            content,
            modified,
        };
    }
    let mut md5 = Md5::new();
    content.pieces().for_each(|piece| md5.update(&piece));
    let checksum = Some(hash(algorithm, &content));
    Part {
        md5: md5.finalize().into(),
        checksum,
        content,
        modified,
    }
}
