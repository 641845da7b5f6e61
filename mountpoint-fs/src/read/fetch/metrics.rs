//! How many GETs a mount has sent, and how long they took.
//!
//! Told by the GETs themselves; teaches the latency of the store and what a late GET is. Lock-free:
//! any thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::hedge_policy::HedgePolicy;
use crate::clock::Clock;
use crate::read::plan::MinLatencies;

/// Counts and latencies of the GETs of a mount.
#[derive(Debug)]
pub(in crate::read) struct GetMetrics {
    clock: Clock,
    /// Of the store.
    pub(in crate::read) min_latencies: MinLatencies,
    /// Of the bucket that mounts share.
    pub(in crate::read) shared_latencies: MinLatencies,
    pub(super) hedge_policy: HedgePolicy,
    gets: AtomicU64,
    hedges: AtomicU64,
    hedges_won: AtomicU64,
    bytes_requested: AtomicU64,
}

impl GetMetrics {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            min_latencies: MinLatencies::default(),
            shared_latencies: MinLatencies::default(),
            hedge_policy: HedgePolicy::default(),
            gets: AtomicU64::new(0),
            hedges: AtomicU64::new(0),
            hedges_won: AtomicU64::new(0),
            bytes_requested: AtomicU64::new(0),
        }
    }

    /// Now, by the mount's clock.
    pub(super) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// GETs so far.
    pub(in crate::read) fn gets(&self) -> u64 {
        self.gets.load(Ordering::Relaxed)
    }

    /// GETs so far that were sent because another one was late.
    pub(in crate::read) fn hedges(&self) -> u64 {
        self.hedges.load(Ordering::Relaxed)
    }

    /// Hedges that brought the last byte first.
    pub(in crate::read) fn hedges_won(&self) -> u64 {
        self.hedges_won.load(Ordering::Relaxed)
    }

    /// Bytes that all GETs asked for.
    pub(in crate::read) fn bytes_requested(&self) -> u64 {
        self.bytes_requested.load(Ordering::Relaxed)
    }

    /// A GET of `len` bytes is about to be sent.
    pub(super) fn count_get(&self, len: u64) {
        self.gets.fetch_add(1, Ordering::Relaxed);
        self.bytes_requested.fetch_add(len, Ordering::Relaxed);
    }

    /// A GET is about to be sent because another one is late.
    pub(super) fn count_hedge(&self) {
        self.hedges.fetch_add(1, Ordering::Relaxed);
    }

    /// Such a GET has ended before the late one.
    pub(super) fn hedge_won(&self) {
        self.hedges_won.fetch_add(1, Ordering::Relaxed);
    }

    /// The first byte of a GET of `len` bytes, which was sent at `began`, has come at `now`.
    pub(super) fn first_byte(&self, len: u64, began: Duration, now: Duration) {
        let delay = now.saturating_sub(began);
        self.min_latencies.record_first_byte(delay, now);
        self.hedge_policy.began(len, delay);
    }

    /// The first byte of a fetch from the shared bucket has just come. Hedging does not learn from
    /// it: late bytes of that bucket have a bound of their own.
    pub(super) fn first_shared_byte(&self, began: Duration) {
        let now = self.now();
        let delay = now.saturating_sub(began);
        self.shared_latencies.record_first_byte(delay, now);
    }

    /// The last byte of a fetch of `len` bytes from the shared bucket has just come.
    pub(super) fn last_shared_byte(&self, len: u64, began: Duration) {
        let now = self.now();
        let delay = now.saturating_sub(began);
        self.shared_latencies.record(len, delay, now);
    }

    /// The last byte of such a GET has just come.
    pub(super) fn last_byte(&self, len: u64, began: Duration) {
        let now = self.now();
        let delay = now.saturating_sub(began);
        self.min_latencies.record(len, delay, now);
        self.hedge_policy.ended(len, delay);
    }
}
