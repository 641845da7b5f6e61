//! Filling a cache on purpose, without a mount.
//!
//! A mount that reads drops what the disk cannot take in time. A fill on purpose waits: an
//! index is read to its end, and bytes are stored or the reason is told. The disk is touched on the
//! threads of the cache alone; memory is bounded by the caller, who holds the bytes meanwhile.

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mountpoint_client::types::{ETag, Key};
use tokio::sync::{Semaphore, oneshot};

use super::cache::Cache;
use super::entry::{Entry, StoreOutcome};
use super::storage::{EntryName, FileKind};
use crate::memory::Budget;
use crate::operation::Slices;
use crate::sync::Mutex;

/// A cache that is filled on purpose.
#[derive(Debug)]
pub(crate) struct CacheFill {
    cache: Arc<Cache>,
    /// Most bytes of the cache, if the user gave a limit.
    bytes_max: Option<u64>,
    /// Bytes of the objects so far that are on the disk.
    kept: AtomicU64,
    /// Entries that were whole. A leaf.
    whole: Mutex<Vec<EntryName>>,
}

/// One version of an object that is being filled in.
#[derive(Clone, Debug)]
pub(crate) struct ObjectFill {
    fill: Arc<CacheFill>,
    entry: Arc<Entry>,
    /// Bytes of one entry are stored one after the other: others need not wait for that.
    turn: Arc<Semaphore>,
}

/// Why bytes cannot be stored. Neither is of one object only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FillError {
    /// There is no room for them.
    NoRoom,
    /// The disk failed, with a text for the user.
    Disk(String),
}

impl CacheFill {
    /// The filling of `cache`, which may have `bytes_max` bytes.
    pub(crate) fn new(cache: Arc<Cache>, bytes_max: Option<u64>) -> Arc<Self> {
        Arc::new(Self {
            cache,
            bytes_max,
            kept: AtomicU64::new(0),
            whole: Mutex::default(),
        })
    }

    /// Has its indexes counted in `budget`.
    pub(crate) fn count_in(&self, budget: &Arc<Budget>) {
        self.cache.count_in(budget);
    }

    /// The version `etag` of `key`, which is `size` bytes long, when its index was read.
    ///
    /// # Errors
    /// The threads of the cache have failed.
    pub(crate) async fn object(
        self: &Arc<Self>,
        key: &Key,
        etag: &ETag,
        size: u64,
    ) -> Result<ObjectFill, FillError> {
        let entry = self.cache.unread_entry(key, etag, size);
        let object = ObjectFill {
            fill: Arc::clone(self),
            entry: Arc::clone(&entry),
            turn: Arc::new(Semaphore::new(1)),
        };
        self.on_disk(move || entry.load()).await?;
        let missing: u64 = object.missing().iter().map(|gap| gap.end - gap.start).sum();
        self.kept
            .fetch_add(size.saturating_sub(missing), Ordering::Relaxed);
        Ok(object)
    }

    /// How many objects that were whole are gone again: evicted for others, here or by a mount.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub(crate) async fn evicted(self: &Arc<Self>) -> Result<u64, FillError> {
        let fill = Arc::clone(self);
        let counted = self.on_disk(move || fill.count_evicted()).await?;
        counted.map_err(|error| FillError::Disk(error.to_string()))
    }

    fn count_evicted(&self) -> io::Result<u64> {
        let mut whole = std::mem::take(&mut *self.whole.lock());
        whole.sort_unstable();
        whole.dedup();
        let mut evicted = 0;
        for names in whole.chunk_by(|one, next| one.shard() == next.shard()) {
            let listed = self.cache.disk().storage.list(names[0].shard())?;
            let complete = listed.into_iter().filter(|entry| entry.is_complete);
            let there: HashSet<EntryName> = complete.map(|entry| entry.name).collect();
            evicted += names.iter().filter(|name| !there.contains(name)).count() as u64;
        }
        Ok(evicted)
    }

    /// The output of `job`, which a thread of the cache runs.
    async fn on_disk<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, FillError> {
        let (sender, output) = oneshot::channel();
        self.cache.run(move || {
            // After an interruption of the run nobody waits.
            drop(sender.send(job()));
        });
        let lost = |_| FillError::Disk("a thread of the cache has failed".to_owned());
        output.await.map_err(lost)
    }
}

