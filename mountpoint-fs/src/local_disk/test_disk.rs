//! A disk that forgets what was not synced, reorders, tears, fills up, fails and waits on request.
//!
//! A write is pending until its file is synced, a name until the folder is. When the power goes,
//! each pending change is kept, dropped or kept in pieces, whatever their order was. A failed sync
//! does the same at once, and the pending changes are forgotten: a later sync succeeds without
//! them, as Linux does. Equal seeds meet equal fates.
//!
//! Several processes share a disk. What one of them has written is there for the others at once.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use nix::fcntl::OFlag;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::test_file::{FileState, PendingWrite};
use super::{DirectoryUse, Disk, DiskFile, DiskSpace, FileStatus, Folder};
use crate::clock::Clock;
use crate::sync::{Condvar, Mutex, MutexGuard};

/// An operation of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskOperation {
    Open,
    /// Makes a file.
    Create,
    /// Opens a file, or makes it.
    OpenOrCreate,
    Rename,
    Remove,
    /// Syncs a folder.
    Sync,
    List,
    Space,
    Read,
    Write,
    Append,
    Allocate,
    /// Syncs a file.
    SyncData,
    Touch,
}

impl DiskOperation {
    /// Whether it changes what is on the disk.
    fn is_change(self) -> bool {
        !matches!(self, Self::Open | Self::List | Self::Space | Self::Read)
    }
}

/// The fate of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SimulatedFault {
    /// The disk reports an error; of a write, some bytes may be there.
    Fail(io::ErrorKind),
    /// The power goes: every later operation fails.
    PowerLoss,
    /// The process is killed after so many bytes of a write: all its later operations fail.
    Kill(usize),
    /// A defect of ours: the operation panics.
    Panic,
}

/// A folder of the disk, as one process sees it. Clones are of that process.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedDisk {
    shared: Arc<Shared>,
    process: usize,
    /// What the names in the folder begin with.
    prefix: String,
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    state: Mutex<SimulatedState>,
    /// Told when an operation is held, and when none is.
    changed: Condvar,
}

#[derive(Debug)]
struct SimulatedState {
    random: StdRng,
    files: Vec<FileState>,
    /// Names as programs see them, and as a power loss leaves them.
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    pending_names: Vec<NameEdit>,
    processes: Vec<Process>,
    is_off: bool,
    /// Bytes of the disk, and those that other programs occupy.
    total: u64,
    foreign: u64,
    /// Bytes that all files occupy which have a name or are open.
    allocated: u64,
    syncs: u64,
}

/// The operations of a process, and their faults.
#[derive(Debug, Default)]
struct Process {
    /// Operations that change something, so far.
    operations: u64,
    faults: BTreeMap<u64, SimulatedFault>,
    /// Operations that fail until the disk is repaired.
    failing: Vec<(DiskOperation, io::ErrorKind)>,
    /// Operations that wait.
    held: Vec<DiskOperation>,
    waiting: usize,
    is_killed: bool,
    lists: usize,
}

/// Entries that one operation changes together.
type NameEdit = Vec<(String, Option<usize>)>;

/// A begun operation: the disk, whether it fails, and which bytes of a write are there anyway.
struct Begun<'a> {
    state: MutexGuard<'a, SimulatedState>,
    outcome: io::Result<()>,
    written: Written,
}

#[derive(Clone, Copy, Debug)]
enum Written {
    All,
    UpTo(usize),
    /// Any number of the first bytes.
    Some,
}

impl Begun<'_> {
    /// How many of `len` bytes are written.
    fn written(&mut self, len: usize) -> usize {
        match self.written {
            Written::All => len,
            Written::UpTo(most) => most.min(len),
            Written::Some => self.state.random.random_range(0..=len),
        }
    }
}

impl SimulatedDisk {
    /// An empty disk.
    pub(crate) fn new(seed: u64) -> Self {
        Self::timed(seed, &Clock::manual())
    }

    /// An empty disk whose times are of `clock`.
    pub(crate) fn timed(seed: u64, clock: &Clock) -> Self {
        let random = StdRng::seed_from_u64(seed);
        Self::with(clock.clone(), random, Vec::new(), BTreeMap::new())
    }

    fn with(
        clock: Clock,
        random: StdRng,
        files: Vec<FileState>,
        names: BTreeMap<String, usize>,
    ) -> Self {
        let mut state = SimulatedState {
            random,
            files,
            durable_names: names.clone(),
            names: BTreeMap::new(),
            pending_names: Vec::new(),
            processes: vec![Process::default()],
            is_off: false,
            total: u64::MAX,
            foreign: 0,
            allocated: 0,
            syncs: 0,
        };
        for (name, file) in names {
            state.edit_name(&name, Some(file));
        }
        Self {
            shared: Arc::new(Shared {
                clock,
                state: Mutex::new(state),
                changed: Condvar::new(),
            }),
            process: 0,
            prefix: String::new(),
        }
    }

