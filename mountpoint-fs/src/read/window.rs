//! How far ahead of its reader one stream asks.
//!
//! Pure: owns no buffer, makes no request, reads no clock; told how the reader moves, it says a size. Time is cut
//! into epochs: one lasts until the reader has consumed one window, and long enough for a rate to mean something. At
//! its end a window whose reader had to wait grows, as long as that pays: if the mount is no faster for it, the window
//! shrinks to half of what it was, stays there if the mount is as fast with that, and rests for a number of epochs. So
//! it settles near the bandwidth-delay product of a distant store, and stays small, in the CPU's caches, where the
//! machine is the limit. A window that its reader takes many times as long for as a GET of it takes does not even try, and
//! neither do those of several streams that hold many times what the mount reads while a request is on its way.
//! What counts is the mount, all of its readers: one among many grows faster with any larger window, at the others'
//! cost.
//!
//! Invariant: `PART_MIN <= size <= max(size_max, PART_MIN)`.

use std::time::Duration;

use super::part_length::PartLength;
use super::planner::{Access, Bounds};
use crate::config::limits::{
    PART_MIN, PARTS_PER_WINDOW, PARTS_PER_WINDOW_OF_SEVERAL, WINDOW_INITIAL_MAX,
};

/// The prefetch window of one stream, in bytes.
#[derive(Clone, Debug)]
pub(super) struct Window {
    size: u64,
    size_max: u64,
    part_length: PartLength,
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
    /// Where its own reader was.
    from: u64,
    end: u64,
    stalled: bool,
}

impl Epoch {
    /// Begins now, with a reader at `from`, and lasts until it has come over `len` bytes.
    fn new(from: u64, len: u64, access: &Access) -> Self {
        Self {
            began: access.now,
            consumed: access.consumed,
            from,
            end: from + len,
            stalled: false,
        }
    }

    /// Bytes per second of all readers since it began.
    fn rate(&self, access: &Access) -> f64 {
        access.consumed.saturating_sub(self.consumed) as f64 / self.seconds(access)
    }

    /// Bytes per second of its own reader, which has come to `end`.
    fn own_rate(&self, end: u64, access: &Access) -> f64 {
        end.saturating_sub(self.from) as f64 / self.seconds(access)
    }

    fn seconds(&self, access: &Access) -> f64 {
        let elapsed = access.now.saturating_sub(self.began);
        elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// It does not change for so many epochs; after those it grows when its reader has to wait.
    Resting(u32),
    /// It grew from `size`, with which the mount had this rate, and must be faster for it; the epoch in which its
    /// reader consumes what the smaller window had asked for does not count.
    Probing {
        rate: f64,
        size: u64,
        settling: bool,
    },
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
        let epoch = Epoch::new(end, size, access);
        Self {
            size,
            size_max,
            part_length: PartLength::new(),
            epoch,
            phase: Phase::Resting(0),
            rest_next: REST_MIN,
        }
    }

    /// Bytes to ask for ahead of the reader.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Size of the ranges it is cut into, in a mount with so many streams: a power of two, unless `part_max` is not.
    pub(super) fn part(&self, bounds: &Bounds<'_>) -> u64 {
        let parts = if are_several(bounds.streams) {
            PARTS_PER_WINDOW_OF_SEVERAL
        } else {
            PARTS_PER_WINDOW
        };
        let is_large = self.size >= WINDOW_INITIAL_MAX;
        let worth = if is_large {
            self.part_length.least().min(self.size / 2)
        } else {
            PART_MIN
        };
        let share = (self.size / parts).max(worth);
        (1 << share.ilog2()).min(bounds.part_max)
    }

    /// The reader has come to `end` with this access.
    pub(super) fn advance(&mut self, end: u64, access: &Access, bounds: &Bounds<'_>) {
        self.epoch.stalled |= access.waits;
        self.size_max = bounds.window_max.max(PART_MIN);
        if end >= self.epoch.end {
            let delay = bounds.least_delays.of(self.part(bounds), access.now);
            let lasted = access.now.saturating_sub(self.epoch.began);
            if lasted >= self.epoch_min(delay, bounds.streams) {
                self.finish_epoch(end, access, delay, bounds);
            }
        }
        self.size = self.size.min(self.size_max);
    }

    /// Whether growing has paid so far: it takes large steps then.
    fn is_ramping(&self) -> bool {
        self.rest_next == REST_MIN
    }

    fn epoch_min(&self, delay: Option<Duration>, streams: usize) -> Duration {
        // Streams that begin together delay each other's first GETs; one alone sees the store's own delay.
        let is_distant = streams <= 1 && delay.is_some_and(|delay| delay >= DISTANT);
        match self.phase {
            Phase::Probing { settling: true, .. } => Duration::ZERO,
            Phase::Resting(0) if self.is_ramping() && is_distant => Duration::ZERO,
            _ => EPOCH_MIN,
        }
    }

