//! A disk that forgets what was not synced, reorders, tears, fills up and fails.
//!
//! A write is pending until its file is synced, a name until the folder is. When the power goes,
//! each pending change is kept, dropped or kept in pieces, whatever their order was. A failed sync
//! does the same at once, and the pending changes are forgotten: a later sync succeeds without
//! them, as Linux does. Equal seeds meet equal fates.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use nix::fcntl::OFlag;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::{DirectoryUse, Disk, DiskFile, Folder};
use crate::sync::Mutex;

/// The fate of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SimulatedFault {
    /// The disk reports an error; of a write, some bytes may be there.
    Error,
    /// There is no room.
    Full,
    /// The power goes: every later operation fails.
    PowerLoss,
    /// A defect of ours: the operation panics.
    Panic,
}

/// A handle of the disk. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedDisk(Arc<Mutex<SimulatedState>>);

#[derive(Debug)]
struct SimulatedState {
    random: StdRng,
    files: Vec<FileState>,
    /// Names as programs see them, and as a power loss leaves them.
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    pending_names: Vec<NameEdit>,
    /// Operations that change something, so far.
    operations: u64,
    faults: BTreeMap<u64, SimulatedFault>,
    is_off: bool,
    bytes_max: u64,
    syncs: u64,
}

/// Entries that one operation changes together.
type NameEdit = Vec<(String, Option<usize>)>;

#[derive(Debug, Default)]
struct FileState {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<PendingWrite>,
}

#[derive(Debug)]
enum PendingWrite {
    Bytes(u64, Vec<u8>),
    Size(u64),
}

impl SimulatedDisk {
    /// An empty disk.
    pub(crate) fn new(seed: u64) -> Self {
        Self::with(StdRng::seed_from_u64(seed), Vec::new(), BTreeMap::new())
    }

    fn with(random: StdRng, files: Vec<FileState>, names: BTreeMap<String, usize>) -> Self {
        Self(Arc::new(Mutex::new(SimulatedState {
            random,
            files,
            durable_names: names.clone(),
            names,
            pending_names: Vec::new(),
            operations: 0,
            faults: BTreeMap::new(),
            is_off: false,
            bytes_max: u64::MAX,
            syncs: 0,
        })))
    }

    /// The operation with this number, counted from now on, meets `fault`.
    pub(crate) fn fail_at(&self, operation: u64, fault: SimulatedFault) {
        let mut state = self.0.lock();
        let number = state.operations + operation;
        state.faults.insert(number, fault);
    }

    /// Acts while the disk does nothing.
    pub(crate) fn while_held<T>(&self, act: impl FnOnce() -> T) -> T {
        let _held = self.0.lock();
        act()
    }

    /// Files may have so many bytes together.
    pub(crate) fn limit(&self, bytes_max: u64) {
        self.0.lock().bytes_max = bytes_max;
    }

    /// Operations so far that change something.
    pub(crate) fn operations(&self) -> u64 {
        self.0.lock().operations
    }

    /// Syncs of files so far that succeeded.
    pub(crate) fn syncs(&self) -> u64 {
        self.0.lock().syncs
    }

    /// Whether the power has gone.
    pub(crate) fn is_off(&self) -> bool {
        self.0.lock().is_off
    }

    /// Bytes of all files that have a name.
    pub(crate) fn used(&self) -> u64 {
        self.0.lock().used()
    }

    /// Changes one byte of a file for good.
    pub(crate) fn flip(&self, name: &str, offset: u64) {
        let state = &mut *self.0.lock();
        let file = &mut state.files[state.names[name]];
        let offset = usize::try_from(offset).unwrap();
        file.bytes[offset] ^= 1;
        file.durable[offset] ^= 1;
    }

    /// Cuts a file for good.
    pub(crate) fn cut(&self, name: &str, len: usize) {
        let state = &mut *self.0.lock();
        let file = &mut state.files[state.names[name]];
        file.bytes.truncate(len);
        file.durable.truncate(len);
    }

    /// The disk as the next start finds it after a power loss.
    pub(crate) fn restart(&self) -> Self {
        let state = &mut *self.0.lock();
        state.is_off = true;
        let random = &mut state.random;
        for edit in state.pending_names.drain(..) {
            if random.random() {
                apply_names(&mut state.durable_names, edit);
            }
        }
        let mut files = Vec::new();
        for file in &mut state.files {
            file.lose(random);
            files.push(FileState {
                bytes: file.durable.clone(),
                durable: file.durable.clone(),
                pending: Vec::new(),
            });
        }
        let random = StdRng::seed_from_u64(random.random());
        Self::with(random, files, state.durable_names.clone())
    }
}

fn apply_names(names: &mut BTreeMap<String, usize>, edit: NameEdit) {
    for (name, file) in edit {
        match file {
            Some(file) => names.insert(name, file),
            None => names.remove(&name),
        };
    }
}

impl SimulatedState {
    /// Counts a change, and meets its fault.
    fn begin(&mut self) -> io::Result<()> {
        if self.is_off {
            return Err(off());
        }
        self.operations += 1;
        match self.faults.remove(&self.operations) {
            None => Ok(()),
            Some(SimulatedFault::Error) => Err(io::Error::other("simulated")),
            Some(SimulatedFault::Full) => Err(io::ErrorKind::StorageFull.into()),
            Some(SimulatedFault::Panic) => panic!("a simulated defect"),
            Some(SimulatedFault::PowerLoss) => {
                self.is_off = true;
                Err(off())
            }
        }
    }

