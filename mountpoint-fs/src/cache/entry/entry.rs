//! An entry of the cache that is open.
//!
//! Nothing on the disk is trusted: bytes count when they have the checksum that the index has for
//! them, and the index counts record by record. A damaged entry is removed, and the caller asks S3.
//! Several processes may use one entry at once: bytes of a version never change, so all that write
//! them write the same.
//!
//! `state` is a leaf, held for look-ups only; `storing` is held while bytes are written.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mountpoint_crt_sys::block::BlockFill;
use tokio::sync::Notify;

use super::files::{self, EntryCheck, LoadedEntry};
use super::reading::{Miss, compare_bytes, compare_length, read_cached, read_extents};
use super::state::{Contents, EntryFiles, EntryState, Place};
use super::writing::write_missing;
use crate::cache::disk::Disk;
use crate::cache::identity::CachedVersion;
use crate::cache::index::{EXTENT_MEMORY_MAX, Record, by_chunk, records_max};
use crate::cache::storage::EntryName;
use crate::operation::Slices;
use crate::sync::Mutex;

/// One version in the cache, for as long as it is open.
#[derive(Debug)]
pub(in crate::cache) struct Entry {
    version: CachedVersion,
    name: EntryName,
    disk: Arc<Disk>,
    state: Mutex<EntryState>,
    /// Told when the index was read.
    loaded: Notify,
    /// Held while the index is read.
    loading: Mutex<()>,
    /// Held while bytes are stored.
    storing: Mutex<()>,
    /// Whether all bytes are being compared, or were.
    is_compared: AtomicBool,
}

/// The outcome for bytes that were to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) enum StoreOutcome {
    /// Bytes are on the disk.
    Stored,
    /// There is no room for them now.
    NoRoom,
    /// Another process is making the files.
    BeingMade,
    /// There is no memory for the index.
    NoMemory,
}

impl Entry {
    pub(in crate::cache) fn new(version: CachedVersion, name: EntryName, disk: Arc<Disk>) -> Self {
        Self {
            version,
            name,
            disk,
            state: Mutex::new(EntryState::Unread),
            loaded: Notify::new(),
            loading: Mutex::new(()),
            storing: Mutex::new(()),
            is_compared: AtomicBool::new(false),
        }
    }

    /// Where the bytes of `range` are.
    pub(in crate::cache) fn place(&self, range: &Range<u64>) -> Place {
        self.state.lock().place(range)
    }

    /// Divides `range` into ranges that are on the disk and ranges that are not, if there are both
    /// and at most `parts_max` altogether.
    pub(in crate::cache) fn divide(
        &self,
        range: &Range<u64>,
        parts_max: usize,
    ) -> Option<Vec<Range<u64>>> {
        self.state.lock().divide(range, parts_max)
    }

    /// The name of its files.
    pub(in crate::cache) fn name(&self) -> EntryName {
        self.name
    }

    /// The ranges that are to be stored before all bytes are there, in order; all bytes, as long as
    /// the index was not read.
    pub(in crate::cache) fn missing(&self) -> Vec<Range<u64>> {
        let whole = 0..self.version.size;
        match &*self.state.lock() {
            EntryState::Unread => vec![whole],
            EntryState::Read(contents) => contents.extents.to_store(&whole),
        }
    }

    /// Waits until the index was read.
    pub(in crate::cache) async fn when_loaded(&self) {
        loop {
            let loaded = self.loaded.notified();
            if !matches!(&*self.state.lock(), EntryState::Unread) {
                return;
            }
            loaded.await;
        }
    }

    /// Goes on without the index, because the disk does not answer: nothing is there.
    pub(in crate::cache) fn give_up_loading(&self) {
        {
            let state = &mut *self.state.lock();
            if matches!(state, EntryState::Unread) {
                *state = EntryState::Read(self.nothing());
            }
        }
        self.loaded.notify_waiters();
    }

    /// Reads the index, unless that was done. Blocks.
    pub(in crate::cache) fn load(&self) {
        let _loading = self.loading.lock();
        if !matches!(&*self.state.lock(), EntryState::Unread) {
            return;
        }
        let contents = match files::load(
            &self.disk.storage,
            self.name,
            &self.version,
            &self.disk.clock,
            &self.disk.index_memory,
        ) {
            Ok(EntryCheck::Right(loaded)) => self.contents(loaded),
            Ok(EntryCheck::Absent) => self.nothing(),
            Ok(EntryCheck::Damaged(what)) => {
                self.disk
                    .counters
                    .found_damage(self.version.key.as_str(), what);
                self.remove_files();
                self.nothing()
            }
            Err(error) => {
                self.disk.counters.failed("open an entry", &error);
                self.nothing()
            }
        };
        {
            let state = &mut *self.state.lock();
            if matches!(state, EntryState::Unread) {
                *state = EntryState::Read(contents);
            }
        }
        self.loaded.notify_waiters();
    }

