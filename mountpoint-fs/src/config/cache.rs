//! Settings of the caches of contents.

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

/// Content that is kept in a bucket which mounts share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedCacheConfig {
    /// The flag that selected it, for messages.
    pub flag: &'static str,
    /// The bucket's name or ARN.
    pub bucket: String,
    /// Begins all keys; empty, or ends with `/`.
    pub prefix: String,
    /// The server, if it is not that of the mount (`--cache-endpoint-url`).
    pub endpoint_url: Option<String>,
}
