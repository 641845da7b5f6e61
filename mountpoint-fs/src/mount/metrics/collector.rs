//! Numbers that the parts of a mount keep for themselves, brought to the registry when a sink asks.

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use metrics::{Counter, Gauge, counter, gauge};
use mountpoint_client::metrics::requests_in_flight;

use super::document::MountDescription;
use crate::cache::Cache;
use crate::cli::VERSION;
use crate::fs::FileSystem;
use crate::fuse::Connection;
use crate::metrics::trace::{WaitCause, WaitsInProgress, micros};
use crate::metrics::{names, programs};

/// The parts of a mount that know numbers.
pub(in crate::mount) struct MeasuredParts {
    pub(in crate::mount) fs: Weak<FileSystem>,
    pub(in crate::mount) cache: Option<Weak<Cache>>,
    /// Counts the waits in progress up to now, and tells which there are.
    pub(in crate::mount) waits: Arc<dyn Fn() -> WaitsInProgress + Send + Sync>,
    /// Counts the requests of the kernel that wait.
    pub(in crate::mount) waiting: Arc<dyn Fn() -> usize + Send + Sync>,
    /// The kernel's side, if it can be seen.
    pub(in crate::mount) connection: Option<Connection>,
    /// Number of the mount's device, if the kernel tells.
    pub(in crate::mount) device: Option<String>,
    /// The directory where the kernel shows the mount, if it tells.
    pub(in crate::mount) directory: Option<PathBuf>,
}

/// Asks the parts of a mount for their numbers.
pub(super) struct Collector {
    parts: MeasuredParts,
    handles: Handles,
}

impl Collector {
    /// A collector of these parts, for as long as they live.
    pub(super) fn new(mount: &MountDescription, parts: MeasuredParts) -> Self {
        gauge!(
            names::MOUNT,
            "bucket" => mount.bucket.clone(),
            "prefix" => mount.prefix.clone(),
            "directory" => mount.directory.clone(),
            "version" => VERSION
        )
        .set(1.0);
        Self {
            parts,
            handles: Handles::new(),
        }
    }

    /// Brings the numbers of now.
    pub(super) fn collect(&self) {
        let handles = &self.handles;
        if let Some(bytes) = resident() {
            handles.resident.set(bytes as f64);
        }
        collect_programs();
        handles.waiting.set((self.parts.waiting)() as f64);
        handles.collect_waits(&(self.parts.waits)());
        handles.in_flight.set(requests_in_flight() as f64);
        if let Some(fs) = self.parts.fs.upgrade() {
            handles.collect_names(&fs);
            handles.collect_data(&fs);
        }
        if let Some(cache) = self.parts.cache.as_ref().and_then(Weak::upgrade) {
            handles.collect_cache(&cache);
        }
    }
}

/// Brings what each program has caused. Programs come with time, so there are no handles.
fn collect_programs() {
    for account in programs::accounts() {
        let usage = account.usage();
        if usage.requests() == 0 {
            continue;
        }
        let name = || account.name().to_owned();
        let classes = [
            ("put", usage.puts),
            ("get", usage.gets),
            ("delete", usage.deletes),
        ];
        for (class, requests) in classes {
            counter!(names::PROGRAM_REQUESTS, "program" => name(), "class" => class)
                .absolute(requests);
        }
        for (kind, bytes) in [("sent", usage.sent), ("received", usage.received)] {
            counter!(names::PROGRAM_BYTES, "program" => name(), "type" => kind).absolute(bytes);
        }
    }
}

struct Handles {
    resident: Gauge,
    waiting: Gauge,
    waits: [Gauge; WaitCause::ALL.len()],
    oldest_wait: [Gauge; WaitCause::ALL.len()],
    in_flight: Gauge,
    files: Gauge,
    directories: Gauge,
    inodes: Gauge,
    hidden_keys: Counter,
    walk_lists: [Counter; 2],
    gets: Counter,
    requested: Counter,
    consumed: Counter,
    hedges: [Counter; 2],
    siblings: [Gauge; 2],
    streams: Gauge,
    memory: [Gauge; 3],
    memory_limit: Gauge,
    memory_peak: Gauge,
    write_held: Gauge,
    uploads: Gauge,
    journal: Gauge,
    cache_reads: [Counter; 2],
    cache_bytes: [Counter; 2],
    cache_listings: [Counter; 2],
    cache_dropped: Counter,
    cache_errors: [Counter; 2],
    cache_size: Gauge,
    cache_index: Gauge,
    cache_evicted: Counter,
}

