//! When a batch goes to the disk: now, or after more writers have joined it.
//!
//! Pure: arrivals and durations in, a decision out. A writer that was told that its record is
//! durable often comes back at once with the next one. While a batch syncs the others wait, so
//! without a pause two groups would take turns for ever, and each sync would serve half of the
//! writers. [`AdaptivePolicy`] learns which share of the writers comes back and after which time,
//! and so how large a batch will be; the full batch goes at once, long before its time is over.
//!
//! A pause pays only while it is shorter than one more sync. Syncs of more bytes take longer,
//! which a pause does not change: the cost that counts is that of a sync of no bytes.

use std::fmt;
use std::time::Duration;

/// Decides when batches go.
pub trait CommitPolicy: Send + fmt::Debug {
    /// A record whose writer waits joined the batch.
    fn arrived(&mut self, now: Duration);

    /// Decides on the batch; without writers, until when none is expected to fill it. The disk
    /// is idle.
    fn decide(&self, now: Duration, batch: WaitingBatch) -> Decision;

    /// A batch became durable, or failed.
    fn flushed(&mut self, flush: FinishedFlush);
}

/// The batch that fills.
#[derive(Clone, Copy, Debug)]
pub struct WaitingBatch {
    /// Writers that wait for it.
    pub writers: usize,
    /// When the first of them came, if there are any.
    pub since: Duration,
}

/// A batch that was written and synced.
#[derive(Clone, Copy, Debug)]
pub struct FinishedFlush {
    /// When the write began.
    pub began: Duration,
    /// When the sync ended.
    pub ended: Duration,
    /// Writers that waited for it.
    pub writers: usize,
    /// Its bytes.
    pub bytes: usize,
    /// Writers that wait for the next one by now.
    pub waiting: usize,
}

/// The next step for a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Write it now.
    Flush,
    /// Wait for writers until then.
    WaitUntil(Duration),
}

/// Learns how many writers come back after a sync, and waits for them.
#[derive(Debug, Default)]
pub struct AdaptivePolicy {
    sync_cost: SyncCost,
    /// Share of writers that come back while a pause would pay, in thousandths.
    returning: u64,
    /// Time until the last of them is back, and its mean deviation.
    back_after: Duration,
    deviation: Duration,
    /// The writers that the last sync served, while they may come back.
    round: Option<Round>,
}

/// The writers that come back after a sync.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// When the sync ended.
    began: Duration,
    /// A writer that comes until then counts as coming back.
    ends: Duration,
    served: usize,
    returned: usize,
    last_return: Duration,
    /// Writers of a full batch.
    target: usize,
    /// Until when the full batch is waited for.
    deadline: Duration,
}

impl AdaptivePolicy {
    /// A policy that has learned nothing: it does not wait.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Learns from a round that is over.
    fn end_round(&mut self) {
        let Some(round) = self.round.take().filter(|round| round.served > 0) else {
            return;
        };
        let seen = (round.returned * 1000 / round.served) as u64;
        // Writers that leave cost a pause each time: that is learned sooner than that they come.
        let weight = if seen < self.returning { 2 } else { 4 };
        self.returning = (self.returning * (weight - 1) + seen) / weight;
        if round.returned > 0 {
            let took = round.last_return - round.began;
            let off = took.abs_diff(self.back_after);
            self.deviation = (self.deviation * 3 + off) / 4;
            self.back_after = (self.back_after * 7 + took) / 8;
        }
    }

    /// Writers of a full batch after a sync, and how long to wait for them.
    fn plan(&self, flush: &FinishedFlush) -> (usize, Duration) {
        let returning = usize::try_from(self.returning).unwrap_or_default();
        let expected = (flush.writers * returning + 500) / 1000;
        let fixed = self.sync_cost.fixed();
        // Without a pause, the waiting writers go in one sync, and returning ones in the next.
        let gain = fixed.as_secs_f64() * expected as f64;
        let cost = self.back_after.as_secs_f64() * flush.waiting as f64;
        if gain <= cost * GAIN_MIN {
            return (flush.waiting, Duration::ZERO);
        }
        let patience = self.back_after + self.deviation * DEVIATIONS;
        (flush.waiting + expected, patience.min(pause_max(fixed)))
    }
}

