//! A disk in memory, for tests: it forgets, tears, fails, fills up and waits on request.
//!
//! Several [`SimulatedStorage`]s of one disk are several processes. What a process has written is
//! there for the others at once; [`SimulatedStorage::lose_power`] loses any of it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use mountpoint_crt_sys::block::BlockFill;

use super::usage::Usage;
use super::{DiskSpace, EntryName, FileKind, FileStatus, ListedEntry, Storage, StoredFile};
use crate::clock::Clock;
use crate::sync::{Condvar, Mutex};

/// An operation of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskOperation {
    Open,
    Create,
    Remove,
    List,
    Space,
    Usage,
    Read,
    Write,
    Append,
    Touch,
}

impl DiskOperation {
    /// Whether it changes what is on the disk.
    fn is_change(self) -> bool {
        use DiskOperation::{Append, Create, Remove, Touch, Usage, Write};
        matches!(self, Create | Remove | Usage | Write | Append | Touch)
    }
}

/// The fault of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskFault {
    /// The operation fails, and does nothing.
    Fail(io::ErrorKind),
    /// A write or an append fails after so many bytes.
    Tear(usize),
    /// The process is killed after so many bytes: this operation and all later ones fail.
    Kill(usize),
    /// A defect of ours: the next creation of a file panics.
    Panic,
}

/// A process with a simulated disk.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedStorage(Arc<SimulatedProcess>);

#[derive(Debug)]
struct SimulatedProcess {
    disk: Arc<SimulatedDisk>,
    faults: Mutex<Faults>,
    /// Told when an operation is held, and when none is.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Faults {
    /// Faults of the changes to come, in turn.
    changes: VecDeque<Option<DiskFault>>,
    /// Operations that fail until the disk is repaired.
    failing: Vec<(DiskOperation, io::ErrorKind)>,
    /// Operations that wait.
    held: Vec<DiskOperation>,
    waiting: usize,
    is_killed: bool,
    /// Changes so far.
    change_count: usize,
    /// Shards that were listed so far.
    list_count: usize,
}

#[derive(Debug)]
struct SimulatedDisk {
    clock: Clock,
    files: Mutex<BTreeMap<(EntryName, FileKind), Arc<SimulatedContent>>>,
    usage: Mutex<Option<Vec<u8>>>,
    /// The right to evict: taken while another handle of it exists.
    eviction: Arc<()>,
    total: u64,
    /// Bytes that other programs occupy.
    foreign: AtomicU64,
    allocated: Arc<AtomicU64>,
}

/// A file, with a name or without.
#[derive(Debug)]
struct SimulatedContent {
    state: Mutex<ContentState>,
    inode: u64,
    /// Of all files on the disk.
    allocated: Arc<AtomicU64>,
}

#[derive(Debug)]
struct ContentState {
    blocks: BTreeMap<u64, Vec<u8>>,
    len: u64,
    /// Bytes that the file occupies without blocks of its own here.
    claimed: u64,
    is_linked: bool,
    stored_at: SystemTime,
    used_at: SystemTime,
}

impl SimulatedStorage {
    /// The first process with a disk of `total` bytes, whose times are of `clock`.
    pub(crate) fn new(total: u64, clock: &Clock) -> Self {
        Self::on(Arc::new(SimulatedDisk {
            clock: clock.clone(),
            files: Mutex::default(),
            usage: Mutex::default(),
            eviction: Arc::default(),
            total,
            foreign: AtomicU64::new(0),
            allocated: Arc::default(),
        }))
    }

    /// Another process with this disk.
    pub(crate) fn other_process(&self) -> Self {
        Self::on(Arc::clone(&self.0.disk))
    }

    fn on(disk: Arc<SimulatedDisk>) -> Self {
        Self(Arc::new(SimulatedProcess {
            disk,
            faults: Mutex::default(),
            changed: Condvar::new(),
        }))
    }

    /// Has such operations of this process fail, until [`Self::repair`].
    pub(crate) fn fail(&self, operation: DiskOperation, error: io::ErrorKind) {
        self.0.faults.lock().failing.push((operation, error));
    }

    /// Has the change number `count` from now on, counted from 0, meet a fault.
    pub(crate) fn fault_at(&self, count: usize, fault: DiskFault) {
        let mut faults = self.0.faults.lock();
        if faults.changes.len() <= count {
            faults.changes.resize(count + 1, None);
        }
        faults.changes[count] = Some(fault);
    }

    /// Ends all faults but a kill.
    pub(crate) fn repair(&self) {
        let mut faults = self.0.faults.lock();
        faults.changes.clear();
        faults.failing.clear();
        faults.held.clear();
        self.0.changed.notify_all();
    }

    /// Has such operations wait, until [`Self::repair`].
    pub(crate) fn hold(&self, operation: DiskOperation) {
        self.0.faults.lock().held.push(operation);
    }

