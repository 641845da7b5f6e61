//! How far ahead of its reader one stream asks.
//!
//! Pure: owns no buffer, makes no request, reads no clock; told how the reader moves, it says a size. Time is cut
//! into epochs: one lasts until the reader has consumed one window, and long enough for a rate to mean something. At
//! its end a window whose reader had to wait grows, as long as that pays: if the mount is no faster for it, the window
//! shrinks to half of what it was, stays there if the mount is as fast with that, and rests for a number of epochs. So it settles near the
//! bandwidth-delay product of a distant store, and stays small, in the CPU's caches, where the machine is the limit.
//! What counts is the mount, all of its readers: one among many grows faster with any larger window, at the others'
//! cost.
//!
//! Invariant: `PART_MIN <= size <= max(size_max, PART_MIN)`.

use std::time::Duration;

use super::planner::Access;
use crate::config::limits::{PART_MIN, PARTS_PER_WINDOW, WINDOW_INITIAL_MAX};

/// The prefetch window of one stream, in bytes.
#[derive(Clone, Debug)]
pub(super) struct Window {
    size: u64,
    size_max: u64,
    epoch: Epoch,
    phase: Phase,
    /// How long it rests when growing does not pay the next time, in epochs.
    rest_next: u32,
}

#[derive(Clone, Debug)]
struct Epoch {
    began: Duration,
    /// What all readers of the mount had consumed then.
    consumed: u64,
    end: u64,
    stalled: bool,
}

impl Epoch {
    /// Begins now and lasts until the reader comes to `end`.
    fn new(end: u64, access: &Access) -> Self {
        Self {
            began: access.now,
            consumed: access.consumed,
            end,
            stalled: false,
        }
    }

    /// Bytes per second of all readers since it began.
    fn rate(&self, access: &Access) -> f64 {
        let seconds = access.now.saturating_sub(self.began).as_secs_f64();
        access.consumed.saturating_sub(self.consumed) as f64 / seconds
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// It does not change for so many epochs; after those it grows when its reader has to wait.
    Resting(u32),
    /// It grew from `size`, with which the mount had this rate, and must be faster for it.
    Probing { rate: f64, size: u64 },
    /// It shrank from `size`, and must be as fast as before after so many epochs.
    Checking { epochs: u32, rate: f64, size: u64 },
}

impl Window {
    /// Opens for a reader at `end` and asks for a power of two near `wanted` bytes.
    pub(super) fn open(wanted: u64, end: u64, access: &Access, size_max: u64) -> Self {
        let size = wanted
            .clamp(PART_MIN, WINDOW_INITIAL_MAX)
            .next_power_of_two()
            .min(size_max.max(PART_MIN));
        let epoch = Epoch::new(end + size, access);
        Self {
            size,
            size_max,
            epoch,
            phase: Phase::Resting(0),
            rest_next: REST_MIN,
        }
    }

    /// Bytes to ask for ahead of the reader.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Size of the ranges it is cut into: a power of two, unless `part_max` is not.
    pub(super) fn part(&self, part_max: u64) -> u64 {
        let quarter = self.size / PARTS_PER_WINDOW;
        let part = if quarter == 0 {
            PART_MIN
        } else {
            1 << quarter.ilog2()
        };
        part.max(PART_MIN).min(part_max)
    }

    /// The reader has come to `end` with this access.
    pub(super) fn advance(&mut self, end: u64, access: &Access, size_max: u64) {
        self.epoch.stalled |= access.waits;
        self.size_max = size_max.max(PART_MIN);
        let is_long_enough = access.now.saturating_sub(self.epoch.began) >= EPOCH_MIN;
        if end >= self.epoch.end && is_long_enough {
            self.finish_epoch(end, access);
        }
        self.size = self.size.min(self.size_max);
    }

    /// Memory is short: half as far, and not farther for a while.
    pub(super) fn shrink(&mut self) {
        self.size = (self.size / 2).max(PART_MIN);
        self.phase = Phase::Resting(REST_MIN);
    }

