//! Changes of one object that leave its key: what it carries, and its size.
//!
//! S3 changes no object. It is copied onto itself, whole or in part, in the version that was seen, and what reads the
//! old version meanwhile is told that it is stale.

use bytes::Bytes;
use mountpoint_client::types::{
    CopyHeaders, CopySource, ETag, Key, ObjectDetails, ObjectHeaders, PutCondition, PutRequest,
};
use mountpoint_client::{ClientError, ErrorKind};

use super::Mutator;
use super::fault::{COPY, PUT, failed};
use crate::operation::{FsError, Stop};

impl Mutator {
    /// The object and all it carries.
    pub async fn describe(&self, key: &Key) -> Result<ObjectDetails, FsError> {
        let described = self.client.head_details(key).await;
        described.map_err(|error| failed(error, "s3:GetObject"))
    }

    /// Makes the object carry `headers`, unless it was replaced meanwhile. Its version afterwards.
    pub async fn replace_headers(
        &self,
        object: &ObjectDetails,
        headers: ObjectHeaders,
    ) -> Result<ETag, FsError> {
        let key = &object.info.key;
        if object.info.size > self.limits.whole_max {
            let carrying = ObjectDetails {
                info: object.info.clone(),
                headers,
                version_id: None,
                checksum: object.checksum,
            };
            return self.copy_onto_itself(&carrying, carrying.info.size).await;
        }
        let source = CopySource {
            key: key.clone(),
            if_match: Some(object.info.etag.clone()),
        };
        // The source is pinned to the version. The condition keeps what is written while it is copied.
        let copy = |condition| {
            let headers = CopyHeaders::New(headers.clone());
            self.client.copy(source.clone(), key, condition, headers)
        };
        let mut copied = copy(PutCondition::Match(object.info.etag.clone())).await;
        if is_unsupported(&copied) {
            copied = copy(PutCondition::None).await;
        }
        match copied {
            Ok(output) => Ok(output.etag),
            Err(error) if error.answer_was_lost => {
                // What is in the way may be the copy itself.
                let there = self.describe(key).await?;
                let is_copy = there.info.size == object.info.size && there.headers == headers;
                if is_copy {
                    Ok(there.info.etag)
                } else {
                    Err(failed(error, COPY))
                }
            }
            Err(error) => Err(failed(error, COPY)),
        }
    }

    /// Cuts the object to its first `size` bytes. Its version afterwards.
    pub async fn shorten(&self, object: &ObjectDetails, size: u64) -> Result<ETag, FsError> {
        assert!(size <= object.info.size, "it only gets shorter");
        let key = &object.info.key;
        if size > 0 {
            return self.copy_onto_itself(object, size).await;
        }
        let request = |condition| PutRequest {
            key: key.clone(),
            body: Bytes::new(),
            condition,
            checksum: None,
            headers: object.headers.clone(),
        };
        let unchanged = PutCondition::Match(object.info.etag.clone());
        let mut stored = self.client.put(request(unchanged)).await;
        if is_unsupported(&stored) {
            stored = self.client.put(request(PutCondition::None)).await;
        }
        Ok(stored.map_err(|error| failed(error, PUT))?.etag)
    }

    /// Makes the first `size` bytes of the object the whole of it, in parts, unless it was replaced meanwhile.
    async fn copy_onto_itself(&self, object: &ObjectDetails, size: u64) -> Result<ETag, FsError> {
        let key = &object.info.key;
        let (unchanged, never) = (PutCondition::Match(object.info.etag.clone()), Stop::never());
        let mut copied = self
            .copy_range(object, 0..size, key, unchanged, &never)
            .await;
        if is_unsupported(&copied) {
            copied = self
                .copy_range(object, 0..size, key, PutCondition::None, &never)
                .await;
        }
        copied.map_err(|error| failed(error, COPY))
    }
}

/// Whether the server has no conditions.
fn is_unsupported<T>(outcome: &Result<T, ClientError>) -> bool {
    matches!(outcome, Err(error) if error.kind == ErrorKind::Unsupported)
}