    fn used(&self) -> u64 {
        let sizes = self
            .names
            .values()
            .map(|file| self.files[*file].bytes.len());
        sizes.map(|len| len as u64).sum()
    }

    fn edit_names(&mut self, edit: NameEdit) {
        apply_names(&mut self.names, edit.clone());
        self.pending_names.push(edit);
    }

    fn file_of(&self, name: &str) -> io::Result<usize> {
        let file = self.names.get(name).copied();
        file.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// A folder of the real disk.
pub(crate) fn real_folder(path: &Path) -> Folder {
    let of = DirectoryUse {
        name: "test",
        flag: "--test",
    };
    Folder::open_base(of, path, false).unwrap()
}

fn off() -> io::Error {
    io::Error::other("the power is off")
}

impl FileState {
    /// Keeps some of what is pending, in any pieces, and forgets the rest.
    fn lose(&mut self, random: &mut StdRng) {
        for write in self.pending.drain(..) {
            match (random.random_range(0..4), write) {
                (0, _) => {}
                (1, write) => write.apply(&mut self.durable),
                (2, PendingWrite::Bytes(offset, mut bytes)) => {
                    bytes.truncate(random.random_range(0..=bytes.len()));
                    PendingWrite::Bytes(offset, bytes).apply(&mut self.durable);
                }
                (_, PendingWrite::Bytes(offset, bytes)) => {
                    for (sector, piece) in bytes.chunks(SECTOR).enumerate() {
                        if random.random() {
                            let at = offset + (sector * SECTOR) as u64;
                            PendingWrite::Bytes(at, piece.to_vec()).apply(&mut self.durable);
                        }
                    }
                }
                (_, PendingWrite::Size(_)) => {}
            }
        }
    }

    fn write(&mut self, write: PendingWrite) {
        write.apply(&mut self.bytes);
        self.pending.push(write);
    }
}

impl PendingWrite {
    fn apply(&self, file: &mut Vec<u8>) {
        match self {
            Self::Size(len) => file.resize(usize::try_from(*len).unwrap().max(file.len()), 0),
            Self::Bytes(offset, bytes) => {
                let start = usize::try_from(*offset).unwrap();
                let end = start + bytes.len();
                file.resize(file.len().max(end), 0);
                file[start..end].copy_from_slice(bytes);
            }
        }
    }
}

impl Disk for SimulatedDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.0.lock();
        if state.is_off {
            return Err(off());
        }
        Ok(state.names.keys().cloned().collect())
    }

    fn open_with(&self, name: &str, flags: OFlag) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.0.lock();
        if !flags.contains(OFlag::O_CREAT) {
            if state.is_off {
                return Err(off());
            }
            return Ok(self.file(state.file_of(name)?));
        }
        state.begin()?;
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let number = state.files.len();
        state.files.push(FileState::default());
        state.edit_names(vec![(name.to_owned(), Some(number))]);
        Ok(self.file(number))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.0.lock();
        state.begin()?;
        let file = state.file_of(from)?;
        state.edit_names(vec![(from.to_owned(), None), (to.to_owned(), Some(file))]);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.0.lock();
        state.begin()?;
        state.edit_names(vec![(name.to_owned(), None)]);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let state = &mut *self.0.lock();
        let begun = state.begin();
        for edit in state.pending_names.drain(..) {
            if begun.is_ok() || state.random.random() {
                apply_names(&mut state.durable_names, edit);
            }
        }
        begun
    }
}

impl SimulatedDisk {
    fn file(&self, number: usize) -> Arc<dyn DiskFile> {
        Arc::new(SimulatedFile {
            disk: self.clone(),
            number,
        })
    }
}

#[derive(Debug)]
struct SimulatedFile {
    disk: SimulatedDisk,
    number: usize,
}

impl DiskFile for SimulatedFile {
    fn size(&self) -> io::Result<u64> {
        let state = self.disk.0.lock();
        Ok(state.files[self.number].bytes.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.disk.0.lock();
        if state.is_off {
            return Err(off());
        }
        let bytes = &state.files[self.number].bytes;
        let start = usize::try_from(offset).unwrap().min(bytes.len());
        let len = buffer.len().min(bytes.len() - start);
        buffer[..len].copy_from_slice(&bytes[start..start + len]);
        Ok(len)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let state = &mut *self.disk.0.lock();
        let begun = state.begin();
        let mut written = bytes.to_vec();
        if begun.is_err() {
            written.truncate(state.random.random_range(0..=bytes.len()));
        }
        let more = (offset + written.len() as u64)
            .saturating_sub(state.files[self.number].bytes.len() as u64);
        if state.used() + more > state.bytes_max {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.files[self.number].write(PendingWrite::Bytes(offset, written));
        begun
    }

    fn allocate(&self, len: u64) -> io::Result<bool> {
        let state = &mut *self.disk.0.lock();
        state.begin()?;
        let more = len.saturating_sub(state.files[self.number].bytes.len() as u64);
        if state.used() + more > state.bytes_max {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.files[self.number].write(PendingWrite::Size(len));
        Ok(true)
    }

    fn sync_data(&self) -> io::Result<()> {
        let state = &mut *self.disk.0.lock();
        let begun = state.begin();
        let file = &mut state.files[self.number];
        if begun.is_err() {
            file.lose(&mut state.random);
            return begun;
        }
        for write in file.pending.drain(..) {
            write.apply(&mut file.durable);
        }
        state.syncs += 1;
        Ok(())
    }
}

/// Bytes that a disk writes as one.
const SECTOR: usize = 512;
