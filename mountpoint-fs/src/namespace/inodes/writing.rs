//! A file that is being written, as the table of inodes knows it.

use std::sync::Arc;

use mountpoint_client::types::ETag;

use crate::namespace::version::{Found, Version};
use crate::operation::Progress;

/// Readers that may have a file open when it begins to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Nobody.
    None,
    /// Handles that follow what its writer stores, and handles of an empty file.
    Followers,
    /// Anybody: the file is staged, so every handle reads its newest bytes.
    Any,
}

/// A file that is open for writing.
#[derive(Debug, Default)]
pub(in crate::namespace) struct Writing {
    /// Handles open for writing.
    pub(super) handles: u32,
    /// Handles open for reading that follow what is stored of it.
    pub(super) followers: u32,
    /// While S3 does not have all of it.
    pub(super) progress: Option<Arc<Progress>>,
    /// The version that S3 has, as its writer told it; `None` if none of these handles
    /// stored it.
    pub(super) stored_by: Option<Arc<Progress>>,
    /// Whether the file is written in place: its name may be changed while it is written.
    pub(super) is_staged: bool,
    /// This mount took its name away, or the name means another host's file.
    pub(super) is_gone: bool,
}

/// A file as its writer says it: S3 has no version of it.
pub(super) fn version_of(progress: &Progress) -> Found {
    Found::File(written(progress, progress.size(), ETag::none()))
}

/// The version of a file that its writer has written, as far as `size`.
pub(in crate::namespace) fn written(progress: &Progress, size: u64, etag: ETag) -> Version {
    Version {
        size,
        etag,
        mtime: progress.mtime(),
        is_archived: false,
    }
}