    fn contents(&self, loaded: LoadedEntry) -> Contents {
        if let Err(error) = loaded.files.data.touch() {
            self.disk
                .counters
                .failed("note the use of an entry", &error);
        }
        loaded.contents
    }

    fn nothing(&self) -> Contents {
        Contents::nothing(self.version.size, &self.disk.index_memory)
    }

    /// Fills `fill`, which is for `range`, with bytes from the disk, and calls `progressed` when
    /// more of them are valid. Returns whether it is full; what is valid is right in any case.
    /// Blocks.
    pub(in crate::cache) fn read(
        &self,
        range: &Range<u64>,
        fill: &mut BlockFill,
        progressed: &dyn Fn(),
    ) -> bool {
        self.load();
        let counters = &self.disk.counters;
        match self.try_read(range, fill, progressed) {
            Ok(()) => {
                counters.hit(range);
                return true;
            }
            Err(Miss::Absent) => (),
            Err(Miss::Damaged(what)) => self.discard(what),
            Err(Miss::Failed(error)) => {
                counters.failed("read an entry", &error);
                self.discard("it cannot be read");
            }
        }
        counters.count(|stats| stats.misses += 1);
        false
    }

    /// Fills `fill`, which is for `range`, if few bytes are wanted and the page cache has them.
    /// Returns whether it is full. Does not block.
    pub(in crate::cache) fn read_at_once(&self, range: &Range<u64>, fill: &mut BlockFill) -> bool {
        if range.end - range.start > AT_ONCE_MAX {
            return false;
        }
        let (extents, data) = {
            let state = self.state.lock();
            let EntryState::Read(Contents {
                extents,
                files: Some(files),
                ..
            }) = &*state
            else {
                return false;
            };
            let Some(extents) = extents.of(range) else {
                return false;
            };
            (extents, Arc::clone(&files.data))
        };
        if !read_cached(&*data, &extents, range, fill) {
            return false;
        }
        self.disk.counters.hit(range);
        true
    }

    fn try_read(
        &self,
        range: &Range<u64>,
        fill: &mut BlockFill,
        progressed: &dyn Fn(),
    ) -> Result<(), Miss> {
        let missing = range.start + fill.filled() as u64..range.end;
        let (extents, data) = {
            let state = self.state.lock();
            let EntryState::Read(contents) = &*state else {
                return Err(Miss::Absent);
            };
            let files = contents.files.as_ref().ok_or(Miss::Absent)?;
            let extents = contents.extents.of(&missing).ok_or(Miss::Absent)?;
            (extents, Arc::clone(&files.data))
        };
        let missing = (missing.start, missing.end);
        read_extents(&*data, &extents, missing, fill, progressed)
    }

    /// The bytes or the index are wrong: the entry goes, and what is open of it is not used any
    /// more.
    fn discard(&self, what: &'static str) {
        self.disk
            .counters
            .found_damage(self.version.key.as_str(), what);
        self.remove_files();
        self.replace(self.nothing());
    }

    /// Gives back the memory of what was there before without a lock.
    fn replace(&self, contents: Contents) {
        let before = std::mem::replace(&mut *self.state.lock(), EntryState::Read(contents));
        drop(before);
    }

    fn remove_files(&self) {
        if let Err(error) = self.disk.storage.remove(self.name) {
            self.disk.counters.failed("remove an entry", &error);
        }
    }

    /// Stores the bytes of `range`, which are `slices`, or drops them. Blocks.
    pub(in crate::cache) fn store(&self, range: &Range<u64>, slices: &Slices) {
        let outcome = self.store_or_tell(range, slices);
        let counters = &self.disk.counters;
        if !matches!(outcome, Ok(StoreOutcome::Stored)) {
            counters.dropped();
        }
        match outcome {
            Ok(StoreOutcome::NoRoom) if self.disk.room.stats().entries == 0 => {
                counters.found_no_room();
            }
            Ok(_) => {}
            Err(error) => counters.failed("store bytes", &error),
        }
    }

