//! The least of what was measured of late.
//!
//! Lock-free. Invariant: what it says was measured at most two periods ago.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The least number of the last one to two periods.
#[derive(Debug)]
pub(in crate::read) struct WindowedMin {
    /// Which period `current` belongs to.
    period: AtomicU64,
    /// `NONE` before the first of a period.
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
    /// This was measured now.
    pub(in crate::read) fn record(&self, value: u64, now: Duration) {
        let period = period_of(now);
        let before = self.period.load(Ordering::Relaxed);
        // One of those who meet here turns the page; what another records meanwhile may count for
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

    /// The least in the two periods until now; `None` if there was none.
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

/// Long enough to hold a moment in which little was in flight, short enough to follow a route that
/// changed.
const PERIOD: Duration = Duration::from_secs(30);

const NONE: u64 = u64::MAX;
