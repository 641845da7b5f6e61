//! Keeps listings on the disk, and tells how old they are.
//!
//! Two threads read listings, one stores them, and one writes marks, so that no mark waits behind
//! a listing. A listing counts if it is whole, of this store and directory, younger than the names
//! of the mount may be, and asked for after the last mark of its directory and of those above.
//!
//! The marks of a change are queued when it begins and when it ends; [`ListingStore::settled`]
//! waits for them before the change is acknowledged.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::{Either, select};
use tokio::sync::Notify;

use super::super::disk::Disk;
use super::super::identity::StoreId;
use super::folder::{LISTING_SLOTS, ListingFolder, SlotContent};
use super::format::{DirectoryHash, ListingFile, NoListing, SavedName};
use super::marks::{ChangeMarks, MARK_SLOTS};
use super::shared_time::SharedTime;
use crate::disk_threads::DiskThreads;
use crate::local_disk::Folder;
use crate::metrics::trace::{WaitCause, waits};
use crate::sync::{Counted, Mutex};

/// Listings in a cache.
pub(crate) struct ListingStore {
    store: StoreId,
    disk: Arc<Disk>,
    pub(super) folder: ListingFolder,
    marks: ChangeMarks,
    readers: DiskThreads,
    writer: DiskThreads,
    /// One thread: marks are done in the order in which they were queued.
    marker: DiskThreads,
    /// Until when each slot of the marks is marked on the disk, in milliseconds of uptime.
    marked_ms: Box<[AtomicU64]>,
    /// The directory whose change was marked last, and until when. A leaf.
    last_marked: Mutex<(String, u64)>,
    /// Whether each slot has a listing; all until they were counted.
    present: Box<[AtomicBool]>,
    /// Names that wait to be stored.
    waiting: AtomicUsize,
    /// Listings that are being read.
    loading: AtomicUsize,
    /// Listings are read that come too late.
    are_late: Notify,
    pub(super) pending: PendingMarks,
    /// Whether a mark could not be written: from then on nothing is kept or used.
    is_given_up: AtomicBool,
}

/// Marks that are not on the disk yet.
#[derive(Debug, Default)]
pub(super) struct PendingMarks {
    pub(super) queued: AtomicU64,
    done: AtomicU64,
    /// More are queued, or done.
    has_changed: Notify,
}

/// A listing that was kept.
#[derive(Debug)]
pub(crate) struct SavedListing {
    /// All names of the directory.
    pub(crate) names: Vec<SavedName>,
    /// Time since the first of its requests was sent, or a little more.
    pub(crate) age: Duration,
}

impl PendingMarks {
    fn is_any(&self) -> bool {
        self.done.load(Ordering::Acquire) < self.queued.load(Ordering::Acquire)
    }
}

