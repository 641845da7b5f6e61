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

/// How long the end of a mount waits for the session's threads after the connection was aborted.
pub const SHUTDOWN_ABORT: Duration = Duration::from_secs(2);

/// How long the end of the process waits for requests that are still in progress.
pub const SHUTDOWN_RUNTIME: Duration = Duration::from_secs(1);

/// How long the terminal waits for a background process to have mounted; the reference's bound.
pub const START_TIMEOUT: Duration = Duration::from_secs(30);

/// FUSE's `max_background`: 64 measured 25 % faster than 16 on 16 parallel buffered streams, 256 no faster still.
pub const MAX_BACKGROUND: u16 = 64;

/// Session threads. They never wait for S3; four measured as fast as sixteen.
pub const SESSION_THREADS: usize = 4;

/// Least memory for reads by default.
pub const READ_MEMORY_MIN: u64 = 256 << 20;

/// Most memory for reads by default; `--memory-target` may ask for more.
pub const READ_MEMORY_DEFAULT_MAX: u64 = 8 << 30;
