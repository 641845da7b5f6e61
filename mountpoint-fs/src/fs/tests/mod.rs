//! The file system's operations over a simulated bucket, without a kernel: answers and S3 requests.

mod change;
mod models;
mod names;
mod open;
mod rename;
mod staged;
mod virtual_time;
mod write;

use std::ffi::OsStr;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use mountpoint_client::SimClient;
use mountpoint_client::testing::sim::{Operation, RequestLog, SimOptions, Time};

use super::FileSystem;
use crate::clock::Clock;
use crate::config::{CopyLimits, FsConfig, NamesConfig, WriteConfig};
use crate::handle::{Closer, Closing, Opener, OtherDescriptors};
use crate::namespace::WalkStats;
use crate::operation::{
    CallMark, DirectoryEntry, DirectorySink, Entry, FileKind, FsError, HandleNo, InodeNo,
    LocalFiles, OpenOptions, Opened, Purpose, RenameMode, Stop, WriteOptions,
};
use crate::read::SiblingPrefetchStats;

const READ: OpenOptions = OpenOptions {
    write: false,
    direct: false,
    process: 0,
    is_vouched: false,
};

/// A system call, by its number.
#[derive(Clone, Copy)]
struct Call(u32);

impl Purpose for Call {
    fn made_kind<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Option<FileKind>> {
        Box::pin(std::future::ready(None))
    }

    fn call(&self) -> Option<CallMark> {
        Some(CallMark::new(self.0, ""))
    }
}

/// A lookup that only looks.
struct Looking;

impl Purpose for Looking {
    fn made_kind<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Option<FileKind>> {
        Box::pin(std::future::ready(None))
    }
}

/// What tests ask in one call.
impl FileSystem {
    pub(crate) async fn lookup(&self, parent: InodeNo, name: &OsStr) -> Result<Entry, FsError> {
        self.lookup_for(parent, name, &Looking).await
    }

    pub(crate) fn create(
        &self,
        parent: InodeNo,
        name: &OsStr,
        options: WriteOptions,
        opener: Opener,
    ) -> Result<(Entry, Opened), FsError> {
        let created = self.create_for(parent, name, options, opener);
        created.now_or_never().expect("it sends no request")
    }

    pub(crate) async fn make_directory(
        &self,
        directory: InodeNo,
        name: &OsStr,
        mode: u16,
    ) -> Result<Entry, FsError> {
        self.make_directory_for(directory, name, mode, None).await
    }

    async fn symbolic_link(
        &self,
        directory: InodeNo,
        name: &OsStr,
        target: &OsStr,
    ) -> Result<Entry, FsError> {
        self.symbolic_link_for(directory, name, target, None).await
    }

    pub(crate) fn inode_count(&self) -> usize {
        self.statistics().inodes
    }

    fn walk_stats(&self) -> WalkStats {
        self.statistics().walks
    }

    fn hidden_keys(&self) -> u64 {
        self.statistics().hidden_keys
    }

    fn sibling_prefetch(&self) -> SiblingPrefetchStats {
        self.statistics().sibling_prefetch
    }

    fn listing_pages_ahead(&self) -> usize {
        self.parts.namespace.listing_pages_ahead()
    }

    pub(crate) fn bytes_read(&self) -> u64 {
        self.statistics().consumed
    }

    pub(crate) fn set_local_files(&self, files: Arc<dyn LocalFiles>) {
        self.parts.reading.set_local_files(files);
    }
}

/// The process that closes a file, as set by a test.
struct Closes(Closer, OtherDescriptors);

impl Closing for Closes {
    fn closer(&self, _: Opener) -> Closer {
        self.0
    }

    fn others(&self, _: InodeNo, _: &str) -> OtherDescriptors {
        self.1
    }
}

/// The opener closes its last descriptor.
const OPENER: Closes = Closes(Closer::Opener, OtherDescriptors::None);
/// The opener duplicates its descriptor, and closes the first one.
const MOVES: Closes = Closes(Closer::Opener, OtherDescriptors::Held);
/// The test hides whether the opener duplicates or closes its descriptor.
const UNSEEN: Closes = Closes(Closer::Opener, OtherDescriptors::Unknown);
/// A child of the opener ends.
const CHILD: Closes = Closes(Closer::Child, OtherDescriptors::None);