    /// Another process with this disk.
    pub(crate) fn other_process(&self) -> Self {
        let mut state = self.state();
        state.processes.push(Process::default());
        Self {
            process: state.processes.len() - 1,
            ..self.clone()
        }
    }

    fn state(&self) -> MutexGuard<'_, SimulatedState> {
        self.shared.state.lock()
    }

    fn now(&self) -> SystemTime {
        self.shared.clock.wall()
    }

    fn with_process<T>(&self, act: impl FnOnce(&mut Process) -> T) -> T {
        act(&mut self.state().processes[self.process])
    }

    /// The operation with this number, counted from now on, meets `fault`.
    pub(crate) fn fail_at(&self, operation: u64, fault: SimulatedFault) {
        self.with_process(|it| it.faults.insert(it.operations + operation, fault));
    }

    /// Has such operations fail, until [`Self::repair`].
    pub(crate) fn fail(&self, operation: DiskOperation, error: io::ErrorKind) {
        self.with_process(|it| it.failing.push((operation, error)));
    }

    /// Has such operations wait, until [`Self::repair`].
    pub(crate) fn hold(&self, operation: DiskOperation) {
        self.with_process(|it| it.held.push(operation));
    }

    /// Ends all faults but a kill.
    pub(crate) fn repair(&self) {
        self.with_process(|it| {
            it.faults.clear();
            it.failing.clear();
            it.held.clear();
        });
        self.shared.changed.notify_all();
    }

    /// Returns when so many operations wait.
    pub(crate) fn when_waiting(&self, count: usize) {
        let mut state = self.state();
        while state.processes[self.process].waiting < count {
            self.shared.changed.wait(&mut state);
        }
    }

    /// Acts while the disk does nothing.
    pub(crate) fn while_held<T>(&self, act: impl FnOnce() -> T) -> T {
        let _held = self.state();
        act()
    }

    /// Files may have so many bytes together.
    pub(crate) fn limit(&self, total: u64) {
        self.state().total = total;
    }

    /// Has other programs occupy so many bytes.
    pub(crate) fn occupy(&self, bytes: u64) {
        self.state().foreign = bytes;
    }

    /// Operations so far that change something.
    pub(crate) fn operations(&self) -> u64 {
        self.with_process(|it| it.operations)
    }

    /// Folders that were listed so far.
    pub(crate) fn lists(&self) -> usize {
        self.with_process(|it| it.lists)
    }

    /// Syncs of files so far that succeeded.
    pub(crate) fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// Whether the power has gone.
    pub(crate) fn is_off(&self) -> bool {
        self.state().is_off
    }

    /// Bytes of all files that have a name, as long as they are.
    pub(crate) fn used(&self) -> u64 {
        let state = self.state();
        state.names.values().map(|it| state.files[*it].len()).sum()
    }

    /// Bytes that all files occupy, those without a name too.
    pub(crate) fn allocated(&self) -> u64 {
        self.state().allocated
    }

    /// The names of all files.
    pub(crate) fn names(&self) -> Vec<String> {
        self.state().names.keys().cloned().collect()
    }

    /// Length of a file; `None` if there is none.
    pub(crate) fn len(&self, name: &str) -> Option<u64> {
        let state = self.state();
        Some(state.files[*state.names.get(name)?].len())
    }

    /// Puts a file there that occupies `bytes`, without its content.
    pub(crate) fn claim(&self, name: &str, bytes: u64, times: (SystemTime, SystemTime)) {
        let state = &mut *self.state();
        assert!(!state.names.contains_key(name), "{name} is there already");
        let number = state.make(name, times.0);
        state.files[number].claim(bytes);
        state.files[number].used_at = times.1;
        state.count_allocated(number);
    }

    /// Flips `bits` of one byte of a file for good.
    pub(crate) fn flip(&self, name: &str, offset: u64, bits: u8) {
        let state = &mut *self.state();
        state.files[state.names[name]].flip(offset, bits);
    }

    /// Cuts a file for good, or makes it longer.
    pub(crate) fn set_len(&self, name: &str, len: u64) {
        let state = &mut *self.state();
        let number = state.names[name];
        state.files[number].set_len(len);
        state.count_allocated(number);
    }

    /// The disk as the next start finds it after a power loss.
    pub(crate) fn restart(&self) -> Self {
        let state = &mut *self.state();
        state.is_off = true;
        let random = &mut state.random;
        for edit in state.pending_names.drain(..) {
            if random.random() {
                apply_names(&mut state.durable_names, edit);
            }
        }
        let files = state.files.iter_mut().map(|file| file.restart(random));
        let files = files.collect();
        let random = StdRng::seed_from_u64(random.random());
        let clock = self.shared.clock.clone();
        Self::with(clock, random, files, state.durable_names.clone())
    }

    /// Waits while such operations are held, counts a change, and meets its fault.
    fn begin(&self, operation: DiskOperation) -> Begun<'_> {
        let mut state = self.state();
        while state.processes[self.process].held.contains(&operation) {
            state.processes[self.process].waiting += 1;
            self.shared.changed.notify_all();
            self.shared.changed.wait(&mut state);
            state.processes[self.process].waiting -= 1;
        }
        let (outcome, written) = state.meet(self.process, operation);
        Begun {
            state,
            outcome,
            written,
        }
    }

    fn file(&self, state: &mut SimulatedState, number: usize) -> Arc<dyn DiskFile> {
        state.files[number].handles += 1;
        state.count_allocated(number);
        Arc::new(SimulatedFile::new(self.clone(), number))
    }

    fn full_name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
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
    /// Counts an operation. Returns whether it fails, and what of a write is there.
    fn meet(&mut self, process: usize, operation: DiskOperation) -> (io::Result<()>, Written) {
        let nothing = Written::UpTo(0);
        if self.is_off {
            return (Err(io::Error::other("the power is off")), nothing);
        }
        let it = &mut self.processes[process];
        it.lists += usize::from(operation == DiskOperation::List);
        let killed = || io::Error::other("the process was killed");
        if it.is_killed {
            return (Err(killed()), nothing);
        }
        if let Some((_, error)) = it.failing.iter().find(|(it, _)| *it == operation) {
            return (Err((*error).into()), nothing);
        }
        if !operation.is_change() {
            return (Ok(()), Written::All);
        }
        it.operations += 1;
        match it.faults.remove(&it.operations) {
            None => (Ok(()), Written::All),
            Some(SimulatedFault::Fail(error)) => (Err(error.into()), Written::Some),
            Some(SimulatedFault::Panic) => panic!("a simulated defect"),
            Some(SimulatedFault::PowerLoss) => {
                self.is_off = true;
                (Err(io::Error::other("the power is off")), Written::Some)
            }
            Some(SimulatedFault::Kill(len)) => {
                it.is_killed = true;
                (Err(killed()), Written::UpTo(len))
            }
        }
    }

    fn edit_names(&mut self, edit: NameEdit) {
        for (name, file) in &edit {
            self.edit_name(name, *file);
        }
        self.pending_names.push(edit);
    }

    fn edit_name(&mut self, name: &str, file: Option<usize>) {
        let before = match file {
            Some(file) => {
                self.files[file].links += 1;
                self.count_allocated(file);
                self.names.insert(name.to_owned(), file)
            }
            None => self.names.remove(name),
        };
        if let Some(before) = before {
            self.files[before].links -= 1;
            self.count_allocated(before);
        }
    }

    /// Makes an empty file.
    fn make(&mut self, name: &str, now: SystemTime) -> usize {
        let number = self.files.len();
        self.files.push(FileState::new(now));
        self.edit_names(vec![(name.to_owned(), Some(number))]);
        number
    }

    fn file_of(&self, name: &str) -> io::Result<usize> {
        let file = self.names.get(name).copied();
        file.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn file(&mut self, number: usize) -> &mut FileState {
        &mut self.files[number]
    }

    /// Changes a file, if there is room for it.
    fn write(&mut self, number: usize, write: PendingWrite) -> io::Result<()> {
        let more = self.files[number].growth(&write);
        if self.allocated + self.foreign + more > self.total {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.files[number].write(write);
        self.count_allocated(number);
        Ok(())
    }

    /// Makes the bytes of a file durable, or loses any of them if that `fails`.
    fn sync_file(&mut self, number: usize, fails: bool) {
        match fails {
            true => self.files[number].lose(&mut self.random),
            false => {
                self.files[number].sync();
                self.syncs += 1;
            }
        }
    }

    /// Counts what a file occupies now.
    fn count_allocated(&mut self, number: usize) {
        let (before, now) = self.files[number].recount();
        self.allocated = self.allocated - before + now;
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

impl Disk for SimulatedDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let Begun { state, outcome, .. } = self.begin(DiskOperation::List);
        outcome?;
        let all = state.names.range(self.prefix.clone()..);
        let its = all.map_while(|(name, _)| name.strip_prefix(&self.prefix));
        Ok(its.map(str::to_owned).collect())
    }

    fn open_with(&self, name: &str, flags: OFlag) -> io::Result<Arc<dyn DiskFile>> {
        let operation = match (
            flags.contains(OFlag::O_CREAT),
            flags.contains(OFlag::O_EXCL),
        ) {
            (false, _) => DiskOperation::Open,
            (true, false) => DiskOperation::OpenOrCreate,
            (true, true) => DiskOperation::Create,
        };
        let Begun {
            mut state, outcome, ..
        } = self.begin(operation);
        outcome?;
        let name = self.full_name(name);
        let number = match (operation, state.file_of(&name)) {
            (DiskOperation::Create, Ok(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
            (DiskOperation::Open, found) => found?,
            (_, Ok(found)) => found,
            (_, Err(_)) => state.make(&name, self.now()),
        };
        Ok(self.file(&mut state, number))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let Begun {
            mut state, outcome, ..
        } = self.begin(DiskOperation::Rename);
        outcome?;
        let (from, to) = (self.full_name(from), self.full_name(to));
        let file = state.file_of(&from)?;
        state.edit_names(vec![(from, None), (to, Some(file))]);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let Begun {
            mut state, outcome, ..
        } = self.begin(DiskOperation::Remove);
        outcome?;
        state.edit_names(vec![(self.full_name(name), None)]);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let Begun {
            mut state, outcome, ..
        } = self.begin(DiskOperation::Sync);
        let state = &mut *state;
        for edit in state.pending_names.drain(..) {
            if outcome.is_ok() || state.random.random() {
                apply_names(&mut state.durable_names, edit);
            }
        }
        outcome
    }

    fn folder(&self, name: &str, _may_make: bool) -> io::Result<Option<Arc<dyn Disk>>> {
        Ok(Some(Arc::new(Self {
            prefix: format!("{}{name}/", self.prefix),
            ..self.clone()
        })))
    }

    fn status(&self, name: &str) -> io::Result<Option<FileStatus>> {
        let state = self.state();
        let number = state.names.get(&self.full_name(name));
        Ok(number.map(|number| state.files[*number].status(*number)))
    }

    fn space(&self) -> io::Result<DiskSpace> {
        let Begun { state, outcome, .. } = self.begin(DiskOperation::Space);
        outcome?;
        let used = state.allocated + state.foreign;
        Ok(DiskSpace {
            total: state.total,
            available: state.total.saturating_sub(used),
            files_total: 0,
            files_available: 0,
        })
    }
}

/// An open file.
#[derive(Debug)]
struct SimulatedFile {
    disk: SimulatedDisk,
    number: usize,
    lock: Mutex<Option<Arc<()>>>,
}

impl SimulatedFile {
    fn new(disk: SimulatedDisk, number: usize) -> Self {
        Self {
            disk,
            number,
            lock: Mutex::default(),
        }
    }

    fn change(
        &self,
        operation: DiskOperation,
        write: impl FnOnce(usize, &FileState) -> PendingWrite,
        len: usize,
    ) -> io::Result<()> {
        let mut begun = self.disk.begin(operation);
        let written = begun.written(len);
        let write = write(written, begun.state.file(self.number));
        let changed = begun.state.write(self.number, write);
        begun.state.file(self.number).modified_at = self.disk.now();
        changed.and(begun.outcome)
    }
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        state.file(self.number).handles -= 1;
        state.count_allocated(self.number);
    }
}

impl DiskFile for SimulatedFile {
    fn status(&self) -> io::Result<FileStatus> {
        Ok(self.disk.state().file(self.number).status(self.number))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut begun = self.disk.begin(DiskOperation::Read);
        begun.outcome?;
        Ok(begun.state.file(self.number).read(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let write = |len, _: &FileState| PendingWrite::Bytes(offset, bytes[..len].to_vec());
        self.change(DiskOperation::Write, write, bytes.len())
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let write = |len, it: &FileState| PendingWrite::Bytes(it.len(), bytes[..len].to_vec());
        self.change(DiskOperation::Append, write, bytes.len())
    }

    fn allocate(&self, len: u64) -> io::Result<bool> {
        let Begun {
            mut state, outcome, ..
        } = self.disk.begin(DiskOperation::Allocate);
        outcome?;
        state.write(self.number, PendingWrite::Size(len))?;
        Ok(true)
    }

    fn sync_data(&self) -> io::Result<()> {
        let Begun {
            mut state, outcome, ..
        } = self.disk.begin(DiskOperation::SyncData);
        state.sync_file(self.number, outcome.is_err());
        outcome
    }

    fn touch(&self) -> io::Result<()> {
        let Begun {
            mut state, outcome, ..
        } = self.disk.begin(DiskOperation::Touch);
        outcome?;
        state.file(self.number).used_at = self.disk.now();
        Ok(())
    }

    fn try_lock(&self) -> io::Result<bool> {
        let mut state = self.disk.state();
        let file = state.file(self.number);
        let is_free = file.lock.upgrade().is_none();
        if is_free {
            let lock = Arc::new(());
            file.lock = Arc::downgrade(&lock);
            *self.lock.lock() = Some(lock);
        }
        Ok(is_free)
    }
}
