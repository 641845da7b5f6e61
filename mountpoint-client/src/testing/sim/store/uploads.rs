//! Multipart uploads in progress and their parts.

use std::collections::BTreeMap;

use crate::types::{ChecksumAlgorithm, ObjectHeaders, Part, PartNumber, Upload};
use crate::{ClientError, ErrorKind};

use super::check::refuse;
use super::content::Content;

/// Smallest part that is not the last (S3 user guide, "multipart upload limits").
const PART_LEN_MIN: u64 = 5 << 20;

/// All uploads in progress, by key and then by the order of their making.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    pub(super) open: BTreeMap<(Vec<u8>, String), OpenUpload>,
    pub(super) made: u64,
}

#[derive(Debug)]
pub(super) struct OpenUpload {
    pub(super) upload: Upload,
    pub(super) headers: ObjectHeaders,
    pub(super) checksum: Option<ChecksumAlgorithm>,
    pub(super) parts: BTreeMap<PartNumber, StoredPart>,
}

#[derive(Debug)]
pub(super) struct StoredPart {
    pub(super) content: Content,
    pub(super) part: Part,
}

impl Uploads {
    /// Ends every upload of `key`.
    pub(crate) fn forget(&mut self, key: &str) {
        self.open.retain(|_, open| open.upload.key.as_str() != key);
    }

    pub(super) fn find(&mut self, upload: &Upload) -> Result<&mut OpenUpload, ClientError> {
        self.open
            .get_mut(&place(upload))
            .ok_or_else(|| refuse(ErrorKind::NoSuchUpload, "NoSuchUpload", &upload.upload_id))
    }
}

impl OpenUpload {
    /// The contents of the parts that the caller names, if S3 would make an object of them.
    pub(super) fn assemble(&self, parts: &[Part]) -> Result<Vec<Content>, ClientError> {
        let invalid = |code, what: &str| Err(refuse(ErrorKind::InvalidRequest, code, what));
        if parts.is_empty() {
            return invalid(
                "MalformedXML",
                "an upload is completed with at least one part",
            );
        }
        if !parts.is_sorted_by(|a, b| a.number < b.number) {
            return invalid("InvalidPartOrder", "parts are named in ascending order");
        }
        let mut contents = Vec::with_capacity(parts.len());
        for (at, named) in parts.iter().enumerate() {
            let what = format!("part {}", named.number.0);
            let Some(stored) = self.parts.get(&named.number) else {
                return invalid("InvalidPart", &what);
            };
            if !stored.part.etag.matches(&named.etag) {
                return invalid("InvalidPart", &what);
            }
            if named.checksum.is_none() && self.checksum == Some(ChecksumAlgorithm::Crc32c) {
                // The object's checksum is made of these.
                return invalid("InvalidRequest", "each part is named with its checksum");
            }
            if named.checksum.is_some() && named.checksum != stored.part.checksum {
                return invalid("InvalidPart", &what);
            }
            if at + 1 < parts.len() && stored.part.size < PART_LEN_MIN {
                return invalid("EntityTooSmall", &what);
            }
            contents.push(stored.content.clone());
        }
        Ok(contents)
    }
}

pub(super) fn place(upload: &Upload) -> (Vec<u8>, String) {
    (
        upload.key.as_str().as_bytes().to_vec(),
        upload.upload_id.clone(),
    )
}
