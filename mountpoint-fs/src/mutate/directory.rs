//! Directories as S3 knows them: keys below a prefix, and an object that marks it.

use bytes::Bytes;
use mountpoint_client::ErrorKind;
use mountpoint_client::types::{Key, ListRequest, ObjectHeaders, PutCondition, PutRequest};

use super::Mutator;
use super::fault::{DELETE, LIST, PUT, failed};
use crate::operation::FsError;

/// What is below a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// No key begins with it.
    Nothing,
    /// Only the object that marks the directory.
    Marker,
    /// Other keys.
    Keys,
}

impl Mutator {
    /// Whether `mkdir` stores a marker.
    #[must_use]
    pub fn makes_markers(&self) -> bool {
        self.directory_markers
    }

    /// Stores the object that marks the directory `prefix`. [`FsError::Exists`] if it is there.
    pub async fn make_marker(&self, prefix: &str, headers: ObjectHeaders) -> Result<(), FsError> {
        self.make(&marker(prefix)?, Vec::new(), headers).await
    }

    /// Stores a new object. [`FsError::Exists`] if there is one.
    pub async fn make(
        &self,
        key: &Key,
        body: Vec<u8>,
        headers: ObjectHeaders,
    ) -> Result<(), FsError> {
        let body = Bytes::from(body);
        let request = |condition| PutRequest {
            key: key.clone(),
            body: body.clone(),
            condition,
            checksum: None,
            headers: headers.clone(),
        };
        match self.client.put(request(PutCondition::Absent)).await {
            Ok(_) => Ok(()),
            Err(error) if error.kind == ErrorKind::PreconditionFailed => Err(FsError::Exists),
            // A server without conditions.
            Err(error) if error.kind == ErrorKind::Unsupported => {
                let stored = self.client.put(request(PutCondition::None)).await;
                stored.map(drop).map_err(|error| failed(error, PUT))
            }
            Err(error) => Err(failed(error, PUT)),
        }
    }

    /// Changes what the object that marks the directory `prefix` carries; makes it if there is none.
    pub async fn change_marker(
        &self,
        prefix: &str,
        change: impl FnOnce(&mut ObjectHeaders) -> Result<(), FsError>,
    ) -> Result<(), FsError> {
        match self.describe(&marker(prefix)?).await {
            Ok(mut object) => {
                change(&mut object.headers)?;
                let info = &object.info;
                let replaced =
                    self.replace_headers(&info.key, (&info.etag, info.size), object.headers);
                replaced.await.map(drop)
            }
            Err(FsError::NotFound) => {
                let mut headers = ObjectHeaders::default();
                change(&mut headers)?;
                self.make_marker(prefix, headers).await
            }
            Err(error) => Err(error),
        }
    }

    /// Removes what says that the directory `prefix` is there, if there is nothing in it. `may_delete` is asked before
    /// an object is deleted.
    pub async fn remove_directory(
        &self,
        prefix: &str,
        may_delete: impl FnOnce() -> Result<(), FsError>,
    ) -> Result<(), FsError> {
        match self.content(prefix).await? {
            Content::Keys => Err(FsError::NotEmpty),
            Content::Nothing => Ok(()),
            Content::Marker => {
                may_delete()?;
                let deleted = self.client.delete(&marker(prefix)?, None).await;
                deleted.map_err(|error| failed(error, DELETE))
            }
        }
    }

    /// The directory `prefix` is another one from now on: a rename of the one that was there does not go on with it.
    pub fn forget_renames_of(&self, prefix: &str) {
        self.journal.forget_renames_of(prefix);
    }

    /// The same of a directory that the object `key` is moved into.
    pub fn forget_renames_from_above(&self, key: &Key) {
        self.journal.forget_renames_from_above(key.as_str());
    }

    /// What is below `prefix`.
    pub(super) async fn content(&self, prefix: &str) -> Result<Content, FsError> {
        let request = ListRequest {
            prefix: prefix.to_owned(),
            max_keys: Some(2),
            ..ListRequest::default()
        };
        let listed = self.client.list(request).await;
        let listed = listed.map_err(|error| failed(error, LIST))?;
        let mut keys = listed.objects.iter().map(|object| object.key.as_str());
        let has_marker = keys.clone().any(|key| key == prefix);
        let has_others = keys.any(|key| key != prefix) || !listed.common_prefixes.is_empty();
        Ok(match (has_others, has_marker) {
            (true, _) => Content::Keys,
            (false, true) => Content::Marker,
            (false, false) => Content::Nothing,
        })
    }

    /// Deletes the object `key`.
    pub async fn delete(&self, key: &Key) -> Result<(), FsError> {
        let deleted = self.client.delete(key, None).await;
        deleted.map_err(|error| failed(error, DELETE))
    }
}

/// The key of the object that marks a directory: the prefix itself.
fn marker(prefix: &str) -> Result<Key, FsError> {
    Key::parse(prefix).ok_or(FsError::NameTooLong)
}