/// A mounted bucket whose time and requests the test controls.
struct Mount {
    bucket: Arc<SimClient>,
    clock: Clock,
    fs: Arc<FileSystem>,
}

impl Mount {
    /// A bucket that answers at once.
    fn immediate(keys: &[&str]) -> Self {
        Self::new(Time::Immediate, "", keys)
    }

    /// A bucket that answers on the test's command.
    fn manual(keys: &[&str]) -> Self {
        Self::new(Time::Manual, "", keys)
    }

    fn new(time: Time, prefix: &str, keys: &[&str]) -> Self {
        Self::with_options(
            SimOptions {
                time,
                ..SimOptions::default()
            },
            prefix,
            keys,
        )
    }

    fn with_options(options: SimOptions, prefix: &str, keys: &[&str]) -> Self {
        let (names, write) = (NamesConfig::default(), WriteConfig::default());
        Self::with_all(options, names, write, prefix, keys)
    }

    /// A mount that permits changes.
    fn with_write(options: SimOptions, prefix: &str, keys: &[&str], write: WriteConfig) -> Self {
        Self::with_all(options, NamesConfig::default(), write, prefix, keys)
    }

    /// A bucket that answers at once, mounted with other settings of names.
    fn with_names(names: NamesConfig, keys: &[&str]) -> Self {
        let options = SimOptions {
            time: Time::Immediate,
            ..SimOptions::default()
        };
        Self::with_all(options, names, WriteConfig::default(), "", keys)
    }

    fn with_all(
        options: SimOptions,
        names: NamesConfig,
        write: WriteConfig,
        prefix: &str,
        keys: &[&str],
    ) -> Self {
        let bucket = Arc::new(SimClient::new(options));
        for key in keys {
            bucket.put_object(key, format!("content of {key}"));
        }
        Self::over(bucket, Clock::manual(), names, write, prefix)
    }

    /// Another mount of the same bucket, on a machine with the same clock.
    fn beside(&self, write: WriteConfig) -> Self {
        let (bucket, clock) = (Arc::clone(&self.bucket), self.clock.clone());
        Self::over(bucket, clock, NamesConfig::default(), write, "")
    }

    fn over(
        bucket: Arc<SimClient>,
        clock: Clock,
        names: NamesConfig,
        write: WriteConfig,
        prefix: &str,
    ) -> Self {
        let config = FsConfig {
            prefix: prefix.to_owned(),
            uid: 10,
            gid: 20,
            names,
            write,
            ..FsConfig::default()
        };
        let fs = Arc::new(FileSystem::new(
            Arc::clone(&bucket) as _,
            config,
            clock.clone(),
        ));
        // Otherwise the first file of each would begin an upload that proves the permission to
        // write.
        fs.parts.writing.believe();
        Self { bucket, clock, fs }
    }

    /// A lookup that must be answered at once.
    #[track_caller]
    fn lookup(&self, parent: InodeNo, name: &str) -> Result<Entry, FsError> {
        now(self.fs.lookup(parent, OsStr::new(name)))
    }

    /// The inode at the end of `path`, looked up name by name.
    #[track_caller]
    fn walk(&self, path: &str) -> InodeNo {
        path.split('/').fold(InodeNo::ROOT, |parent, name| {
            self.lookup(parent, name).unwrap().attributes.ino
        })
    }

    /// Options of an open to read `ino` by the system call `call`.
    fn read_by(&self, ino: InodeNo, call: Call) -> OpenOptions {
        OpenOptions {
            is_vouched: self.fs.vouches(ino, &call),
            ..READ
        }
    }

    /// All entries of a directory, `batch` at a time.
    #[track_caller]
    fn list(&self, handle: HandleNo, batch: usize, plus: bool) -> Vec<DirectoryEntry> {
        self.list_from(handle, 0, batch, plus)
    }

