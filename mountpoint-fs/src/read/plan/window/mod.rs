//! How far ahead of its reader one stream asks.
//!
//! Pure: owns no buffer, makes no request, reads no clock; told how the reader moves, it says a
//! size. Time is cut into epochs: one lasts until the reader has consumed one window, and long
//! enough for a rate to mean something. At its end a window whose reader had to wait grows, as long
//! as that pays: if the mount is no faster for it, the window shrinks to half of what it was, stays
//! there if the mount is as fast with that, and rests for a number of epochs. So it settles near
//! the bandwidth-delay product of a distant store, and stays small, in the CPU's caches, where the
//! machine is the limit. A window that its reader takes many times as long for as a GET of it takes
//! does not even try, and neither do those of several streams that hold many times what the mount
//! reads while a request is on its way. What counts is the mount, all of its readers: one among
//! many grows faster with any larger window, at the others' cost. So one among many can hardly show
//! that growing pays; where the store is apart it follows what has paid on this mount of late
//! ([`ProvenWindow`]), in steps of what it has read itself.
//!
//! Invariant: `PART_MIN <= size <= max(size_max, PART_MIN)`.

mod part_length;

use std::time::Duration;

use self::part_length::PartLength;
use crate::config::limits::{
    PART_MIN, PARTS_PER_WINDOW, PARTS_PER_WINDOW_OF_SEVERAL, WINDOW_INITIAL_MAX,
};
use crate::read::plan::access::{Access, Bounds};
use crate::store_distance::StoreDistance;

