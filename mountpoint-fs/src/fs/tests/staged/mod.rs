//! Staged files through the operations of the kernel, over a simulated bucket and a real directory.

mod close;
mod directories;
mod exclusive;
mod kills;
mod links;
mod model;
mod names;
mod open;
mod uploading;

use std::cell::Cell;
use std::ffi::OsStr;
use std::sync::Arc;

use mountpoint_client::testing::sim::{SimOptions, Time};
use mountpoint_client::{ObjectClient, SimClient};
use tempfile::TempDir;

use super::{OPENER, READ};
use crate::clock::Clock;
use crate::config::{
    ConflictPolicy, FsConfig, NamesConfig, StagingConfig, WriteBackConfig, WriteConfig,
};
use crate::fs::FileSystem;
use crate::handle::{Closing, Opener};
use crate::operation::{
    AttributeChange, FsError, HandleNo, InodeNo, Opened, RenameMode, Stop, WriteOptions,
};

const ROOT: InodeNo = InodeNo::ROOT;

const WRITE: WriteOptions = WriteOptions {
    truncate: false,
    exclusive: false,
    append: false,
    synchronous: false,
    both: true,
    mode: None,
    is_vouched: false,
    maker: None,
};

thread_local! {
    /// Whether mounts of this thread keep files in memory alone.
    static IN_MEMORY: Cell<bool> = const { Cell::new(false) };
}

/// Runs `test` with files in a directory, and with files in memory alone.
fn in_both(test: impl Fn()) {
    for in_memory in [false, true] {
        IN_MEMORY.set(in_memory);
        test();
    }
}

/// A mount with a staging directory, or with files in memory alone.
struct Staged {
    bucket: Arc<SimClient>,
    fs: Arc<FileSystem>,
    directory: TempDir,
    write: WriteConfig,
}

/// The output of `work`, which may wait for the local disk.
fn wait<T>(work: impl Future<Output = T>) -> T {
    futures::executor::block_on(work)
}

/// A configuration that permits all changes.
fn all_changes() -> WriteConfig {
    WriteConfig {
        allow_delete: true,
        allow_overwrite: true,
        allow_append: true,
        allow_rename: true,
        ..WriteConfig::default()
    }
}

impl Staged {
    fn new(keys: &[&str]) -> Self {
        Self::with(keys, all_changes(), ConflictPolicy::Fail)
    }

    fn with(keys: &[&str], write: WriteConfig, on_conflict: ConflictPolicy) -> Self {
        let options = SimOptions {
            time: Time::Immediate,
            ..SimOptions::default()
        };
        let bucket = Arc::new(SimClient::new(options));
        for key in keys {
            bucket.put_object(key, format!("content of {key}"));
        }
        Self::over(bucket, write, on_conflict)
    }

    fn over(bucket: Arc<SimClient>, write: WriteConfig, on_conflict: ConflictPolicy) -> Self {
        let directory = TempDir::new().unwrap();
        Self::on(directory, bucket, (write, None), on_conflict)
    }

    /// A mount with what is in `directory`.
    fn on(
        directory: TempDir,
        bucket: Arc<SimClient>,
        (write, write_back): (WriteConfig, Option<WriteBackConfig>),
        on_conflict: ConflictPolicy,
    ) -> Self {
        let config = FsConfig {
            write: write.clone(),
            names: NamesConfig {
                works_offline: write_back.is_some(),
                ..NamesConfig::default()
            },
            ..FsConfig::default()
        };
        let client = Arc::clone(&bucket) as Arc<dyn ObjectClient>;
        let clock = match write_back {
            Some(_) => Clock::monotonic(),
            None => Clock::manual(),
        };
        let mut fs = FileSystem::new(client, config, clock);
        let staging = StagingConfig {
            directory: directory.path().to_owned(),
            on_conflict,
            bucket: "bucket".to_owned(),
            endpoint: String::new(),
            host: "host".to_owned(),
            mount_point: "/mnt".to_owned(),
            write_back,
        };
        if !IN_MEMORY.get() {
            fs.stage(&staging, &|_| false).unwrap();
        }
        fs.parts.writing.believe();
        Self {
            bucket,
            fs: Arc::new(fs),
            directory,
            write,
        }
    }

