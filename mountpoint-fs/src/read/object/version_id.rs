//! What the open files of one version find each other by.

use std::hash::{DefaultHasher, Hash, Hasher};

use mountpoint_client::types::{ETag, Key};

/// A hash of key, `ETag` and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::read) struct VersionId(u64);

impl VersionId {
    pub(in crate::read) fn of(key: &Key, etag: &ETag, size: u64) -> Self {
        let mut hasher = DefaultHasher::new();
        (key, etag, size).hash(&mut hasher);
        Self(hasher.finish())
    }
}
