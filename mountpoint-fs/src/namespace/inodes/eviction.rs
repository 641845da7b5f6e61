//! How many files the kernel is asked to forget when there are too many inodes, and when.
//!
//! Pure: a search over the table in rounds, in which the caller names idle files.

use std::time::Duration;

use super::sharded_table::Place;
use crate::config::limits::{EVICTION_PAUSE_MIN, EVICTION_PERIOD, INODES_PER_SECOND_MAX};

/// How far the search is.
#[derive(Debug, Default)]
pub(in crate::namespace) struct Eviction {
    /// Whether there were too many inodes, and there are not few enough yet.
    is_on: bool,
    pub(super) next: Place,
    /// Files that were named in this round.
    named: u64,
    /// What the table's `dropped` was when the round began.
    dropped_before: u64,
}

impl Eviction {
    /// By how many inodes there are too many: an eighth of `max` more than that, so that it is
    /// worth beginning.
    pub(super) fn excess(&mut self, len: usize, max: usize) -> usize {
        let enough = max - max / 8;
        self.is_on = len > if self.is_on { enough } else { max };
        if self.is_on { len - enough } else { 0 }
    }

    /// Goes on at `next` after `named` files were named; `dropped` as of now. Returns how long to
    /// wait.
    ///
    /// A round that was of no use is not repeated at once: what it named is in use in a way that
    /// only the kernel knows.
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

/// How long there cannot be too many inodes yet, or nearly so, if there are `len` of `max`.
pub(super) fn pause(len: usize, max: usize) -> Duration {
    let room = max.saturating_sub(len);
    let until_full = room.saturating_mul(1000) / INODES_PER_SECOND_MAX;
    Duration::from_millis(until_full as u64).clamp(EVICTION_PAUSE_MIN, EVICTION_PERIOD)
}

/// How many of `idle` files to name if there are `excess` of `len` inodes too many: twice the
/// share that would do if all were idle, and a quarter at least, so that a round finds enough.
pub(super) fn quota(idle: usize, excess: usize, len: usize) -> usize {
    let share = (idle * 2).saturating_mul(excess).div_ceil(len.max(1));
    share.max(idle.div_ceil(4)).min(idle).min(excess)
}