impl ObjectFill {
    /// The ranges that the disk does not have, in order.
    pub(crate) fn missing(&self) -> Vec<Range<u64>> {
        self.entry.missing()
    }

    /// Stores the bytes of `range`, which are `slices`, however long the disk takes.
    ///
    /// # Errors
    /// Why they are not stored.
    pub(crate) async fn store(&self, range: Range<u64>, slices: Slices) -> Result<(), FillError> {
        let len = range.end - range.start;
        let kept = self.fill.kept.fetch_add(len, Ordering::Relaxed) + len;
        let stored = match self.fill.bytes_max {
            Some(bytes_max) if kept > bytes_max => Err(FillError::NoRoom),
            _ => self.store_patiently(range, slices).await,
        };
        if stored.is_err() {
            self.fill.kept.fetch_sub(len, Ordering::Relaxed);
        }
        stored
    }

    async fn store_patiently(&self, range: Range<u64>, slices: Slices) -> Result<(), FillError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            // It is never closed.
            let turn = self.turn.acquire().await;
            let (entry, range, slices) = (Arc::clone(&self.entry), range.clone(), slices.clone());
            let stored = self
                .fill
                .on_disk(move || entry.store_or_tell(&range, &slices));
            let stored = stored.await?;
            drop(turn);
            match stored {
                Ok(StoreOutcome::Stored) => return Ok(()),
                Ok(StoreOutcome::NoRoom) if attempt < ROOM_ATTEMPTS => {}
                Ok(StoreOutcome::BeingMade) if attempt < MAKING_ATTEMPTS => {}
                Ok(StoreOutcome::NoMemory) => {
                    let reason = "the indexes of the objects that are fetched at once take more memory than \
                                  --memory-target leaves them";
                    return Err(FillError::Disk(reason.to_owned()));
                }
                Ok(StoreOutcome::NoRoom) => return Err(FillError::NoRoom),
                Ok(StoreOutcome::BeingMade) => {
                    let reason = "another process has made a file and does not go on";
                    return Err(FillError::Disk(reason.to_owned()));
                }
                Err(error) => {
                    return Err(match error.kind() {
                        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                            FillError::NoRoom
                        }
                        _ => FillError::Disk(error.to_string()),
                    });
                }
            }
            tokio::time::sleep(ATTEMPT_WAIT).await;
        }
    }

    /// Notes that all bytes are there, and looks for an object that was whole before.
    ///
    /// # Errors
    /// That object was evicted: the cache has no room for all.
    pub(crate) async fn finish(self) -> Result<(), FillError> {
        let name = self.entry.name();
        let other = {
            let mut whole = self.fill.whole.lock();
            whole.push(name);
            // Any of them; names are hashes.
            let random = u64::from_le_bytes(*name.0.last_chunk().unwrap_or(&[0; 8]));
            let place = random % whole.len() as u64;
            whole[usize::try_from(place).unwrap_or(0)]
        };
        let fill = Arc::clone(&self.fill);
        let look = move || fill.cache.disk().storage.open(other, FileKind::Index);
        match self.fill.on_disk(look).await? {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(FillError::NoRoom),
            Err(error) => Err(FillError::Disk(error.to_string())),
        }
    }
}

/// Attempts to store bytes while entries are evicted for them.
const ROOM_ATTEMPTS: u32 = 15;

/// Attempts to store bytes while another process makes the files. With [`ATTEMPT_WAIT`] more than
/// the time after which they count as damaged.
const MAKING_ATTEMPTS: u32 = 60;

/// Time between two attempts.
const ATTEMPT_WAIT: Duration = Duration::from_millis(200);
