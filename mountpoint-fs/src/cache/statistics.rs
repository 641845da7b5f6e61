//! Counts of a cache, for logs, tests and metrics. Any thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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

/// The counters behind [`CacheStats`].
#[derive(Debug, Default)]
pub(super) struct CacheCounters {
    pub(super) hits: AtomicU64,
    pub(super) hit_bytes: AtomicU64,
    pub(super) misses: AtomicU64,
    pub(super) stored_bytes: AtomicU64,
    pub(super) dropped: AtomicU64,
    damaged: AtomicU64,
    errors: AtomicU64,
    pub(super) listings_used: AtomicU64,
    pub(super) listings_stored: AtomicU64,
    has_logged: AtomicBool,
    has_logged_room: AtomicBool,
}

impl CacheCounters {
    /// The counts now.
    pub(super) fn stats(&self) -> CacheStats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CacheStats {
            hits: count(&self.hits),
            hit_bytes: count(&self.hit_bytes),
            misses: count(&self.misses),
            stored_bytes: count(&self.stored_bytes),
            dropped: count(&self.dropped),
            damaged: count(&self.damaged),
            errors: count(&self.errors),
            listings_used: count(&self.listings_used),
            listings_stored: count(&self.listings_stored),
        }
    }

    /// An operation of the disk failed. The first failure is logged, the others at debug level.
    pub(super) fn failed(&self, what: &str, error: &std::io::Error) {
        self.errors.fetch_add(1, Ordering::Relaxed);
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
        self.damaged.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            key,
            "a cache entry was removed: {what}; its bytes come from S3 again"
        );
    }
}

/// Adds to a counter.
pub(super) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}
