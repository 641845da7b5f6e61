//! Minimum of recent measurements.
//!
//! Lock-free. Invariant: the value was measured at most two periods ago.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The minimum of the last one to two periods.
#[derive(Debug)]
pub(in crate::read) struct WindowedMin {
    /// Number of the period that `current` belongs to.
    period: AtomicU64,
    /// `NONE` before the period's first measurement.
    current: AtomicU64,
    previous: AtomicU64,
}

impl Default for WindowedMin {
    fn default() -> Self {
        Self {
            period: AtomicU64::new(0),
            current: AtomicU64::new(NONE),
            previous: AtomicU64::new(NONE),
        }
    }
}

impl WindowedMin {
    /// Records a measurement.
    pub(in crate::read) fn record(&self, value: u64, now: Duration) {
        let period = period_of(now);
        let before = self.period.load(Ordering::Relaxed);
        // One of several threads begins the new period; a concurrent measurement may count for
        // either period.
        if period > before
            && self
                .period
                .compare_exchange(before, period, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            let last = self.current.swap(NONE, Ordering::Relaxed);
            let is_adjacent = period == before + 1;
            self.previous
                .store(if is_adjacent { last } else { NONE }, Ordering::Relaxed);
        }
        self.current.fetch_min(value, Ordering::Relaxed);
    }

    /// The minimum within the last two periods, if anything was measured.
    pub(in crate::read) fn least(&self, now: Duration) -> Option<u64> {
        let current = self.current.load(Ordering::Relaxed);
        let least = match period_of(now).saturating_sub(self.period.load(Ordering::Relaxed)) {
            0 => current.min(self.previous.load(Ordering::Relaxed)),
            1 => current,
            _ => NONE,
        };
        (least != NONE).then_some(least)
    }
}

fn period_of(now: Duration) -> u64 {
    now.as_secs() / PERIOD.as_secs()
}

/// Long enough to include a moment with little in flight. Short enough to follow a change of route.
const PERIOD: Duration = Duration::from_secs(30);

const NONE: u64 = u64::MAX;