    /// Another host's mount of the same bucket.
    fn beside(&self) -> Self {
        let bucket = Arc::clone(&self.bucket);
        Self::over(bucket, all_changes(), ConflictPolicy::Fail)
    }

    /// The inode at the end of `path`.
    fn walk(&self, path: &str) -> InodeNo {
        path.split('/').fold(ROOT, |parent, name| {
            let entry = wait(self.fs.lookup(parent, OsStr::new(name)));
            entry.unwrap().attributes.ino
        })
    }

    fn create(&self, parent: InodeNo, name: &str) -> (InodeNo, HandleNo) {
        let made = self
            .fs
            .create(parent, OsStr::new(name), WRITE, Opener::UNSEEN);
        let (entry, opened) = made.unwrap();
        (entry.attributes.ino, opened.handle)
    }

    /// Opens `path` for reading and writing.
    fn open(&self, path: &str) -> HandleNo {
        self.open_with(path, WRITE).unwrap().handle
    }

    fn open_with(&self, path: &str, options: WriteOptions) -> Result<Opened, FsError> {
        let ino = self.walk(path);
        wait(self.fs.open_for_writing(ino, options, Opener::UNSEEN))
    }

    fn open_to_read(&self, path: &str) -> HandleNo {
        let ino = self.walk(path);
        wait(self.fs.open(ino, READ)).unwrap().handle
    }

    fn write(&self, handle: HandleNo, offset: u64, data: &str) -> Result<(), FsError> {
        wait(self.fs.write(handle, offset, data.as_bytes()))
    }

    fn read(&self, handle: HandleNo) -> Result<String, FsError> {
        let read = wait(self.fs.read(handle, 0, 1 << 20, true))?;
        Ok(String::from_utf8(read.to_vec()).unwrap())
    }

    fn set_len(&self, handle: HandleNo, ino: InodeNo, len: u64) -> Result<(), FsError> {
        let change = AttributeChange {
            size: Some(len),
            handle: Some(handle),
            ..AttributeChange::default()
        };
        wait(self.fs.set_attributes(ino, change)).map(drop)
    }

    /// Closes the descriptor and releases the handle, as the kernel does.
    fn close(&self, handle: HandleNo) -> Result<(), FsError> {
        self.close_as(handle, &OPENER)
    }

    fn close_as(&self, handle: HandleNo, closing: &dyn Closing) -> Result<(), FsError> {
        let flushed = wait(self.fs.flush(handle, closing));
        self.fs.release(handle);
        wait(self.fs.drained());
        flushed
    }

    fn unlink(&self, parent: InodeNo, name: &str) -> Result<(), FsError> {
        wait(self.fs.unlink(parent, OsStr::new(name)))
    }

    fn rename(&self, from: (InodeNo, &str), to: (InodeNo, &str)) -> Result<(), FsError> {
        let (from, to) = ((from.0, OsStr::new(from.1)), (to.0, OsStr::new(to.1)));
        let mode = RenameMode::Replace;
        wait(self.fs.rename(from, to, mode, &Stop::never()))
    }

    /// The object's bytes; `None` if there is none.
    fn stored(&self, key: &str) -> Option<String> {
        let bytes = self.bucket.object(key)?.content.to_vec();
        Some(String::from_utf8(bytes).unwrap())
    }

    fn size(&self, ino: InodeNo) -> u64 {
        wait(self.fs.attributes(ino)).unwrap().size
    }

    /// Files of kept versions.
    fn kept(&self) -> usize {
        if IN_MEMORY.get() {
            return 0;
        }
        let kept = self.directory.path().join("mount-s3-staging/kept");
        std::fs::read_dir(kept).unwrap().count()
    }

    /// Requests since the last call.
    fn requests(&self) -> usize {
        self.bucket.take_log().records().len()
    }
}