    /// Returns when so many operations wait.
    pub(crate) fn when_waiting(&self, count: usize) {
        let mut faults = self.0.faults.lock();
        while faults.waiting < count {
            self.0.changed.wait(&mut faults);
        }
    }

    /// Changes of this process so far.
    pub(crate) fn change_count(&self) -> usize {
        self.0.faults.lock().change_count
    }

    /// Shards that this process has listed so far.
    pub(crate) fn list_count(&self) -> usize {
        self.0.faults.lock().list_count
    }

    /// Has other programs occupy so many bytes.
    pub(crate) fn occupy(&self, bytes: u64) {
        self.0.disk.foreign.store(bytes, Ordering::Release);
    }

    /// Bytes that all files occupy, those without a name too.
    pub(crate) fn allocated(&self) -> u64 {
        self.0.disk.allocated.load(Ordering::Acquire)
    }

    /// The names of all entries that have a file.
    pub(crate) fn names(&self) -> Vec<EntryName> {
        let files = self.0.disk.files.lock();
        let mut names: Vec<_> = files.keys().map(|(name, _)| *name).collect();
        names.dedup();
        names
    }

    /// Puts a file there that occupies `bytes`, without its content.
    pub(crate) fn claim(
        &self,
        name: EntryName,
        kind: FileKind,
        bytes: u64,
        times: (SystemTime, SystemTime),
    ) {
        let content = self.0.disk.content();
        {
            let mut state = content.state.lock();
            (state.claimed, state.len) = (bytes, bytes);
            (state.stored_at, state.used_at) = times;
        }
        content.allocated.fetch_add(bytes, Ordering::AcqRel);
        let before = self.0.disk.files.lock().insert((name, kind), content);
        assert!(before.is_none(), "{name} is there already");
    }

    /// Flips bits of one byte of a file.
    pub(crate) fn flip(&self, name: EntryName, kind: FileKind, offset: u64, bits: u8) {
        let files = self.0.disk.files.lock();
        let mut state = files[&(name, kind)].state.lock();
        let block = state.blocks.get_mut(&(offset / BLOCK)).unwrap();
        block[usize::try_from(offset % BLOCK).unwrap()] ^= bits;
    }

    /// Cuts a file to `len` bytes, or makes it longer.
    pub(crate) fn set_len(&self, name: EntryName, kind: FileKind, len: u64) {
        let content = Arc::clone(&self.0.disk.files.lock()[&(name, kind)]);
        content.set_len(len);
    }

    /// Length of a file; `None` if there is none.
    pub(crate) fn len(&self, name: EntryName, kind: FileKind) -> Option<u64> {
        let files = self.0.disk.files.lock();
        Some(files.get(&(name, kind))?.state.lock().len)
    }

    /// The power goes: as nothing was flushed, each file may be lost, cut or lack any blocks. Equal
    /// seeds lose equal bytes.
    pub(crate) fn lose_power(&self, seed: u64) {
        let mut random = Random(seed);
        let mut files = self.0.disk.files.lock();
        files.retain(|_, content| {
            match random.below(4) {
                0 => {
                    content.state.lock().is_linked = false;
                    return false;
                }
                1 => {
                    let len = content.state.lock().len;
                    content.set_len(random.below(len + 1));
                }
                2 => {
                    let mut state = content.state.lock();
                    let blocks = state.blocks.values_mut();
                    for block in blocks.filter(|_| random.below(2) == 0) {
                        block.fill(0);
                    }
                }
                _ => {}
            }
            true
        });
        let usage = &mut *self.0.disk.usage.lock();
        if random.below(2) == 0 {
            *usage = None;
        }
    }

    /// Counts an operation, waits while such operations are held, and meets its fault. Returns how
    /// many bytes of a write are written, if not all.
    fn begin(&self, operation: DiskOperation) -> io::Result<Option<usize>> {
        let mut faults = self.0.faults.lock();
        faults.list_count += usize::from(operation == DiskOperation::List);
        if faults.held.contains(&operation) {
            faults.waiting += 1;
            self.0.changed.notify_all();
            while faults.held.contains(&operation) {
                self.0.changed.wait(&mut faults);
            }
            faults.waiting -= 1;
        }
        if faults.is_killed {
            return Err(killed());
        }
        let failing = faults.failing.iter().find(|(it, _)| *it == operation);
        if let Some((_, error)) = failing {
            return Err((*error).into());
        }
        if !operation.is_change() {
            return Ok(None);
        }
        faults.change_count += 1;
        let is_write = [DiskOperation::Write, DiskOperation::Append].contains(&operation);
        let is_panic = matches!(faults.changes.front(), Some(Some(DiskFault::Panic)));
        if is_panic && operation != DiskOperation::Create {
            return Ok(None);
        }
        match faults.changes.pop_front().flatten() {
            None => Ok(None),
            Some(DiskFault::Fail(error)) => Err(error.into()),
            Some(DiskFault::Panic) => panic!("a simulated defect"),
            Some(DiskFault::Tear(len)) if is_write => Ok(Some(len)),
            Some(DiskFault::Tear(_)) => Err(io::ErrorKind::Other.into()),
            Some(DiskFault::Kill(len)) => {
                faults.is_killed = true;
                if is_write {
                    Ok(Some(len))
                } else {
                    Err(killed())
                }
            }
        }
    }

