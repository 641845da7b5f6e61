//! The largest window that recently made the mount faster when a stream grew to it.
//!
//! Lock-free. Invariant: the value was proven at most two periods of [`WindowedMin`] ago.

use std::time::Duration;

use super::windowed_min::WindowedMin;

/// The largest recent window of a mount that made it faster.
#[derive(Debug, Default)]
pub(in crate::read) struct ProvenWindow(WindowedMin);

impl ProvenWindow {
    pub(super) fn record(&self, size: u64, now: Duration) {
        self.0.record(u64::MAX - size, now);
    }

    /// The window in bytes; 0 if there is none.
    pub(super) fn largest(&self, now: Duration) -> u64 {
        self.0.least(now).map_or(0, |rest| u64::MAX - rest)
    }
}
