//! How long the GETs of a stream should be at least.
//!
//! Pure. A request costs the store the same however long its answer is, and whoever pays for
//! requests too; on a store that shares the machine or is short of CPU, many short ones take from
//! the reader what they cost. So a part should last several times as long as the store needs before
//! its first byte. Where that is next to nothing parts stay short, which leaves them in the caches
//! of the CPU and needs less memory.
//!
//! Invariant: a power of two, `PART_MIN <= least <= PART_LONG_MAX`.

use std::time::Duration;

use crate::config::limits::{
    PART_LONG_MAX, PART_MIN, PARTS_LONG_MAX, PARTS_LONG_NEAR_MAX, PARTS_PER_WINDOW,
    WINDOW_INITIAL_MAX,
};
use crate::store_distance::StoreDistance;

/// What one stream has learned of it.
#[derive(Clone, Debug)]
pub(in crate::read) struct PartLength {
    least: u64,
}

impl PartLength {
    pub(in crate::read) fn new() -> Self {
        Self { least: FIRST }
    }

    /// Bytes that a part should have at least.
    pub(in crate::read) fn least(&self) -> u64 {
        self.least
    }

    /// A mount of so many `streams` reads `rate` bytes a second from a store whose first byte takes
    /// `distance`. One measurement moves it by one doubling at most: a rate of a tenth of a second
    /// is no more than a hint.
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

/// Where it begins: a quarter of the first window that it matters for.
const FIRST: u64 = WINDOW_INITIAL_MAX / PARTS_PER_WINDOW;

/// Times a store's first byte that a part should last at the rate of the mount. One stream from
/// MinIO on the same two cores, where a first byte takes 1.1 ms, came to 0.54 GB/s with parts of 1
/// MiB and to 0.72 with 4 MiB, while MinIO took 1.7 and 1.0 CPU seconds per GB (medians of three);
/// from a server that takes 0.3 ms, longer parts than 2 MiB brought nothing.
const FIRST_BYTES: f64 = 8.0;

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// What is least after a while of such measurements.
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
            // Next to nothing before the first byte.
            (2.0e9, 5, 1, PART_MIN),
            (1.7e9, 280, 1, 2 * MIB),
            // A store that is busy.
            (0.7e9, 1100, 1, 4 * MIB),
            (0.7e9, 1100, 2, 4 * MIB),
            (0.7e9, 1100, 4, 2 * MIB),
            (0.7e9, 1100, 8, MIB),
            // One that is far.
            (1.0e9, 20_000, 1, PART_LONG_MAX),
            (0.01e9, 20_000, 1, MIB),
            // Many together keep to the memory of a few.
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
        // Between half of it and twice as much nothing changes.
        for micros in [FIRST / 2 / 8, FIRST * 2 / 8 - 1] {
            length.learn(1.0e6, Some(Duration::from_micros(micros)), 1);
            assert_eq!(length.least(), FIRST, "{micros}");
        }
    }
}