    fn file(&self, content: &Arc<SimulatedContent>) -> Arc<dyn StoredFile> {
        Arc::new(SimulatedFile {
            storage: self.clone(),
            content: Arc::clone(content),
        })
    }
}

fn killed() -> io::Error {
    io::Error::other("the process was killed")
}

impl SimulatedDisk {
    fn content(&self) -> Arc<SimulatedContent> {
        static INODES: AtomicU64 = AtomicU64::new(1);
        let now = self.clock.wall();
        Arc::new(SimulatedContent {
            inode: INODES.fetch_add(1, Ordering::Relaxed),
            allocated: Arc::clone(&self.allocated),
            state: Mutex::new(ContentState {
                blocks: BTreeMap::new(),
                len: 0,
                claimed: 0,
                is_linked: true,
                stored_at: now,
                used_at: now,
            }),
        })
    }

    fn available(&self) -> u64 {
        let foreign = self.foreign.load(Ordering::Acquire);
        let used = foreign + self.allocated.load(Ordering::Acquire);
        self.total.saturating_sub(used)
    }
}

impl SimulatedContent {
    fn set_len(&self, len: u64) {
        let mut state = self.state.lock();
        let dropped = state.blocks.split_off(&len.div_ceil(BLOCK));
        let freed = dropped.len() as u64 * BLOCK;
        self.allocated.fetch_sub(freed, Ordering::AcqRel);
        if let Some(last) = state.blocks.get_mut(&(len / BLOCK)) {
            last[usize::try_from(len % BLOCK).unwrap()..].fill(0);
        }
        state.len = len;
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let state = self.state.lock();
        let len = state.len.saturating_sub(offset);
        let len = buffer.len().min(usize::try_from(len).unwrap());
        for (byte, at) in buffer[..len].iter_mut().zip(offset..) {
            let block = state.blocks.get(&(at / BLOCK));
            let place = usize::try_from(at % BLOCK).unwrap();
            *byte = block.map_or(0, |block| block[place]);
        }
        len
    }

    /// Writes at `offset`, or at the end, until the disk is full. Returns how many bytes.
    fn write(&self, disk: &SimulatedDisk, bytes: &[u8], offset: Option<u64>) -> usize {
        let mut state = self.state.lock();
        let mut at = offset.unwrap_or(state.len);
        let mut rest = bytes;
        while !rest.is_empty() {
            let (number, place) = (at / BLOCK, usize::try_from(at % BLOCK).unwrap());
            let block = match state.blocks.entry(number) {
                Entry::Occupied(block) => block.into_mut(),
                Entry::Vacant(_) if disk.available() < BLOCK => break,
                Entry::Vacant(place) => {
                    self.allocated.fetch_add(BLOCK, Ordering::AcqRel);
                    place.insert(vec![0; usize::try_from(BLOCK).unwrap()])
                }
            };
            let len = rest.len().min(block.len() - place);
            block[place..place + len].copy_from_slice(&rest[..len]);
            rest = &rest[len..];
            at += len as u64;
        }
        state.len = state.len.max(at);
        state.stored_at = disk.clock.wall();
        bytes.len() - rest.len()
    }
}

impl Drop for SimulatedContent {
    fn drop(&mut self) {
        let state = self.state.lock();
        let bytes = state.blocks.len() as u64 * BLOCK + state.claimed;
        self.allocated.fetch_sub(bytes, Ordering::AcqRel);
    }
}

impl Storage for SimulatedStorage {
    fn open(&self, name: EntryName, kind: FileKind) -> io::Result<Option<Arc<dyn StoredFile>>> {
        self.begin(DiskOperation::Open)?;
        let files = self.0.disk.files.lock();
        Ok(files.get(&(name, kind)).map(|content| self.file(content)))
    }

    fn create(&self, name: EntryName, kind: FileKind) -> io::Result<Option<Arc<dyn StoredFile>>> {
        self.begin(DiskOperation::Create)?;
        let content = self.0.disk.content();
        let mut files = self.0.disk.files.lock();
        if files.contains_key(&(name, kind)) {
            return Ok(None);
        }
        files.insert((name, kind), Arc::clone(&content));
        Ok(Some(self.file(&content)))
    }

