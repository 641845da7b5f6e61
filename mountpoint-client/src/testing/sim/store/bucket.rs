//! The bucket: S3's operations on objects, without time.
//!
//! Invariant: an operation that returns an error has changed nothing. Not locked; the client holds
//! it in a lock.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::types::{
    AppendRequest, BucketInfo, Checksum, ChecksumAlgorithm, CopyHeaders, CopySource, DeleteFailure,
    ETag, FirstBytes, GetOutput, Key, ObjectDetails, ObjectHeaders, ObjectInfo, PutCondition,
    PutOutput, PutRequest, StoredChecksum,
};
use crate::{ClientError, ErrorKind};

use super::check::{
    check_body, check_headers, check_readable, check_version, check_write, no_such_key, refuse,
};
use super::content::Content;
use super::object::SimObject;
use super::object::time_of_write;
use super::uploads::Uploads;
use crate::testing::sim::options::SimOptions;

/// Keys in one DeleteObjects request.
const DELETE_KEYS_MAX: usize = 1000;

/// Bytes of an object that one PUT or one copy can make.
const PUT_LEN_MAX: u64 = 5 << 30;

/// Objects in UTF-8 byte order of their keys, and the uploads that may become objects.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) objects: BTreeMap<Vec<u8>, Arc<SimObject>>,
    pub(crate) uploads: Uploads,
    /// Seed of the order in which a directory bucket lists; `None` on a general purpose bucket.
    pub(crate) listing_seed: Option<u64>,
    /// Whether deletions delete whatever version they name, and copies have no conditions on their
    /// destination.
    pub(crate) ignores_versions: bool,
    /// Whether markers of directories have no bytes, and a content type of the server's own.
    has_bare_markers: bool,
    region: Option<String>,
    writes: u64,
}

impl Store {
    pub(crate) fn new(options: &SimOptions) -> Self {
        Self {
            objects: BTreeMap::new(),
            uploads: Uploads::default(),
            listing_seed: options.directory_bucket.then_some(options.seed),
            ignores_versions: false,
            has_bare_markers: options.has_bare_markers,
            region: options.region.clone(),
            writes: 0,
        }
    }

    pub(crate) fn object(&self, key: &Key) -> Option<&Arc<SimObject>> {
        self.objects.get(key.as_str().as_bytes())
    }

    pub(crate) fn insert(&mut self, object: SimObject) {
        self.objects
            .insert(object.key.as_str().as_bytes().to_vec(), Arc::new(object));
    }

    pub(crate) fn remove(&mut self, key: &Key) -> Option<Arc<SimObject>> {
        self.objects.remove(key.as_str().as_bytes())
    }

    /// Makes a new version of `key`; the caller has checked that it may.
    pub(crate) fn write(
        &mut self,
        key: &Key,
        content: Content,
        etag: ETag,
        headers: ObjectHeaders,
    ) -> PutOutput {
        self.writes += 1;
        self.insert(SimObject {
            key: key.clone(),
            content,
            etag: etag.clone(),
            last_modified: time_of_write(self.writes),
            headers,
            restored: false,
            checksum: StoredChecksum::None,
        });
        PutOutput { etag }
    }

    /// The bytes of `range` and their metadata.
    pub(crate) fn get(
        &self,
        key: &Key,
        range: &Range<u64>,
        (if_match, known_size): (Option<&ETag>, Option<u64>),
    ) -> Result<(Content, GetOutput), ClientError> {
        let object = self.object(key).ok_or_else(|| no_such_key(key.as_str()))?;
        check_version(object, if_match)?;
        check_readable(object)?;
        let size = object.content.size();
        if let Some(known) = known_size.filter(|known| *known != size) {
            let what = format!("{key} has {size} bytes, and was said to have {known}");
            return Err(refuse(ErrorKind::InvalidResponse, "wrong size", &what).with_status(206));
        }
        if range.start >= size {
            let what = format!("{key} has {size} bytes, asked for {range:?}");
            return Err(refuse(ErrorKind::InvalidRequest, "InvalidRange", &what).with_status(416));
        }
        if range.end > size {
            // S3 answers with what there is; to a client that wants all of a range this is a short
            // answer.
            let what = format!("{key} has {size} bytes, asked for {range:?}");
            return Err(refuse(ErrorKind::InvalidResponse, "short answer", &what).with_status(206));
        }
        let output = GetOutput {
            etag: object.etag.clone(),
            object_size: size,
        };
        Ok((object.content.slice(range.clone()), output))
    }

