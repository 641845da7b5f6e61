//! The table of all metrics: name, kind, unit, labels, meaning.
//!
//! Names that mountpoint-s3 1.24 has mean the same there. doc/METRICS.md has a row for each; a test
//! compares the two. A number of a name that is not here is not kept.

use mountpoint_client::metrics as client;

/// How a metric's numbers come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Grows only.
    Counter,
    /// The present value.
    Gauge,
    /// A distribution.
    Histogram,
}

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricUnit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Microseconds.
    Microseconds,
}

impl MetricUnit {
    /// The unit as the log shows it, in the facade's letters; nothing for things.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Count => "",
            Self::Bytes => "B",
            Self::Microseconds => "μs",
        }
    }

    /// The unit in OpenTelemetry's (UCUM's) letters.
    #[must_use]
    pub fn ucum(self) -> &'static str {
        match self {
            Self::Count => "1",
            Self::Bytes => "By",
            Self::Microseconds => "us",
        }
    }

    /// The unit as the end of a name; nothing for things.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Count => "",
            Self::Bytes => "bytes",
            Self::Microseconds => "microseconds",
        }
    }
}

/// A metric.
#[derive(Debug, PartialEq, Eq)]
pub struct MetricDefinition {
    /// Its name, with dots.
    pub name: &'static str,
    /// How its numbers come about.
    pub kind: MetricKind,
    /// The unit of its numbers.
    pub unit: MetricUnit,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// Its meaning, in a line.
    pub meaning: &'static str,
}

/// The names, for the code that records.
pub mod names {
    /// Bucket, prefix and directory as labels; the value is always 1.
    pub const MOUNT: &str = "mount.info";
    /// Time to serve requests of the kernel.
    pub const FUSE_LATENCY: &str = "fuse.request_latency";
    /// Requests of the kernel that were answered with an error.
    pub const FUSE_ERRORS: &str = "fuse.request_errors";
    /// Sizes of READs and WRITEs.
    pub const FUSE_IO_SIZE: &str = "fuse.io_size";
    /// Bytes of READs and WRITEs.
    pub const FUSE_BYTES: &str = "fuse.total_bytes";
    /// Requests of the kernel that wait.
    pub const FUSE_WAITING: &str = "fuse.requests_waiting";
    /// Requests that the kernel has not handed over.
    pub const KERNEL_QUEUE: &str = "fuse.kernel_queue";
    /// Time that operations waited, by cause.
    pub const FUSE_WAIT_TIME: &str = "fuse.wait_time";
    /// Operations that wait now, by cause.
    pub const FUSE_WAITS: &str = "fuse.waits_in_progress";
    /// The age of the oldest of them.
    pub const FUSE_OLDEST_WAIT: &str = "fuse.oldest_wait";
    /// Open files.
    pub const OPEN_FILES: &str = "fs.current_handles";
    /// Inodes.
    pub const INODES: &str = "fs.inodes";
    /// Keys that cannot be shown.
    pub const HIDDEN_KEYS: &str = "fs.hidden_keys";
    /// LISTs ahead of walks.
    pub const WALK_LISTS: &str = "fs.walk_lists";
    /// GETs for bytes of files.
    pub const READ_GETS: &str = "read.gets";
    /// Bytes that GETs asked for.
    pub const READ_REQUESTED: &str = "read.requested_bytes";
    /// Bytes that readers have read.
    pub const READ_CONSUMED: &str = "read.consumed_bytes";
    /// Second GETs.
    pub const HEDGES: &str = "read.hedges";
    /// Bytes fetched ahead of opens.
    pub const SIBLING_BYTES: &str = "prefetch.sibling_bytes";
    /// Streams that are read ahead.
    pub const STREAMS: &str = "prefetch.streams";
    /// Memory for data by its use.
    pub const MEMORY_RESERVED: &str = "mem.bytes_reserved";
    /// Most memory for data.
    pub const MEMORY_LIMIT: &str = "mem.limit";
    /// Most memory for data that was ever held.
    pub const MEMORY_PEAK: &str = "mem.peak";
    /// Time waited for memory.
    pub const MEMORY_WAIT: &str = "mem.reserve_latency_us";
    /// Panics of threads and tasks.
    pub const PANICS: &str = "process.panics";
    /// Resident memory of the process.
    pub const PROCESS_MEMORY: &str = "process.memory_usage";
    /// Lookups of ranges in the disk cache.
    pub const CACHE_READS: &str = "cache.block_reads";
    /// Bytes to and from the disk cache.
    pub const CACHE_BYTES: &str = "cache.block_bytes";
    /// Listings in the disk cache.
    pub const CACHE_LISTINGS: &str = "cache.listings";
    /// Ranges that the disk cache did not store.
    pub const CACHE_DROPPED: &str = "cache.dropped";
    /// Failures of the disk cache.
    pub const CACHE_ERRORS: &str = "cache.errors";
    /// Bytes in the disk cache.
    pub const CACHE_SIZE: &str = "cache.total_size";
    /// Memory of the disk cache's indexes.
    pub const CACHE_INDEX: &str = "cache.index_bytes";
    /// Entries that the disk cache has evicted.
    pub const CACHE_EVICTED: &str = "cache.evicted_bytes";
    /// Written bytes that S3 does not have.
    pub const WRITE_HELD: &str = "write.bytes_held";
    /// Multipart uploads in progress.
    pub const UPLOADS: &str = "write.uploads";
    /// Lines of the journal that are not done.
    pub const JOURNAL: &str = "write.journal_entries";