    #[track_caller]
    fn list_from(
        &self,
        handle: HandleNo,
        mut offset: u64,
        batch: usize,
        plus: bool,
    ) -> Vec<DirectoryEntry> {
        let mut entries = Vec::new();
        loop {
            let mut sink = Sink::new(batch);
            now(self.fs.read_directory(handle, offset, plus, &mut sink)).unwrap();
            let Some(last) = sink.entries.last() else {
                return entries;
            };
            offset = last.next_offset;
            entries.append(&mut sink.entries);
        }
    }

    /// The names in `directory`, with a slash behind a directory's; without `.` and `..`.
    #[track_caller]
    fn names(&self, directory: InodeNo) -> Vec<String> {
        let handle = now(self.fs.open_directory(directory)).unwrap();
        let names = shown(&self.list(handle, usize::MAX, false));
        self.fs.release_directory(handle);
        names
    }

    /// Finishes the requests that wait now, and not those that their answers cause.
    fn deliver_step(&self) -> usize {
        let gets = self.bucket.pending_gets().into_iter().map(|get| get.id);
        let others = self.bucket.pending_requests();
        let pending: Vec<_> = gets.chain(others.iter().map(|other| other.id)).collect();
        pending.iter().for_each(|id| {
            self.bucket.finish(*id);
        });
        pending.len()
    }

    /// Counts of HEAD, LIST and other requests since the last call.
    fn requests(&self) -> (usize, usize, usize) {
        counts(&self.bucket.take_log())
    }
}

fn counts(log: &RequestLog) -> (usize, usize, usize) {
    let (head, list) = (
        log.count(Operation::HeadObject),
        log.count(Operation::ListObjectsV2),
    );
    (head, list, log.records().len() - head - list)
}

/// Takes a number of entries.
struct Sink {
    entries: Vec<DirectoryEntry>,
    room: usize,
}

impl Sink {
    fn new(room: usize) -> Self {
        Self {
            entries: Vec::new(),
            room,
        }
    }
}

impl DirectorySink for Sink {
    fn add(&mut self, entry: &DirectoryEntry) -> bool {
        let has_room = self.entries.len() < self.room;
        if has_room {
            self.entries.push(entry.clone());
        }
        has_room
    }
}

/// The output of a future that does not wait.
#[track_caller]
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let woken = Arc::new(Woken(std::thread::current()));
    let waker = std::task::Waker::from(woken);
    let mut context = std::task::Context::from_waker(&waker);
    let clock = Clock::monotonic();
    let until = clock.now() + THREADS_WAIT_MAX;
    loop {
        if let std::task::Poll::Ready(outcome) = future.as_mut().poll(&mut context) {
            return outcome;
        }
        let left = until.saturating_sub(clock.now());
        assert!(!left.is_zero(), "it does not wait for anything");
        std::thread::park_timeout(left);
    }
}

/// A thread that waits for another one, which sums bytes.
struct Woken(std::thread::Thread);

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Longest wait for a thread that sums bytes.
const THREADS_WAIT_MAX: std::time::Duration = std::time::Duration::from_secs(20);

/// Polls a future that waits.
#[track_caller]
fn waits<T>(future: &mut (impl Future<Output = T> + Unpin)) {
    assert!(future.now_or_never().is_none(), "it waits");
}

/// Names of entries but `.` and `..`, with a slash behind a directory's.
fn shown(entries: &[DirectoryEntry]) -> Vec<String> {
    let entries = entries
        .iter()
        .filter(|entry| entry.name != "." && entry.name != "..");
    let show = |entry: &DirectoryEntry| match entry.entry.attributes.kind {
        FileKind::Directory => format!("{}/", entry.name),
        FileKind::File => entry.name.clone(),
        FileKind::SymbolicLink => format!("{}@", entry.name),
        FileKind::Pipe => format!("{}|", entry.name),
        FileKind::Socket => format!("{}=", entry.name),
    };
    entries.map(show).collect()
}

