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
        let error = match unless_replaced(&object.info.etag, copy).await {
            Ok(output) => return Ok(output.etag),
            Err(error) => error,
        };
        // What is in the way of a copy whose answer was lost may be that copy.
        if error.answer_was_lost {
            let there = self.describe(key).await?;
            if there.is_copy(object.info.size, &headers) {
                return Ok(there.info.etag);
            }
        }
        Err(failed(error, COPY))
    }

    /// Cuts the object to its first `size` bytes. Its version afterwards.
    pub async fn shorten(&self, object: &ObjectDetails, size: u64) -> Result<ETag, FsError> {
        assert!(size <= object.info.size, "it only gets shorter");
        let key = &object.info.key;
        if size > 0 {
            return self.copy_onto_itself(object, size).await;
        }
        let put = |condition| {
            self.client.put(PutRequest {
                key: key.clone(),
                body: Bytes::new(),
                condition,
                checksum: None,
                headers: object.headers.clone(),
            })
        };
        let stored = unless_replaced(&object.info.etag, put).await;
        Ok(stored.map_err(|error| failed(error, PUT))?.etag)
    }

    /// Makes the first `size` bytes of the object the whole of it, in parts, unless it was replaced meanwhile.
    async fn copy_onto_itself(&self, object: &ObjectDetails, size: u64) -> Result<ETag, FsError> {
        let key = &object.info.key;
        let never = Stop::never();
        let copy = |condition| self.copy_range(object, 0..size, key, condition, &never);
        let copied = unless_replaced(&object.info.etag, copy).await;
        copied.map_err(|error| failed(error, COPY))
    }
}

/// What `change` does on the condition that the object is version `etag`; without one where the server has no conditions.
async fn unless_replaced<T, F: Future<Output = Result<T, ClientError>>>(
    etag: &ETag,
    change: impl Fn(PutCondition) -> F,
) -> Result<T, ClientError> {
    match change(PutCondition::Match(etag.clone())).await {
        Err(error) if error.kind == ErrorKind::Unsupported => change(PutCondition::None).await,
        outcome => outcome,
    }
}
