//! Files that wait for their upload.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use mountpoint_client::types::Key;

/// A committed file that the bucket lacks.
pub(in crate::file) trait PendingFile: Send + Sync + fmt::Debug {
    /// Uploads it as it was at the last commit.
    fn upload(self: Arc<Self>) -> BoxFuture<'static, Attempt>;

    /// Bytes of the file.
    fn size(&self) -> u64;

    /// The least time from its commit to its upload.
    fn delay(&self) -> Duration;

    /// The description of the file, for people.
    fn describe(&self) -> PendingUpload;
}

/// The outcome of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::file) enum Attempt {
    /// Nothing is left to do: it is stored, kept or removed.
    Ended,
    /// The upload failed, and later ones may succeed.
    Failed,
    /// The file is written over: the next commit makes a version to upload.
    Early,
    /// The bucket cannot be reached, by any file.
    Away,
}

/// A file that waits for its upload, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingUpload {
    /// The key under which it will be stored.
    pub key: Key,
    /// Bytes of the file.
    pub size: u64,
    /// The time of its last change.
    pub modified: SystemTime,
    /// The number of its data files, and of its record.
    pub number: u64,
    /// Uploads that failed.
    pub failures: u32,
    /// The last failure.
    pub error: Option<String>,
}

/// The files that wait for their upload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingUploads {
    /// Number of files.
    pub count: usize,
    /// Bytes of all of them.
    pub bytes: u64,
    /// The first of them, at most [`Self::SHOWN_MAX`].
    pub files: Vec<PendingUpload>,
}

impl PendingUploads {
    /// Files that are named.
    pub const SHOWN_MAX: usize = 1000;

    /// Whether the bucket has all files.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}
