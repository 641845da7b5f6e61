//! Local files with the bytes of whole objects.

use std::fs::File;
use std::sync::Arc;

use mountpoint_client::types::{ETag, Key};

/// Finds local files with the bytes of whole objects.
pub trait LocalFiles: Send + Sync {
    /// A file with all `size` bytes of the version `etag` of the object `key`, and nothing else.
    ///
    /// Applications read its bytes unchecked, and for as long as they like: neither they nor the
    /// file's length may ever change, while its name may go. The call must not wait for a disk.
    fn whole(&self, key: &Key, etag: &ETag, size: u64) -> Option<Arc<File>>;
}

/// The version that an open reads, if the open does nothing else.
#[derive(Clone, Debug)]
pub struct LocalVersion {
    /// The `ETag` of the version.
    pub etag: ETag,
    /// Its size in bytes, above 0: an empty file may be written while it is open.
    pub size: u64,
    /// A file with its bytes, if there is one.
    pub file: Option<Arc<File>>,
}

impl LocalVersion {
    /// Whether both have the same bytes.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.size == other.size && self.etag.matches(&other.etag)
    }
}