    /// Memory is short: half as far, and not farther for a while.
    pub(super) fn shrink(&mut self) {
        self.size = (self.size / 2).max(PART_MIN);
        self.phase = Phase::Resting(REST_MIN);
    }

    fn finish_epoch(
        &mut self,
        end: u64,
        access: &Access,
        delay: Option<Duration>,
        bounds: &Bounds<'_>,
    ) {
        let rate = self.epoch.rate(access);
        let own_rate = self.epoch.own_rate(end, access);
        let distance = bounds.least_delays.first_byte(access.now);
        let is_near = distance.is_some_and(is_near);
        self.epoch.stalled &= !is_ample(self.size, own_rate, delay, is_near)
            && !are_ample(self.size, bounds.streams, rate, distance);
        self.phase = match self.phase {
            Phase::Resting(0) => {
                let is_far = self.is_ramping() && !is_near;
                self.grow(if is_far { 4 } else { 2 }, rate)
            }
            Phase::Resting(epochs) => Phase::Resting(epochs - 1),
            Phase::Probing {
                rate,
                size,
                settling: true,
            } => Phase::Probing {
                rate,
                size,
                settling: false,
            },
            Phase::Probing {
                rate: before, size, ..
            } => self.judge(size, before, rate, is_near, bounds.streams),
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
        self.part_length.learn(rate, distance, bounds.streams);
        if matches!(self.phase, Phase::Resting(_)) {
            self.size = self.size.max(self.size_min(bounds.streams));
        }
        self.size = self.size.min(self.size_max);
        self.epoch = Epoch::new(end, self.size, access);
    }

    /// Two parts of the length that is worth a request, one being read and one in the air; four where nobody else keeps
    /// the store busy and they are short.
    fn size_min(&self, streams: usize) -> u64 {
        let least = self.part_length.least();
        if are_several(streams) {
            least * PARTS_PER_WINDOW_OF_SEVERAL
        } else {
            let four = (least * PARTS_PER_WINDOW).min(2 * WINDOW_INITIAL_MAX);
            four.max(least * 2)
        }
    }

    /// It has grown from `size`, with which the mount had the rate `before`.
    fn judge(&mut self, size: u64, before: f64, rate: f64, is_near: bool, streams: usize) -> Phase {
        if rate >= before * GAIN_MIN {
            self.rest_next = REST_MIN;
            let is_far = rate >= before * GAIN_FAR && !is_near;
            return self.grow(if is_far { 4 } else { 2 }, rate);
        }
        // Parts grow with the window, and a longer part takes longer: one step may pay little and the next much.
        if rate >= before * GAIN_SOME && self.size <= size * 2 && self.size < self.size_max {
            self.size *= 2;
            return Phase::Probing {
                rate: before,
                size,
                settling: true,
            };
        }
        self.size = (size / 2).max(WINDOW_INITIAL_MAX.max(self.size_min(streams)).min(size));
        Phase::Checking {
            epochs: CHECK_EPOCHS,
            rate: before,
            size,
        }
    }

    /// Grows if its reader had to wait and it may.
    fn grow(&mut self, factor: u64, rate: f64) -> Phase {
        if !self.epoch.stalled || self.size >= self.size_max {
            return Phase::Resting(0);
        }
        let size = self.size;
        self.size *= factor;
        Phase::Probing {
            rate,
            size,
            settling: true,
        }
    }

    fn rest(&mut self) -> Phase {
        let epochs = self.rest_next;
        self.rest_next = (epochs * 2).min(REST_MAX);
        Phase::Resting(epochs)
    }
}

/// Whether a window holds so much of what its reader consumes that the store's distance cannot be what it waits for.
fn is_ample(size: u64, own_rate: f64, delay: Option<Duration>, is_near: bool) -> bool {
    let delays = if is_near { NEAR_DELAYS_MAX } else { DELAYS_MAX };
    delay.is_some_and(|delay| {
        size >= WINDOW_INITIAL_MAX && size as f64 >= own_rate * delay.as_secs_f64() * delays
    })
}

/// Whether windows of this size hold together so much of what the mount consumes that the store's distance cannot be
/// what their readers wait for. What GETs of a part take is no measure then: many streams delay each other's.
fn are_ample(size: u64, streams: usize, rate: f64, distance: Option<Duration>) -> bool {
    distance.is_some_and(|distance| {
        streams > 1
            && size >= WINDOW_INITIAL_MAX
            && size as f64 * streams as f64 >= rate * distance.as_secs_f64() * DISTANCES_MAX
    })
}

/// Whether a store is near whose first byte takes so long.
pub(super) fn is_near(distance: Duration) -> bool {
    distance < DISTANT
}

/// Whether so many streams keep the store busy between them that none needs many GETs in the air by itself: fewer and
/// longer ones cost less CPU. Measured on two cores with eight streams: 2.15 GB/s instead of 1.72.
pub(super) fn are_several(streams: usize) -> bool {
    streams >= STREAMS_SEVERAL
}

/// Fewer streams than this are slower with half as many GETs in the air: one of 1.24 GB/s instead of 1.60.
const STREAMS_SEVERAL: usize = 4;

/// Distances, each the least until a GET's first byte, that the windows of several streams never need to cover more
/// of: a GET of 8 MiB from S3 takes four to five times as long as one of 128 KiB.
const DISTANCES_MAX: f64 = 6.0;

/// Least delays of a GET of its parts that a window never needs to cover more of. While the store is the limit, a
/// window is consumed in about one of them; beyond four it is this machine that is slow, and a larger window would
/// only leave its caches.
const DELAYS_MAX: f64 = 4.0;

/// The same for a near store: what a GET of a part takes there is the part's own length, so that windows that grow by it
/// never end. One stream from MinIO on the same machine came to a window of 128 MiB that way.
const NEAR_DELAYS_MAX: f64 = 2.0;

/// Shortest epoch: a rate measured over less tells how threads were scheduled, not how fast the mount is.
const EPOCH_MIN: Duration = Duration::from_millis(100);

/// Least delay of a GET, or of a first byte, from a store for which the first window is surely too small.
const DISTANT: Duration = Duration::from_millis(10);

/// Growing pays if it makes the mount a tenth faster.
const GAIN_MIN: f64 = 1.1;

/// With this much, half a tenth, it gets a second chance.
const GAIN_SOME: f64 = 1.05;

/// A mount that becomes so much faster with a larger window is bound by delay alone: larger steps.
const GAIN_FAR: f64 = 1.4;

/// Epochs after which a window that shrank is judged.
const CHECK_EPOCHS: u32 = 2;

/// Epochs of rest after the first attempt that did not pay.
const REST_MIN: u32 = 8;

/// Longest rest: a window follows a store that became faster within some ten seconds.
const REST_MAX: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::delay::LeastDelays;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    /// A read of a mount with this one reader.
    fn access(waits: bool, end: u64, now: Duration) -> Access {
        Access {
            range: end..end + 1,
            waits,
            is_alone: true,
            now,
            consumed: end,
        }
    }

