//! The cache of a mount, as the read path sees it: a source of blocks before S3, and a sink behind.
//!
//! Nothing here makes a read fail or wait: what the disk does not have, has wrongly or does not
//! tell in time comes from S3.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::OptionFuture;
use mountpoint_client::types::{ETag, Key};
use mountpoint_crt_sys::block::BlockFill;
use tokio::sync::Notify;

use super::disk::Disk;
use super::entry::{Entry, Place};
use super::eviction::Room;
use super::identity::{CachedVersion, StoreId};
use super::listings::ListingStore;
use super::open_entries::OpenEntries;
use super::statistics::CacheStats;
use super::storage::Storage;
use crate::clock::Clock;
use crate::disk_threads::DiskThreads;
use crate::executor::shielded;
use crate::local_disk::Folder;
use crate::memory::Budget;
use crate::metrics::trace::{WaitCause, waits};
use crate::operation::{LocalFiles, Slices};
use crate::sync::Mutex;

/// Content on a local disk that outlives the mount.
pub struct Cache {
    store: StoreId,
    disk: Arc<Disk>,
    entries: OpenEntries,
    readers: DiskThreads,
    /// Stores what was fetched, behind the readers, who never wait for it.
    filler: DiskThreads,
    /// Bytes that wait to be stored, and the most of them.
    fill_bytes: Arc<AtomicU64>,
    fill_bytes_max: u64,
    /// Compares whole entries with their checksums, one after the other.
    comparer: DiskThreads,
    /// Listings of directories; `None` if there is no folder for them.
    listings: Option<Arc<ListingStore>>,
    clear_at_exit: bool,
    /// Entries whose index is being read, the oldest first. A leaf.
    loading: Mutex<VecDeque<(Duration, Weak<Entry>)>>,
    has_loading: Notify,
}

/// The facts of a mount that its cache needs.
#[derive(Debug)]
pub struct CacheParts {
    /// The store whose objects are kept.
    pub store: StoreId,
    /// Names the boot of the machine.
    pub boot: String,
    /// Most bytes that wait to be stored.
    pub fill_bytes_max: u64,
    /// Whether it is emptied when the mount ends.
    pub clear_at_exit: bool,
    /// The folder for listings of directories, if there is one.
    pub(crate) listings: Option<Folder>,
}

/// One version of an object in a cache, while the object is open.
#[derive(Clone, Debug)]
pub(crate) struct CachedObject {
    cache: Arc<Cache>,
    entry: Arc<Entry>,
}

