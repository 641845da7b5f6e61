//! A file that is being written, as the table of inodes knows it.

use mountpoint_client::types::ETag;

use crate::namespace::version::{Found, Version};
use crate::operation::Progress;

/// A file as its writer says it: S3 has no version of it.
pub(super) fn version_of(progress: &Progress) -> Found {
    Found::File(written(progress, progress.size(), ETag::none()))
}

/// The version of a file that its writer has written, as far as `size`.
pub(crate) fn written(progress: &Progress, size: u64, etag: ETag) -> Version {
    Version::new(size, etag, progress.mtime())
}