    /// Requests by the program that caused them.
    pub const PROGRAM_REQUESTS: &str = "program.requests";
    /// Bytes of these requests.
    pub const PROGRAM_BYTES: &str = "program.bytes";

    pub use mountpoint_client::metrics::{
        S3_BREAKER_OPEN, S3_BREAKER_REFUSED, S3_CANCELED, S3_ERRORS, S3_FIRST_BYTE_LATENCY,
        S3_IN_FLIGHT, S3_LATENCY, S3_RECEIVED, S3_REQUESTS, S3_RETRIES, S3_SENT, S3_THROTTLES,
    };
}

use MetricUnit::{Bytes, Count, Microseconds};

const fn counter(
    name: &'static str,
    unit: MetricUnit,
    labels: &'static [&'static str],
    meaning: &'static str,
) -> MetricDefinition {
    MetricDefinition {
        name,
        kind: MetricKind::Counter,
        unit,
        labels,
        meaning,
    }
}

const fn gauge(
    name: &'static str,
    unit: MetricUnit,
    labels: &'static [&'static str],
    meaning: &'static str,
) -> MetricDefinition {
    MetricDefinition {
        kind: MetricKind::Gauge,
        ..counter(name, unit, labels, meaning)
    }
}

const fn histogram(
    name: &'static str,
    unit: MetricUnit,
    labels: &'static [&'static str],
    meaning: &'static str,
) -> MetricDefinition {
    MetricDefinition {
        kind: MetricKind::Histogram,
        ..counter(name, unit, labels, meaning)
    }
}

