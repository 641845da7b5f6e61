//! The bounds of the kernel, of S3 and of users, and those that several folders share.
//!
//! Each has the reason for its value. All others stand beside their policy.

use std::time::Duration;

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

/// How long SIGTERM waits for operations in progress before it unmounts lazily.
pub const SHUTDOWN_DRAIN: Duration = Duration::from_secs(5);

/// How long an unmount waits for the session's threads after the connection was aborted.
pub const SHUTDOWN_ABORT: Duration = Duration::from_secs(2);

/// How long an unmount after a signal continues to store files that were closed.
///
/// With [`UPLOAD_ABORT`], [`CACHE_DRAIN`], [`SHUTDOWN_RUNTIME`] and 5 s for the client's threads,
/// the process ends within 25 s, whatever S3 does: Kubernetes kills it after 30. Longer uploads
/// need an unmount instead of a signal, see [`UPLOAD_DRAIN`].
pub const SIGNAL_DRAIN: Duration = Duration::from_secs(15);

/// How long the process waits at its end for requests that are still in flight.
pub const SHUTDOWN_RUNTIME: Duration = Duration::from_secs(1);

/// How long a start may take; mountpoint-s3's bound. `MOUNTPOINT_START_TIMEOUT` changes it.
pub const START_TIMEOUT: Duration = Duration::from_secs(30);

/// FUSE's `max_background` on up to 8 cores.
///
/// The value bounds asynchronous direct reads, too: 4 KiB reads 128 deep from a store 20 ms away
/// came to 2,600 a second with 64, mountpoint-s3's value, and to 4,600 with 128; 256 measured no
/// faster on two cores, and streams through the page cache are as fast with either.
pub const MAX_BACKGROUND_MIN: u16 = 128;

/// FUSE's `max_background` on 64 cores and more.
pub const MAX_BACKGROUND_MAX: u16 = 1024;

/// Session threads on up to 24 cores. They never wait for S3; four measured as fast as sixteen on
/// two cores.
pub const SESSION_THREADS_MIN: usize = 4;

/// The client's planned throughput in Gbit/s, where neither a flag nor the instance type tells.
pub const THROUGHPUT_DEFAULT_GBPS: f64 = 10.0;

/// Largest WRITE that the kernel sends, in bytes.
///
/// Each thread that writes may have one WRITE waiting, so [`WRITE_SIZE_SHARE`] bounds it by the
/// memory. One writer, `dd` of 1 GiB of zeros with `bs=` 1 MiB, 512, 256 and 128 KiB, came to 0.74,
/// 0.82, 0.73 and 0.77 GB/s (medians of four in turns, a store on the same machine).
pub const WRITE_SIZE_MAX: usize = 1 << 20;

/// Largest WRITE as a share of the memory: one in so many bytes.
pub const WRITE_SIZE_SHARE: u64 = 2048;

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

/// Least memory that is left to reads, in bytes: several reads of the largest size.
pub const READ_KEPT_MIN: u64 = 8 * READ_SIZE_MAX as u64;

/// How long an unmount waits for uploads in progress. It aborts the rest.
pub const UPLOAD_DRAIN: Duration = Duration::from_secs(30);

/// How long the end of a mount with `--write-back` waits for uploads, from the signal or the
/// unmount on.
///
/// With [`UPLOAD_ABORT`], [`CACHE_DRAIN`], [`SHUTDOWN_RUNTIME`] and 5 s for the client's threads,
/// the process ends within 30 s, when Kubernetes kills it. A kill loses nothing.
pub const WRITE_BACK_DRAIN: Duration = Duration::from_secs(20);

/// How long an unmount waits for the cache to store what was read last.
pub const CACHE_DRAIN: Duration = Duration::from_secs(1);

/// How long an unmount then waits for the aborts.
pub const UPLOAD_ABORT: Duration = Duration::from_secs(3);

/// Names in one LIST: S3's largest page.
pub const LIST_PAGE_KEYS: u16 = 1000;

/// Entries that one page of a listing may have.
///
/// The entry's number is the lower part of a directory offset; a server that sends more than a
/// thousand times the requested number is refused.
pub const LIST_PAGE_ENTRIES_MAX: usize = (1 << 20) - 2;

/// LISTs in flight for one listing of a large directory.
///
/// At 50 ms a request, 16 bring 320,000 names a second, about the limit of readdirplus; S3 does not
/// throttle them.
pub const LIST_REQUESTS_MAX: usize = 16;

/// Pages of one listing ahead of its reader, or in flight: three for each request.
///
/// A page of short names takes about 0.2 MB.
pub const LIST_AHEAD_PAGES_MAX: usize = 3 * LIST_REQUESTS_MAX;

/// How long a `lookup`'s answer may serve the `open` in the same system call.
///
/// The bound in force is shorter: the duration of that lookup. See `namespace::Namespace::open`.
pub const OPEN_FRESH_MAX: Duration = Duration::from_millis(100);

