//! Which files the kernel is asked to forget when there are more inodes than the mount wants to
//! keep.
//!
//! A round goes over the whole table, [`EVICTION_LOOK`] places at each call, so that the table's
//! lock is held as long for ten million inodes as for one. Of the files that a call meets and that
//! nobody uses, those go first whose names are valid for the shortest time: for a walk, those that
//! it left behind.
//!
//! Knows nothing of the kernel but that it forgets by and by. It runs on the thread that tells it.

use std::sync::Arc;

use super::InodeTable;
use crate::config::limits::EVICTION_LOOK;
use crate::namespace::inodes::eviction::{pause, quota};
use crate::operation::{EvictionBatch, StaleName};

impl InodeTable {
    /// Some of the files that nobody uses, if there are more than `max` inodes.
    pub(in crate::namespace) fn eviction_batch(&self, max: usize) -> EvictionBatch {
        let mut table = self.table.lock();
        let len = table.len();
        let excess = table.eviction.excess(len, max);
        if excess == 0 {
            return EvictionBatch {
                names: Vec::new(),
                pause: pause(len, max),
            };
        }
        let mut idle = Vec::new();
        let next = table
            .inodes
            .look(table.eviction.next, EVICTION_LOOK, |inode| {
                if table.is_idle(inode) {
                    idle.push(&**inode);
                }
            });
        let count = quota(idle.len(), excess, len);
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
        EvictionBatch { names, pause }
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

#[cfg(test)]
mod tests;
