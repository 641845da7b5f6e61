//! Looking after a cache from outside of the mounts that use it.
//!
//! Entries may be in use, and may come and go: a mount serves what it has open, and takes what is
//! missing for a miss. Runs on the thread of a helper command.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use super::directory::CacheDirectory;
pub(crate) use super::entry::EntryCheck;
use super::entry::{Inspected, inspect};
pub(crate) use super::eviction::RemovedEntries;
use super::eviction::{Demand, Evictor};
use super::identity::CachedVersion;
use super::listings;
use super::storage::{EvictionRight, ListedEntry, Storage};
use crate::clock::Clock;
use crate::local_disk::DiskSpace;

/// A cache on a disk, of one key.
#[derive(Debug)]
pub(crate) struct KeptCache {
    directory: Arc<CacheDirectory>,
    storage: Storage,
    clock: Clock,
}

/// An entry that can be used.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    pub(crate) version: CachedVersion,
    /// Bytes of the object that are there.
    pub(crate) bytes: u64,
}

impl KeptCache {
    /// The caches in `directory`, one for each key. None is no error.
    ///
    /// # Errors
    /// A text for the user.
    pub(crate) fn open_all(directory: &Path, clock: &Clock) -> Result<Vec<Self>, String> {
        let found = CacheDirectory::open_all(directory)?;
        let caches = found.into_iter().map(Arc::new).map(|directory| Self {
            storage: Storage::new(Arc::clone(&directory)),
            directory,
            clock: clock.clone(),
        });
        Ok(caches.collect())
    }

    /// The folder of its entries.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Size and free space of its disk.
    pub(crate) fn space(&self) -> io::Result<DiskSpace> {
        self.storage.space()
    }

    /// The entries of each shard, in turn.
    pub(crate) fn shards(&self) -> impl Iterator<Item = io::Result<Vec<ListedEntry>>> {
        (0..=u8::MAX).map(|shard| self.storage.list(shard))
    }

    /// The description of an entry.
    pub(crate) fn describe(&self, entry: &ListedEntry) -> io::Result<EntryCheck<Description>> {
        let found = inspect(&self.storage, entry.name, &self.clock)?;
        Ok(found.map(|found| describe(&found)))
    }

    /// Compares all bytes of an entry with their checksums. `progressed` is told how many bytes
    /// were compared.
    pub(crate) fn verify(
        &self,
        entry: &ListedEntry,
        progressed: &mut dyn FnMut(u64),
    ) -> io::Result<EntryCheck<Description>> {
        for attempt in 1.. {
            let found = match inspect(&self.storage, entry.name, &self.clock)? {
                EntryCheck::Right(found) => found,
                EntryCheck::Absent => return Ok(EntryCheck::Absent),
                // A mount may be in the middle of a write to the index.
                EntryCheck::Damaged(_) if attempt < ATTEMPTS => {
                    thread::sleep(WRITE_WAIT);
                    continue;
                }
                EntryCheck::Damaged(what) => return Ok(EntryCheck::Damaged(what)),
            };
            return Ok(match found.compare(progressed)? {
                None => EntryCheck::Right(describe(&found)),
                Some(what) => EntryCheck::Damaged(what),
            });
        }
        Ok(EntryCheck::Absent)
    }

    /// Removes entries.
    pub(crate) fn remove<'a>(
        &self,
        entries: impl IntoIterator<Item = &'a ListedEntry>,
    ) -> io::Result<RemovedEntries> {
        let mut removed = RemovedEntries::default();
        let mut failed = None;
        for entry in entries {
            if let Err(error) = self.storage.remove(entry.name) {
                failed = Some(error);
                break;
            }
            removed.entries += 1;
            removed.bytes += entry.bytes;
        }
        self.tell(removed);
        failed.map_or(Ok(removed), Err)
    }

    /// Removes entries until they occupy at most `bytes_max`: those that a mount would evict.
    ///
    /// # Errors
    /// `WouldBlock` if a mount evicts for a long time.
    pub(crate) fn evict_to(&self, bytes_max: u64) -> io::Result<RemovedEntries> {
        let _right = self.right()?;
        let mut left = 0_u64;
        for entries in self.shards() {
            left += entries?.iter().map(|entry| entry.bytes).sum::<u64>();
        }
        let usage = self.storage.update_usage(&mut |_| {})?.unwrap_or_default();
        let mut evictor = Evictor::new(0);
        let mut all = RemovedEntries::default();
        while left > bytes_max {
            let demand = Demand {
                bytes: left - bytes_max,
                entries: 0,
            };
            let removed = evictor.evict(&self.storage, demand, &usage, self.clock.wall())?;
            if removed.entries == 0 {
                return Err(io::Error::other(
                    "the entries that are left cannot be removed",
                ));
            }
            left = left.saturating_sub(removed.bytes);
            self.tell(removed);
            all += removed;
        }
        Ok(all)
    }

    /// Removes what was neither used nor stored since `time`.
    pub(crate) fn evict_older_than(&self, time: SystemTime) -> io::Result<RemovedEntries> {
        self.remove_if(|entry| last_use(entry) < time)
    }

    /// Removes all that is ours: the entries, the listings and, unless a mount uses the cache, its
    /// folders.
    pub(crate) fn clear(self) -> io::Result<RemovedEntries> {
        let removed = self.remove_if(|_| true)?;
        if let Some(folder) = self.directory.find_listings()? {
            listings::clear(folder)?;
        }
        self.directory.remove_if_unused(listings::remove_all)?;
        Ok(removed)
    }

    fn remove_if(&self, is_meant: impl Fn(&ListedEntry) -> bool) -> io::Result<RemovedEntries> {
        let mut all = RemovedEntries::default();
        for entries in self.shards() {
            let entries = entries?;
            all += self.remove(entries.iter().filter(|entry| is_meant(entry)))?;
        }
        Ok(all)
    }

    /// The right to evict; mounts have it while they evict or count.
    fn right(&self) -> io::Result<EvictionRight> {
        for _ in 0..RIGHT_ATTEMPTS {
            if let Some(right) = self.storage.lock_eviction()? {
                return Ok(right);
            }
            thread::sleep(RIGHT_WAIT);
        }
        Err(io::Error::new(
            io::ErrorKind::WouldBlock,
            "a mount evicts from it; try again later",
        ))
    }

    /// Has the mounts know of it. If that fails, they find it by their next count.
    fn tell(&self, removed: RemovedEntries) {
        let changed = self
            .storage
            .update_usage(&mut |usage| usage.remove(removed.bytes, removed.entries));
        if let Err(error) = changed {
            tracing::debug!("cannot note what was removed: {error}");
        }
    }
}

fn describe(found: &Inspected) -> Description {
    Description {
        version: found.version().clone(),
        bytes: found.bytes(),
    }
}

/// When an entry was last used, or stored if that was later.
pub(crate) fn last_use(entry: &ListedEntry) -> SystemTime {
    entry.used_at.max(entry.stored_at)
}

/// How often a damaged index is read.
const ATTEMPTS: u32 = 3;

/// How long a write to the index may take.
const WRITE_WAIT: Duration = Duration::from_millis(100);

/// How often the right to evict is asked for.
const RIGHT_ATTEMPTS: u32 = 100;

/// Time between those.
const RIGHT_WAIT: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
