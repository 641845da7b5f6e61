//! Decides how many files the kernel should forget when there are too many inodes, and when.
//!
//! Pure. A search over the table works in rounds, in which the caller names idle files.

use std::time::Duration;

use super::sharded_table::Place;
use crate::config::limits::EVICTION_PERIOD;

/// State of the search.
#[derive(Debug, Default)]
pub(crate) struct Eviction {
    /// Whether an eviction is in progress: it began above the limit and has not reached its target.
    is_on: bool,
    pub(super) next: Place,
    /// Number of files named in this round.
    named: u64,
    /// The table's `dropped` count at the beginning of this round.
    dropped_before: u64,
}

impl Eviction {
    /// Number of inodes above the target. An eviction begins above `max` inodes and ends at seven
    /// eighths of it, so that each one frees enough.
    pub(super) fn excess(&mut self, len: usize, max: usize) -> usize {
        let enough = max - max / 8;
        self.is_on = len > if self.is_on { enough } else { max };
        if self.is_on { len - enough } else { 0 }
    }

    /// Records that `named` files were named and the search stands at `next`; `dropped` is the
    /// table's current count. Returns the pause before the next call.
    ///
    /// A round after which the kernel forgot too little is not repeated at once: it probably uses
    /// those files in a way that only the kernel knows.
    pub(super) fn go_on(&mut self, next: Place, named: usize, dropped: u64) -> Duration {
        self.next = next;
        self.named += named as u64;
        if next != Place::START {
            return Duration::ZERO;
        }
        let went = dropped - self.dropped_before;
        let was_of_use = self.named > 0 && went >= self.named / 2;
        (self.named, self.dropped_before) = (0, dropped);
        if was_of_use {
            Duration::ZERO
        } else {
            EVICTION_PERIOD
        }
    }
}

/// A time in which the table of `len` inodes cannot exceed `max`.
pub(super) fn pause(len: usize, max: usize) -> Duration {
    let room = max.saturating_sub(len);
    let until_full = room.saturating_mul(1000) / INODES_PER_SECOND_MAX;
    Duration::from_millis(until_full as u64).clamp(EVICTION_PAUSE_MIN, EVICTION_PERIOD)
}

/// Number of `idle` files to name if `excess` of `len` inodes are too many.
///
/// Names twice the share that would suffice if all files were idle, and at least a quarter, so that
/// a round finds enough.
pub(super) fn quota(idle: usize, excess: usize, len: usize) -> usize {
    let share = (idle * 2).saturating_mul(excess).div_ceil(len.max(1));
    share.max(idle.div_ceil(4)).min(idle).min(excess)
}

/// Shortest pause between two checks. Meanwhile the fastest walk makes 1 % of
/// [`INODES_MAX_LEAST`](crate::config::limits::INODES_MAX_LEAST).
pub(super) const EVICTION_PAUSE_MIN: Duration = Duration::from_millis(20);

/// Inodes that the fastest walk makes in a second; 180,000 to 350,000 were measured.
pub(super) const INODES_PER_SECOND_MAX: usize = 500_000;
