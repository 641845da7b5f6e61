//! The file system's operations over a simulated bucket, without a kernel: answers and S3 requests.

mod carried;
mod changes_in_motion;
mod changing;
mod cold;
mod concurrent;
mod copying;
mod creating;
mod following;
mod large;
mod late_writing;
mod listing;
mod lookup;
mod lost_answers;
mod model;
mod motion;
mod moved;
mod mutation_matrix;
mod opening;
mod other_servers;
mod posix;
mod redressing;
mod renaming;
mod renaming_directories;
mod renaming_faults;
mod renaming_meanwhile;
mod renaming_open;
mod share_model;
mod sibling_prefetch;
mod threads;
mod walking;
mod write_model;
mod writing;

use std::ffi::OsStr;
use std::sync::Arc;

use futures::FutureExt;
use mountpoint_client::SimClient;
use mountpoint_client::testing::sim::{Operation, RequestLog, SimOptions, Time};

use super::FileSystem;
use crate::clock::Clock;
use crate::config::{FsConfig, NamesConfig, WriteConfig};
use crate::handle::{Closer, Closing, Opener, Others};
use crate::operation::{
    DirectoryEntry, DirectorySink, Entry, FileKind, FsError, HandleNo, InodeNo, OpenOptions,
};

const READ: OpenOptions = OpenOptions {
    write: false,
    direct: false,
    process: 0,
};

/// The process that closes a file, as set by a test.
struct Closes(Closer, Others);

impl Closing for Closes {
    fn closer(&self, _: Opener) -> Closer {
        self.0
    }

    fn others(&self, _: InodeNo, _: &str) -> Others {
        self.1
    }
}

/// The opener closes its last descriptor.
const OPENER: Closes = Closes(Closer::Opener, Others::None);
/// The opener duplicates its descriptor, and closes the first one.
const MOVES: Closes = Closes(Closer::Opener, Others::Held);
/// The test hides whether the opener duplicates or closes its descriptor.
const UNSEEN: Closes = Closes(Closer::Opener, Others::Unknown);
/// A child of the opener ends.
const CHILD: Closes = Closes(Closer::Child, Others::None);

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
        fs.writing.believe();
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
    future
        .now_or_never()
        .expect("it does not wait for anything")
}

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
    };
    entries.map(show).collect()
}