    pub(crate) fn head(&self, key: &Key) -> Result<ObjectInfo, ClientError> {
        let object = self.object(key).ok_or_else(|| no_such_key(key.as_str()))?;
        Ok(object.head())
    }

    pub(crate) fn first_bytes(&self, key: &Key, len_max: u32) -> Result<FirstBytes, ClientError> {
        let object = self.object(key).ok_or_else(|| no_such_key(key.as_str()))?;
        check_readable(object)?;
        let info = object.head();
        let content = object.content.slice(0..info.size.min(u64::from(len_max)));
        Ok(FirstBytes {
            info,
            bytes: content.to_vec().into(),
        })
    }

    pub(crate) fn head_details(&self, key: &Key) -> Result<ObjectDetails, ClientError> {
        let object = self.object(key).ok_or_else(|| no_such_key(key.as_str()))?;
        let mut headers = object.headers.clone();
        Ok(ObjectDetails {
            info: object.head(),
            token: headers.token.take(),
            headers,
            version_id: None,
            checksum: object.checksum,
        })
    }

    pub(crate) fn head_bucket(&self) -> BucketInfo {
        BucketInfo {
            region: self.region.clone(),
        }
    }

    pub(crate) fn put(&mut self, request: PutRequest) -> Result<PutOutput, ClientError> {
        let PutRequest {
            key,
            body,
            condition,
            checksum,
            mut headers,
        } = request;
        if self.has_bare_markers && key.as_str().ends_with('/') {
            if !body.is_empty() {
                let code = "DirectoryObjectContainsData";
                return Err(refuse(ErrorKind::InvalidRequest, code, key.as_str()));
            }
            headers.content_type = Some("application/x-directory".to_owned());
        }
        check_len(body.len() as u64)?;
        check_body(&body, checksum)?;
        check_headers(&headers)?;
        self.check_write(&key, &condition)?;
        // A copy, as over a network: the caller may have its memory back.
        let content = Content::bytes(Bytes::copy_from_slice(&body));
        let etag = content.etag();
        let output = self.write(&key, content, etag, headers);
        self.keep_checksum(&key, kept(checksum));
        Ok(output)
    }

    /// A directory bucket's PutObject behind the end of an object.
    pub(crate) fn append(&mut self, request: &AppendRequest) -> Result<PutOutput, ClientError> {
        let AppendRequest { key, body, .. } = request;
        let name = key.as_str();
        let object = Arc::clone(self.object(key).ok_or_else(|| no_such_key(name))?);
        check_version(&object, Some(&request.if_match))?;
        if request.offset != object.content.size() {
            let code = "InvalidWriteOffset";
            return Err(refuse(ErrorKind::PreconditionFailed, code, name).with_status(400));
        }
        if body.is_empty() {
            let what = "nothing is to be appended";
            return Err(refuse(ErrorKind::InvalidRequest, "InvalidRequest", what));
        }
        let given = kept(request.checksum);
        if given != StoredChecksum::None && given != object.checksum {
            let what = "Checksum Type mismatch";
            return Err(refuse(ErrorKind::InvalidRequest, "InvalidRequest", what));
        }
        // As in `put`.
        let tail = Self::part_content(body.clone(), request.checksum)?;
        let content = Content::concat([&object.content, &tail]);
        let etag = content.etag();
        let output = self.write(key, content, etag, object.headers.clone());
        self.keep_checksum(key, object.checksum);
        Ok(output)
    }

    /// Whether a write on `condition` may make or replace the object.
    pub(crate) fn check_write(
        &self,
        key: &Key,
        condition: &PutCondition,
    ) -> Result<(), ClientError> {
        if self.ignores_versions {
            return Ok(());
        }
        let there = self.object(key).map(|there| &**there);
        check_write(key.as_str(), there, condition)
    }

    fn keep_checksum(&mut self, key: &Key, checksum: StoredChecksum) {
        let object = self.objects.get_mut(key.as_str().as_bytes());
        Arc::make_mut(object.expect("it was just written")).checksum = checksum;
    }

