//! Settings of written files whose changes are kept on a local disk.

use std::path::PathBuf;
use std::time::Duration;

use super::shutdown;

/// Written files whose changes are kept on a local disk (`--staging`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagingConfig {
    /// The user's directory, absolute.
    pub directory: PathBuf,
    /// The handling of a file that another client changed meanwhile (`--on-conflict`).
    pub on_conflict: ConflictPolicy,
    /// The bucket's name or ARN, for people and for exports.
    pub bucket: String,
    /// The endpoint's URL; empty for AWS.
    pub endpoint: String,
    /// This machine's name, for the names of conflicting files.
    pub host: String,
    /// The directory on which the bucket is mounted, for people.
    pub mount_point: String,
    /// Whether a close returns before the bucket has the file (`--write-back`); `None` if not.
    pub write_back: Option<WriteBackConfig>,
}

impl StagingConfig {
    /// That of a mount without a directory, whose written files are in memory alone.
    pub(crate) fn in_memory() -> Self {
        Self {
            directory: PathBuf::new(),
            on_conflict: ConflictPolicy::Fail,
            bucket: String::new(),
            endpoint: String::new(),
            host: String::new(),
            mount_point: String::new(),
            write_back: None,
        }
    }
}

/// Files that are durable on the local disk at their close, and uploaded afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBackConfig {
    /// Time from a close to the upload: rewrites within it make one upload
    /// (`--write-back-delay`).
    pub delay: Duration,
    /// Longest wait for uploads at the end of the mount (`--drain-timeout`).
    pub drain_timeout: Duration,
    /// Whether the bucket has each name that is made for its maker alone, before the call returns
    /// (`--write-back-exclusive`).
    pub is_exclusive: bool,
}

impl Default for WriteBackConfig {
    fn default() -> Self {
        Self {
            delay: WRITE_BACK_DELAY,
            drain_timeout: shutdown::WRITE_BACK_DRAIN,
            is_exclusive: false,
        }
    }
}

/// The treatment of a file whose object another client changed meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConflictPolicy {
    /// The object stays, the local version is kept in the directory, and the store fails.
    #[default]
    Fail,
    /// The object stays, and the local version is stored beside it.
    KeepBoth,
    /// The local version replaces the object.
    Overwrite,
}

/// Wait before the upload of a closed file with `--write-back`: programs write and rename, or write
/// and remove, within it.
const WRITE_BACK_DELAY: Duration = Duration::from_secs(1);