    fn remove(&self, name: EntryName) -> io::Result<()> {
        for kind in [FileKind::Index, FileKind::Data] {
            self.begin(DiskOperation::Remove)?;
            let removed = self.0.disk.files.lock().remove(&(name, kind));
            if let Some(content) = removed {
                content.state.lock().is_linked = false;
            }
        }
        Ok(())
    }

    fn list(&self, shard: u8) -> io::Result<Vec<ListedEntry>> {
        self.begin(DiskOperation::List)?;
        let mut first = [0; 16];
        first[0] = shard;
        let files = self.0.disk.files.lock();
        let mut listed: Vec<ListedEntry> = Vec::new();
        let of_shard = files.range((EntryName(first), FileKind::Index)..);
        for ((name, kind), content) in of_shard.take_while(|((name, _), _)| name.shard() == shard) {
            let state = content.state.lock();
            let bytes = state.blocks.len() as u64 * BLOCK + state.claimed;
            match listed.last_mut().filter(|last| last.name == *name) {
                Some(entry) => {
                    assert_eq!(*kind, FileKind::Data);
                    (entry.stored_at, entry.used_at) = (state.stored_at, state.used_at);
                    entry.bytes += bytes;
                    entry.is_complete = true;
                }
                None => listed.push(ListedEntry {
                    name: *name,
                    bytes,
                    stored_at: state.stored_at,
                    used_at: state.used_at,
                    is_complete: false,
                }),
            }
        }
        Ok(listed)
    }

    fn space(&self) -> io::Result<DiskSpace> {
        self.begin(DiskOperation::Space)?;
        Ok(DiskSpace {
            total: self.0.disk.total,
            available: self.0.disk.available(),
            files_total: 0,
            files_available: 0,
        })
    }

    fn lock_eviction(&self) -> io::Result<Option<Box<dyn Send>>> {
        if self.0.faults.lock().is_killed {
            return Err(killed());
        }
        // The lock of all files makes it one step.
        let _files = self.0.disk.files.lock();
        let is_free = Arc::strong_count(&self.0.disk.eviction) == 1;
        Ok(is_free.then(|| Box::new(Arc::clone(&self.0.disk.eviction)) as Box<dyn Send>))
    }

    fn update_usage(&self, change: &mut dyn FnMut(&mut Usage)) -> io::Result<Option<Usage>> {
        self.begin(DiskOperation::Usage)?;
        let file = &mut *self.0.disk.usage.lock();
        let mut usage = file.as_deref().and_then(Usage::decode).unwrap_or_default();
        change(&mut usage);
        *file = Some(usage.encode().to_vec());
        Ok(Some(usage))
    }
}

#[derive(Debug)]
struct SimulatedFile {
    storage: SimulatedStorage,
    content: Arc<SimulatedContent>,
}

impl SimulatedFile {
    fn write(&self, operation: DiskOperation, bytes: &[u8], at: Option<u64>) -> io::Result<()> {
        let len_max = self.storage.begin(operation)?;
        let len = len_max.map_or(bytes.len(), |len| len.min(bytes.len()));
        let disk = &self.storage.0.disk;
        let written = self.content.write(disk, &bytes[..len], at);
        if written < len {
            return Err(io::ErrorKind::StorageFull.into());
        }
        match len_max {
            Some(_) => Err(io::Error::other("torn")),
            None => Ok(()),
        }
    }
}

impl StoredFile for SimulatedFile {
    fn read_into(&self, fill: &mut BlockFill, offset: u64, len: usize) -> io::Result<usize> {
        let mut bytes = vec![0; len];
        let read = self.read_at(&mut bytes, offset)?;
        fill.append(&bytes[..read]);
        Ok(read)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.storage.begin(DiskOperation::Read)?;
        Ok(self.content.read(buffer, offset))
    }

    fn read_at_once(&self, _: &mut [u8], _: u64) -> bool {
        false
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write(DiskOperation::Write, bytes, Some(offset))
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.write(DiskOperation::Append, bytes, None)
    }

    fn status(&self) -> io::Result<FileStatus> {
        let state = self.content.state.lock();
        Ok(FileStatus {
            len: state.len,
            allocated: state.blocks.len() as u64 * BLOCK + state.claimed,
            is_linked: state.is_linked,
            inode: self.content.inode,
            modified_at: state.stored_at,
        })
    }

    fn touch(&self) -> io::Result<()> {
        self.storage.begin(DiskOperation::Touch)?;
        self.content.state.lock().used_at = self.storage.0.disk.clock.wall();
        Ok(())
    }

    fn file(&self) -> Option<Arc<File>> {
        None
    }
}

/// Numbers that look random, and are equal for equal seeds.
struct Random(u64);

impl Random {
    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % end
    }
}

/// Bytes that a file occupies at least, and grows by.
const BLOCK: u64 = 4096;
