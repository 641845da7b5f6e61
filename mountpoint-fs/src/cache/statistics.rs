//! Counts of a cache, for logs, tests and metrics. Any thread.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sync::Mutex;

/// Uses of a cache since the mount began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Ranges that were read from the disk.
    pub hits: u64,
    /// Bytes of those ranges.
    pub hit_bytes: u64,
    /// Ranges that the disk was asked for and did not have.
    pub misses: u64,
    /// Bytes that were stored.
    pub stored_bytes: u64,
    /// Fetched ranges that were not stored: the disk was slower than the store, or full.
    pub dropped: u64,
    /// Entries that were removed because their bytes or their index were wrong.
    pub damaged: u64,
    /// Operations of the disk that failed.
    pub errors: u64,
    /// Listings of directories that were used.
    pub listings_used: u64,
    /// Listings of directories that were stored.
    pub listings_stored: u64,
}

/// The counts of a cache, and what was logged.
#[derive(Debug, Default)]
pub(super) struct CacheCounters {
    /// A leaf.
    stats: Mutex<CacheStats>,
    has_logged: AtomicBool,
    has_logged_room: AtomicBool,
}

impl CacheCounters {
    /// The counts now.
    pub(super) fn stats(&self) -> CacheStats {
        *self.stats.lock()
    }

    /// Counts something.
    pub(super) fn count(&self, add: impl FnOnce(&mut CacheStats)) {
        add(&mut self.stats.lock());
    }

    /// A range came from the disk.
    pub(super) fn hit(&self, range: &Range<u64>) {
        self.count(|stats| {
            stats.hits += 1;
            stats.hit_bytes += range.end - range.start;
        });
    }

    /// Bytes, or a listing, are not stored.
    pub(super) fn dropped(&self) {
        self.count(|stats| stats.dropped += 1);
    }

    /// An operation of the disk failed. The first failure is logged, the others at debug level.
    pub(super) fn failed(&self, what: &str, error: &std::io::Error) {
        self.count(|stats| stats.errors += 1);
        if self.has_logged.swap(true, Ordering::Relaxed) {
            tracing::debug!("the cache cannot {what}: {error}");
        } else {
            tracing::warn!(
                "the cache cannot {what}: {error}; reads go to S3 instead, further failures are logged with --debug"
            );
        }
    }

    /// An empty cache may keep nothing. Logged once.
    pub(super) fn found_no_room(&self) {
        if !self.has_logged_room.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the cache keeps nothing: its disk has less than 5 % free, or --max-cache-size is too small for what is read"
            );
        }
    }

    /// An entry is damaged and goes.
    pub(super) fn found_damage(&self, key: &str, what: &str) {
        self.count(|stats| stats.damaged += 1);
        tracing::warn!(
            key,
            "a cache entry was removed: {what}; its bytes come from S3 again"
        );
    }
}
