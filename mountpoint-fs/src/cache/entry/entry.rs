//! An entry of the cache that is open.
//!
//! Nothing on the disk is trusted: bytes count when they have the checksum that the index has for
//! them, and the index counts record by record. A damaged entry is removed, and the caller asks S3.
//! Several processes may use one entry at once: bytes of a version never change, so whoever writes
//! them writes the same.
//!
//! `state` is a leaf, held for look-ups only; `storing` is held while bytes are written.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mountpoint_crt_sys::block::BlockFill;
use tokio::sync::Notify;

use super::files::{self, EntryFiles, LoadedEntry, Loading};
use crate::cache::disk::Disk;
use crate::cache::identity::CachedVersion;
use crate::cache::index::{Extent, Extents, Record, by_chunk, checksum};
use crate::cache::statistics::add;
use crate::cache::storage::{EntryName, StoredFile};
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

#[derive(Debug)]
enum EntryState {
    /// The index was not read yet.
    Unread,
    /// The index was read.
    Read(Contents),
}

#[derive(Debug)]
struct Contents {
    extents: Extents,
    /// `None` while there are no files.
    files: Option<EntryFiles>,
    /// The mark of boot and data file for which all bytes were compared.
    verified: Option<u64>,
    /// Bytes that this process has stored: it knows them to be right.
    stored_here: u64,
}

/// Where the bytes of a range are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) enum Place {
    /// All are on the disk.
    Disk,
    /// Some are not on the disk.
    Elsewhere,
    /// The index was not read yet.
    Unknown,
}

/// What became of bytes that were to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) enum StoreOutcome {
    /// Bytes are on the disk.
    Stored,
    /// There is no room for them now.
    NoRoom,
    /// Another process is making the files.
    BeingMade,
}

/// Why bytes did not come from the disk.
#[derive(Debug)]
enum Miss {
    /// Bytes are missing.
    Absent,
    /// The entry is damaged.
    Damaged(&'static str),
    /// The disk failed.
    Failed(io::Error),
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
        match &*self.state.lock() {
            EntryState::Unread => Place::Unknown,
            EntryState::Read(contents) if contents.extents.covers(range) => Place::Disk,
            EntryState::Read(_) => Place::Elsewhere,
        }
    }

