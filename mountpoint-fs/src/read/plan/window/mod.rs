//! How far ahead of its reader one stream requests.
//!
//! Pure: the reader's moves go in, a size comes out. An epoch lasts until the reader has consumed
//! one window, and long enough to measure a rate. After an epoch with a wait the window grows by
//! trial, and again as long as the whole mount becomes faster; otherwise it halves and rests. So it
//! reaches the bandwidth-delay product of a far store, and stays within the CPU's caches if this
//! machine is the limit. A window that evidently covers the store's latency does not try. A stream
//! among many can hardly measure a gain of the mount: at a remote store it follows the mount's
//! [`ProvenWindow`].
//!
//! Invariant: `PART_MIN <= size <= max(size_max, PART_MIN)`.

mod part_length;

use std::time::Duration;

pub(in crate::read::plan) use self::part_length::WINDOW_INITIAL_MAX;
use self::part_length::{PARTS_PER_WINDOW, PartLength};
use crate::config::limits::PART_MIN;
use crate::read::plan::access::{Access, Bounds};
use crate::store_distance::StoreDistance;

/// The read-ahead window of one stream, in bytes.
#[derive(Clone, Debug)]
pub(in crate::read) struct Window {
    size: u64,
    size_max: u64,
    part_length: PartLength,
    epoch: Epoch,
    phase: Phase,
    /// Epochs to rest after the next trial without a gain.
    rest_next: u32,
    /// The size before memory was short; 0 if the window has it again, or needs it no more.
    size_before_cut: u64,
}

#[derive(Clone, Debug)]
struct Epoch {
    began: Duration,
    /// Bytes that all readers of the mount had consumed at the beginning.
    consumed: u64,
    /// Position of the stream's reader at the beginning.
    from: u64,
    end: u64,
    stalled: bool,
}

impl Epoch {
    /// Begins now, with a reader at `from`, and ends when that has consumed `len` bytes.
    fn new(from: u64, len: u64, access: &Access) -> Self {
        Self {
            began: access.now,
            consumed: access.consumed,
            from,
            end: from + len,
            stalled: false,
        }
    }

    /// Bytes per second of all readers since the beginning.
    fn rate(&self, access: &Access) -> f64 {
        access.consumed.saturating_sub(self.consumed) as f64 / self.seconds(access)
    }

    /// Bytes per second of the stream's reader, which has reached `end`.
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
    /// The window does not change for this number of epochs; then it grows if its reader has to
    /// wait.
    Resting(u32),
    /// The window grew from `size`, at which the mount had this rate. The mount must become faster.
    ///
    /// The settling epoch, in which the reader consumes the smaller window, does not count.
    Probing {
        rate: f64,
        size: u64,
        settling: bool,
    },
    /// The window shrank from `size`. After these epochs the mount must be as fast as before.
    Checking { epochs: u32, rate: f64, size: u64 },
}

