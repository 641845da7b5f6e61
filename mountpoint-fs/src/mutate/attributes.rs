//! Changes of the headers of an object.
//!
//! S3 changes no object in place. The object is copied onto itself in the version that was seen. A
//! reader of the old version in another mount is told that its version is stale.

use bytes::Bytes;
use mountpoint_client::types::{
    CopyHeaders, ETag, Key, ObjectDetails, ObjectHeaders, PutCondition,
};
use mountpoint_client::{ClientError, ErrorKind};

use super::Mutator;
use super::conditions::{Conditional, Proof};
use super::copy::version;
use super::fault::{COPY, PUT, failed};
use super::own_write::settled;
use crate::operation::{FsError, Stop};

impl Mutator {
    /// The object with its headers and metadata.
    pub async fn describe(&self, key: &Key) -> Result<ObjectDetails, FsError> {
        self.details(key).await?.ok_or(FsError::NotFound)
    }

    /// Replaces the headers of the object's version `etag`, of `size` bytes. Returns the new
    /// version's ETag.
    ///
    /// A copy of the object onto itself does that, in parts if the object is large or a header is
    /// not UTF-8. [`FsError::Stale`] if the object was replaced or
    /// deleted: nothing has changed then. If the answer was lost and the bucket does not tell
    /// whether the copy was made, the error of the lost answer. A server that keeps no
    /// conditions on copies gets an upload of copied parts, or a PUT without bytes; if it keeps
    /// none of those either, the version is looked at before, and one that another client writes
    /// during the copy is lost.
    pub async fn replace_headers(
        &self,
        key: &Key,
        (etag, size): (&ETag, u64),
        headers: ObjectHeaders,
    ) -> Result<ETag, FsError> {
        let source = version(key, etag);
        // A token of its own, whatever the object carries.
        let headers = ObjectHeaders {
            token: None,
            ..headers
        };
        if size > self.limits.whole_max || !headers.are_utf8() {
            return self.keep((key, etag), size, headers).await;
        }
        let headers = headers.with_token();
        let copy = |condition| {
            let new = CopyHeaders::New(headers.clone());
            self.client.copy(source.clone(), key, condition, new)
        };
        let (token, old) = (headers.token.as_ref(), unchanged(etag));
        let tried = self.conditions.prove(Conditional::Copy, &old, copy).await;
        let copied = match tried.transpose() {
            Some(tried) => tried,
            None if self.goes_around_copies(size, &old) => {
                return self.keep((key, etag), size, headers).await;
            }
            // The copy names the version of its source, which is this object.
            None => {
                self.on_condition((Conditional::Copy, key), (&old, Proof::None), copy)
                    .await
            }
        };
        let copied = settled(&*self.client, key, token, copied).await;
        copied.map_err(|error| not_changed(error, key))
    }

    /// Replaces the version `etag` of `size` bytes by the same bytes with the headers `headers`.
    async fn keep(
        &self,
        (key, etag): (&Key, &ETag),
        size: u64,
        headers: ObjectHeaders,
    ) -> Result<ETag, FsError> {
        if size > 0 {
            let (all, made) = ((version(key, etag), 0..size), (key, headers));
            let never = Stop::never();
            let copied = self.copy_range(all, made, unchanged(etag), &never).await;
            return copied.map_err(|error| not_changed(error, key));
        }
        let condition = (&unchanged(etag), Proof::Trial);
        let put = self.put_small(key, Bytes::new(), headers, condition).await;
        put.map_err(|error| match error.kind {
            ErrorKind::Denied => failed(error, PUT),
            _ => not_changed(error, key),
        })
    }
}

/// The error of a change whose object may be another version by now.
fn not_changed(error: ClientError, key: &Key) -> FsError {
    match error.kind {
        ErrorKind::PreconditionFailed | ErrorKind::NotFound => FsError::Stale(format!(
            "{key} was replaced or deleted by another client before it was changed: {error}"
        )),
        _ => failed(error, COPY),
    }
}

/// The condition that the object is version `etag`.
fn unchanged(etag: &ETag) -> PutCondition {
    PutCondition::Match(etag.clone())
}
