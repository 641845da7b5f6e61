//! Listings of multipart uploads and of their parts.

use std::collections::BTreeSet;

use s3s::dto;
use s3s::dto::{
    ChecksumAlgorithm, CommonPrefix, ListMultipartUploadsInput, ListMultipartUploadsOutput,
    ListPartsInput, ListPartsOutput, MultipartUpload, Timestamp,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::listing::{encode, is_encoded};
use crate::testing::server::store::buckets::Store;
use crate::testing::server::store::checksum::set_checksum;
use crate::testing::server::store::upload::{Part, Upload, checksum_type};

/// Most entries of a page of parts or uploads (S3's API reference).
const PAGE_LEN_MAX: i32 = 1000;

fn page_len(len: Option<i32>) -> S3Result<usize> {
    let len = len.unwrap_or(PAGE_LEN_MAX).min(PAGE_LEN_MAX);
    usize::try_from(len)
        .map_err(|_| s3_error!(InvalidArgument, "The length of a page cannot be negative"))
}

fn describe_part(number: i32, part: &Part) -> dto::Part {
    let mut output = dto::Part {
        part_number: Some(number),
        size: i64::try_from(part.content.size()).ok(),
        e_tag: Some(dto::ETag::Strong(part.etag())),
        last_modified: Some(Timestamp::from(part.modified)),
        ..dto::Part::default()
    };
    set_checksum!(output, &part.checksum);
    output
}

fn describe_upload(key: &str, id: &str, upload: &Upload, encoded: bool) -> MultipartUpload {
    MultipartUpload {
        key: Some(encode(key, encoded)),
        upload_id: Some(id.to_owned()),
        initiated: Some(Timestamp::from(upload.created)),
        storage_class: upload
            .headers
            .storage_class
            .clone()
            .map(dto::StorageClass::from),
        checksum_algorithm: upload
            .algorithm
            .map(|algorithm| ChecksumAlgorithm::from_static(algorithm.as_str())),
        checksum_type: upload.algorithm.map(|_| checksum_type(upload)),
        ..MultipartUpload::default()
    }
}

impl Store {
    pub(crate) fn list_parts(
        &self,
        request: S3Request<ListPartsInput>,
    ) -> S3Result<S3Response<ListPartsOutput>> {
        let input = request.input;
        let bucket = self.require_bucket(&input.bucket)?;
        let len_max = page_len(input.max_parts)?;
        let after = input.part_number_marker.unwrap_or(0).max(0);
        let mut output = bucket.with_upload(&input.key, &input.upload_id, |upload| {
            let mut parts = upload.parts.range(after.saturating_add(1)..);
            let page: Vec<_> = parts
                .by_ref()
                .take(len_max)
                .map(|(number, part)| describe_part(*number, part))
                .collect();
            ListPartsOutput {
                next_part_number_marker: page.last().and_then(|part| part.part_number),
                is_truncated: Some(parts.next().is_some()),
                parts: Some(page),
                checksum_algorithm: upload
                    .algorithm
                    .map(|name| ChecksumAlgorithm::from_static(name.as_str())),
                checksum_type: upload.algorithm.map(|_| checksum_type(upload)),
                storage_class: upload
                    .headers
                    .storage_class
                    .clone()
                    .map(dto::StorageClass::from),
                ..ListPartsOutput::default()
            }
        })?;
        output.part_number_marker = Some(after);
        output.max_parts = i32::try_from(len_max).ok();
        output.bucket = Some(input.bucket);
        output.key = Some(input.key);
        output.upload_id = Some(input.upload_id);
        Ok(S3Response::new(output))
    }

    pub(crate) fn list_multipart_uploads(
        &self,
        request: S3Request<ListMultipartUploadsInput>,
    ) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
        let input = request.input;
        let bucket = self.require_bucket(&input.bucket)?;
        let encoded = is_encoded(input.encoding_type.as_ref())?;
        let len_max = page_len(input.max_uploads)?;
        let prefix = input.prefix.as_deref().unwrap_or_default();
        let delimiter = input
            .delimiter
            .as_deref()
            .filter(|delimiter| !delimiter.is_empty());
        let key_marker = input.key_marker.as_deref().unwrap_or_default();
        let id_marker = input
            .upload_id_marker
            .as_deref()
            .filter(|_| !key_marker.is_empty());
        let (mut page, mut prefixes) = (Vec::new(), BTreeSet::new());
        let mut last = None;
        let mut is_truncated = false;
        for ((key, id), upload) in &*bucket.uploads.lock() {
            let is_behind = key.as_str() > key_marker
                || (key == key_marker && id_marker.is_some_and(|marker| id.as_str() > marker));
            if !key.starts_with(prefix) || !is_behind {
                continue;
            }
            let group = delimiter.and_then(|delimiter| {
                let at = key[prefix.len()..].find(delimiter)?;
                Some(&key[..prefix.len() + at + delimiter.len()])
            });
            let is_listed = group
                .is_some_and(|group| prefixes.contains(group) || key_marker.starts_with(group));
            if is_listed {
                last = last.map(|_| (key.clone(), id.clone()));
                continue;
            }
            if page.len() + prefixes.len() == len_max {
                is_truncated = len_max > 0;
                break;
            }
            match group {
                Some(group) => drop(prefixes.insert(group.to_owned())),
                None => page.push(describe_upload(key, id, upload, encoded)),
            }
            last = Some((key.clone(), id.clone()));
        }
        let (next_key, next_id) = last.filter(|_| is_truncated).unzip();
        let prefixes = prefixes.iter().map(|prefix| CommonPrefix {
            prefix: Some(encode(prefix, encoded)),
        });
        Ok(S3Response::new(ListMultipartUploadsOutput {
            uploads: Some(page),
            common_prefixes: Some(prefixes.collect()),
            is_truncated: Some(is_truncated),
            next_key_marker: next_key.map(|key| encode(&key, encoded)),
            next_upload_id_marker: next_id,
            max_uploads: i32::try_from(len_max).ok(),
            key_marker: input.key_marker.as_deref().map(|key| encode(key, encoded)),
            upload_id_marker: input.upload_id_marker,
            prefix: input
                .prefix
                .as_deref()
                .map(|prefix| encode(prefix, encoded)),
            delimiter: input
                .delimiter
                .as_deref()
                .map(|delimiter| encode(delimiter, encoded)),
            encoding_type: input.encoding_type,
            bucket: Some(input.bucket),
            ..ListMultipartUploadsOutput::default()
        }))
    }
}