    fn finish_epoch(&mut self, end: u64, access: &Access) {
        let rate = self.epoch.rate(access);
        self.phase = match self.phase {
            Phase::Resting(0) => self.grow(2, rate),
            Phase::Resting(epochs) => Phase::Resting(epochs - 1),
            Phase::Probing { rate: before, .. } if rate >= before * GAIN_MIN => {
                self.rest_next = REST_MIN;
                let is_far = rate >= before * GAIN_FAR;
                self.grow(if is_far { 4 } else { 2 }, rate)
            }
            Phase::Probing { rate, size } => {
                self.size = (size / 2).max(WINDOW_INITIAL_MAX.min(size));
                let epochs = CHECK_EPOCHS;
                Phase::Checking { epochs, rate, size }
            }
            Phase::Checking {
                epochs: 1,
                rate: before,
                size,
            } => {
                if rate * GAIN_MIN < before {
                    self.size = size;
                }
                self.rest()
            }
            Phase::Checking { epochs, rate, size } => Phase::Checking {
                epochs: epochs - 1,
                rate,
                size,
            },
        };
        self.size = self.size.min(self.size_max);
        self.epoch = Epoch::new(end + self.size, access);
    }

    /// Grows if its reader had to wait and it may.
    fn grow(&mut self, factor: u64, rate: f64) -> Phase {
        if !self.epoch.stalled || self.size >= self.size_max {
            return Phase::Resting(0);
        }
        let size = self.size;
        self.size *= factor;
        Phase::Probing { rate, size }
    }

    fn rest(&mut self) -> Phase {
        let epochs = self.rest_next;
        self.rest_next = (epochs * 2).min(REST_MAX);
        Phase::Resting(epochs)
    }
}

/// Shortest epoch: a rate measured over less tells how threads were scheduled, not how fast the mount is.
const EPOCH_MIN: Duration = Duration::from_millis(100);

/// Growing pays if it makes the mount a tenth faster.
const GAIN_MIN: f64 = 1.1;

/// A mount that becomes so much faster with a larger window is bound by delay alone: larger steps.
const GAIN_FAR: f64 = 1.7;

/// Epochs after which a window that shrank is judged.
const CHECK_EPOCHS: u32 = 2;

/// Epochs of rest after the first attempt that did not pay.
const REST_MIN: u32 = 8;

/// Longest rest: a window follows a store that became faster within some ten seconds.
const REST_MAX: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    /// A read of a mount with this one reader.
    fn access(waits: bool, end: u64, now: Duration) -> Access {
        Access {
            range: end..end + 1,
            waits,
            now,
            consumed: end,
        }
    }

    /// Reads on in steps of 128 KiB from a store that needs `delay` for each window and never delivers more than
    /// `rate_max` bytes a second. Returns the window's size after each epoch, in MiB.
    fn run(initial: u64, epochs: usize, delay: Duration, rate_max: f64, size_max: u64) -> Vec<u64> {
        let start = access(true, 0, Duration::ZERO);
        let mut window = Window::open(initial, 0, &start, size_max);
        let (mut now, mut end) = (Duration::ZERO, 0);
        let mut sizes = vec![window.size()];
        while sizes.len() <= epochs {
            let began = window.epoch.began;
            let until = end + window.size();
            now += delay.max(Duration::from_secs_f64(window.size() as f64 / rate_max));
            while end < until {
                end += 128 * KIB;
                window.advance(end, &access(true, end, now), size_max);
            }
            if window.epoch.began != began {
                sizes.push(window.size());
            }
        }
        sizes.iter().map(|size| size / MIB).collect()
    }

    #[test]
    fn grows_up_to_its_bound_while_that_pays() {
        let delay = Duration::from_millis(30);
        assert_eq!(
            run(MIB, 7, delay, 1e12, 256 * MIB),
            [1, 2, 8, 32, 128, 256, 256, 256]
        );
        assert_eq!(run(MIB, 4, delay, 1e12, 6 * MIB), [1, 2, 6, 6, 6]);
    }