/// Permission for every change of names and content.
fn all_changes() -> WriteConfig {
    WriteConfig {
        allow_delete: true,
        allow_overwrite: true,
        allow_rename: true,
        ..WriteConfig::default()
    }
}

/// Permission for every change. Objects of more than 5 MiB are sent and copied in parts.
fn all_changes_in_parts() -> WriteConfig {
    const PART: u64 = 5 << 20;
    WriteConfig {
        allow_append: true,
        posix_metadata: true,
        part_size: Some(PART),
        copy_limits: CopyLimits {
            whole_max: PART,
            part_max: PART,
        },
        ..all_changes()
    }
}

/// A mount that permits every change of names and content.
fn writable(keys: &[&str]) -> Mount {
    Mount::with_write(SimOptions::default(), "", keys, all_changes())
}

/// A directory bucket.
fn directory_bucket(keys: &[&str], write: WriteConfig) -> Mount {
    let options = SimOptions {
        directory_bucket: true,
        ..SimOptions::default()
    };
    Mount::with_write(options, "", keys, write)
}

/// A bucket that answers requests on the test's command.
fn manual(keys: &[&str], write: WriteConfig) -> Mount {
    let options = SimOptions {
        time: Time::Manual,
        ..SimOptions::default()
    };
    Mount::with_write(options, "", keys, write)
}

/// Answers requests until the operation is done.
fn drive<T>(mount: &Mount, operation: impl Future<Output = T>) -> T {
    let mut operation = Box::pin(operation);
    loop {
        if let Some(outcome) = (&mut operation).now_or_never() {
            return outcome;
        }
        mount.bucket.deliver_all();
    }
}

/// How many requests of `operation` wait for their answers.
fn pending(mount: &Mount, operation: Operation) -> usize {
    let pending = mount.bucket.pending_requests();
    let same = pending
        .iter()
        .filter(|request| request.operation == operation);
    same.count()
}

/// Answers the requests of an operation of the file system until it sends an `operation`.
fn go_on_to<T>(
    mount: &Mount,
    running: &mut (impl Future<Output = T> + Unpin),
    operation: Operation,
) {
    while pending(mount, operation) == 0 {
        waits(running);
        mount.bucket.deliver_all();
        waits(running);
    }
}

/// The inode at the end of `path`, looked up name by name while requests are answered.
fn walk(mount: &Mount, path: &str) -> InodeNo {
    path.split('/')
        .filter(|name| !name.is_empty())
        .fold(InodeNo::ROOT, |parent, name| {
            let found = drive(mount, mount.fs.lookup(parent, OsStr::new(name)));
            found.unwrap().attributes.ino
        })
}

/// The text of an object.
fn content(mount: &Mount, key: &str) -> Option<String> {
    let object = mount.bucket.object(key)?;
    let bytes = object.content.to_vec();
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[track_caller]
fn mkdir(mount: &Mount, directory: InodeNo, name: &str) -> Result<InodeNo, FsError> {
    let made = now(mount.fs.make_directory(directory, OsStr::new(name), 0o755));
    made.map(|entry| entry.attributes.ino)
}

#[track_caller]
fn rename(
    mount: &Mount,
    from: (InodeNo, &str),
    to: (InodeNo, &str),
    mode: RenameMode,
) -> Result<(), FsError> {
    let (from, to) = ((from.0, OsStr::new(from.1)), (to.0, OsStr::new(to.1)));
    now(mount.fs.rename(from, to, mode, &Stop::never()))
}

/// Creates a file, without telling which process does.
fn create(mount: &Mount, parent: InodeNo, name: &str) -> (InodeNo, HandleNo) {
    let options = WriteOptions::default();
    let created = mount
        .fs
        .create(parent, OsStr::new(name), options, Opener::UNSEEN);
    let (entry, opened) = created.unwrap();
    (entry.attributes.ino, opened.handle)
}

#[track_caller]
fn write(mount: &Mount, handle: HandleNo, offset: u64, data: &[u8]) {
    let written = mount.fs.write_now(handle, offset, data);
    written.expect("there is memory").unwrap();
}
