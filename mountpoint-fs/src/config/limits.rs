//! The bounds of the kernel, of S3 and of users, and those that several folders share.
//!
//! Each has the reason for its value. All others stand beside their policy.

use std::time::Duration;

use mountpoint_client::types::{USER_METADATA_LEN_MAX, WriteToken};

/// Largest READ that the kernel sends: `max_pages` 256.
///
/// 1 MiB is the kernel's default ceiling (`fs.fuse.max_pages_limit`).
pub const READ_SIZE_MAX: u32 = 1 << 20;

/// Longest name of one directory entry, in bytes. Linux refuses longer ones itself (`NAME_MAX`).
pub const NAME_LEN_MAX: usize = 255;

/// How long names and attributes may be stale by default (`--metadata-ttl minimal`).
///
/// mountpoint-s3 promises at most 1 s for changed objects.
pub const FILE_TTL: Duration = Duration::from_secs(1);

/// Memory of one inode with a name of 29 bytes, in bytes. All tables are included; a test counts
/// it.
pub const INODE_BYTES_MAX: usize = 256;

/// How long a start may take; mountpoint-s3's bound. `MOUNTPOINT_START_TIMEOUT` changes it.
pub const START_TIMEOUT: Duration = Duration::from_secs(30);

/// FUSE's `max_background` on 64 cores and more.
pub const MAX_BACKGROUND_MAX: u16 = 1024;

/// The client's planned throughput in Gbit/s, where neither a flag nor the instance type tells.
pub const THROUGHPUT_DEFAULT_GBPS: f64 = 10.0;

/// Largest WRITE that the kernel sends, in bytes.
///
/// Each thread that writes may have one WRITE waiting, so `scale::write_max` bounds it by the
/// memory. One writer, `dd` of 1 GiB of zeros with `bs=` 1 MiB, 512, 256 and 128 KiB, came to 0.74,
/// 0.82, 0.73 and 0.77 GB/s (medians of four in turns, a store on the same machine).
pub const WRITE_SIZE_MAX: usize = 1 << 20;

/// Least value of the largest WRITE, in bytes: the largest extended attribute.
pub const WRITE_SIZE_MIN: usize = 64 << 10;

/// Initial part size of an upload; mountpoint-s3's size.
pub const WRITE_PART_DEFAULT: u64 = 8 << 20;

/// Zeros that one file may have stored for its gaps, in bytes.
///
/// S3 has no holes, so each zero is sent and paid for. The limit admits the disk image of a virtual
/// machine, about a minute of a fast network, and stops a wrong offset.
pub const GAP_BYTES_MAX: u64 = 64 << 30;

/// Parts that one upload may have; S3's limit.
pub const UPLOAD_PARTS_MAX: u16 = 10_000;

/// Largest part; S3's limit.
pub const UPLOAD_PART_MAX: u64 = 5 << 30;

/// Smallest part that is not the last; S3's limit.
pub const UPLOAD_PART_MIN: u64 = 5 << 20;

/// Names in one LIST: S3's largest page.
pub const LIST_PAGE_KEYS: u16 = 1000;

/// Entries that one page of a listing may have.
///
/// The entry's number is the lower part of a directory offset; a server that sends more than a
/// thousand times the requested number is refused.
pub const LIST_PAGE_ENTRIES_MAX: usize = (1 << 20) - 2;

/// Keys that the LIST of a lookup asks for. The name itself and the keys below it.
///
/// The keys below answer the next lookups. 100 keys are 30 KB, and take S3 no longer than one.
pub const LOOKUP_KEYS: u16 = 100;

/// Least limit of inodes, above which the mount asks the kernel to forget unused files.
///
/// The limit applies to machines of up to 61 GiB. The kernel holds about 1 KB for each inode,
/// besides our [`INODE_BYTES_MAX`], and frees it when memory is short.
pub const INODES_MAX_LEAST: usize = 1_000_000;

/// Longest pause between two checks of the number of inodes.
pub const EVICTION_PERIOD: Duration = Duration::from_secs(1);

/// First range of a file that is read from its beginning: Linux's default read-ahead.
pub const FIRST_RANGE: u64 = 128 << 10;

/// Largest file that a read from its beginning fetches whole.
///
/// One request takes less than the 10 ms that a second one would cost at 90 MB/s.
pub const SMALL_FILE_MAX: u64 = 1 << 20;

/// Smallest range of read-ahead. Below it a request costs more CPU than its bytes.
pub const PART_MIN: u64 = 128 << 10;

/// Largest range of one GET; `--read-part-size` may raise it.
///
/// One connection takes seconds for it, and no reader is faster for a longer one: its window is cut
/// into parts.
pub const PART_MAX: u64 = 256 << 20;

/// Largest prefetch window of one stream by default, on four cores and more.
///
/// S3 sends a part of 8 MiB in 113 ms: 20 ms and 90 MB/s on a connection. In that time one reader
/// takes 475 MB of direct replies. With 256 MiB it had 2.4 instead of 4.2 GB/s in virtual time,
/// with 1 GiB no more and twice the memory.
pub const WINDOW_MAX: u64 = 512 << 20;

/// Remembered ends of reads of one open file.
///
/// Linux has at most 64 readahead requests in flight per file system by default, few of them out of
/// order.
pub const EXTENTS_MAX: usize = 32;

/// Streams of one open file that are read ahead at the same time.
pub const STREAMS_MAX: usize = 16;

/// Blocks that one reply may be made of; far below the kernel's `IOV_MAX` of 1024.
pub const SLICES_MAX: usize = 256;

/// The kernel's read-ahead where it cannot be raised: Linux's default, in bytes.
pub const READAHEAD_DEFAULT: u32 = 128 << 10;

/// Time without a read after which a file's blocks are given back.
pub const READER_IDLE: Duration = Duration::from_secs(10);

/// Largest object that S3 copies in one request.
pub const COPY_SIZE_MAX: u64 = 5 << 30;

/// Parts of a copy above which its parts exceed the usual size.
///
/// Other parts may then follow in the same upload.
pub const COPY_PARTS_MANY: u64 = 1000;

/// Requests in flight of one rename, or of all files that are copied into.
///
/// The requests are a directory's copies, or the parts of a copy.
pub const COPIES_IN_FLIGHT_MAX: usize = 32;

/// Keys of one DeleteObjects: S3's own bound.
pub const DELETE_KEYS_MAX: usize = 1000;

/// User metadata of an object, in bytes of names and values: what S3 stores, less the token that
/// each write adds.
pub const METADATA_LEN_MAX: usize = USER_METADATA_LEN_MAX - WriteToken::METADATA_LEN_MAX;
