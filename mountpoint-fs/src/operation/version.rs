//! One version of an object.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mountpoint_client::types::{ETag, ObjectInfo};

/// One version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Size in bytes.
    pub size: u64,
    /// S3's tag of it.
    pub etag: ETag,
    /// When it was written, in whole seconds: a HEAD says no more, and a listing that does must not
    /// make a difference.
    pub mtime: SystemTime,
    /// Whether it is in an archive and has no restored copy: it can be seen but not read.
    pub is_archived: bool,
}

impl Version {
    /// A version that can be read.
    #[must_use]
    pub fn new(size: u64, etag: ETag, mtime: SystemTime) -> Self {
        Self {
            size,
            etag,
            mtime,
            is_archived: false,
        }
    }

    /// Whether both are the same bytes. Times may differ: a copy of an object onto itself keeps its
    /// ETag.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.size == other.size && self.etag.matches(&other.etag)
    }
}

impl From<&ObjectInfo> for Version {
    fn from(info: &ObjectInfo) -> Self {
        // Objects that INTELLIGENT_TIERING has archived cannot be told apart here; reading one
        // fails as archived.
        let in_archive = matches!(
            info.storage_class.as_deref(),
            Some("GLACIER" | "DEEP_ARCHIVE")
        );
        Self {
            size: info.size,
            etag: info.etag.clone(),
            mtime: whole_seconds(info.last_modified),
            is_archived: in_archive && !info.restored,
        }
    }
}

fn whole_seconds(time: SystemTime) -> SystemTime {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => UNIX_EPOCH + Duration::from_secs(after.as_secs()),
        Err(_) => time,
    }
}
