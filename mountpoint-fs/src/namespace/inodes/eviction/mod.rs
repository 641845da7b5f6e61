//! Which files the kernel is asked to forget when there are more inodes than the mount wants to
//! keep.
//!
//! A round goes over the whole table, [`SURPLUS_LOOK`] places at each call, so that the table's
//! lock is held as long for ten million inodes as for one. Of the files that a call meets and that
//! nobody uses, those go first whose names are valid for the shortest time: for a walk, those that
//! it left behind.
//!
//! Knows nothing of the kernel but that it forgets by and by. It runs on the thread that tells it.

use std::sync::Arc;
use std::time::Duration;

use crate::config::limits::{
    INODES_PER_SECOND_MAX, SURPLUS_LOOK, SURPLUS_PAUSE_MIN, SURPLUS_PERIOD,
};
use crate::namespace::inodes::inode::Inode;
use crate::namespace::inodes::sharded_table::Place;
use crate::namespace::inodes::table::{InodeTable, Table};
use crate::operation::{FileKind, StaleName, Surplus};

/// How far the search is.
#[derive(Debug, Default)]
pub(in crate::namespace) struct Eviction {
    /// Whether there were too many inodes, and there are not few enough yet.
    is_on: bool,
    next: Place,
    /// Files that were named in this round.
    named: u64,
    /// What [`Table::dropped`] was when the round began.
    dropped_before: u64,
}

impl Eviction {
    /// By how many inodes there are too many: an eighth of `max` more than that, so that it is
    /// worth beginning.
    fn surplus(&mut self, len: usize, max: usize) -> usize {
        let enough = max - max / 8;
        self.is_on = len > if self.is_on { enough } else { max };
        if self.is_on { len - enough } else { 0 }
    }

    /// Goes on at `next` after `named` files were named; `dropped` as of now. Returns how long to
    /// wait.
    ///
    /// A round that was of no use is not repeated at once: what it named is in use in a way that
    /// only the kernel knows.
    fn go_on(&mut self, next: Place, named: usize, dropped: u64) -> Duration {
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
            SURPLUS_PERIOD
        }
    }
}

/// How long there cannot be too many inodes yet, or nearly so, if there are `len` of `max`.
fn pause(len: usize, max: usize) -> Duration {
    let room = max.saturating_sub(len);
    let until_full = room.saturating_mul(1000) / INODES_PER_SECOND_MAX;
    Duration::from_millis(until_full as u64).clamp(SURPLUS_PAUSE_MIN, SURPLUS_PERIOD)
}

/// How many of `idle` files to name if there are `surplus` of `len` inodes too many: twice the
/// share that would do if all were idle, and a quarter at least, so that a round finds enough.
fn quota(idle: usize, surplus: usize, len: usize) -> usize {
    let share = (idle * 2).saturating_mul(surplus).div_ceil(len.max(1));
    share.max(idle.div_ceil(4)).min(idle).min(surplus)
}

impl InodeTable {
    /// Some of the files that nobody uses, if there are more than `max` inodes.
    pub(in crate::namespace) fn surplus(&self, max: usize) -> Surplus {
        let mut table = self.table.lock();
        let len = table.len();
        let surplus = table.eviction.surplus(len, max);
        if surplus == 0 {
            return Surplus {
                names: Vec::new(),
                pause: pause(len, max),
            };
        }
        let mut idle = Vec::new();
        let next = table
            .inodes
            .look(table.eviction.next, SURPLUS_LOOK, |inode| {
                if table.is_idle(inode) {
                    idle.push(&**inode);
                }
            });
        let count = quota(idle.len(), surplus, len);
        if let Some(last) = count.checked_sub(1) {
            idle.select_nth_unstable_by_key(last, |inode| inode.observed.valid_until);
        }
        let named = idle[..count]
            .iter()
            // What a detached inode is called may be another's name by now.
            .filter(|inode| table.child(inode.parent, &inode.name) == Some(inode.ino));
        let names: Vec<_> = named
            .map(|inode| StaleName {
                directory: inode.parent,
                name: Arc::from(&*inode.name),
            })
            .collect();
        let dropped = table.dropped;
        let pause = table.eviction.go_on(next, names.len(), dropped);
        Surplus { names, pause }
    }

    /// Whether at least [`TRIM_DROPPED_MIN`] inodes were dropped since this was last true.
    pub(in crate::namespace) fn has_dropped_many(&self) -> bool {
        let mut table = self.table.lock();
        let has_dropped_many = table.dropped - table.trimmed >= TRIM_DROPPED_MIN;
        if has_dropped_many {
            table.trimmed = table.dropped;
        }
        has_dropped_many
    }
}

/// Dropped inodes after which the allocator is asked for their memory: about 8 MB.
///
/// A walk of 300,000 names took the process from 26 to 96 MiB. When the kernel had forgotten them
/// it stayed at 96 MiB; with this it is 36 MiB.
const TRIM_DROPPED_MIN: u64 = 32_768;

impl Table {
    /// Whether `inode` is a file that the kernel knows and nobody uses, as far as is known here.
    fn is_idle(&self, inode: &Inode) -> bool {
        inode.openers == 0
            && inode.lookups > 0
            && inode.kind() == FileKind::File
            && !self.writing.contains_key(&inode.ino)
    }
}

#[cfg(test)]
mod tests;