    /// Stores the bytes of `range`, which are `slices`, or tells why not. Blocks.
    pub(in crate::cache) fn store_or_tell(
        &self,
        range: &Range<u64>,
        slices: &Slices,
    ) -> io::Result<StoreOutcome> {
        self.load();
        let _storing = self.storing.lock();
        self.try_store(range, slices)
    }

    fn try_store(&self, range: &Range<u64>, slices: &Slices) -> io::Result<StoreOutcome> {
        self.forget_removed()?;
        let missing = {
            let state = self.state.lock();
            let EntryState::Read(contents) = &*state else {
                return Ok(StoreOutcome::Stored);
            };
            let parts = contents.extents.to_store(range).into_iter();
            let pieces = parts.flat_map(|part| by_chunk(&part));
            let placed = pieces.filter_map(|piece| contents.extents.place(piece));
            placed.collect::<Vec<_>>()
        };
        let bytes = missing
            .iter()
            .map(|placed| placed.piece.end - placed.piece.start)
            .sum();
        if bytes == 0 {
            return Ok(StoreOutcome::Stored);
        }
        if !self.disk.room.admits(bytes) {
            return Ok(StoreOutcome::NoRoom);
        }
        let Some(files) = self.files_to_store_in()? else {
            return Ok(StoreOutcome::BeingMade);
        };
        if self.has_cut_index() {
            return Ok(StoreOutcome::NoMemory);
        }
        if self.has_long_index(missing.len()) {
            self.discard("its index has grown too long");
            return Ok(StoreOutcome::Stored);
        }
        let index_bytes = missing.len() as u64 * EXTENT_MEMORY_MAX;
        let Some(memory) = self.disk.index_memory.take(index_bytes) else {
            return Ok(StoreOutcome::NoMemory);
        };
        let added = match write_missing(&*files.data, &missing, range, slices) {
            Ok(added) => added,
            Err(Miss::Failed(error)) => return Err(error),
            Err(Miss::Damaged(what)) => {
                self.discard(what);
                return Ok(StoreOutcome::Stored);
            }
            Err(Miss::Absent) => return Ok(StoreOutcome::Stored),
        };
        self.append(&files, added.iter().copied().map(Record::Stored))?;
        self.disk.counters.count(|it| it.stored_bytes += bytes);
        let (is_verified, surplus) = {
            let state = &mut *self.state.lock();
            let EntryState::Read(contents) = state else {
                return Ok(StoreOutcome::Stored);
            };
            contents.records += added.len() as u64;
            let before = contents.extents.bytes();
            for extent in added {
                contents.extents.add(extent);
            }
            let gained = contents.extents.bytes().saturating_sub(before);
            contents.stored_here += gained;
            let index_bytes = contents.extents.memory();
            let surplus = contents.memory.resize(memory, index_bytes);
            let is_whole = contents.extents.is_whole();
            let is_verified = is_whole && contents.stored_here == self.version.size;
            (is_verified, surplus)
        };
        drop(surplus);
        if is_verified {
            self.note_verified(&files)?;
        }
        Ok(StoreOutcome::Stored)
    }

    /// Whether the index file has more records than there was memory for.
    fn has_cut_index(&self) -> bool {
        matches!(&*self.state.lock(), EntryState::Read(contents) if contents.is_cut)
    }

    /// Whether the index would have too many records with so many `more`.
    fn has_long_index(&self, more: usize) -> bool {
        match &*self.state.lock() {
            EntryState::Read(contents) => {
                contents.records + more as u64 > records_max(self.version.size)
            }
            EntryState::Unread => false,
        }
    }

    /// Appends records. After an error the index may be torn, so the entry goes.
    fn append(&self, files: &EntryFiles, records: impl Iterator<Item = Record>) -> io::Result<()> {
        let bytes: Vec<u8> = records
            .flat_map(|record| record.encode(files.salt))
            .collect();
        let appended = files.index.append(&bytes);
        if appended.is_err() {
            self.remove_files();
            self.replace(self.nothing());
        }
        appended
    }