impl CommitPolicy for AdaptivePolicy {
    fn arrived(&mut self, now: Duration) {
        let Some(round) = &mut self.round else {
            return;
        };
        if now > round.ends {
            self.end_round();
        } else if round.returned < round.served {
            round.returned += 1;
            round.last_return = now;
        }
    }

    fn decide(&self, now: Duration, batch: WaitingBatch) -> Decision {
        match &self.round {
            Some(round) if batch.writers < round.target && now < round.deadline => {
                Decision::WaitUntil(round.deadline)
            }
            _ => Decision::Flush,
        }
    }

    fn flushed(&mut self, flush: FinishedFlush) {
        self.end_round();
        self.sync_cost.add(flush.bytes, flush.ended - flush.began);
        let (target, patience) = self.plan(&flush);
        let began = flush.ended;
        self.round = Some(Round {
            began,
            ends: began + pause_max(self.sync_cost.fixed()),
            served: flush.writers,
            returned: 0,
            last_return: began,
            target,
            deadline: began + patience,
        });
    }
}

/// Longest pause, where a sync of no bytes takes `sync`.
fn pause_max(sync: Duration) -> Duration {
    sync.mul_f64(PAUSE_SHARE).min(PAUSE_MAX)
}

/// The cost of a sync without its bytes: a line through the last syncs, older ones counting less.
#[derive(Clone, Copy, Debug, Default)]
struct SyncCost {
    weight: f64,
    bytes: f64,
    seconds: f64,
    bytes_squared: f64,
    bytes_seconds: f64,
}

impl SyncCost {
    fn add(&mut self, bytes: usize, duration: Duration) {
        let mean = self.seconds / self.weight.max(1.0);
        // A sync that the device holds up now and then says nothing about the next one.
        let seconds = match self.weight >= 1.0 {
            true => duration.as_secs_f64().min(mean * OUTLIER),
            false => duration.as_secs_f64(),
        };
        let bytes = bytes as f64;
        for (sum, value) in [
            (&mut self.weight, 1.0),
            (&mut self.bytes, bytes),
            (&mut self.seconds, seconds),
            (&mut self.bytes_squared, bytes * bytes),
            (&mut self.bytes_seconds, bytes * seconds),
        ] {
            *sum = *sum * (1.0 - 1.0 / SYNCS_LEARNED) + value;
        }
    }

    /// Time of a sync of no bytes.
    fn fixed(&self) -> Duration {
        if self.weight < 1.0 {
            return Duration::ZERO;
        }
        let (bytes, seconds) = (self.bytes / self.weight, self.seconds / self.weight);
        let variance = self.bytes_squared / self.weight - bytes * bytes;
        let covariance = self.bytes_seconds / self.weight - bytes * seconds;
        let slope = match variance > bytes * bytes * VARIANCE_MIN {
            true => (covariance / variance).max(0.0),
            false => 0.0,
        };
        let fixed = (seconds - slope * bytes).clamp(seconds * FIXED_SHARE_MIN, seconds);
        Duration::from_secs_f64(fixed)
    }
}

/// A pause has to win so much by what was learned, which is not exact.
const GAIN_MIN: f64 = 1.2;

/// Deviations that are waited beyond the mean, as for a TCP timeout.
const DEVIATIONS: u32 = 4;

/// Syncs after which a change of the device has been learned.
const SYNCS_LEARNED: f64 = 64.0;

/// A sync counts as no longer than so many times the mean.
const OUTLIER: f64 = 4.0;

/// Batches of nearly one size (5 % apart) tell nothing about the cost of a byte.
const VARIANCE_MIN: f64 = 0.0025;

/// Share of the mean sync that is its fixed cost at least, whatever a noisy line says.
const FIXED_SHARE_MIN: f64 = 0.25;

/// A pause that is longer than this share of a sync gains little: at 0.6, 1.25 times at best.
const PAUSE_SHARE: f64 = 0.6;

/// Longest pause, on disks with slow syncs: a writer notices it.
const PAUSE_MAX: Duration = Duration::from_millis(20);