impl Handles {
    fn new() -> Self {
        use names::*;
        Self {
            resident: gauge!(PROCESS_MEMORY),
            waiting: gauge!(FUSE_WAITING),
            waits: WaitCause::ALL.map(|cause| gauge!(FUSE_WAITS, "cause" => cause.name())),
            oldest_wait: WaitCause::ALL
                .map(|cause| gauge!(FUSE_OLDEST_WAIT, "cause" => cause.name())),
            in_flight: gauge!(S3_IN_FLIGHT),
            files: gauge!(OPEN_FILES, "type" => "file"),
            directories: gauge!(OPEN_FILES, "type" => "directory"),
            inodes: gauge!(INODES),
            hidden_keys: counter!(HIDDEN_KEYS),
            walk_lists: ["sent", "wasted"].map(|result| counter!(WALK_LISTS, "result" => result)),
            gets: counter!(READ_GETS),
            requested: counter!(READ_REQUESTED),
            consumed: counter!(READ_CONSUMED),
            hedges: ["sent", "won"].map(|result| counter!(HEDGES, "result" => result)),
            siblings: ["unread", "wasted"].map(|state| gauge!(SIBLING_BYTES, "state" => state)),
            streams: gauge!(STREAMS),
            memory: ["read", "prefetch", "upload"]
                .map(|area| gauge!(MEMORY_RESERVED, "area" => area)),
            memory_limit: gauge!(MEMORY_LIMIT),
            memory_peak: gauge!(MEMORY_PEAK),
            write_held: gauge!(WRITE_HELD),
            uploads: gauge!(UPLOADS),
            journal: gauge!(JOURNAL),
            cache_reads: ["hit", "miss"].map(|result| counter!(CACHE_READS, "result" => result)),
            cache_bytes: ["get", "put"].map(|kind| counter!(CACHE_BYTES, "type" => kind)),
            cache_listings: ["get", "put"].map(|kind| counter!(CACHE_LISTINGS, "type" => kind)),
            cache_dropped: counter!(CACHE_DROPPED),
            cache_errors: ["disk", "damage"].map(|kind| counter!(CACHE_ERRORS, "type" => kind)),
            cache_size: gauge!(CACHE_SIZE),
            cache_index: gauge!(CACHE_INDEX),
            cache_evicted: counter!(CACHE_EVICTED),
        }
    }

    fn collect_waits(&self, waits: &WaitsInProgress) {
        set(&self.waits, waits.count);
        for (gauge, age) in self.oldest_wait.iter().zip(waits.oldest) {
            gauge.set(micros(age));
        }
    }

    fn collect_names(&self, fs: &FileSystem) {
        let stats = fs.statistics();
        self.files.set(stats.open_files as f64);
        self.directories.set(stats.open_directories as f64);
        self.inodes.set(stats.inodes as f64);
        self.hidden_keys.absolute(stats.hidden_keys);
        absolute(&self.walk_lists, [stats.walks.requests, stats.walks.wasted]);
        self.write_held.set(stats.write_held as f64);
        self.uploads.set(stats.uploads as f64);
        self.journal.set(stats.journal_entries as f64);
    }

    fn collect_data(&self, fs: &FileSystem) {
        let stats = fs.statistics();
        let read = stats.read;
        self.gets.absolute(read.gets);
        self.requested.absolute(read.bytes_requested);
        self.consumed.absolute(stats.consumed);
        absolute(&self.hedges, [read.hedges, read.hedges_won]);
        let siblings = stats.sibling_prefetch;
        set(&self.siblings, [siblings.unread, siblings.wasted]);
        self.streams.set(read.streams as f64);
        let (ahead, written) = (read.budget_ahead, read.budget_written);
        let demanded = read.budget_used.saturating_sub(ahead + written);
        set(&self.memory, [demanded, ahead, written]);
        self.memory_limit.set(read.budget_limit as f64);
        self.memory_peak.set(read.budget_peak as f64);
    }

    fn collect_cache(&self, cache: &Cache) {
        let stats = cache.stats();
        absolute(&self.cache_reads, [stats.hits, stats.misses]);
        absolute(&self.cache_bytes, [stats.hit_bytes, stats.stored_bytes]);
        absolute(
            &self.cache_listings,
            [stats.listings_used, stats.listings_stored],
        );
        self.cache_dropped.absolute(stats.dropped);
        absolute(&self.cache_errors, [stats.errors, stats.damaged]);
        let (bytes, evicted) = cache.room_bytes();
        self.cache_size.set(bytes as f64);
        self.cache_index.set(cache.index_bytes() as f64);
        self.cache_evicted.absolute(evicted);
    }
}

fn absolute<const N: usize>(counters: &[Counter; N], values: [u64; N]) {
    for (counter, value) in counters.iter().zip(values) {
        counter.absolute(value);
    }
}

fn set<const N: usize>(gauges: &[Gauge; N], values: [u64; N]) {
    for (gauge, value) in gauges.iter().zip(values) {
        gauge.set(value as f64);
    }
}

/// Resident memory of this process, in bytes.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}
