//! Counts of a shared cache, for logs, tests and metrics. Any thread.

use std::sync::atomic::{AtomicU64, Ordering};

/// Uses of the shared bucket by a mount since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedCacheStats {
    /// Ranges that came from the bucket.
    pub hits: u64,
    /// Bytes of those ranges.
    pub hit_bytes: u64,
    /// Extents that the bucket was asked for and did not have.
    pub misses: u64,
    /// Extents that this mount stored.
    pub stored: u64,
    /// Bytes of those extents.
    pub stored_bytes: u64,
    /// Whole extents that were not stored: the bucket was slower than the store, or memory short.
    pub dropped: u64,
    /// Extents that another node claimed first.
    pub left_to_others: u64,
    /// Objects that were not what their name says.
    pub damaged: u64,
    /// Ranges for which S3 was asked too, because the bucket was late.
    pub late: u64,
    /// Requests that failed.
    pub errors: u64,
}

/// The counters behind [`SharedCacheStats`].
#[derive(Debug, Default)]
pub(super) struct SharedCounters {
    pub(super) hits: Counter,
    pub(super) hit_bytes: Counter,
    pub(super) misses: Counter,
    pub(super) stored: Counter,
    pub(super) stored_bytes: Counter,
    pub(super) dropped: Counter,
    pub(super) left_to_others: Counter,
    pub(super) damaged: Counter,
    pub(super) late: Counter,
    pub(super) errors: Counter,
}

/// One counter.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl SharedCounters {
    /// The counts now.
    pub(super) fn stats(&self) -> SharedCacheStats {
        SharedCacheStats {
            hits: self.hits.count(),
            hit_bytes: self.hit_bytes.count(),
            misses: self.misses.count(),
            stored: self.stored.count(),
            stored_bytes: self.stored_bytes.count(),
            dropped: self.dropped.count(),
            left_to_others: self.left_to_others.count(),
            damaged: self.damaged.count(),
            late: self.late.count(),
            errors: self.errors.count(),
        }
    }
}
