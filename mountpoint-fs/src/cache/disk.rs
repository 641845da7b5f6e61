//! The shared state of a cache's entries: the disk, its room, the counts.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::eviction::Room;
use super::index_memory::IndexMemory;
use super::statistics::CacheCounters;
use super::storage::Storage;
use crate::clock::Clock;
use crate::local_disk::FileStatus;

/// The shared state of one cache's entries.
pub(super) struct Disk {
    pub(super) storage: Arc<Storage>,
    pub(super) room: Arc<Room>,
    pub(super) counters: CacheCounters,
    pub(super) clock: Clock,
    pub(super) index_memory: Arc<IndexMemory>,
    /// Names the boot of the machine: bytes that were compared since then are right.
    boot: String,
}

impl Disk {
    pub(super) fn new(
        storage: Arc<Storage>,
        room: Arc<Room>,
        clock: Clock,
        boot: String,
    ) -> Arc<Self> {
        Arc::new(Self {
            storage,
            room,
            counters: CacheCounters::default(),
            clock,
            index_memory: Arc::default(),
            boot,
        })
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