    /// The files, made where there are none; `None` if another process makes them just now.
    fn files_to_store_in(&self) -> io::Result<Option<EntryFiles>> {
        if let EntryState::Read(contents) = &*self.state.lock()
            && let Some(files) = &contents.files
        {
            return Ok(Some(files.clone()));
        }
        let (storage, name, memory) = (&self.disk.storage, self.name, &self.disk.index_memory);
        if let Some(files) = files::create(storage, name, &self.version)? {
            self.disk.room.added_entry();
            if let EntryState::Read(contents) = &mut *self.state.lock() {
                contents.files = Some(files.clone());
            }
            return Ok(Some(files));
        }
        // Another process was faster: what it stores is of use here.
        match files::load(storage, name, &self.version, &self.disk.clock, memory)? {
            EntryCheck::Right(loaded) => {
                let files = loaded.files.clone();
                self.replace(self.contents(loaded));
                Ok(Some(files))
            }
            EntryCheck::Absent => Ok(None),
            EntryCheck::Damaged(what) => {
                self.discard(what);
                Ok(None)
            }
        }
    }

    /// The open files of an evicted entry have lost their names: nothing is added to
    /// it.
    fn forget_removed(&self) -> io::Result<()> {
        let files = match &*self.state.lock() {
            EntryState::Read(Contents {
                files: Some(files), ..
            }) => files.clone(),
            _ => return Ok(()),
        };
        if !files.index.status()?.is_linked || !files.data.status()?.is_linked {
            self.replace(self.nothing());
        }
        Ok(())
    }

    /// The data file, if all bytes are there and were compared since boot. It is not written any
    /// more.
    pub(in crate::cache) fn whole_file(&self) -> Option<Arc<File>> {
        let (files, verified) = self.whole()?;
        let status = files.data.status().ok()?;
        let is_right = status.len == self.version.size && verified == Some(self.disk.mark(&status));
        is_right.then(|| files.data.file()).flatten()
    }

    /// Whether all bytes are there, and were not compared since boot.
    pub(in crate::cache) fn needs_comparing(&self) -> bool {
        self.whole().is_some_and(|(files, verified)| {
            self.mark(&files).is_ok_and(|mark| verified != Some(mark))
        })
    }

    /// Whether the caller is the first to ask for a comparison since the entry was opened.
    pub(in crate::cache) fn begin_comparing(&self) -> bool {
        !self.is_compared.swap(true, Ordering::Relaxed)
    }

    fn whole(&self) -> Option<(EntryFiles, Option<u64>)> {
        self.state.lock().whole()
    }

    /// Compares all bytes with their checksums, if all are there; a damaged entry goes. Blocks for
    /// as long as the disk takes to read it.
    pub(in crate::cache) fn compare_all(&self) {
        self.load();
        let Some((files, _)) = self.whole() else {
            return;
        };
        match self.compare_extents(&files) {
            Ok(()) => {
                if let Err(error) = self.note_verified(&files) {
                    self.disk.counters.failed("note a comparison", &error);
                }
            }
            Err(Miss::Absent) => (),
            Err(Miss::Damaged(what)) => self.discard(what),
            Err(Miss::Failed(error)) => {
                self.disk.counters.failed("read an entry", &error);
                self.discard("it cannot be read");
            }
        }
    }

    fn compare_extents(&self, files: &EntryFiles) -> Result<(), Miss> {
        let size = self.version.size;
        compare_length(&*files.data, size)?;
        for start in (0..size).step_by(COMPARED_AT_ONCE) {
            let range = start..size.min(start + COMPARED_AT_ONCE as u64);
            let extents = match &*self.state.lock() {
                EntryState::Read(contents) => contents.extents.of(&range).ok_or(Miss::Absent)?,
                EntryState::Unread => return Err(Miss::Absent),
            };
            compare_bytes(&*files.data, &extents)?;
        }
        Ok(())
    }

    fn note_verified(&self, files: &EntryFiles) -> io::Result<()> {
        let mark = self.mark(files)?;
        self.append(files, std::iter::once(Record::Verified(mark)))?;
        if let EntryState::Read(contents) = &mut *self.state.lock() {
            contents.verified = Some(mark);
        }
        Ok(())
    }

    /// Names the boot and the state of the data file: another one after each change of its bytes.
    fn mark(&self, files: &EntryFiles) -> io::Result<u64> {
        let status = files.data.status()?;
        Ok(self.disk.mark(&status))
    }
}

/// Most bytes that are read by the thread that asks: a copy that takes less than the hop to another
/// thread and back.
const AT_ONCE_MAX: u64 = 128 << 10;

/// Bytes of the object whose extents are listed together for a comparison: 64 KiB of memory, if all
/// of them are whole chunks.
const COMPARED_AT_ONCE: usize = 256 << 20;
