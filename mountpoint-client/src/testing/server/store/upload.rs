//! One multipart upload: its parts, and the object that they make.
//!
//! Parts are kept as they came; a finished object refers to them and copies nothing.

use std::collections::BTreeMap;
use std::time::SystemTime;

use md5::{Digest, Md5};
use s3s::dto::{ChecksumType, CompletedPart};
use s3s::{S3Error, S3Result, s3_error};

use super::checksum::{Algorithm, Checksum, combined, composite, given_checksums, hash, verify};
use super::content::Content;
use super::object::{Extra, Headers, Object, Tag};
use crate::testing::server::clock;
use crate::testing::server::options::PartSizes;

/// Least size of every part but the last (S3 user guide, "multipart upload limits").
const PART_SIZE_MIN: u64 = 5 << 20;

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

/// A part of an upload.
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

impl Upload {
    /// The object that the listed parts make.
    pub(crate) fn assemble(
        &self,
        listed: Vec<CompletedPart>,
        sizes: PartSizes,
    ) -> S3Result<Object> {
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
        // Parts that were copied from synthetic content have no checksum, and then the whole has
        // none.
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

pub(crate) fn no_such_upload() -> S3Error {
    s3_error!(
        NoSuchUpload,
        "The specified multipart upload does not exist."
    )
}

pub(crate) fn checksum_type(upload: &Upload) -> ChecksumType {
    ChecksumType::from_static(if upload.is_composite {
        ChecksumType::COMPOSITE
    } else {
        ChecksumType::FULL_OBJECT
    })
}
