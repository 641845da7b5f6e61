//! What all entries of a cache share: the disk, its room, the counts, and who is open.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::entry::Entry;
use super::eviction::Room;
use super::statistics::CacheCounters;
use super::storage::{EntryName, FileStatus, Storage};
use crate::clock::Clock;
use crate::sync::Mutex;

/// What the entries of one cache share.
pub(super) struct Disk {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) room: Arc<Room>,
    pub(super) counters: CacheCounters,
    pub(super) clock: Clock,
    /// Names the boot of the machine: bytes that were compared since then are right.
    boot: String,
    /// Open entries by name. A leaf.
    open: Mutex<HashMap<EntryName, Weak<Entry>>>,
}

impl Disk {
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        room: Arc<Room>,
        clock: Clock,
        boot: String,
    ) -> Arc<Self> {
        Arc::new(Self {
            storage,
            room,
            counters: CacheCounters::default(),
            clock,
            boot,
            open: Mutex::default(),
        })
    }

    /// The open entry `name`; if there is none, `new` makes it.
    pub(super) fn open(
        &self,
        name: EntryName,
        new: impl FnOnce() -> Arc<Entry>,
    ) -> (Arc<Entry>, bool) {
        let mut open = self.open.lock();
        // Nothing is dropped while the lock is held: an entry takes it at its end.
        if let Some(entry) = open.get(&name).and_then(Weak::upgrade) {
            return (entry, false);
        }
        let entry = new();
        open.insert(name, Arc::downgrade(&entry));
        (entry, true)
    }

    /// The open entry `name`.
    pub(super) fn find(&self, name: EntryName) -> Option<Arc<Entry>> {
        self.open.lock().get(&name).and_then(Weak::upgrade)
    }

    /// An entry of that name was closed; another one may have been opened since.
    pub(super) fn closed(&self, name: EntryName) {
        let mut open = self.open.lock();
        if open
            .get(&name)
            .is_some_and(|entry| entry.strong_count() == 0)
        {
            open.remove(&name);
        }
    }

    /// Names this boot and the state of a data file.
    pub(super) fn mark(&self, status: &FileStatus) -> u64 {
        let modified = status.modified_at.duration_since(SystemTime::UNIX_EPOCH);
        let mut hash = Sha256::new();
        hash.update(self.boot.as_bytes());
        hash.update(status.inode.to_le_bytes());
        hash.update(status.len.to_le_bytes());
        hash.update(modified.unwrap_or_default().as_nanos().to_le_bytes());
        let digest = hash.finalize();
        let mut mark = [0; 8];
        mark.copy_from_slice(&digest[..8]);
        u64::from_le_bytes(mark)
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk")
            .field("storage", &self.storage)
            .finish_non_exhaustive()
    }
}