/// Keys that the LIST of a lookup asks for. The name itself and the keys below it.
///
/// The keys below answer the next lookups. 100 keys are 30 KB, and take S3 no longer than one.
pub const LOOKUP_KEYS: u16 = 100;

/// First bytes of a file that come with the lookup: the kernel's first read.
pub const FIRST_BYTES_LEN: u32 = 128 << 10;

/// How long lookups fetch no first bytes after a failure.
///
/// A server without support is asked once a minute, and a chance failure costs no more than that.
pub const FIRST_BYTES_FAILED_AGE: Duration = Duration::from_secs(60);

/// Largest age of a listing made before its directory was opened; less where names may be old for
/// less time. How long a walk is remembered.
pub const WALK_AGE_MAX: Duration = Duration::from_secs(10);

/// Directories of walks that are remembered, whether listed to their end or to be opened.
pub const WALK_DIRECTORIES_MAX: usize = 4_096;

/// Lookups in one directory, sequential or parallel, that each ask S3 for one name.
///
/// The next lookup lists the directory: a program that knows its files' names looks at many of
/// them.
pub const BATCH_LOOKUPS: u32 = 8;

/// Least limit of inodes, above which the mount asks the kernel to forget unused files.
///
/// The limit applies to machines of up to 61 GiB. The kernel holds about 1 KB for each inode,
/// besides our [`INODE_BYTES_MAX`], and frees it when memory is short.
pub const INODES_MAX_LEAST: usize = 1_000_000;

/// Longest pause between two checks of the number of inodes.
pub const EVICTION_PERIOD: Duration = Duration::from_secs(1);

/// Shortest pause between two checks. Meanwhile the fastest walk makes 1 % of [`INODES_MAX_LEAST`].
pub const EVICTION_PAUSE_MIN: Duration = Duration::from_millis(20);

/// Inodes that the fastest walk makes in a second; 180,000 to 350,000 were measured.
pub const INODES_PER_SECOND_MAX: usize = 500_000;

/// Slots of the inode table that are examined while its lock is held. 0.1 to 0.6 ms.
///
/// All other operations on names wait meanwhile.
pub const EVICTION_LOOK: usize = 1_024;

/// Largest file that `open` fetches instead of asking for its version: one request brings both.
///
/// The kernel would read these bytes first; an application that does not read the file wastes no
/// more.
pub const OPEN_FETCH_MAX: u64 = 128 << 10;

/// Largest age of a listing page whose attributes are returned as valid.
///
/// A reader that pauses longer between two pages still gets the names, and the kernel looks up the
/// attributes that it needs.
pub const LISTING_AGE_MAX: Duration = Duration::from_secs(10);

/// First range of a file that is read from its beginning: Linux's default read-ahead.
pub const FIRST_RANGE: u64 = 128 << 10;

/// Largest file that a read from its beginning fetches whole.
///
/// One request takes less than the 10 ms that a second one would cost at 90 MB/s.
pub const SMALL_FILE_MAX: u64 = 1 << 20;

/// Files of one run that are fetched before they are opened.
///
/// At 20 ms a request they serve one worker that takes 0.3 ms for each.
pub const SIBLINGS_AHEAD_MAX: usize = 64;

/// Initial number of bytes of siblings that may be fetched in vain.
///
/// The number allows [`SIBLINGS_AHEAD_MAX`] files of 128 KiB.
pub const SIBLING_BUDGET: u64 = 8 << 20;

/// Smallest range of read-ahead. Below it a request costs more CPU than its bytes.
pub const PART_MIN: u64 = 128 << 10;

/// Largest range of one GET; `--read-part-size` may raise it.
///
/// One connection takes seconds for it, and no reader is faster for a longer one: its window is cut
/// into parts.
pub const PART_MAX: u64 = 256 << 20;

/// Parts of a window: one being read, one complete, two in flight.
pub const PARTS_PER_WINDOW: u64 = 4;

/// Largest initial window of a stream, and the smallest that it shrinks to by itself.
///
/// Small enough to stay in the caches of the CPU, large enough for a near store.
pub const WINDOW_INITIAL_MAX: u64 = 4 << 20;

/// Remembered ends of reads of one open file.
///
/// Linux has at most 64 readahead requests in flight per file system by default, few of them out of
/// order.
pub const EXTENTS_MAX: usize = 32;

/// Streams of one open file that are read ahead at the same time.
pub const STREAMS_MAX: usize = 16;

/// Runs of a strided or backward reader that are fetched ahead.
///
/// At 20 ms a request, that is the rate of a machine that takes 1 ms for each.
pub const STRIDE_RUNS_MAX: usize = 16;