impl ListingStore {
    /// The listings in `folder` of the objects of `store`, in the boot that `boot` names.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(in crate::cache) fn start(
        folder: Folder,
        store: StoreId,
        boot: &str,
        disk: Arc<Disk>,
    ) -> io::Result<Arc<Self>> {
        let folder = Arc::new(folder);
        let clock = &disk.clock;
        let this = Arc::new(Self {
            store,
            folder: ListingFolder::new(Arc::clone(&folder)),
            marks: ChangeMarks::new(folder, boot, clock.clone()),
            readers: DiskThreads::start("cache-names", READ_THREADS, clock)?,
            writer: DiskThreads::start("cache-listings", 1, clock)?,
            marker: DiskThreads::start("cache-marks", 1, clock)?,
            marked_ms: (0..MARK_SLOTS).map(|_| AtomicU64::new(0)).collect(),
            last_marked: Mutex::default(),
            present: (0..LISTING_SLOTS).map(|_| AtomicBool::new(true)).collect(),
            waiting: AtomicUsize::new(0),
            loading: AtomicUsize::new(0),
            are_late: Notify::new(),
            pending: PendingMarks::default(),
            is_given_up: AtomicBool::new(false),
            disk,
        });
        // Listings from before the marks do not count: they are made before the first one.
        if let Err(error) = this.marks.generation() {
            this.give_up("open the marks of changes", &error);
        }
        let counting = Arc::clone(&this);
        this.writer.run(move || counting.count());
        Ok(this)
    }

    /// Whether a listing of the directory `prefix` may be there. Any thread may ask.
    pub(crate) fn may_have(&self, prefix: &str) -> bool {
        let slot = self.listing_slot(prefix);
        let is_present = self.present[usize::from(slot)].load(Ordering::Relaxed);
        is_present && self.is_in_use() && !self.readers.is_stuck()
    }

    /// The listing of the directory `prefix`, if it is younger than `age_max`, and the disk answers
    /// in time.
    pub(crate) async fn load(
        self: Arc<Self>,
        prefix: Arc<str>,
        age_max: Duration,
    ) -> Option<SavedListing> {
        let this = Arc::clone(&self);
        let read = move || match this.read(&prefix, age_max) {
            Ok(listing) => listing,
            Err(error) => {
                this.disk.counters.failed("read a listing", &error);
                None
            }
        };
        let _counted = Counted::new(&self.loading);
        let late = pin!(self.are_late.notified());
        self.pending.has_changed.notify_waiters();
        let answer = pin!(self.readers.answer(read));
        match waits(WaitCause::Disk, select(answer, late), |_| ()).await {
            Either::Left((listing, _)) => listing.flatten(),
            Either::Right(_) => None,
        }
    }

    fn read(&self, prefix: &str, age_max: Duration) -> io::Result<Option<SavedListing>> {
        let slot = self.listing_slot(prefix);
        let listing = match self.folder.read(slot)? {
            SlotContent::Listing(listing) => listing,
            SlotContent::Nothing => {
                self.note_present(slot, false);
                return Ok(None);
            }
            SlotContent::Unusable(NoListing::Foreign) => return Ok(None),
            SlotContent::Unusable(NoListing::Damaged) => {
                self.disk
                    .counters
                    .found_damage(prefix, "the listing of this directory is damaged");
                self.folder.remove(slot)?;
                return Ok(None);
            }
        };
        if listing.directory != self.hash(prefix, NAMES) {
            return Ok(None);
        }
        let marked_until = self
            .marks
            .latest(listing.generation, &self.slots_for(prefix))?;
        let age = listing.asked.age(SharedTime::now(&self.disk.clock));
        let (Some(marked_until), Some(age)) = (marked_until, age) else {
            return Ok(None);
        };
        let is_used = age < age_max && listing.asked.uptime > marked_until && self.is_in_use();
        let names = listing.names;
        Ok(is_used.then(|| {
            self.disk.counters.count(|stats| stats.listings_used += 1);
            SavedListing { names, age }
        }))
    }

    /// Stores the `count` names of the directory `prefix` in the background, which were asked for
    /// `age` ago, if there is time.
    pub(crate) fn store(
        self: &Arc<Self>,
        prefix: Arc<str>,
        (count, names): (usize, impl FnOnce() -> Vec<SavedName> + Send + 'static),
        age: Duration,
    ) {
        let asked = SharedTime::ago(&self.disk.clock, age);
        let slots = self.slots_for(&prefix);
        let is_marked = |slot: &u16| {
            let until = self.marked_ms[usize::from(*slot)].load(Ordering::Relaxed);
            asked.uptime <= Duration::from_millis(until)
        };
        let is_full = self.waiting.load(Ordering::Relaxed) > WAITING_NAMES_MAX;
        if slots.iter().any(is_marked) || is_full || !self.is_in_use() || self.writer.is_stuck() {
            return;
        }
        // A directory without names has a file, too.
        let weight = count + 1;
        self.waiting.fetch_add(weight, Ordering::Relaxed);
        let this = Arc::clone(self);
        self.writer.run(move || {
            if let Err(error) = this.write(&prefix, names(), asked) {
                this.disk.counters.failed("keep a listing", &error);
            }
            this.waiting.fetch_sub(weight, Ordering::Relaxed);
        });
    }

    fn write(&self, prefix: &str, names: Vec<SavedName>, asked: SharedTime) -> io::Result<()> {
        let listing = ListingFile {
            generation: self.marks.generation()?,
            directory: self.hash(prefix, NAMES),
            asked,
            names,
        };
        let bytes = listing.encode();
        let room = &self.disk.room;
        let Some(bytes) = bytes.filter(|bytes| room.admits(bytes.len() as u64)) else {
            self.disk.counters.dropped();
            return Ok(());
        };
        let slot = self.listing_slot(prefix);
        let is_too_much = self.folder.write(slot, &bytes)?;
        self.note_present(slot, true);
        self.disk.counters.count(|stats| stats.listings_stored += 1);
        if is_too_much {
            self.folder.count()?;
        }
        Ok(())
    }

    /// The key `key` is about to change, or has changed. With a slash at its end, so did all keys
    /// below it. The marks are written in the background.
    pub(crate) fn changed(self: &Arc<Self>, key: &str) {
        if !self.is_in_use() {
            return;
        }
        let now = millis(self.disk.clock.uptime());
        let directory = parent(key);
        if let (last, until) = &*self.last_marked.lock()
            && last == directory
            && *until > now
            && !key.ends_with('/')
        {
            return;
        }
        let is_unmarked =
            |slot: &u16| self.marked_ms[usize::from(*slot)].load(Ordering::Relaxed) <= now;
        let slots = self.slots_of(key).into_iter();
        let slots: Vec<u16> = slots.filter(is_unmarked).collect();
        if slots.is_empty() {
            return;
        }
        let directory = directory.to_owned();
        self.pending.queued.fetch_add(1, Ordering::AcqRel);
        self.pending.has_changed.notify_waiters();
        let this = Arc::clone(self);
        self.marker.run(move || {
            if let Some(until) = this.mark(&slots) {
                *this.last_marked.lock() = (directory, until);
            }
            this.pending.done.fetch_add(1, Ordering::AcqRel);
            this.pending.has_changed.notify_waiters();
        });
    }

    /// Marks the slots, and returns until when.
    fn mark(&self, slots: &[u16]) -> Option<u64> {
        match self.marks.mark(slots) {
            Ok(until) => {
                let until = millis(until);
                for slot in slots {
                    self.marked_ms[usize::from(*slot)].fetch_max(until, Ordering::Relaxed);
                }
                Some(until)
            }
            Err(error) => {
                self.give_up("mark a change", &error);
                // Without the marks no listing counts, for no mount.
                if let Err(error) = self.marks.remove() {
                    self.disk
                        .counters
                        .failed("remove the marks of changes", &error);
                }
                None
            }
        }
    }

    /// Waits until all marks are on the disk that were queued before, or the disk is given up.
    pub(crate) async fn settled(&self) {
        let queued = self.pending.queued.load(Ordering::Acquire);
        loop {
            let mut changed = pin!(self.pending.has_changed.notified());
            changed.as_mut().enable();
            if self.pending.done.load(Ordering::Acquire) >= queued || !self.is_in_use() {
                return;
            }
            changed.await;
        }
    }

    fn give_up(&self, what: &str, error: &io::Error) {
        self.disk.counters.failed(what, error);
        self.is_given_up.store(true, Ordering::Release);
        self.pending.has_changed.notify_waiters();
    }

    /// Gives up what the disk does not do in time, for as long as the store lives. A task of a
    /// tokio runtime.
    pub(in crate::cache) fn watch(self: &Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        let store = Arc::downgrade(self);
        async move {
            while let Some(this) = store.upgrade() {
                let mut changed = pin!(this.pending.has_changed.notified());
                changed.as_mut().enable();
                let is_marking = this.pending.is_any() && this.is_in_use();
                if is_marking && this.marker.is_stuck() {
                    let error = io::Error::from(io::ErrorKind::TimedOut);
                    this.give_up("mark a change", &error);
                }
                let is_loading = this.loading.load(Ordering::Acquire) > 0;
                if is_loading && this.readers.is_stuck() {
                    this.are_late.notify_waiters();
                }
                if is_marking || is_loading {
                    tokio::time::sleep(STUCK_LOOK).await;
                } else {
                    // However the wait ends, it is time to look again.
                    drop(tokio::time::timeout(IDLE_LOOK, changed).await);
                }
            }
        }
    }

    /// Removes all listings. Blocks.
    pub(in crate::cache) fn clear(&self) -> io::Result<()> {
        self.folder.clear()
    }

    /// Waits until what was queued is stored, or the disk is stuck. Blocks.
    pub(in crate::cache) fn drain(&self, time_max: Duration) {
        if !self.writer.drain(time_max) {
            tracing::debug!("the last listings are not kept");
        }
    }

    fn count(&self) {
        match self.folder.count() {
            Ok(slots) => {
                for slot in 0..LISTING_SLOTS {
                    self.note_present(slot, slots.contains(&slot));
                }
            }
            Err(error) => self.disk.counters.failed("count its listings", &error),
        }
    }

    fn note_present(&self, slot: u16, is_there: bool) {
        self.present[usize::from(slot)].store(is_there, Ordering::Relaxed);
    }

    fn is_in_use(&self) -> bool {
        !self.is_given_up.load(Ordering::Acquire)
    }

    fn hash(&self, prefix: &str, purpose: &str) -> DirectoryHash {
        DirectoryHash::of(&self.store, prefix, purpose)
    }

    fn listing_slot(&self, prefix: &str) -> u16 {
        self.hash(prefix, NAMES).slot(LISTING_SLOTS)
    }

    /// The slots that a change of `key` marks: the names of all directories above, and all that is
    /// below it, if it is a directory.
    fn slots_of(&self, key: &str) -> BTreeSet<u16> {
        let above = directories(parent(key));
        let names = above.map(|prefix| self.hash(prefix, NAMES));
        let below = key.ends_with('/').then(|| self.hash(key, BELOW));
        let slots = names.chain(below).map(|hash| hash.slot(MARK_SLOTS));
        slots.collect()
    }

    /// The slots whose marks count for a listing of the directory `prefix`.
    pub(super) fn slots_for(&self, prefix: &str) -> Vec<u16> {
        let below = directories(prefix).map(|above| self.hash(above, BELOW));
        let hashes = std::iter::once(self.hash(prefix, NAMES)).chain(below);
        hashes.map(|hash| hash.slot(MARK_SLOTS)).collect()
    }
}

