//! Minimum latencies of this mount's GETs, by size and until the first byte.
//!
//! The minimum is the time that the store and the network need without queues. It tells the
//! distance to the store, where an average would tell how busy this machine is. Knows no request
//! and no stream. Lock-free: the client's threads record, planners of reads ask.
//!
//! Invariant: each value was measured at most two periods ago.

use std::time::Duration;

use super::windowed_min::WindowedMin;
use crate::config::limits::PART_MIN;
use crate::store_distance::StoreDistance;

/// Recent minimum latencies, by size.
#[derive(Debug, Default)]
pub(in crate::read) struct MinLatencies {
    classes: [WindowedMin; CLASSES],
    first_byte: WindowedMin,
}

impl MinLatencies {
    /// Records a GET of `len` bytes that has just completed after `delay`.
    pub(in crate::read) fn record(&self, len: u64, delay: Duration, now: Duration) {
        self.classes[class(len)].record(nanos(delay), now);
    }

    /// Minimum latency of a GET of about `len` bytes within the last two periods.
    pub(in crate::read) fn of(&self, len: u64, now: Duration) -> Option<Duration> {
        self.classes[class(len)]
            .least(now)
            .map(Duration::from_nanos)
    }

    /// Records a GET with its first byte just received after `delay`.
    pub(in crate::read) fn record_first_byte(&self, delay: Duration, now: Duration) {
        self.first_byte.record(nanos(delay), now);
    }

    /// Minimum latency of a first byte within the last two periods: the round trip to the store.
    /// Does not depend on the size of the GET.
    pub(in crate::read) fn first_byte(&self, now: Duration) -> Option<Duration> {
        self.first_byte.least(now).map(Duration::from_nanos)
    }

    /// The distance to the store, if it is known.
    pub(in crate::read) fn distance(&self, now: Duration) -> Option<StoreDistance> {
        self.first_byte(now).map(StoreDistance::of)
    }
}

fn nanos(delay: Duration) -> u64 {
    u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX)
}

/// Class of a size: number of doublings of the smallest part.
pub(in crate::read) fn class(len: u64) -> usize {
    let doublings = (len / PART_MIN).max(1).ilog2() as usize;
    doublings.min(CLASSES - 1)
}

/// Classes from 128 KiB to 16 MiB and more.
pub(in crate::read) const CLASSES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// Each case: delays as `(second, milliseconds)`, and the minimum at `second` in milliseconds.
    #[track_caller]
    fn check(delays: &[(u64, u64)], second: u64, least: Option<u64>) {
        let known = MinLatencies::default();
        for (second, millis) in delays {
            let delay = Duration::from_millis(*millis);
            known.record(1 << 20, delay, Duration::from_secs(*second));
        }
        assert_eq!(
            known.of(1 << 20, Duration::from_secs(second)),
            least.map(Duration::from_millis),
            "{delays:?}"
        );
    }

    #[test]
    fn the_least_of_the_last_two_periods() {
        check(&[], 0, None);
        check(&[(0, 20)], 0, Some(20));
        check(&[(0, 20), (1, 10), (2, 30)], 2, Some(10));
        check(&[(0, 10), (31, 20)], 31, Some(10));
        check(&[(0, 10), (31, 20), (61, 30)], 61, Some(20));
        check(&[(0, 10), (91, 30)], 91, Some(30));
        check(&[(0, 10)], 59, Some(10));
        check(&[(0, 10)], 60, None);
        check(&[(0, 10), (31, 20)], 60, Some(20));
    }

    #[test]
    fn first_bytes_are_told_apart_from_whole_ranges() {
        let known = MinLatencies::default();
        known.record(1 << 20, Duration::from_millis(5), Duration::ZERO);
        assert_eq!(known.first_byte(Duration::ZERO), None);
        for millis in [4, 3, 6] {
            known.record_first_byte(Duration::from_millis(millis), Duration::ZERO);
        }
        let least = |second| known.first_byte(Duration::from_secs(second));
        assert_eq!(least(0), Some(Duration::from_millis(3)));
        assert_eq!(least(60), None);
    }

    #[test]
    fn sizes_are_told_apart_by_doublings() {
        for (len, other, same) in [
            (1, PART_MIN, true),
            (PART_MIN, 2 * PART_MIN - 1, true),
            (PART_MIN, 2 * PART_MIN, false),
            (8 << 20, (8 << 20) + 1, true),
            (8 << 20, 4 << 20, false),
            (16 << 20, 1 << 40, true),
        ] {
            assert_eq!(class(len) == class(other), same, "{len} {other}");
        }
    }
}