    #[test]
    fn returns_to_where_growing_stopped_to_pay() {
        // 1 GB/s at 10 ms: the product is 10 MB.
        let sizes = run(256 * KIB, 200, Duration::from_millis(10), 1e9, 256 * MIB);
        assert!(sizes.iter().all(|&size| size <= 32), "{sizes:?}");
        let resting = sizes[10..].iter().filter(|&&size| size == 8 || size == 16);
        assert!(resting.count() > 150, "{sizes:?}");
        // The machine is the limit: it stays at what windows start with.
        let sizes = run(4 * MIB, 200, Duration::from_micros(500), 1e9, 256 * MIB);
        assert!(sizes.iter().all(|&size| size <= 8), "{sizes:?}");
        let resting = sizes.iter().filter(|&&size| size == 4).count();
        assert!(resting > 180, "{sizes:?}");
    }

    /// Eight readers share a rate in proportion to their windows, as those of a machine at its limit do.
    #[test]
    fn readers_that_only_take_from_each_other_do_not_grow() {
        let open = || Window::open(4 * MIB, 0, &access(true, 0, Duration::ZERO), 256 * MIB);
        let mut readers: Vec<(Window, f64)> = (0..8).map(|_| (open(), 0.0)).collect();
        let (mut consumed, mut sizes) = (0.0, Vec::new());
        for step in 1..20_000_u64 {
            let total: u64 = readers.iter().map(|(window, _)| window.size()).sum();
            for (window, end) in &mut readers {
                let bytes = 1e6 * window.size() as f64 / total as f64;
                (*end, consumed) = (*end + bytes, consumed + bytes);
                let access = Access {
                    consumed: consumed as u64,
                    ..access(true, *end as u64, Duration::from_millis(step))
                };
                window.advance(*end as u64, &access, 256 * MIB);
            }
            sizes.push(
                readers
                    .iter()
                    .map(|(window, _)| window.size() / MIB)
                    .max()
                    .unwrap(),
            );
        }
        assert!(sizes.iter().all(|&size| size <= 16), "{sizes:?}");
        let resting = sizes.iter().filter(|&&size| size <= 8).count();
        assert!(resting > sizes.len() * 9 / 10, "{resting}");
    }

    #[test]
    fn a_reader_that_never_waits_keeps_its_window() {
        let mut window = Window::open(MIB, 0, &access(false, 0, Duration::ZERO), 256 * MIB);
        for step in 1..100 {
            let access = access(false, step * MIB, Duration::from_millis(step));
            window.advance(step * MIB, &access, 256 * MIB);
        }
        assert_eq!(window.size(), MIB);
    }

    #[test]
    fn bounds_hold_whatever_is_asked() {
        #[track_caller]
        fn check(wanted: u64, size_max: u64, size: u64) {
            assert_eq!(
                Window::open(wanted, 0, &access(true, 0, Duration::ZERO), size_max).size(),
                size
            );
        }
        check(1, 256 * MIB, 128 * KIB);
        check(300 * KIB, 256 * MIB, 512 * KIB);
        check(64 * MIB, 256 * MIB, 4 * MIB);
        check(64 * MIB, MIB, MIB);
        check(64 * MIB, 0, 128 * KIB);
    }

    #[test]
    fn shrinks_when_memory_is_short_and_when_its_share_does() {
        let mut window = Window::open(4 * MIB, 0, &access(true, 0, Duration::ZERO), 256 * MIB);
        window.shrink();
        assert_eq!(window.size(), 2 * MIB);
        window.advance(1, &access(true, 1, Duration::ZERO), 300 * KIB);
        assert_eq!(window.size(), 300 * KIB);
        for _ in 0..9 {
            window.shrink();
        }
        assert_eq!(window.size(), 128 * KIB);
    }

    #[test]
    fn parts_are_a_quarter_of_the_window() {
        #[track_caller]
        fn check(size: u64, part_max: u64, part: u64) {
            assert_eq!(
                Window::open(size, 0, &access(true, 0, Duration::ZERO), size).part(part_max),
                part
            );
        }
        check(128 * KIB, 8 * MIB, 128 * KIB);
        check(MIB, 8 * MIB, 256 * KIB);
        check(3 * MIB, 8 * MIB, 512 * KIB);
        check(4 * MIB, 8 * MIB, MIB);
        check(4 * MIB, 300 * KIB, 300 * KIB);
    }
}