/// The prefetch window of one stream, in bytes.
#[derive(Clone, Debug)]
pub(in crate::read) struct Window {
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
    /// It grew from `size`, with which the mount had this rate, and must be faster for it; the
    /// epoch in which its reader consumes what the smaller window had asked for does not count.
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
    pub(in crate::read) fn open(wanted: u64, end: u64, access: &Access, size_max: u64) -> Self {
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
    pub(in crate::read) fn size(&self) -> u64 {
        self.size
    }

    /// Size of the ranges it is cut into, in a mount with so many streams: a power of two, unless
    /// `part_max` is not.
    pub(in crate::read) fn part(&self, bounds: &Bounds<'_>) -> u64 {
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

    /// Its reader has come to `end` over `run` bytes: that much is as good as one read of all of
    /// them, however small its reads are, where what it waits for is the way to the store.
    pub(in crate::read) fn ramp_up(
        &mut self,
        run: u64,
        end: u64,
        access: &Access,
        bounds: &Bounds<'_>,
    ) {
        let distance = bounds.min_latencies.distance(access.now);
        if !access.waits
            || !distance.is_some_and(StoreDistance::is_remote)
            || self.phase != Phase::Resting(0)
            || !self.is_ramping()
        {
            return;
        }
        let wanted = run.saturating_mul(runs_ahead(bounds.streams));
        let size_max = bounds.window_max.clamp(PART_MIN, WINDOW_INITIAL_MAX);
        let earned = 1 << wanted.clamp(1, size_max).ilog2();
        if self.size < earned {
            self.size = earned;
            self.epoch = Epoch::new(end, earned, access);
        }
    }

    /// The reader has come to `end` with this access.
    pub(in crate::read) fn advance(&mut self, end: u64, access: &Access, bounds: &Bounds<'_>) {
        self.epoch.stalled |= access.waits;
        self.size_max = bounds.window_max.max(PART_MIN);
        if end >= self.epoch.end {
            let delay = bounds.min_latencies.of(self.part(bounds), access.now);
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
        // Streams that begin together delay each other's first GETs; one alone sees the store's own
        // delay.
        let is_far = delay.map(StoreDistance::of) == Some(StoreDistance::Far);
        let is_distant = streams <= 1 && is_far;
        match self.phase {
            Phase::Probing { settling: true, .. } => Duration::ZERO,
            Phase::Resting(0) if self.is_ramping() && is_distant => Duration::ZERO,
            _ => EPOCH_MIN,
        }
    }

    /// Memory is short: half as far, and not farther for a while.
    pub(in crate::read) fn shrink(&mut self) {
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
        let need = Need {
            rate: self.epoch.rate(access),
            own_rate: self.epoch.own_rate(end, access),
            delay,
            first_byte: bounds.min_latencies.first_byte(access.now),
            streams: bounds.streams,
        };
        self.epoch.stalled &= !need.is_covered(self.size);
        // The largest step that does not jump over what is enough.
        let is_small = need.is_near() || need.is_covered(self.size * 2);
        let step = if is_small { 2 } else { 4 };
        self.phase = self.next_phase(&need, step, access, bounds);
        self.part_length
            .learn(need.rate, need.first_byte, bounds.streams);
        if matches!(self.phase, Phase::Resting(_)) {
            self.size = self.size.max(self.size_min(bounds.streams));
        }
        self.size = self.size.min(self.size_max);
        self.epoch = Epoch::new(end, self.size, access);
    }

    fn next_phase(
        &mut self,
        need: &Need,
        step: u64,
        access: &Access,
        bounds: &Bounds<'_>,
    ) -> Phase {
        let rate = need.rate;
        match self.phase {
            Phase::Resting(0) => self.grow_or_follow(need, step, access, bounds),
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
            } => self.judge(size, before, step, access, bounds),
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
        }
    }

    /// Grows by trial, or at once towards what was worth it elsewhere on this mount.
    fn grow_or_follow(
        &mut self,
        need: &Need,
        step: u64,
        access: &Access,
        bounds: &Bounds<'_>,
    ) -> Phase {
        let proven = if need.is_remote() {
            bounds.proven_window.largest(access.now)
        } else {
            0
        };
        if self.epoch.stalled && self.size < proven {
            self.size = (self.size * step).min(proven);
            return Phase::Resting(0);
        }
        let step = if self.is_ramping() { step } else { 2 };
        self.grow(step, need.rate)
    }

    /// Two parts of the length that is worth a request, one being read and one in flight; four
    /// where nobody else keeps the store busy and they are short.
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
    fn judge(
        &mut self,
        size: u64,
        before: f64,
        step: u64,
        access: &Access,
        bounds: &Bounds<'_>,
    ) -> Phase {
        let rate = self.epoch.rate(access);
        if rate >= before * GAIN_MIN {
            bounds.proven_window.record(self.size, access.now);
            self.rest_next = REST_MIN;
            return self.grow(step, rate);
        }
        // Parts grow with the window, and a longer part takes longer: one step may pay little and
        // the next much.
        if rate >= before * GAIN_SOME && self.size <= size * 2 && self.size < self.size_max {
            self.size *= 2;
            return Phase::Probing {
                rate: before,
                size,
                settling: true,
            };
        }
        self.size = (size / 2).max(
            WINDOW_INITIAL_MAX
                .max(self.size_min(bounds.streams))
                .min(size),
        );
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

/// What the readers of the mount consume, and how far the store is: what windows need to cover.
struct Need {
    /// Bytes a second of all readers.
    rate: f64,
    /// Bytes a second of the stream's own reader.
    own_rate: f64,
    /// Least time of a GET of one part.
    delay: Option<Duration>,
    /// Least time until a first byte.
    first_byte: Option<Duration>,
    streams: usize,
}

impl Need {
    /// Whether a window of this size is large enough.
    fn is_covered(&self, size: u64) -> bool {
        let distance = match self.first_byte {
            Some(first_byte) if self.is_remote() => {
                let part = self.delay.unwrap_or_default();
                Some(first_byte.max(part / DISTANCES_PER_DELAY))
            }
            first_byte => first_byte,
        };
        is_ample(size, self.own_rate, self.delay, self.is_near())
            || are_ample(size, self.streams, self.rate, distance)
    }

    fn distance(&self) -> Option<StoreDistance> {
        self.first_byte.map(StoreDistance::of)
    }

    fn is_near(&self) -> bool {
        self.distance()
            .is_some_and(|distance| distance < StoreDistance::Far)
    }

    fn is_remote(&self) -> bool {
        self.distance().is_some_and(StoreDistance::is_remote)
    }
}

/// Whether a window holds so much of what its reader consumes that the store's distance cannot be
/// what it waits for.
fn is_ample(size: u64, own_rate: f64, delay: Option<Duration>, is_near: bool) -> bool {
    let delays = if is_near { NEAR_DELAYS_MAX } else { DELAYS_MAX };
    delay.is_some_and(|delay| {
        size >= WINDOW_INITIAL_MAX && size as f64 >= own_rate * delay.as_secs_f64() * delays
    })
}

/// Whether windows of this size hold together so much of what the mount consumes that the store's
/// distance cannot be what their readers wait for. What GETs of a part take is no measure then:
/// many streams delay each other's.
fn are_ample(size: u64, streams: usize, rate: f64, distance: Option<Duration>) -> bool {
    distance.is_some_and(|distance| {
        streams > 1
            && size >= WINDOW_INITIAL_MAX
            && size as f64 * streams as f64 >= rate * distance.as_secs_f64() * DISTANCES_MAX
    })
}

/// Whether so many streams keep the store busy between them that none needs many GETs in flight by
/// itself: fewer and longer ones cost less CPU. Measured on two cores with eight streams: 2.15 GB/s
/// instead of 1.72.
pub(in crate::read) fn are_several(streams: usize) -> bool {
    streams >= STREAMS_SEVERAL
}

/// The first window, as a multiple of what was read.
pub(in crate::read) fn runs_ahead(streams: usize) -> u64 {
    // Halved into parts, that of several is to have as long ones as the window of one alone.
    if are_several(streams) { 16 } else { 8 }
}

/// Fewer streams than this are slower with half as many GETs in flight: one of 1.24 GB/s instead of
/// 1.60.
const STREAMS_SEVERAL: usize = 4;

/// Distances, each the least until a GET's first byte, that the windows of several streams never
/// need to cover more of: a GET of 8 MiB from S3 takes four to five times as long as one of 128
/// KiB.
const DISTANCES_MAX: f64 = 6.0;

/// What a GET of a part takes at least counts as so many distances where the store is apart, so
/// that windows that cover one and a half such GETs are ample. One connection to S3 carries 90
/// MB/s: 8 MiB take 93 ms behind a first byte of 13 to 25, far more than [`DISTANCES_MAX`] of the
/// least of many.
const DISTANCES_PER_DELAY: u32 = 4;

/// Least delays of a GET of its parts that a window never needs to cover more of. While the store
/// is the limit, a window is consumed in about one of them; beyond four it is this machine that is
/// slow, and a larger window would only leave its caches.
const DELAYS_MAX: f64 = 4.0;

/// The same for a near store: what a GET of a part takes there is the part's own length, so that
/// windows that grow by it never end. One stream from MinIO on the same machine came to a window of
/// 128 MiB that way.
const NEAR_DELAYS_MAX: f64 = 2.0;

/// Shortest epoch: a rate measured over less tells how threads were scheduled, not how fast the
/// mount is.
const EPOCH_MIN: Duration = Duration::from_millis(100);

/// Growing pays if it makes the mount a tenth faster.
const GAIN_MIN: f64 = 1.1;

/// With this much, half a tenth, it gets a second chance.
const GAIN_SOME: f64 = 1.05;

/// Epochs after which a window that shrank is judged.
const CHECK_EPOCHS: u32 = 2;

/// Epochs of rest after the first attempt that did not pay.
const REST_MIN: u32 = 8;

/// Longest rest: a window follows a store that became faster within some ten seconds.
const REST_MAX: u32 = 64;

#[cfg(test)]
mod tests;