    /// Comes to `end` in a mount that knows no delays.
    fn advance(window: &mut Window, end: u64, access: &Access, window_max: u64) {
        let bounds = Bounds {
            size: u64::MAX,
            part_max: 8 * MIB,
            window_max,
            streams: 1,
            least_delays: &LeastDelays::default(),
        };
        window.advance(end, access, &bounds);
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
                advance(&mut window, end, &access(true, end, now), size_max);
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
            run(MIB, 8, delay, 1e12, 256 * MIB),
            [1, 4, 4, 16, 16, 64, 64, 256, 256]
        );
        assert_eq!(run(MIB, 4, delay, 1e12, 6 * MIB), [1, 4, 4, 6, 6]);
    }

    #[test]
    fn returns_to_where_growing_stopped_to_pay() {
        // 1 GB/s at 10 ms: the product is 10 MB.
        let sizes = run(256 * KIB, 200, Duration::from_millis(10), 1e9, 256 * MIB);
        assert!(sizes.iter().all(|&size| size <= 128), "{sizes:?}");
        let resting = sizes[16..].iter().filter(|&&size| size == 8 || size == 16);
        assert!(resting.count() > 150, "{sizes:?}");
        // The machine is the limit: it stays at what windows start with.
        let sizes = run(4 * MIB, 200, Duration::from_micros(500), 1e9, 256 * MIB);
        assert!(sizes.iter().all(|&size| size <= 16), "{sizes:?}");
        let resting = sizes.iter().filter(|&&size| size == 4).count();
        assert!(resting > 180, "{sizes:?}");
    }

    /// Eight readers share a rate in proportion to their windows, as those of a machine at its limit do.
    #[test]
    fn readers_that_only_take_from_each_other_do_not_grow() {
        let open = || Window::open(4 * MIB, 0, &access(true, 0, Duration::ZERO), 256 * MIB);
        let mut readers: Vec<(Window, u64)> = (0..8).map(|_| (open(), 0)).collect();
        let (mut consumed, mut sizes) = (0, Vec::new());
        for step in 1..20_000_u64 {
            let total: u64 = readers.iter().map(|(window, _)| window.size()).sum();
            for (window, end) in &mut readers {
                let bytes = MIB * window.size() / total;
                (*end, consumed) = (*end + bytes, consumed + bytes);
                let access = Access {
                    consumed,
                    ..access(true, *end, Duration::from_millis(step))
                };
                advance(window, *end, &access, 256 * MIB);
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
    fn a_window_that_lasts_for_many_delays_does_not_grow() {
        #[track_caller]
        fn check(size_mib: u64, own_rate: f64, delay_ms: f64, expected: bool) {
            let delay = Some(Duration::from_secs_f64(delay_ms / 1e3));
            assert_eq!(
                is_ample(size_mib * MIB, own_rate, delay, delay_ms < 20.0),
                expected,
                "{size_mib} MiB at {own_rate}"
            );
        }
        // This machine: one stream of eight, and one alone.
        check(4, 0.15e9, 1.0, true);
        check(4, 2.5e9, 1.0, false);
        check(4, 1.5e9, 1.0, true);
        // MinIO on it: a GET of a longer part takes longer, and that is no reason to ask for more.
        check(8, 0.8e9, 2.6, true);
        check(16, 0.8e9, 4.8, true);
        check(32, 1.2e9, 13.0, true);
        // Stores that deliver a window in one delay, or in two: S3 and S3 Express.
        check(4, 4.2e6 / 0.031, 31.0, false);
        check(256, 268e6 / 0.226, 113.0, false);
        check(32, 33.6e6 / 0.058, 58.0, false);
        // Below the size that windows start with, distance does not matter.
        check(2, 1e3, 0.001, false);
        assert!(!is_ample(256 * MIB, 1.0, None, false));
    }

    #[test]
    fn windows_of_many_streams_that_hold_many_distances_do_not_grow() {
        #[track_caller]
        fn check(size_mib: u64, streams: usize, rate: f64, distance_ms: f64, expected: bool) {
            let distance = Some(Duration::from_secs_f64(distance_ms / 1e3));
            let are_ample = are_ample(size_mib * MIB, streams, rate, distance);
            assert_eq!(are_ample, expected, "{size_mib} MiB at {rate}");
        }
        // This machine, quiet and busy; one stream alone judges by itself.
        check(4, 8, 1.5e9, 1.0, true);
        check(4, 8, 1.3e9, 4.0, true);
        check(4, 1, 0.1e9, 1.0, false);
        // S3 Express and S3 at 25 and 100 Gbit/s.
        check(4, 8, 3e9, 6.0, false);
        check(16, 8, 3e9, 6.0, true);
        check(32, 8, 3e9, 25.0, false);
        check(128, 8, 12e9, 25.0, false);
        assert!(!are_ample(256 * MIB, 8, 1.0, None));
    }

    #[test]
    fn a_reader_that_never_waits_keeps_its_window() {
        let mut window = Window::open(MIB, 0, &access(false, 0, Duration::ZERO), 256 * MIB);
        for step in 1..100 {
            let access = access(false, step * MIB, Duration::from_millis(step));
            advance(&mut window, step * MIB, &access, 256 * MIB);
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
        advance(&mut window, 1, &access(true, 1, Duration::ZERO), 300 * KIB);
        assert_eq!(window.size(), 300 * KIB);
        for _ in 0..9 {
            window.shrink();
        }
        assert_eq!(window.size(), 128 * KIB);
    }

    #[test]
    fn parts_are_a_quarter_of_the_window_and_a_half_of_those_of_several() {
        #[track_caller]
        fn check(size: u64, streams: usize, part_max: u64, part: u64) {
            let window = Window::open(size, 0, &access(true, 0, Duration::ZERO), size);
            let bounds = Bounds {
                size: u64::MAX,
                part_max,
                window_max: size,
                streams,
                least_delays: &LeastDelays::default(),
            };
            assert_eq!(window.part(&bounds), part, "{size} of {streams}");
        }
        check(128 * KIB, 1, 8 * MIB, 128 * KIB);
        check(MIB, 1, 8 * MIB, 256 * KIB);
        check(3 * MIB, 1, 8 * MIB, 512 * KIB);
        check(4 * MIB, 3, 8 * MIB, MIB);
        check(4 * MIB, 1, 300 * KIB, 300 * KIB);
        check(4 * MIB, 4, 8 * MIB, 2 * MIB);
        check(3 * MIB, 8, 8 * MIB, MIB);
        check(128 * KIB, 8, 8 * MIB, 128 * KIB);
        check(4 * MIB, 8, 300 * KIB, 300 * KIB);
    }
}
