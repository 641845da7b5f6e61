//! Directories as S3 knows them: keys below a prefix, and an object that marks it.

use bytes::Bytes;
use mountpoint_client::ErrorKind;
use mountpoint_client::types::{ETag, Key, ListRequest, ObjectHeaders, PutCondition};

use super::Mutator;
use super::conditions::Proof;
use super::fault::{LIST, PUT, failed, repeats};
use crate::operation::FsError;

/// The outcome of removing a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// No key shows the directory any longer.
    Removed,
    /// The directory stays: it contains this key, or a key below this prefix.
    Holds(String),
}

/// The keys below a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// No key begins with the prefix.
    Nothing,
    /// Only the object that marks the directory.
    Marker,
    /// Other keys, such as this one.
    Keys(String),
}

impl Mutator {
    /// Whether `mkdir` stores a marker.
    #[must_use]
    pub fn makes_markers(&self) -> bool {
        self.directory_markers
    }

    /// Stores the object that marks the directory `prefix`. [`FsError::Exists`] if there is one.
    pub async fn make_marker(&self, prefix: &str, headers: ObjectHeaders) -> Result<(), FsError> {
        let made = self.make(&marker(prefix)?, Vec::new(), headers).await;
        made.map(drop)
    }

    /// Stores a new object, and returns its ETag. [`FsError::Exists`] if there is one.
    pub async fn make(
        &self,
        key: &Key,
        body: Vec<u8>,
        headers: ObjectHeaders,
    ) -> Result<ETag, FsError> {
        // The look-up of the name was just before.
        let condition = (&PutCondition::Absent, Proof::None);
        let made = self.put_small(key, Bytes::from(body), headers, condition);
        made.await.map_err(|error| match error.kind {
            ErrorKind::PreconditionFailed => FsError::Exists,
            _ => failed(error, PUT),
        })
    }

    /// Changes the headers of the object that marks the directory `prefix`. Makes a missing marker.
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
                match self.make_marker(prefix, headers).await {
                    Err(FsError::Exists) => Err(FsError::Stale(format!(
                        "{prefix} was made by another client just now"
                    ))),
                    made => made,
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Removes the marker of the directory `prefix` if the directory is empty.
    ///
    /// As soon as S3 has confirmed that, `may_remove` is called with whether a marker exists. A
    /// refusal leaves the directory as it is.
    pub async fn remove_directory(
        &self,
        prefix: &str,
        may_remove: impl FnOnce(bool) -> Result<(), FsError>,
    ) -> Result<Removal, FsError> {
        match self.content(prefix).await? {
            Content::Keys(key) => return Ok(Removal::Holds(key)),
            Content::Nothing => may_remove(false)?,
            Content::Marker => {
                may_remove(true)?;
                self.deleter.delete(&marker(prefix)?).await?;
            }
        }
        Ok(Removal::Removed)
    }

    /// Forgets renames of the directory `prefix`, which is a new directory from now on.
    ///
    /// A rename of its predecessor must not resume with it.
    pub async fn forget_renames_of(&self, prefix: &str) {
        self.journal.forget_renames_of(prefix).await;
    }

    /// Forgets renames of the directories that the object `key` is moved into.
    pub async fn forget_renames_from_above(&self, key: &Key) {
        self.journal.forget_renames_from_above(key.as_str()).await;
    }

    /// The keys below `prefix`.
    pub(super) async fn content(&self, prefix: &str) -> Result<Content, FsError> {
        let mut request = ListRequest {
            prefix: prefix.to_owned(),
            max_keys: Some(2),
            ..ListRequest::default()
        };
        let mut has_marker = false;
        // A page may have fewer keys than the request allows, and a successor.
        loop {
            let listed = self.client.list(request.clone()).await;
            let listed = listed.map_err(|error| failed(error, LIST))?;
            let keys = listed.objects.iter().map(|object| object.key.as_str());
            let mut keys = keys.chain(listed.common_prefixes.iter().map(String::as_str));
            if let Some(other) = keys.find(|key| *key != prefix) {
                return Ok(Content::Keys(other.to_owned()));
            }
            let is_marker = !listed.objects.is_empty();
            if is_marker && has_marker {
                return Err(repeats(prefix));
            }
            has_marker |= is_marker;
            request.continuation_token = listed.continuation_token;
            if request.continuation_token.is_none() {
                break;
            }
        }
        Ok(match has_marker {
            true => Content::Marker,
            false => Content::Nothing,
        })
    }

    /// Deletes the object `key`.
    pub async fn delete(&self, key: &Key) -> Result<(), FsError> {
        self.deleter.delete(key).await
    }
}

/// The key of the object that marks a directory: the prefix itself.
pub(crate) fn marker(prefix: &str) -> Result<Key, FsError> {
    Key::parse(prefix).ok_or(FsError::NameTooLong)
}
