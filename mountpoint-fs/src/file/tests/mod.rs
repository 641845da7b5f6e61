//! Staged files over a simulated bucket and a real directory.

mod ahead;
mod conflicts;
mod disk;
mod ends;
mod histories;
mod kept;
mod memory;
mod model;
mod recovery;
mod resuming;
mod storing;
mod versions;
mod write_back;

use std::cell::Cell;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use mountpoint_client::testing::sim::{SimObject, SimOptions};
use mountpoint_client::types::Key;
use mountpoint_client::{ObjectClient, SimClient};
use tempfile::TempDir;

use super::directory::{Holder, StagingDirectory};
use super::{ObservedFile, StagedBase, StagedFile, StagedObserver, Staging};
use crate::cache::Caches;
use crate::clock::Clock;
use crate::config::{ConflictPolicy, ReadConfig, StagingConfig, WriteConfig};
use crate::local_disk::test_disk::SimulatedDisk;
use crate::mutate::Mutator;
use crate::operation::{FsError, InodeNo, Progress};
use crate::read::ReadContext;
use crate::sync::Mutex;
use crate::write::{MemorySource, Stored, WriteContext};

const MIB: usize = 1 << 20;

/// Events that a file has reported.
#[derive(Debug, Default)]
struct EventLog(Mutex<Vec<String>>);

impl StagedObserver for EventLog {
    fn stored(&self, _: &ObservedFile<'_>, stored: &Stored) {
        self.0.lock().push(format!("stored {}", stored.size));
    }

    fn adopted(&self, _: &ObservedFile<'_>) {
        self.0.lock().push("adopted".to_owned());
    }

    fn failed(&self, _: &ObservedFile<'_>, _: &FsError) {
        self.0.lock().push("failed".to_owned());
    }

    fn released(&self, _: &ObservedFile<'_>) {}
}

thread_local! {
    /// Whether benches of this thread keep files in memory alone.
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
struct Bench {
    client: Arc<SimClient>,
    staging: Arc<Staging>,
    events: Arc<EventLog>,
    directory: TempDir,
}

/// Runs `work` to its end, on this thread and those of the disk.
fn wait<T>(work: impl Future<Output = T>) -> T {
    futures::executor::block_on(work)
}

impl Bench {
    fn new() -> Self {
        Self::with(ConflictPolicy::Fail, SimOptions::default())
    }

    fn with(on_conflict: ConflictPolicy, options: SimOptions) -> Self {
        let client = Arc::new(SimClient::new(options));
        let directory = TempDir::new().unwrap();
        let config = staging_config(&directory, on_conflict);
        let staging = mount(&client, &config, None, Clock::manual()).unwrap();
        Self {
            client,
            staging,
            events: Arc::default(),
            directory,
        }
    }

    fn open(&self, base: StagedBase) -> StagedFile {
        let size = match &base {
            StagedBase::Version(version) => version.size,
            StagedBase::None | StagedBase::Unasked => 0,
        };
        let progress = Arc::new(Progress::new(size, Clock::manual().wall()));
        let key = Key::parse("key").unwrap();
        let headers = self.staging.headers_of_new(&key);
        let observer = Arc::clone(&self.events) as Arc<dyn StagedObserver>;
        let observer = (observer, InodeNo::ROOT);
        self.staging.file(key, base, headers, progress, observer)
    }

    /// A file without an object.
    fn new_file(&self) -> StagedFile {
        self.open(StagedBase::None)
    }

    /// A file over an object.
    fn over(&self, object: &SimObject) -> StagedFile {
        self.open(StagedBase::Version(Stored {
            etag: object.etag.clone(),
            size: object.content.size(),
        }))
    }

    fn content(&self, key: &str) -> Option<Vec<u8>> {
        Some(self.client.object(key)?.content.to_vec())
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.events.0.lock())
    }

    /// The descriptions of kept versions.
    fn kept(&self) -> Vec<String> {
        let mut names = self.names("kept");
        names.retain(|name| name.ends_with(".json"));
        names
    }

    /// The names in one of the folders of the staging directory.
    fn names(&self, folder: &str) -> Vec<String> {
        let folder = self.directory.path().join("mount-s3-staging").join(folder);
        if IN_MEMORY.get() {
            return Vec::new();
        }
        let names = std::fs::read_dir(folder).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}

/// Opens the staging of `config`, or what is in `found`.
fn mount(
    client: &Arc<SimClient>,
    config: &StagingConfig,
    found: Option<StagingDirectory>,
    clock: Clock,
) -> Result<Arc<Staging>, String> {
    let shared = || Arc::clone(client) as Arc<dyn ObjectClient>;
    let reading = ReadContext::new(
        shared(),
        ReadConfig::default(),
        Caches::default(),
        clock.clone(),
    );
    let writing_config = WriteConfig {
        part_size: Some(5 << 20),
        ..WriteConfig::default()
    };
    let (budget, pool, make_room) = reading.memory();
    let memory = MemorySource {
        budget,
        pool,
        make_room,
    };
    let mutator = Mutator::new(shared(), &writing_config, clock.clone());
    let writing = WriteContext::new(shared(), writing_config, clock.clone(), memory, mutator);
    writing.believe();
    match found {
        None if IN_MEMORY.get() => Ok(Staging::in_memory(&reading, &writing, clock)),
        None => Staging::open(config, &reading, &writing, &|_| false, clock),
        Some(directory) => Staging::over(config, directory, &reading, &writing, clock),
    }
}

/// Opens what is in `disk`. The directory of `config` has the socket alone.
pub(crate) fn open_simulated(
    config: &StagingConfig,
    disk: &SimulatedDisk,
    (reading, writing): (&Arc<ReadContext>, &Arc<WriteContext>),
    clock: Clock,
) -> Result<Arc<Staging>, String> {
    let directory = StagingDirectory::open(&config.directory, &Holder::default(), &|_| false)?;
    let directory = directory.with_disk(Arc::new(disk.clone()));
    Staging::over(config, directory, reading, writing, clock)
}

fn staging_config(directory: &TempDir, on_conflict: ConflictPolicy) -> StagingConfig {
    StagingConfig {
        directory: directory.path().to_owned(),
        on_conflict,
        bucket: "bucket".to_owned(),
        endpoint: String::new(),
        host: "host".to_owned(),
        mount_point: "/mnt".to_owned(),
        write_back: None,
    }
}

fn write(file: &StagedFile, offset: u64, data: &[u8]) -> Result<(), FsError> {
    let mut at = offset;
    for piece in data.chunks(MIB) {
        wait(file.write(at, Bytes::copy_from_slice(piece)))?;
        at += piece.len() as u64;
    }
    Ok(())
}

fn read(file: &StagedFile, offset: u64, len: usize) -> Result<Vec<u8>, FsError> {
    let len = u32::try_from(len).unwrap();
    Ok(wait(file.read(offset, len, false))?.to_vec())
}

/// Calls a file that the bucket does not have `key`.
fn name(file: &StagedFile, key: &str) {
    let key = Key::parse(key).unwrap();
    wait(file.rename_unstored(key, StagedBase::None, None)).unwrap();
}