impl Window {
    /// Opens a window for a reader at `end`: a power of two near `wanted` bytes.
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
            size_before_cut: 0,
        }
    }

    /// Bytes to read ahead.
    pub(in crate::read) fn size(&self) -> u64 {
        self.size
    }

    /// Length of the window's parts: a power of two, unless `part_max` is none and less.
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

    /// Grows at once to the size for a single read of `run` bytes.
    ///
    /// The run is that of a reader that has reached `end`. So small reads ramp up as fast as a
    /// large one if they wait for a remote store.
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

    /// Records that the reader has reached `end` with this access.
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

    /// Whether all trials so far had a gain, so that steps are large.
    fn is_ramping(&self) -> bool {
        self.rest_next == REST_MIN
    }

    fn epoch_min(&self, delay: Option<Duration>, streams: usize) -> Duration {
        // Streams that begin together delay each other's first GETs; a single one measures the
        // store's own delay.
        let is_far = delay.map(StoreDistance::of) == Some(StoreDistance::Far);
        let is_distant = streams <= 1 && is_far;
        match self.phase {
            Phase::Probing { settling: true, .. } => Duration::ZERO,
            Phase::Resting(0) if self.is_ramping() && is_distant => Duration::ZERO,
            _ => EPOCH_MIN,
        }
    }

    /// Halves the window, and lets it rest, because memory is short.
    pub(in crate::read) fn shrink(&mut self) {
        self.size_before_cut = self.size_before_cut.max(self.size);
        self.size = (self.size / 2).max(PART_MIN);
        self.phase = Phase::Resting(REST_MIN);
    }

    /// Whether memory keeps the window smaller than it would be. `is_share` tells that its largest
    /// size is a share of memory.
    pub(in crate::read) fn is_short_of_memory(&self, is_share: bool) -> bool {
        self.size < self.size_before_cut || (is_share && self.size >= self.size_max)
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
        if !self.epoch.stalled || self.size >= self.size_before_cut {
            self.size_before_cut = 0;
        }
        // The largest step that does not overshoot a sufficient size.
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

    /// Grows by trial, or at once towards a size proven on this mount.
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

    /// Two parts of the length that is worth a request, one being read and one in flight. Four if
    /// they are short and no other streams keep the store busy.
    fn size_min(&self, streams: usize) -> u64 {
        let least = self.part_length.least();
        if are_several(streams) {
            least * PARTS_PER_WINDOW_OF_SEVERAL
        } else {
            let four = (least * PARTS_PER_WINDOW).min(2 * WINDOW_INITIAL_MAX);
            four.max(least * 2)
        }
    }

    /// Judges the growth from `size`, at which the mount had the rate `before`.
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
        // Parts grow with the window, and a longer part takes longer: one step may gain little and
        // the next one much.
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

    /// Grows by `factor` if the reader had to wait and the bounds permit it.
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

/// The demand that windows must cover: the readers' rates and the store's latencies.
struct Need {
    /// Bytes per second of all readers.
    rate: f64,
    /// Bytes per second of the stream's own reader.
    own_rate: f64,
    /// Minimum latency of a GET of one part.
    delay: Option<Duration>,
    /// Minimum latency of a first byte.
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

/// Whether a window holds so much that its reader does not wait for the store's latency.
///
/// The bytes that the reader consumes within a few latencies of a part suffice.
fn is_ample(size: u64, own_rate: f64, delay: Option<Duration>, is_near: bool) -> bool {
    let delays = if is_near { NEAR_DELAYS_MAX } else { DELAYS_MAX };
    delay.is_some_and(|delay| {
        size >= WINDOW_INITIAL_MAX && size as f64 >= own_rate * delay.as_secs_f64() * delays
    })
}

/// Whether windows of this size together hold so much that no reader waits for the store's latency.
///
/// The bytes that all readers consume within a few first-byte latencies suffice. The latency of a
/// part is no measure for several streams, because they delay each other's GETs.
fn are_ample(size: u64, streams: usize, rate: f64, distance: Option<Duration>) -> bool {
    distance.is_some_and(|distance| {
        streams > 1
            && size >= WINDOW_INITIAL_MAX
            && size as f64 * streams as f64 >= rate * distance.as_secs_f64() * DISTANCES_MAX
    })
}

/// Whether the streams keep the store busy together, so that none needs many GETs in flight.
///
/// Fewer and longer GETs cost less CPU: on two cores with eight streams 2.15 GB/s instead of 1.72.
pub(in crate::read) fn are_several(streams: usize) -> bool {
    streams >= STREAMS_SEVERAL
}

/// The first window, as a multiple of the bytes read.
pub(in crate::read) fn runs_ahead(streams: usize) -> u64 {
    // Several streams halve their windows into parts: twice the window keeps parts as long as those
    // of a single stream.
    if are_several(streams) { 16 } else { 8 }
}

/// With fewer streams, half as many GETs in flight are slower: a single stream has 1.24 GB/s
/// instead of 1.60.
const STREAMS_SEVERAL: usize = 4;

/// First-byte latencies that the windows of several streams never need to exceed together: a GET of
/// 8 MiB from S3 takes four to five times as long as one of 128 KiB.
const DISTANCES_MAX: f64 = 6.0;

/// First-byte latencies that count for the minimum latency of a part at a remote store.
///
/// So windows of one and a half such GETs suffice. One connection to S3 carries 90 MB/s: 8 MiB take
/// 93 ms behind a first byte of 13 to 25 ms, far more than [`DISTANCES_MAX`] times the minimum of
/// many.
const DISTANCES_PER_DELAY: u32 = 4;

/// Minimum latencies of a part that a window never needs to exceed. If the store is the limit, a
/// window is consumed in about one of them. Beyond four this machine is slow, and a larger window
/// would only leave its caches.
const DELAYS_MAX: f64 = 4.0;

/// Limit as [`DELAYS_MAX`] for a near store. The latency of a part depends there on its length, so
/// that windows would grow for ever: one stream from MinIO on the same machine reached 128 MiB.
const NEAR_DELAYS_MAX: f64 = 2.0;

/// Shortest epoch: a rate over less time measures the scheduling of threads, not the mount.
const EPOCH_MIN: Duration = Duration::from_millis(100);

/// A growth has a gain if the mount becomes a tenth faster.
const GAIN_MIN: f64 = 1.1;

/// With this gain, half a tenth, the window has a second trial.
const GAIN_SOME: f64 = 1.05;

/// Epochs before a smaller window is judged.
const CHECK_EPOCHS: u32 = 2;

/// Epochs of rest after the first trial without a gain.
const REST_MIN: u32 = 8;

/// Longest rest: a window follows a faster store within some ten seconds.
const REST_MAX: u32 = 64;

#[cfg(test)]
mod tests;

/// Parts of a window where several streams keep the store busy.
///
/// One is being read, one is in flight.
const PARTS_PER_WINDOW_OF_SEVERAL: u64 = 2;