/// The prefix of the directory that `key` is in.
fn parent(key: &str) -> &str {
    let name_at = key.strip_suffix('/').unwrap_or(key).rfind('/');
    &key[..name_at.map_or(0, |at| at + 1)]
}

/// The directory `prefix` and all above it, from the bucket's root on.
fn directories(prefix: &str) -> impl Iterator<Item = &str> {
    let ends = prefix.match_indices('/').map(|(at, _)| at + 1);
    std::iter::once(0).chain(ends).map(|end| &prefix[..end])
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Debug for ListingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListingStore")
            .field("folder", &self.folder)
            .field("is_in_use", &self.is_in_use())
            .finish_non_exhaustive()
    }
}

/// Threads that read listings: a walk needs one after the other.
const READ_THREADS: usize = 2;

/// Names that may wait to be stored: 6 MB, as the listings that look-ups are answered from.
const WAITING_NAMES_MAX: usize = 32_000;

/// How often it is looked whether a disk with marks in the queue answers.
const STUCK_LOOK: Duration = Duration::from_millis(250);

/// How often the watch sees whether the store still lives.
const IDLE_LOOK: Duration = Duration::from_secs(10);

/// The purpose of a hash: the names in a directory.
const NAMES: &str = "names";

/// The purpose of a hash: all keys below a directory.
const BELOW: &str = "below";