/// Every metric.
#[rustfmt::skip]
pub const METRICS: &[MetricDefinition] = &[
    gauge(names::MOUNT, Count, &["bucket", "prefix", "directory", "version"], "always 1; the labels tell what is mounted where"),
    histogram(names::FUSE_LATENCY, Microseconds, &["fuse_request"], "time from the arrival of a request of the kernel to its reply"),
    counter(names::FUSE_ERRORS, Count, &["fuse_request", "errno"], "requests of the kernel that were answered with an error"),
    histogram(names::FUSE_IO_SIZE, Bytes, &["fuse_request"], "sizes of the data of READs and WRITEs that succeeded"),
    counter(names::FUSE_BYTES, Bytes, &["type"], "bytes to (`read`) and from (`write`) the kernel"),
    gauge(names::FUSE_WAITING, Count, &[], "requests of the kernel that wait for S3, memory or the disk"),
    gauge(names::KERNEL_QUEUE, Count, &[], "requests that wait in the kernel, which has not handed them over yet; looked at every second, where `/sys/fs/fuse/connections` is mounted"),
    counter(names::FUSE_WAIT_TIME, Microseconds, &["fuse_request", "cause"], "time that requests of the kernel waited, by cause; waits in progress count up to now"),
    gauge(names::FUSE_WAITS, Count, &["cause"], "requests of the kernel that wait now, by cause"),
    gauge(names::FUSE_OLDEST_WAIT, Microseconds, &["cause"], "time since the oldest of them arrived"),
    gauge(names::OPEN_FILES, Count, &["type"], "open handles, of files (`file`) and of directories (`directory`)"),
    gauge(names::INODES, Count, &[], "inodes that the kernel knows or that are open"),
    counter(names::HIDDEN_KEYS, Count, &[], "how often a listing met a key that cannot be shown"),
    counter(names::WALK_LISTS, Count, &["result"], "LISTs ahead of walks: all that were sent (`sent`), those of which nothing was used (`wasted`)"),
    counter(names::READ_GETS, Count, &[], "GETs for bytes of open files"),
    counter(names::READ_REQUESTED, Bytes, &[], "bytes that these GETs asked for"),
    counter(names::READ_CONSUMED, Bytes, &[], "bytes that readers have taken; what was requested beyond that was prefetched and not read, or not yet"),
    counter(names::HEDGES, Count, &["result"], "second GETs for late ones: all that were sent (`sent`), those that were faster (`won`)"),
    gauge(names::SIBLING_BYTES, Bytes, &["state"], "bytes of files that were fetched before they were opened, and not read: not yet (`unread`), never (`wasted`)"),
    gauge(names::STREAMS, Count, &[], "streams that are read ahead"),
    gauge(names::MEMORY_RESERVED, Bytes, &["area"], "memory for data: of reads that an application waits for or keeps (`read`), of read-ahead (`prefetch`), of written files (`upload`)"),
    gauge(names::MEMORY_LIMIT, Bytes, &[], "most memory for data, by `--memory-target`"),
    gauge(names::MEMORY_PEAK, Bytes, &[], "most memory for data that was held at once"),
    histogram(names::MEMORY_WAIT, Microseconds, &["area"], "time that reads (`read`) and writes (`upload`) waited for memory, of those that waited"),
    counter(names::PANICS, Count, &[], "panics of this program's threads and tasks; each is a line of the log"),
    gauge(names::PROCESS_MEMORY, Bytes, &[], "resident memory of the process"),
    counter(names::CACHE_READS, Count, &["result"], "ranges that the disk cache was asked for, by `hit` and `miss`"),
    counter(names::CACHE_BYTES, Bytes, &["type"], "bytes read from (`get`) and stored in (`put`) the disk cache"),
    counter(names::CACHE_LISTINGS, Count, &["type"], "listings of directories that were taken from (`get`) and stored in (`put`) the disk cache"),
    counter(names::CACHE_DROPPED, Count, &[], "fetched ranges that were not stored: the disk was slower than S3 or full, or memory for the index was short"),
    counter(names::CACHE_ERRORS, Count, &["type"], "operations of the disk that failed (`disk`), entries that were damaged (`damage`)"),
    gauge(names::CACHE_SIZE, Bytes, &[], "bytes that the disk cache occupies, as far as is known"),
    gauge(names::CACHE_INDEX, Bytes, &[], "memory that the indexes of open files in the disk cache take; among the reads of `mem.bytes_reserved`"),
    counter(names::CACHE_EVICTED, Bytes, &[], "bytes that this mount has evicted from the disk cache"),
    gauge(names::WRITE_HELD, Bytes, &[], "written bytes in memory that S3 does not have yet"),
    gauge(names::UPLOADS, Count, &[], "multipart uploads in progress"),
    gauge(names::JOURNAL, Count, &[], "uploads and renames in the journal that are not done"),
    counter(names::PROGRAM_REQUESTS, Count, &["program", "class"], "requests to S3 by the program that caused them and by S3's price class: `put` (PUT, COPY, POST, LIST), `get` (GET and others), `delete`; without those that S3 failed (500 and above), which are free"),
    counter(names::PROGRAM_BYTES, Bytes, &["program", "type"], "bytes of objects in these requests, `sent` and `received`"),
    counter(client::S3_REQUESTS, Count, &["s3_request"], "requests to S3, each attempt counted when it ends"),
    counter(client::S3_ERRORS, Count, &["s3_request", "http_status"], "requests to S3 that failed; the status is `none` where there was no answer"),
    counter(client::S3_CANCELED, Count, &["s3_request"], "requests to S3 that were given up before their end"),
    histogram(client::S3_FIRST_BYTE_LATENCY, Microseconds, &["s3_request"], "time from a request to the first byte of its answer, of GETs"),
    histogram(client::S3_LATENCY, Microseconds, &["s3_request"], "time from a request to the end of its answer"),
    gauge(client::S3_IN_FLIGHT, Count, &[], "requests to S3 in flight"),
    counter(client::S3_RECEIVED, Bytes, &["s3_request"], "bytes of the bodies of answers"),
    counter(client::S3_SENT, Bytes, &["s3_request"], "bytes of bodies that were sent"),
    counter(client::S3_RETRIES, Count, &["reason"], "attempts after a failed one: after S3 said to slow down (`throttled`), others (`failed`)"),
    counter(client::S3_THROTTLES, Count, &[], "answers by which S3 said to slow down"),
    gauge(client::S3_BREAKER_OPEN, Count, &[], "1 while requests fail at once because S3 answers nothing"),
    counter(client::S3_BREAKER_REFUSED, Count, &[], "requests that failed so"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_in_the_table_once() {
        let named: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(named.len(), METRICS.len());
        let constants = include_str!("definitions.rs")
            .matches("\n    pub const ")
            .count();
        let clients = METRICS
            .iter()
            .filter(|metric| metric.name.starts_with("s3."));
        assert_eq!(constants + clients.count(), METRICS.len());
    }
}