impl Cache {
    /// A cache over `storage`, whose room is watched by `room`.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn over(
        storage: Arc<Storage>,
        room: Arc<Room>,
        parts: CacheParts,
        clock: Clock,
    ) -> std::io::Result<Arc<Self>> {
        let CacheParts {
            store,
            boot,
            fill_bytes_max,
            clear_at_exit,
            listings,
        } = parts;
        let readers = DiskThreads::start("cache-read", READ_THREADS, &clock)?;
        let comparer = DiskThreads::start("cache-compare", 1, &clock)?;
        let filler = DiskThreads::start("cache-fill", 1, &clock)?;
        let disk = Disk::new(storage, room, clock, boot.clone());
        let listings = listings.map(|folder| {
            let (store, disk) = (store.clone(), Arc::clone(&disk));
            ListingStore::start(folder, store, &boot, disk)
        });
        Ok(Arc::new(Self {
            store,
            listings: listings.transpose()?,
            disk,
            entries: OpenEntries::default(),
            readers,
            filler,
            fill_bytes: Arc::default(),
            fill_bytes_max,
            comparer,
            clear_at_exit,
            loading: Mutex::default(),
            has_loading: Notify::new(),
        }))
    }

    /// The version `etag` of `key`, which is `size` bytes long. Its index is read in the
    /// background, unless the version is open already.
    pub(crate) fn object(self: &Arc<Self>, key: &Key, etag: &ETag, size: u64) -> CachedObject {
        let (entry, is_new) = self.entry(key, etag, size);
        if is_new {
            self.load(&entry);
        }
        CachedObject {
            cache: Arc::clone(self),
            entry,
        }
    }

    /// The entry of a version, whose index the caller reads.
    pub(super) fn unread_entry(&self, key: &Key, etag: &ETag, size: u64) -> Arc<Entry> {
        self.entry(key, etag, size).0
    }

    /// The entry of a version, and whether it was not open before.
    fn entry(&self, key: &Key, etag: &ETag, size: u64) -> (Arc<Entry>, bool) {
        let version = self.version(key, etag, size);
        let name = version.name();
        let new = || Arc::new(Entry::new(version, name, Arc::clone(&self.disk)));
        self.entries.open(name, new)
    }

    /// Listings of directories that outlive the mount.
    pub(crate) fn listings(&self) -> Option<&Arc<ListingStore>> {
        self.listings.as_ref()
    }

    /// Runs `job` soon, on a thread that may wait for the disk.
    pub(super) fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.readers.run(job);
    }

    /// The disk with the entries.
    pub(super) fn disk(&self) -> &Disk {
        &self.disk
    }

    fn version(&self, key: &Key, etag: &ETag, size: u64) -> CachedVersion {
        CachedVersion {
            store: self.store.clone(),
            key: key.clone(),
            etag: etag.clone(),
            size,
        }
    }

    fn load(&self, entry: &Arc<Entry>) {
        if self.readers.is_stuck() {
            entry.give_up_loading();
            return;
        }
        let now = self.disk.clock.now();
        self.loading.lock().push_back((now, Arc::downgrade(entry)));
        self.has_loading.notify_one();
        let entry = Arc::clone(entry);
        self.readers.run(move || entry.load());
    }

    /// Gives up what the disk does not answer in time, for as long as the cache lives. A task of a
    /// tokio runtime.
    pub fn watch(self: &Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        let listings = self.listings.as_ref().map(ListingStore::watch);
        let indexes = self.watch_indexes();
        async move {
            futures::future::join(indexes, OptionFuture::from(listings)).await;
        }
    }

    fn watch_indexes(self: &Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        let cache = Arc::downgrade(self);
        async move {
            while let Some(this) = cache.upgrade() {
                let next = this.give_up_late();
                if let Some(wait) = next {
                    drop(this);
                    tokio::time::sleep(wait).await;
                } else {
                    // However the wait ends, it is time to see whether the cache still lives.
                    drop(tokio::time::timeout(IDLE_LOOK, this.has_loading.notified()).await);
                }
            }
        }
    }

    /// Gives up what is late. Returns when to look again, if anything is left.
    fn give_up_late(&self) -> Option<Duration> {
        let now = self.disk.clock.now();
        loop {
            let entry = {
                let mut loading = self.loading.lock();
                let (began, _) = loading.front()?;
                let due = *began + LOAD_MAX;
                if due > now {
                    return Some(due - now);
                }
                loading.pop_front().and_then(|(_, entry)| entry.upgrade())
            };
            if let Some(entry) = entry {
                entry.give_up_loading();
            }
        }
    }

    /// Has the indexes of open entries counted in `budget`.
    pub(crate) fn count_in(&self, budget: &Arc<Budget>) {
        self.disk.index_memory.count_in(budget);
    }

    /// Bytes of memory that the indexes of open entries take.
    #[must_use]
    pub fn index_bytes(&self) -> u64 {
        self.disk.index_memory.used()
    }

    /// Counts since the mount.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        self.disk.counters.stats()
    }

    /// Bytes that all entries occupy, as far as is known, and those that this mount has evicted.
    #[must_use]
    pub fn room_bytes(&self) -> (u64, u64) {
        let stats = self.disk.room.stats();
        (stats.bytes, stats.evicted_bytes)
    }

    /// Empties it, if it is not to outlive the mount. Blocks.
    pub fn close(&self) {
        if !self.clear_at_exit {
            return;
        }
        let storage = &self.disk.storage;
        for shard in 0..=u8::MAX {
            let removed = storage.list(shard).and_then(|entries| {
                let mut entries = entries.into_iter();
                entries.try_for_each(|entry| storage.remove(entry.name))
            });
            if let Err(error) = removed {
                self.disk.counters.failed("be emptied", &error);
            }
        }
        if let Some(Err(error)) = self.listings.as_ref().map(|listings| listings.clear()) {
            self.disk.counters.failed("be emptied", &error);
        }
    }

    /// Waits until what was fetched is stored, for `time_max` at most. Blocks.
    pub fn drain(&self, time_max: Duration) {
        if !self.filler.drain(time_max) {
            tracing::warn!("the cache's disk is slow: the last bytes that were read are not kept");
        }
        if let Some(listings) = &self.listings {
            listings.drain(time_max);
        }
    }
}

