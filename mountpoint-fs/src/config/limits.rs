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

/// Names that one LIST asks for: the most that S3 returns in a page.
pub const LIST_PAGE_KEYS: u16 = 1000;

/// Entries that one page of a listing may have. Its bits are the lower part of a directory offset; a server that
/// sends more than a thousand times what was asked for is refused.
pub const LIST_PAGE_ENTRIES_MAX: usize = (1 << 20) - 2;

/// How long an answer of `lookup` is at most good enough for the `open` that follows it in the same system call.
/// The bound in force is shorter: what that lookup itself took. See `namespace::Namespace::open`.
pub const OPEN_FRESH_MAX: Duration = Duration::from_millis(100);

/// Pages of listings that answer lookups while their names are valid. `du` and `find` read a whole directory before
/// they look at its first entry; 32 pages are what S3 lists in one validity at 30 ms a page, and about 6 MB.
pub const RECENT_PAGES_MAX: usize = 32;

/// How old a page of a listing may be when its attributes are handed out as valid. A reader that pauses longer
/// between two pages still gets the names, and the kernel asks again for what it wants to know of them.
pub const LISTING_AGE_MAX: Duration = Duration::from_secs(10);
