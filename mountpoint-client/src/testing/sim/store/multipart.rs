//! Operations of multipart uploads.
//!
//! Invariant: an upload is there from create until a successful complete or an abort; a refused
//! complete leaves it as it was.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::types::{
    Checksum, ChecksumAlgorithm, CopySource, Key, ObjectHeaders, Part, PartNumber, PutCondition,
    PutOutput, Upload,
};
use crate::{ClientError, ErrorKind};

use super::bucket::Store;
use super::check::{check_headers, crc32c, refuse};
use super::content::{Content, multipart_etag};
use super::uploads::{OpenUpload, StoredPart, place};

/// Highest part number (S3 user guide, "multipart upload limits").
const PART_NUMBER_MAX: u16 = 10_000;

impl Store {
    pub(crate) fn create_upload(
        &mut self,
        key: Key,
        headers: ObjectHeaders,
        checksum: Option<ChecksumAlgorithm>,
    ) -> Result<Upload, ClientError> {
        check_headers(&headers)?;
        self.uploads.made += 1;
        let upload = Upload {
            key,
            upload_id: format!("upload-{:08}", self.uploads.made),
        };
        let open = OpenUpload {
            upload: upload.clone(),
            headers,
            checksum,
            parts: BTreeMap::new(),
        };
        self.uploads.open.insert(place(&upload), open);
        Ok(upload)
    }

    pub(crate) fn put_part(
        &mut self,
        upload: &Upload,
        number: PartNumber,
        body: Bytes,
        checksum: Option<Checksum>,
    ) -> Result<Part, ClientError> {
        let content = Self::part_content(body, checksum)?;
        self.store_part(upload, number, content, checksum)
    }

    pub(crate) fn copy_part(
        &mut self,
        upload: &Upload,
        number: PartNumber,
        source: &CopySource,
        range: std::ops::Range<u64>,
    ) -> Result<Part, ClientError> {
        let object = self.copy_source(source)?;
        if range.start >= range.end || range.end > object.content.size() {
            let what = format!("{range:?} of {} bytes", object.content.size());
            return Err(refuse(ErrorKind::InvalidRequest, "InvalidArgument", &what));
        }
        let content = object.content.slice(range);
        // S3 computes what the other parts came with.
        let checksum = match self.uploads.find(upload)?.checksum {
            Some(ChecksumAlgorithm::Crc32c) => Some(crc32c(&content)),
            Some(ChecksumAlgorithm::Crc64Nvme) | None => None,
        };
        self.store_part(upload, number, content, checksum)
    }

    fn store_part(
        &mut self,
        upload: &Upload,
        number: PartNumber,
        content: Content,
        checksum: Option<Checksum>,
    ) -> Result<Part, ClientError> {
        if number.0 == 0 || number.0 > PART_NUMBER_MAX {
            let what = format!("part number {}", number.0);
            return Err(refuse(ErrorKind::InvalidRequest, "InvalidArgument", &what));
        }
        let open = self.uploads.find(upload)?;
        if checksum.is_some() && checksum.map(algorithm) != open.checksum {
            let what = "the part has another kind of checksum than its upload";
            return Err(refuse(ErrorKind::InvalidRequest, "InvalidRequest", what));
        }
        let part = Part {
            number,
            etag: content.etag(),
            size: content.size(),
            checksum,
        };
        open.parts.insert(
            number,
            StoredPart {
                content,
                part: part.clone(),
            },
        );
        Ok(part)
    }

    pub(crate) fn complete_upload(
        &mut self,
        upload: &Upload,
        parts: &[Part],
        condition: &PutCondition,
    ) -> Result<PutOutput, ClientError> {
        let open = self.uploads.find(upload)?;
        let contents = open.assemble(parts)?;
        let headers = open.headers.clone();
        self.check_write(&upload.key, condition)?;
        let etags: Vec<_> = contents.iter().map(Content::etag).collect();
        self.uploads.open.remove(&place(upload));
        let content = Content::concat(&contents);
        Ok(self.write(&upload.key, content, multipart_etag(&etags), headers))
    }

    pub(crate) fn abort_upload(&mut self, upload: &Upload) -> Result<(), ClientError> {
        self.uploads.find(upload)?;
        self.uploads.open.remove(&place(upload));
        Ok(())
    }

    pub(crate) fn list_parts(&mut self, upload: &Upload) -> Result<Vec<Part>, ClientError> {
        let open = self.uploads.find(upload)?;
        Ok(open
            .parts
            .values()
            .map(|stored| stored.part.clone())
            .collect())
    }

    pub(crate) fn list_uploads(&self, prefix: &str) -> Vec<Upload> {
        let uploads = self.uploads.open.values().map(|open| &open.upload);
        uploads
            .filter(|upload| upload.key.as_str().starts_with(prefix))
            .cloned()
            .collect()
    }
}

fn algorithm(checksum: Checksum) -> ChecksumAlgorithm {
    match checksum {
        Checksum::Crc32c(_) => ChecksumAlgorithm::Crc32c,
        Checksum::Crc64Nvme(_) => ChecksumAlgorithm::Crc64Nvme,
    }
}
