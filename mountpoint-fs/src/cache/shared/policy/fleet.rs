//! Nodes that read the same data at the same time: one of them fetches an extent, the others wait.
//!
//! Pure. Only read-ahead waits, only while there are signs of other nodes, and only while waiting
//! pays: nodes that were late too often fetch for themselves for a while.

use std::time::Duration;

use super::jitter::Jitter;

/// A node's knowledge of others that use the bucket now.
#[derive(Debug)]
pub(in crate::cache::shared) struct FleetPolicy {
    jitter: Jitter,
    /// Until when others are taken to be there.
    seen_until: Duration,
    /// Until when nobody is waited for.
    alone_until: Duration,
    /// How long a node takes from its claim until the extent is there.
    fill_time: Duration,
    /// Outcomes of the last waits, a bit each: 1 is late.
    late: u16,
}

impl FleetPolicy {
    pub(super) fn new(jitter: Jitter) -> Self {
        Self {
            jitter,
            seen_until: Duration::ZERO,
            alone_until: Duration::ZERO,
            fill_time: FILL_TIME_FIRST,
            late: 0,
        }
    }

    /// Another node has just used the bucket.
    pub(in crate::cache::shared) fn saw_others(&mut self, now: Duration) {
        self.seen_until = now + SEEN_FOR;
    }

    /// Whether extents are claimed before they are fetched.
    pub(in crate::cache::shared) fn is_active(&self, now: Duration) -> bool {
        now < self.seen_until && now >= self.alone_until
    }

    /// An extent was there so long after its claim.
    pub(in crate::cache::shared) fn filled_within(&mut self, time: Duration) {
        let learned = (self.fill_time * (LEARNED_SHARE - 1) + time) / LEARNED_SHARE;
        self.fill_time = learned.clamp(FILL_TIME_MIN, FILL_TIME_MAX);
    }

    /// Time until an extent is looked for that another node has just claimed.
    pub(super) fn first_wait(&mut self) -> Duration {
        self.fill_time * self.jitter.around_percent(JITTER_PERCENT) / 100
    }

    /// Time until the next look.
    pub(super) fn next_wait(&mut self) -> Duration {
        self.first_wait() / LOOKS_PER_FILL_TIME
    }

    /// Time after a lost claim at which an extent is late.
    pub(super) fn wait_max(&self) -> Duration {
        (self.fill_time * FILL_TIMES_MAX).clamp(WAIT_MIN, WAIT_MAX)
    }

    /// An extent that another node had claimed came in time, or not.
    pub(in crate::cache::shared) fn waited(&mut self, is_late: bool, now: Duration) {
        self.late = self.late << 1 | u16::from(is_late);
        if self.late.count_ones() >= LATE_MAX {
            self.late = 0;
            self.alone_until = now + ALONE_FOR;
        }
    }
}

/// How long a sign of other nodes counts: the start of a large job.
pub(in crate::cache::shared) const SEEN_FOR: Duration = Duration::from_secs(600);

/// How long nobody is waited for after many late extents.
const ALONE_FOR: Duration = Duration::from_secs(60);

/// Late extents among the last 16 that end the waiting.
const LATE_MAX: u32 = 4;

/// The fill time before any was seen: 8 MiB from S3 and 8 MiB to the bucket at 90 MB/s.
const FILL_TIME_FIRST: Duration = Duration::from_millis(250);

/// Bounds of the fill time that is learned: a small extent in one network; what is no gain.
const FILL_TIME_MIN: Duration = Duration::from_millis(20);
const FILL_TIME_MAX: Duration = Duration::from_secs(2);

/// The newest fill time has this share of what is learned.
const LEARNED_SHARE: u32 = 8;

/// Looks in one fill time, from the first on. Each costs a request for each node that waits.
const LOOKS_PER_FILL_TIME: u32 = 3;

/// Spread of waits around their mean, so that a thousand nodes do not look at one moment.
const JITTER_PERCENT: u32 = 25;

/// An extent is late after so many fill times, within the next two.
const FILL_TIMES_MAX: u32 = 4;
const WAIT_MIN: Duration = Duration::from_millis(500);
const WAIT_MAX: Duration = Duration::from_secs(5);
