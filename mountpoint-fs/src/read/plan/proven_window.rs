//! The largest window that growing to has made the mount faster, of late.
//!
//! Lock-free. Invariant: what it says was proven at most two periods of [`WindowedMin`] ago.

use std::time::Duration;

use super::windowed_min::WindowedMin;

/// The largest window of a mount that growing to has paid of late.
#[derive(Debug, Default)]
pub(in crate::read) struct ProvenWindow(WindowedMin);

impl ProvenWindow {
    pub(super) fn record(&self, size: u64, now: Duration) {
        self.0.record(u64::MAX - size, now);
    }

    /// In bytes; 0 if there was none.
    pub(super) fn largest(&self, now: Duration) -> u64 {
        self.0.least(now).map_or(0, |rest| u64::MAX - rest)
    }
}
