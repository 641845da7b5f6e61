//! Files in memory alone, in virtual time: memory of many files, permissions, faults, and objects
//! that grow while they are written.

mod adoption;
mod faults;
mod growth;
mod permission;
mod pressure;

use std::sync::Arc;

use futures::FutureExt as _;
use mountpoint_client::testing::sim::{Operation, SimObject, SimOptions, Time};
use mountpoint_client::types::Key;
use mountpoint_client::{ObjectClient, SimClient};
use mountpoint_crt_sys::block::BlockPool;

use super::{EventLog, MIB, wait};
use crate::cache::Caches;
use crate::clock::Clock;
use crate::config::{ReadConfig, WriteConfig};
use crate::file::{StagedBase, StagedFile, StagedObserver, Staging};
use crate::memory::Budget;
use crate::mutate::Mutator;
use crate::operation::{FsError, InodeNo, Progress};
use crate::read::ReadContext;
use crate::write::{MemorySource, Stored, WriteContext};

/// A mount without a staging directory.
struct Mount {
    client: Arc<SimClient>,
    staging: Arc<Staging>,
    writing: Arc<WriteContext>,
    /// Memory of written bytes alone.
    budget: Arc<Budget>,
    clock: Clock,
    events: Arc<EventLog>,
}

impl Mount {
    /// A mount of a new bucket that has stored a file before.
    fn new(time: Time, memory: u64, config: WriteConfig) -> Self {
        let mount = Self::doubting(client(time, false), memory, config);
        mount.writing.believe();
        mount
    }

    /// A mount of the bucket of `client` that has stored nothing.
    fn doubting(client: Arc<SimClient>, memory: u64, config: WriteConfig) -> Self {
        let clock = Clock::manual();
        let shared = || Arc::clone(&client) as Arc<dyn ObjectClient>;
        let (settings, caches) = (ReadConfig::default(), Caches::default());
        let reading = ReadContext::new(shared(), settings, caches, clock.clone());
        let budget = Budget::new(memory);
        let source = MemorySource {
            budget: Arc::clone(&budget),
            pool: BlockPool::new(0),
            make_room: Arc::new(|| ()),
        };
        let mutator = Mutator::new(shared(), &config, clock.clone());
        let writing = WriteContext::new(shared(), config, clock.clone(), source, mutator);
        Self {
            staging: Staging::in_memory(&reading, &writing, clock.clone()),
            client,
            writing,
            budget,
            clock,
            events: Arc::default(),
        }
    }

    fn new_file(&self, key: &str) -> StagedFile {
        self.open(key, StagedBase::None)
    }

    /// A file over the object `key`.
    fn over(&self, key: &str) -> StagedFile {
        let SimObject { etag, content, .. } = self.client.object(key).unwrap();
        let size = content.size();
        self.open(key, StagedBase::Version(Stored { etag, size }))
    }

    fn open(&self, key: &str, base: StagedBase) -> StagedFile {
        let size = match &base {
            StagedBase::Version(version) => version.size,
            StagedBase::None | StagedBase::Unasked => 0,
        };
        let progress = Arc::new(Progress::new(size, self.clock.wall()));
        let key = Key::parse(key).unwrap();
        let headers = self.staging.headers_of_new(&key);
        let observer = Arc::clone(&self.events) as Arc<dyn StagedObserver>;
        let observer = (observer, InodeNo::ROOT);
        self.staging.file(key, base, headers, progress, observer)
    }

    fn content(&self, key: &str) -> Option<Vec<u8>> {
        Some(self.client.object(key)?.content.to_vec())
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.events.0.lock())
    }

    fn uploads(&self) -> usize {
        let open = self.client.list_uploads("");
        open.now_or_never().map_or(0, |open| open.unwrap().len())
    }

    fn count_of(&self, operation: Operation) -> usize {
        self.client.log().count(operation)
    }

    /// The requests that wait for an answer.
    fn pending(&self) -> Vec<Operation> {
        let pending = self.client.pending_requests();
        pending.iter().map(|request| request.operation).collect()
    }

    /// Answers each request that waits now.
    fn answer(&self) {
        for request in self.client.pending_requests() {
            self.client.finish(request.id);
        }
    }
}

fn client(time: Time, directory_bucket: bool) -> Arc<SimClient> {
    Arc::new(SimClient::new(SimOptions {
        time,
        directory_bucket,
        ..SimOptions::default()
    }))
}

/// Parts of 5 MiB.
fn small_parts() -> WriteConfig {
    WriteConfig {
        part_size: Some(5 << 20),
        ..WriteConfig::default()
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at % 253).unwrap()).collect()
}

/// The outcome of work that does not wait.
#[track_caller]
fn now<T>(work: impl Future<Output = T>) -> T {
    work.now_or_never().expect("it does not wait")
}

/// Writes that need not wait.
#[track_caller]
fn write(file: &StagedFile, offset: usize, data: &[u8]) -> Result<(), FsError> {
    let mut at = offset as u64;
    for piece in data.chunks(MIB) {
        file.write_now(at, piece).expect("there is memory")?;
        at += piece.len() as u64;
    }
    Ok(())
}

/// Writes as far as there is memory. Returns how far that was.
fn write_some(file: &StagedFile, data: &[u8]) -> usize {
    let mut at = 0;
    for piece in data.chunks(MIB) {
        match file.write_now(at as u64, piece) {
            Some(written) => written.unwrap(),
            None => break,
        }
        at += piece.len();
    }
    at
}
