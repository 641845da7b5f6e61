//! Minimum length of a stream's GETs.
//!
//! Pure. A request costs the store CPU time, and mostly money, whatever its length. On a store on
//! the same machine or one short of CPU, many short requests slow the reader down. So a part should
//! take several times as long as the store needs for its first byte. If that time is very short,
//! parts stay short: they fit into the CPU's caches and need less memory.
//!
//! Invariant: a power of two, `PART_MIN <= least <= PART_LONG_MAX`.

use std::time::Duration;

use crate::config::limits::PART_MIN;
use crate::store_distance::StoreDistance;

/// The minimum length that one stream has learned.
#[derive(Clone, Debug)]
pub(in crate::read) struct PartLength {
    least: u64,
}

impl PartLength {
    pub(in crate::read) fn new() -> Self {
        Self { least: FIRST }
    }

    /// Minimum length of a part, in bytes.
    pub(in crate::read) fn least(&self) -> u64 {
        self.least
    }

    /// Learns from a measurement: a mount of `streams` streams reads `rate` bytes a second from a
    /// store with a first byte after `distance`. Each call doubles or halves the length at most,
    /// because a rate over a tenth of a second is only a hint.
    pub(in crate::read) fn learn(&mut self, rate: f64, distance: Option<Duration>, streams: usize) {
        let Some(distance) = distance else { return };
        let all = if StoreDistance::of(distance) < StoreDistance::Far {
            PARTS_LONG_NEAR_MAX
        } else {
            PARTS_LONG_MAX
        };
        let worth = rate * distance.as_secs_f64() * FIRST_BYTES;
        let room = (all / streams.max(1) as u64).clamp(PART_MIN, PART_LONG_MAX);
        let room = 1 << room.ilog2();
        if worth >= (self.least * 2) as f64 {
            self.least *= 2;
        } else if worth < self.least as f64 / 2.0 {
            self.least = (self.least / 2).max(PART_MIN);
        }
        self.least = self.least.min(room);
    }
}

/// Initial length: a quarter of the first window that it matters for.
const FIRST: u64 = WINDOW_INITIAL_MAX / PARTS_PER_WINDOW;

/// Multiple of the store's first-byte latency that a part should take at the mount's rate.
///
/// Measured with one stream from MinIO on the same two cores, with a first byte after 1.1 ms: 0.54
/// GB/s with parts of 1 MiB and 0.72 with 4 MiB, where MinIO took 1.7 and 1.0 CPU seconds per GB
/// (medians of three). With a server that takes 0.3 ms, parts above 2 MiB brought nothing.
const FIRST_BYTES: f64 = 8.0;

/// Longest part that only saves requests: mountpoint-s3's part size.
const PART_LONG_MAX: u64 = 8 << 20;

/// Bytes of such parts over all streams of a mount: eight have 4 MiB each.
const PARTS_LONG_MAX: u64 = 32 << 20;

/// Bytes of such parts over all streams near the store: four have 2 MiB each.
///
/// Parts of twice the length are as fast, take up to a fifth more CPU, because they leave its
/// caches, and twice the memory.
const PARTS_LONG_NEAR_MAX: u64 = 8 << 20;

/// Parts of a window: one being read, one complete, two in flight.
pub(super) const PARTS_PER_WINDOW: u64 = 4;

/// Largest initial window of a stream, and the smallest that it shrinks to by itself.
///
/// Small enough to stay in the caches of the CPU, large enough for a near store.
pub(in crate::read::plan) const WINDOW_INITIAL_MAX: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// The length after twenty equal measurements.
    fn settled(rate: f64, distance_micros: u64, streams: usize) -> u64 {
        let mut length = PartLength::new();
        for _ in 0..20 {
            length.learn(rate, Some(Duration::from_micros(distance_micros)), streams);
        }
        length.least()
    }

    #[test]
    fn parts_are_as_long_as_requests_cost() {
        for (rate, micros, streams, least) in [
            // A very short first-byte latency.
            (2.0e9, 5, 1, PART_MIN),
            (1.7e9, 280, 1, 2 * MIB),
            // A busy store.
            (0.7e9, 1100, 1, 4 * MIB),
            (0.7e9, 1100, 2, 4 * MIB),
            (0.7e9, 1100, 4, 2 * MIB),
            (0.7e9, 1100, 8, MIB),
            // A far store.
            (1.0e9, 20_000, 1, PART_LONG_MAX),
            (0.01e9, 20_000, 1, MIB),
            // Many streams together use no more memory than a few.
            (1.0e9, 20_000, 8, 4 * MIB),
            (1.0e9, 20_000, 32, MIB),
            (1.0e9, 20_000, 100_000, PART_MIN),
        ] {
            assert_eq!(
                settled(rate, micros, streams),
                least,
                "{rate} {micros} {streams}"
            );
        }
    }

    #[test]
    fn one_measurement_is_a_hint() {
        let mut length = PartLength::new();
        length.learn(1.0e9, Some(Duration::from_millis(20)), 1);
        assert_eq!(length.least(), 2 * FIRST);
        length.learn(1.0e9, None, 1);
        assert_eq!(length.least(), 2 * FIRST);
        length.learn(0.0, Some(Duration::from_millis(20)), 1);
        assert_eq!(length.least(), FIRST);
        // The length changes only below half of it and from its double on.
        for micros in [FIRST / 2 / 8, FIRST * 2 / 8 - 1] {
            length.learn(1.0e6, Some(Duration::from_micros(micros)), 1);
            assert_eq!(length.least(), FIRST, "{micros}");
        }
    }
}
