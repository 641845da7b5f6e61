//! Every bound of the process, with the reason for its value.

use std::time::Duration;

/// Largest READ the kernel sends: `max_pages` 256. 1 MiB is the kernel's default ceiling (`fs.fuse.max_pages_limit`).
pub const READ_SIZE_MAX: u32 = 1 << 20;

/// Longest name of one directory entry, in bytes. Linux refuses longer ones before it asks us (`NAME_MAX`).
pub const NAME_LEN_MAX: usize = 255;

/// How long attributes of a file may be stale by default; the reference promises at most 1 s for changed objects.
pub const FILE_TTL: Duration = Duration::from_secs(1);

/// How long a directory entry may be stale by default.
pub const DIRECTORY_TTL: Duration = Duration::from_secs(1);

/// How long SIGTERM waits for operations in progress before it unmounts lazily.
pub const SHUTDOWN_DRAIN: Duration = Duration::from_secs(5);
