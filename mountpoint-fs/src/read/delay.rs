//! The least time that a GET of this mount needed to its first byte: what the store and the network take when
//! nothing queues.
//!
//! Knows no request and no stream; told delays, it says the least of the last one to two periods. The least of many
//! tells distance, where an average would tell how busy this machine is. Lock-free; told on the client's threads,
//! asked while a read is planned.
//!
//! Invariant: what it says was measured at most two periods ago.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The least delay of late.
#[derive(Debug)]
pub(super) struct LeastDelay {
    /// Which period `current` belongs to.
    period: AtomicU64,
    /// In nanoseconds; `NONE` before the first of a period.
    current: AtomicU64,
    previous: AtomicU64,
}

impl LeastDelay {
    pub(super) fn new() -> Self {
        Self {
            period: AtomicU64::new(0),
            current: AtomicU64::new(NONE),
            previous: AtomicU64::new(NONE),
        }
    }

    /// A GET needed `delay` to its first byte, which came `now`.
    pub(super) fn record(&self, delay: Duration, now: Duration) {
        let period = now.as_secs() / PERIOD.as_secs();
        let before = self.period.load(Ordering::Relaxed);
        // One of those who meet here turns the page; what another records meanwhile may count for either period.
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
        let nanos = u64::try_from(delay.as_nanos()).unwrap_or(NONE);
        self.current.fetch_min(nanos, Ordering::Relaxed);
    }

    /// The least of late; `None` if there was no GET yet.
    pub(super) fn get(&self) -> Option<Duration> {
        let current = self.current.load(Ordering::Relaxed);
        let least = current.min(self.previous.load(Ordering::Relaxed));
        (least != NONE).then(|| Duration::from_nanos(least))
    }
}

/// Long enough to hold a moment in which little was in the air, short enough to follow a route that changed.
const PERIOD: Duration = Duration::from_secs(30);

const NONE: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    /// Each case: delays as `(second, milliseconds)`, and the least that is known after them, in milliseconds.
    #[track_caller]
    fn check(delays: &[(u64, u64)], least: Option<u64>) {
        let delay = LeastDelay::new();
        for (second, millis) in delays {
            delay.record(Duration::from_millis(*millis), Duration::from_secs(*second));
        }
        assert_eq!(delay.get(), least.map(Duration::from_millis), "{delays:?}");
    }

    #[test]
    fn the_least_of_the_last_two_periods() {
        check(&[], None);
        check(&[(0, 20)], Some(20));
        check(&[(0, 20), (1, 10), (2, 30)], Some(10));
        check(&[(0, 10), (31, 20)], Some(10));
        check(&[(0, 10), (31, 20), (61, 30)], Some(20));
        check(&[(0, 10), (91, 30)], Some(30));
    }
}
