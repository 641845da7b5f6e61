//! Removing entries, from a sample of the shards at a time.

use std::io;
use std::ops::AddAssign;
use std::time::SystemTime;

use serde::Serialize;

use super::count::SHARDS;
use super::ghosts::Ghosts;
use super::policy::{Choice, is_leftover, part_of};
use super::room_limits::Demand;
use crate::cache::storage::{ListedEntry, Storage, Usage};

/// Entries that were removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct RemovedEntries {
    pub(crate) entries: u64,
    /// Bytes that they occupied on the disk.
    pub(crate) bytes: u64,
}

impl AddAssign for RemovedEntries {
    fn add_assign(&mut self, more: Self) {
        self.entries += more.entries;
        self.bytes += more.bytes;
    }
}

/// The one that evicts: where it goes on, and what it remembers.
#[derive(Debug)]
pub(in crate::cache) struct Evictor {
    /// The shard to look at next.
    next: u8,
    ghosts: Ghosts,
}

impl Evictor {
    /// Begins at a shard; processes should begin at different ones.
    pub(in crate::cache) fn new(first: u8) -> Self {
        Self {
            next: first,
            ghosts: Ghosts::default(),
        }
    }

    /// Removes some of what `demand` asks for: the worst entries of the next shards. Nothing more
    /// can be removed if it removes nothing.
    pub(in crate::cache) fn evict(
        &mut self,
        storage: &Storage,
        demand: Demand,
        usage: &Usage,
        now: SystemTime,
    ) -> io::Result<RemovedEntries> {
        let mut removed = RemovedEntries::default();
        let mut sample = Vec::new();
        let mut shards = 0;
        while shards < SHARDS && sample.len() < SAMPLE_MIN {
            let listed = self.list(storage, now, &mut removed)?;
            sample.extend(listed);
            shards += 1;
        }
        let demand = part_of(&sample, demand, shards == SHARDS);
        let choice = Choice {
            now,
            turn: usage.turn,
            turned_since: usage.turned_since(),
            is_ghost: &|name| self.ghosts.has(name),
        };
        for entry in choice.choose(sample, demand) {
            if remove(storage, &entry, &mut removed) {
                self.ghosts.add(entry.name, usage.entries);
            }
        }
        Ok(removed)
    }

    fn list(
        &mut self,
        storage: &Storage,
        now: SystemTime,
        removed: &mut RemovedEntries,
    ) -> io::Result<Vec<ListedEntry>> {
        let shard = self.next;
        self.next = shard.wrapping_add(1);
        list_whole(storage, shard, now, removed)
    }
}

/// Lists a shard, and removes what was left of entries.
pub(super) fn list_whole(
    storage: &Storage,
    shard: u8,
    now: SystemTime,
    removed: &mut RemovedEntries,
) -> io::Result<Vec<ListedEntry>> {
    let mut listed = storage.list(shard)?;
    listed.retain(|entry| !is_leftover(entry, now) || !remove(storage, entry, removed));
    Ok(listed)
}

/// Removes an entry. Returns whether that was done.
fn remove(storage: &Storage, entry: &ListedEntry, removed: &mut RemovedEntries) -> bool {
    match storage.remove(entry.name) {
        Ok(()) => {
            removed.bytes += entry.bytes;
            removed.entries += 1;
            true
        }
        Err(error) => {
            tracing::debug!("cannot remove {} from the cache: {error}", entry.name);
            false
        }
    }
}

/// Entries between which the worst are chosen, at least, if there are so many: a share of the worst
/// of them is about that share of the worst of all.
const SAMPLE_MIN: usize = 1024;
