//! Settings of the cache on disk.

use std::path::PathBuf;

/// Content that is kept on a local disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// The user's directory (`--cache`), absolute.
    pub directory: PathBuf,
    /// Most bytes (`--max-cache-size`); `None` leaves a share of the file system free.
    pub bytes_max: Option<u64>,
    /// Names a part of the directory that is apart from others.
    pub key: Option<String>,
    /// Whether it is emptied when the mount ends (`--cache-cleanup`).
    pub clear_at_exit: bool,
}
