//! The version of an object that an open file reads, and a short name for it.

use std::hash::{DefaultHasher, Hash, Hasher};

use mountpoint_client::types::{ETag, Key};

/// One version of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectVersion {
    pub(super) key: Key,
    pub(super) etag: ETag,
    pub(super) size: u64,
}

impl ObjectVersion {
    /// The name by which open files of one version find each other.
    pub(super) fn id(&self) -> VersionId {
        let mut hasher = DefaultHasher::new();
        (&self.key, &self.etag, self.size).hash(&mut hasher);
        VersionId(hasher.finish())
    }
}

/// A hash of key, `ETag` and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct VersionId(u64);
