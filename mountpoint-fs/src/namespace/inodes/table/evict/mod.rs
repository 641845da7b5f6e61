//! Chooses the files that the kernel should forget when the mount has too many inodes.
//!
//! A round covers the whole table, [`EVICTION_LOOK`] places in each call, so that the time under
//! the table's lock does not depend on the number of inodes. Of the idle files of a call, those
//! with the shortest validity are forgotten first: in a walk, the ones that it has left behind.
//!
//! Knows only that the kernel forgets with some delay. Runs on the thread that notifies the kernel.

use std::sync::Arc;

use super::InodeTable;
use crate::namespace::inodes::eviction::{pause, quota};
use crate::operation::{EvictionBatch, StaleName};

impl InodeTable {
    /// Chooses some idle files if there are more than `max` inodes.
    pub(crate) fn eviction_batch(&self, max: usize) -> EvictionBatch {
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
            // The name of a detached inode may belong to another inode now.
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

    /// Whether at least [`TRIM_DROPPED_MIN`] inodes were dropped since the last call that returned
    /// `true`.
    pub(crate) fn has_dropped_many(&self) -> bool {
        let mut table = self.table.lock();
        let has_dropped_many = table.dropped - table.trimmed >= TRIM_DROPPED_MIN;
        if has_dropped_many {
            table.trimmed = table.dropped;
        }
        has_dropped_many
    }
}

/// Dropped inodes before the allocator releases their memory: about 8 MB.
///
/// A walk of 300,000 names took the process from 26 to 96 MiB. After the kernel had forgotten the
/// names it stayed at 96 MiB without this, and is at 36 MiB with it.
const TRIM_DROPPED_MIN: u64 = 32_768;

/// Slots of the inode table that are examined while its lock is held. 0.1 to 0.6 ms.
///
/// All other operations on names wait meanwhile.
const EVICTION_LOOK: usize = 1_024;

#[cfg(test)]
mod tests;