impl CachedObject {
    /// Whether to ask the disk for `range`.
    pub(crate) fn may_have(&self, range: &Range<u64>) -> bool {
        self.entry.place(range) != Place::Elsewhere && !self.cache.readers.is_stuck()
    }

    /// Whether all bytes of `range` are on the disk.
    pub(crate) fn has(&self, range: &Range<u64>) -> bool {
        self.entry.place(range) == Place::Disk
    }

    /// Divides `range` where bytes that are on the disk meet bytes that are not, if that gives few
    /// ranges.
    pub(crate) fn divide(&self, range: &Range<u64>) -> Option<Vec<Range<u64>>> {
        self.entry.divide(range, PARTS_MAX)
    }

    /// Fills `fill`, which is for `range`, if that needs no wait. Returns whether it is full.
    pub(crate) fn read_at_once(&self, range: &Range<u64>, fill: &mut BlockFill) -> bool {
        self.entry.read_at_once(range, fill)
    }

    /// Fills `fill`, which is for `range`, from the disk on another thread. Calls `progressed` when
    /// more bytes are valid, and `done` at the end with `fill`, and with whether it is full.
    pub(crate) fn read(
        &self,
        range: Range<u64>,
        mut fill: BlockFill,
        progressed: impl Fn() + Send + 'static,
        done: impl FnOnce(BlockFill, bool) + Send + 'static,
    ) {
        let entry = Arc::clone(&self.entry);
        self.cache.readers.run(move || {
            let is_full = entry.read(&range, &mut fill, &progressed);
            done(fill, is_full);
        });
    }

    /// Stores the bytes of `range`, which are `slices`, in the background, if there is time.
    pub(crate) fn store(&self, range: &Range<u64>, slices: Slices) {
        let (cache, len) = (&self.cache, range.end - range.start);
        let before = cache.fill_bytes.fetch_add(len, Ordering::AcqRel);
        if before > 0 && before + len > cache.fill_bytes_max {
            cache.fill_bytes.fetch_sub(len, Ordering::AcqRel);
            cache.disk.counters.dropped();
            return;
        }
        let (entry, range) = (Arc::clone(&self.entry), range.clone());
        let fill_bytes = Arc::clone(&cache.fill_bytes);
        cache.filler.run(move || {
            shielded("storing in the cache", || {
                entry.store(&range, &slices);
                drop((entry, slices));
            });
            fill_bytes.fetch_sub(len, Ordering::AcqRel);
        });
    }

    /// Waits until it is known what the disk has; not for long, if the disk does not answer.
    pub(crate) async fn when_loaded(&self) {
        waits(WaitCause::Disk, self.entry.when_loaded(), |_| ()).await;
    }
}

impl LocalFiles for Cache {
    /// The file of an entry that is open, if all bytes are there and were compared since the
    /// machine's boot. If they are there and were not, that is done in the background now.
    fn whole(&self, key: &Key, etag: &ETag, size: u64) -> Option<Arc<File>> {
        let entry = self.entries.find(self.version(key, etag, size).name())?;
        let file = entry.whole_file();
        if file.is_none() && entry.needs_comparing() && entry.begin_comparing() {
            self.comparer.run(move || entry.compare_all());
        }
        file
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("disk", &self.disk)
            .field("stats", &self.stats())
            .field("room", &self.disk.room.stats())
            .finish_non_exhaustive()
    }
}

/// Threads that read the disk. An NVMe disk needs a queue of that depth for its full number of
/// small reads; they sleep otherwise.
const READ_THREADS: usize = 16;

/// Time for reading an index, after which an open goes on without it.
const LOAD_MAX: Duration = Duration::from_millis(500);

/// How often the watch sees whether the cache still lives.
const IDLE_LOOK: Duration = Duration::from_secs(10);

/// Most ranges that one planned GET is divided into: with more, its bytes are fetched again.
const PARTS_MAX: usize = 4;
