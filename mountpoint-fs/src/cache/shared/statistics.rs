//! Counts of a shared cache, for tests and debug output.

/// Uses of the shared bucket by a mount since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedCacheStats {
    /// Ranges that came from the bucket.
    pub hits: u64,
    /// Bytes of those ranges.
    pub hit_bytes: u64,
    /// Extents that this mount stored.
    pub stored: u64,
    /// Whole extents that were not stored: the bucket was slower than the store, or memory short.
    pub dropped: u64,
    /// Objects that were not what their name says.
    pub damaged: u64,
    /// Ranges for which S3 was asked too, because the bucket was late.
    pub late: u64,
    /// Requests that failed.
    pub errors: u64,
}