    pub(crate) fn delete(&mut self, key: &Key, if_match: Option<&ETag>) -> Result<(), ClientError> {
        let there = self.object(key);
        match (if_match.filter(|_| !self.ignores_versions), there) {
            (Some(_), None) => return Err(no_such_key(key.as_str())),
            (Some(etag), Some(object)) => check_version(object, Some(etag))?,
            (None, _) => {}
        }
        self.remove(key);
        Ok(())
    }

    pub(crate) fn delete_many(
        &mut self,
        objects: &[(Key, Option<ETag>)],
    ) -> Result<Vec<DeleteFailure>, ClientError> {
        if objects.is_empty() || objects.len() > DELETE_KEYS_MAX {
            let what = format!("{} keys in one DeleteObjects", objects.len());
            return Err(refuse(ErrorKind::InvalidRequest, "MalformedXML", &what));
        }
        let mut failures = Vec::new();
        for (key, if_match) in objects {
            match self.delete(key, if_match.as_ref()) {
                Ok(()) => {}
                Err(error) if error.kind == ErrorKind::NotFound => {}
                Err(error) => failures.push(DeleteFailure {
                    key: key.clone(),
                    error,
                }),
            }
        }
        Ok(failures)
    }

    pub(crate) fn copy(
        &mut self,
        source: &CopySource,
        destination: &Key,
        condition: &PutCondition,
        headers: CopyHeaders,
    ) -> Result<PutOutput, ClientError> {
        let object = Arc::clone(self.copy_source(source)?);
        let is_unchanged = headers == CopyHeaders::Same(ObjectHeaders::default());
        if source.key == *destination && is_unchanged {
            let what = "a copy to itself that changes nothing";
            return Err(refuse(ErrorKind::InvalidRequest, "InvalidRequest", what));
        }
        check_len(object.content.size())?;
        self.check_write(destination, condition)?;
        let content = object.content.clone();
        let etag = content.etag();
        // S3 stores a copy in the class, and encrypted, as the request says.
        let headers = match headers {
            CopyHeaders::Same(named) => ObjectHeaders {
                storage_class: named.storage_class,
                website_redirect: named.website_redirect,
                encryption: named.encryption,
                ..object.headers.clone()
            },
            CopyHeaders::New(headers) => headers,
        };
        check_headers(&headers)?;
        let output = self.write(destination, content, etag, headers);
        self.keep_checksum(destination, object.checksum);
        Ok(output)
    }

    /// The object of a copy, if it is the one asked for and can be read.
    pub(crate) fn copy_source(&self, source: &CopySource) -> Result<&Arc<SimObject>, ClientError> {
        let object = self
            .object(&source.key)
            .ok_or_else(|| no_such_key(source.key.as_str()))?;
        check_version(object, source.if_match.as_ref())?;
        check_readable(object)?;
        Ok(object)
    }

    /// RenameObject of a directory bucket: the same version under another name.
    pub(crate) fn rename(
        &mut self,
        source: &Key,
        destination: &Key,
        condition: &PutCondition,
    ) -> Result<(), ClientError> {
        let object = Arc::clone(
            self.object(source)
                .ok_or_else(|| no_such_key(source.as_str()))?,
        );
        self.check_write(destination, condition)?;
        self.remove(source);
        self.insert(SimObject {
            key: destination.clone(),
            ..(*object).clone()
        });
        Ok(())
    }

    /// A part's bytes, checked against their checksum.
    pub(crate) fn part_content(
        body: Bytes,
        checksum: Option<Checksum>,
    ) -> Result<Content, ClientError> {
        check_len(body.len() as u64)?;
        check_body(&body, checksum)?;
        // As in `put`.
        Ok(Content::bytes(Bytes::copy_from_slice(&body)))
    }
}

/// The checksum that an object keeps that was put with `checksum`.
fn kept(checksum: Option<Checksum>) -> StoredChecksum {
    match checksum {
        None => StoredChecksum::None,
        Some(Checksum::Crc32c(_)) => StoredChecksum::Of(ChecksumAlgorithm::Crc32c),
        Some(Checksum::Crc64Nvme(_)) => StoredChecksum::Of(ChecksumAlgorithm::Crc64Nvme),
    }
}

fn check_len(len: u64) -> Result<(), ClientError> {
    if len > PUT_LEN_MAX {
        let what = format!("{len} bytes in one request");
        return Err(refuse(ErrorKind::InvalidRequest, "EntityTooLarge", &what));
    }
    Ok(())
}