    /// Divides `range` into ranges that are on the disk and ranges that are not, if there are both
    /// and at most `parts_max` altogether.
    pub(in crate::cache) fn divide(
        &self,
        range: &Range<u64>,
        parts_max: usize,
    ) -> Option<Vec<Range<u64>>> {
        let state = self.state.lock();
        let EntryState::Read(Contents { extents, .. }) = &*state else {
            return None;
        };
        if extents.bytes() == 0 || extents.is_whole() {
            return None;
        }
        let parts = extents.divide(range);
        ((2..=parts_max).contains(&parts.len()))
            .then(|| parts.into_iter().map(|(part, _)| part).collect())
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
            &*self.disk.storage,
            self.name,
            &self.version,
            &self.disk.clock,
        ) {
            Ok(Loading::Loaded(loaded)) => self.contents(loaded),
            Ok(Loading::Absent) => self.nothing(),
            Ok(Loading::Damaged(what)) => {
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
        let LoadedEntry {
            files,
            extents,
            verified,
            ..
        } = loaded;
        if let Err(error) = files.data.touch() {
            self.disk
                .counters
                .failed("note the use of an entry", &error);
        }
        Contents {
            extents,
            files: Some(files),
            verified,
            stored_here: 0,
        }
    }

    fn nothing(&self) -> Contents {
        Contents {
            extents: Extents::new(self.version.size),
            files: None,
            verified: None,
            stored_here: 0,
        }
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
                add(&counters.hits, 1);
                add(&counters.hit_bytes, range.end - range.start);
                return true;
            }
            Err(Miss::Absent) => (),
            Err(Miss::Damaged(what)) => self.discard(what),
            Err(Miss::Failed(error)) => {
                counters.failed("read an entry", &error);
                self.discard("it cannot be read");
            }
        }
        add(&counters.misses, 1);
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
        let mut bytes = Vec::new();
        for extent in &extents {
            bytes.resize(extent.len as usize, 0);
            // A thread that may remove the entry finds the damage again.
            let is_read = data.read_at_once(&mut bytes, extent.start);
            if !is_read || compare(&bytes, extent).is_err() {
                return false;
            }
            let at = range.start + fill.filled() as u64;
            let end = extent.range().end.min(range.end);
            fill.append(&bytes[offset_in(extent, at)..offset_in(extent, end)]);
        }
        add(&self.disk.counters.hits, 1);
        add(&self.disk.counters.hit_bytes, range.end - range.start);
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
        let mut rest = &extents[..];
        let mut at = missing.start;
        while let Some(first) = rest.first() {
            let run = direct_run(rest, at, range.end);
            if run == 0 {
                // Only some bytes of it are wanted, but its checksum is of all.
                let mut bytes = vec![0; first.len as usize];
                read_exactly(&*data, &mut bytes, first.start)?;
                compare(&bytes, first)?;
                let end = first.range().end.min(range.end);
                fill.append(&bytes[offset_in(first, at)..offset_in(first, end)]);
                at = end;
                rest = &rest[1..];
            } else {
                let end = rest[run - 1].range().end;
                read_run(&*data, &rest[..run], fill)?;
                at = end;
                rest = &rest[run..];
            }
            progressed();
        }
        Ok(())
    }

    /// The bytes or the index are wrong: the entry goes, and what is open of it is not used any
    /// more.
    fn discard(&self, what: &'static str) {
        self.disk
            .counters
            .found_damage(self.version.key.as_str(), what);
        self.remove_files();
        *self.state.lock() = EntryState::Read(self.nothing());
    }

    fn remove_files(&self) {
        if let Err(error) = self.disk.storage.remove(self.name) {
            self.disk.counters.failed("remove an entry", &error);
        }
    }

    /// Stores the bytes of `range`, which are `slices`, or drops them. Blocks.
    pub(in crate::cache) fn store(&self, range: &Range<u64>, slices: &Slices) {
        match self.store_or_tell(range, slices) {
            Ok(StoreOutcome::Stored) => (),
            Ok(StoreOutcome::NoRoom) => {
                add(&self.disk.counters.dropped, 1);
                if self.disk.room.stats().entries == 0 {
                    self.disk.counters.found_no_room();
                }
            }
            Ok(StoreOutcome::BeingMade) => add(&self.disk.counters.dropped, 1),
            Err(error) => {
                add(&self.disk.counters.dropped, 1);
                self.disk.counters.failed("store bytes", &error);
            }
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
            contents.extents.to_store(range)
        };
        let bytes = missing.iter().map(|part| part.end - part.start).sum();
        if bytes == 0 {
            return Ok(StoreOutcome::Stored);
        }
        if !self.disk.room.admits(bytes) {
            return Ok(StoreOutcome::NoRoom);
        }
        let Some(files) = self.files_to_store_in()? else {
            return Ok(StoreOutcome::BeingMade);
        };
        let mut added = Vec::new();
        for part in &missing {
            for (at, bytes) in pieces(range, slices, part) {
                files.data.write_at(bytes, at)?;
            }
            added.extend(by_chunk(part).map(|chunk| Extent {
                start: chunk.start,
                len: u32::try_from(chunk.end - chunk.start).expect("a chunk is small"),
                crc: checksum(&joined(range, slices, &chunk)),
            }));
        }
        self.append(&files, added.iter().copied().map(Record::Stored))?;
        add(&self.disk.counters.stored_bytes, bytes);
        let is_verified = {
            let state = &mut *self.state.lock();
            let EntryState::Read(contents) = state else {
                return Ok(StoreOutcome::Stored);
            };
            let before = contents.extents.bytes();
            for extent in added {
                contents.extents.add(extent);
            }
            contents.stored_here += contents.extents.bytes() - before;
            contents.extents.is_whole() && contents.stored_here == self.version.size
        };
        if is_verified {
            self.note_verified(&files)?;
        }
        Ok(StoreOutcome::Stored)
    }

    /// Appends records. After an error the index may be torn, so the entry goes.
    fn append(&self, files: &EntryFiles, records: impl Iterator<Item = Record>) -> io::Result<()> {
        let bytes: Vec<u8> = records
            .flat_map(|record| record.encode(files.salt))
            .collect();
        let appended = files.index.append(&bytes);
        if appended.is_err() {
            self.remove_files();
            *self.state.lock() = EntryState::Read(self.nothing());
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
        let (storage, name) = (&*self.disk.storage, self.name);
        if let Some(files) = files::create(storage, name, &self.version)? {
            self.disk.room.added_entry();
            if let EntryState::Read(contents) = &mut *self.state.lock() {
                contents.files = Some(files.clone());
            }
            return Ok(Some(files));
        }
        // Another process was faster: what it stores is of use here.
        match files::load(storage, name, &self.version, &self.disk.clock)? {
            Loading::Loaded(loaded) => {
                let files = loaded.files.clone();
                *self.state.lock() = EntryState::Read(self.contents(loaded));
                Ok(Some(files))
            }
            Loading::Absent => Ok(None),
            Loading::Damaged(what) => {
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
            *self.state.lock() = EntryState::Read(self.nothing());
        }
        Ok(())
    }

    /// The data file, if all bytes are there and were compared since boot. It is not written any
    /// more.
    pub(in crate::cache) fn whole_file(&self) -> Option<Arc<File>> {
        let (files, verified) = self.whole()?;
        let mark = self.mark(&files).ok()?;
        (verified == Some(mark))
            .then(|| files.data.file())
            .flatten()
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
        match &*self.state.lock() {
            EntryState::Read(contents) if contents.extents.is_whole() => {
                Some((contents.files.clone()?, contents.verified))
            }
            _ => None,
        }
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
        let extents = match &*self.state.lock() {
            EntryState::Read(contents) => contents.extents.of(&(0..size)).ok_or(Miss::Absent)?,
            EntryState::Unread => return Err(Miss::Absent),
        };
        if files.data.status().map_err(Miss::Failed)?.len != size {
            return Err(Miss::Damaged("its data file has the wrong length"));
        }
        let mut bytes = Vec::new();
        for extent in extents {
            bytes.resize(extent.len as usize, 0);
            read_exactly(&*files.data, &mut bytes, extent.start)?;
            compare(&bytes, &extent)?;
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

/// How many of `extents` can be read straight into a block that lacks the bytes `at..end`.
fn direct_run(extents: &[Extent], at: u64, end: u64) -> usize {
    let mut at = at;
    let mut bytes = 0;
    let fits = extents.iter().take_while(|extent| {
        let range = extent.range();
        let fits = range.start == at && range.end <= end && bytes < READ_RUN;
        at = range.end;
        bytes += u64::from(extent.len);
        fits
    });
    fits.count()
}

/// Reads neighbouring extents into `fill`, and shows readers the bytes when all are compared.
fn read_run(data: &dyn StoredFile, extents: &[Extent], fill: &mut BlockFill) -> Result<(), Miss> {
    let start = fill.filled();
    let len = extents
        .iter()
        .map(|extent| extent.len as usize)
        .sum::<usize>();
    let offset = extents[0].start;
    fill.withhold();
    let outcome = (|| {
        if data.read_into(fill, offset, len).map_err(Miss::Failed)? < len {
            return Err(Miss::Damaged("its data file is too short"));
        }
        let mut at = start;
        for extent in extents {
            let end = at + extent.len as usize;
            compare(&fill.bytes()[at..end], extent)?;
            at = end;
        }
        Ok(())
    })();
    if outcome.is_err() {
        fill.discard();
    }
    fill.release();
    outcome
}

fn read_exactly(data: &dyn StoredFile, bytes: &mut [u8], offset: u64) -> Result<(), Miss> {
    if data.read_at(bytes, offset).map_err(Miss::Failed)? < bytes.len() {
        return Err(Miss::Damaged("its data file is too short"));
    }
    Ok(())
}

fn compare(bytes: &[u8], extent: &Extent) -> Result<(), Miss> {
    if checksum(bytes) == extent.crc {
        Ok(())
    } else {
        Err(Miss::Damaged("its bytes do not have their checksum"))
    }
}

fn offset_in(extent: &Extent, at: u64) -> usize {
    usize::try_from(at - extent.start).expect("an extent fits into memory")
}

/// The bytes of `part`, which lies in `range`, as they lie in the slices of `range`, each with its
/// offset in the object.
fn pieces<'a>(range: &Range<u64>, slices: &'a Slices, part: &Range<u64>) -> Vec<(u64, &'a [u8])> {
    let mut at = range.start;
    let mut pieces = Vec::new();
    for (block, bytes) in slices {
        let slice = at..at + bytes.len() as u64;
        at = slice.end;
        let wanted = slice.start.max(part.start)..slice.end.min(part.end);
        if wanted.start < wanted.end {
            let inside = |offset: u64| {
                bytes.start + usize::try_from(offset - slice.start).expect("inside a block")
            };
            let bytes = block.bytes(inside(wanted.start)..inside(wanted.end));
            pieces.push((wanted.start, bytes));
        }
    }
    pieces
}

/// The bytes of `part` in one piece.
fn joined<'a>(range: &Range<u64>, slices: &'a Slices, part: &Range<u64>) -> Cow<'a, [u8]> {
    match &pieces(range, slices, part)[..] {
        [(_, bytes)] => Cow::Borrowed(bytes),
        several => Cow::Owned(
            several
                .iter()
                .flat_map(|(_, bytes)| *bytes)
                .copied()
                .collect(),
        ),
    }
}

/// Most bytes that are read by the thread that asks: a copy that takes less than the hop to another
/// thread and back.
const AT_ONCE_MAX: u64 = 128 << 10;

/// Most bytes that are read before they are compared and shown: a reader at the front of a part
/// waits for these, not for the whole part.
const READ_RUN: u64 = 1 << 20;