/// Shortest run of bytes, read out of order, that read-ahead leaves out.
///
/// Shorter ones would splinter requests.
pub const READ_RANGE_MIN: u64 = 64 << 10;

/// Blocks that one reply may be made of; far below the kernel's `IOV_MAX` of 1024.
pub const SLICES_MAX: usize = 256;

/// Smallest file whose replies may bypass the page cache by the mount's choice. A smaller one gains
/// nothing.
pub const DIRECT_FILE_MIN: u64 = 8 << 20;

/// The kernel's read-ahead where it cannot be raised: Linux's default, in bytes.
pub const READAHEAD_DEFAULT: u32 = 128 << 10;

/// Time without a read after which a file's blocks are given back.
pub const READER_IDLE: Duration = Duration::from_secs(10);

/// Open files of one version that share their blocks; further ones share with each other.
///
/// Each release of blocks examines the read-ahead of all of them.
pub const SHARERS_MAX: usize = 64;

/// First GETs for each second one that is sent because the first is late. 2 % more requests at
/// most.
pub const HEDGE_SHARE: u32 = 50;

/// Second GETs that may be saved up. As many as stall at once when a server or network interface
/// dies.
pub const HEDGE_BURST: u32 = 64;

/// No GET is late before this. A busy machine takes as long to notice arrived bytes.
pub const HEDGE_DELAY_MIN: Duration = Duration::from_millis(10);

/// How long a process whose connection has ended examines its mount point.
///
/// The mount point shows a dead mount, which answers at once, or a newer mount.
pub const MOUNT_LOOK: Duration = Duration::from_secs(1);

/// How long the doctor waits for a local resource that may hang. A directory, a helper program.
pub const DOCTOR_LOCAL: Duration = Duration::from_secs(2);

/// Files created in succession before S3 is asked for more than the next name.
pub const CREATE_RUN: u32 = 2;

/// Directories that exist although no key shows them: created or emptied here. About 250 bytes
/// each.
pub const IMPLICIT_DIRECTORIES_MAX: usize = 1 << 18;

/// Largest object that S3 copies in one request.
pub const COPY_SIZE_MAX: u64 = 5 << 30;

/// Part size of an object that is copied in parts.
///
/// S3 copies some 100 MB/s within one request, so smaller parts are faster; 512 MiB times S3's
/// 10,000 parts is more than an object of 5 TiB needs, and larger objects get larger parts.
pub const COPY_PART_SIZE: u64 = 512 << 20;

/// Parts of a copy above which parts exceed [`COPY_PART_SIZE`]. Other parts may then follow in the
/// same upload.
pub const COPY_PARTS_MANY: u64 = 1000;

/// Requests in flight of one rename, or of all files that are copied into.
///
/// The requests are a directory's copies, or the parts of a copy.
pub const COPIES_IN_FLIGHT_MAX: usize = 32;

/// Keys of one DeleteObjects: S3's own bound.
pub const DELETE_KEYS_MAX: usize = 1000;

/// How long a rename waits for operations below its names before it fails with `EBUSY`.
///
/// Normal requests take less. Meanwhile the kernel locks both parent directories, which blocks
/// lookups in them. The rename checks the time whenever an operation ends, and every
/// [`READER_IDLE`].
pub const RENAME_WAIT_MAX: Duration = Duration::from_secs(10);

/// User metadata that S3 stores with an object, in bytes of names and values.
pub const METADATA_LEN_MAX: usize = 2048;

/// Tries of a read during which another process stores new versions of the file.
pub const FOLLOW_TRIES_MAX: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_waits_for_the_end_of_a_mount_that_is_told_to_end() {
        let files_end = SHUTDOWN_DRAIN + SHUTDOWN_ABORT;
        assert!(files_end < SIGNAL_DRAIN, "no time is left to store files");
        let threads_end = Duration::from_secs(5);
        let taken = SIGNAL_DRAIN + UPLOAD_ABORT + SHUTDOWN_RUNTIME + threads_end;
        assert!(taken < Duration::from_secs(25), "{taken:?}");
        let rest = UPLOAD_ABORT + CACHE_DRAIN + SHUTDOWN_RUNTIME + threads_end;
        let taken = WRITE_BACK_DRAIN + rest;
        assert!(taken <= Duration::from_secs(30), "{taken:?}");
    }

    #[test]
    fn systemd_waits_for_the_end_of_a_mount() {
        let unit = include_str!("../../packaging/mount-s3@.service");
        let mut lines = unit.lines();
        let seconds = lines.find_map(|line| line.strip_prefix("TimeoutStopSec="));
        let given = Duration::from_secs(seconds.unwrap().parse().unwrap());
        let taken = SHUTDOWN_DRAIN + SHUTDOWN_ABORT + UPLOAD_DRAIN + UPLOAD_ABORT;
        assert!(given > taken + SHUTDOWN_RUNTIME, "{given:?}");
    }
}
