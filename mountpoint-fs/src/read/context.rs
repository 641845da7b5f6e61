//! The shared state of a mount's readers, as the file system sees it.
//!
//! Hands the parts to those that need them and decides nothing: `ReadResources` is what the open
//! objects share, `ObjectRegistry` finds versions that are open already. Any thread.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use mountpoint_client::ObjectClient;
use mountpoint_client::types::{ETag, Key};
use mountpoint_crt_sys::block::BlockPool;

use super::block_memory::MemoryHolder;
use super::local::LocalSource;
use super::object::{ObjectRegistry, OpenObject};
use super::renewals::{Renewal, Renewals};
use super::resources::ReadResources;
use crate::cache::Caches;
use crate::clock::Clock;
use crate::config::ReadConfig;
use crate::config::limits::{PART_MIN, READ_SIZE_MAX, READER_IDLE};
use crate::memory::Budget;
use crate::operation::{LocalFiles, LocalVersion};

/// The shared state of a mount's readers: client, block pool, memory budget, settings.
pub struct ReadContext {
    pub(super) resources: Arc<ReadResources>,
    /// Versions whose readers share what they fetch.
    pub(super) registry: Arc<ObjectRegistry<OpenObject>>,
    local: LocalSource,
    renewals: Renewals,
    /// GETs sent until idle memory was last given back.
    gets_at_give_back: AtomicU64,
}

/// Counts of the read path, for tests and debugging.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadStats {
    /// GETs sent so far.
    pub gets: u64,
    /// GETs that were sent because another one was late.
    pub hedges: u64,
    /// Hedges that were faster.
    pub hedges_won: u64,
    /// Bytes that all GETs asked for.
    pub bytes_requested: u64,
    /// Memory behind the blocks that are alive, in bytes; up to a quarter more than their lengths.
    pub block_bytes: u64,
    /// Unused memory kept for the next blocks, in bytes.
    pub idle_bytes: u64,
    /// Bytes of the budget in use.
    pub budget_used: u64,
    /// Bytes of the budget that read-ahead uses.
    pub budget_ahead: u64,
    /// Bytes of the budget that written files use.
    pub budget_written: u64,
    /// Most bytes of the budget that ever were in use.
    pub budget_peak: u64,
    /// Bytes of the budget.
    pub budget_limit: u64,
    /// Open files that hold blocks between their reads.
    pub readers_holding: usize,
    /// Streams that are read ahead.
    pub streams: usize,
    /// Open versions whose readers share what they fetch.
    pub versions_shared: usize,
}

impl ReadContext {
    /// Made once per mount. Settings too small to work with are raised to what works.
    #[must_use]
    pub fn new(
        client: Arc<dyn ObjectClient>,
        config: ReadConfig,
        caches: Caches,
        clock: Clock,
    ) -> Arc<Self> {
        let config = ReadConfig {
            memory_max: config.memory_max.max(READ_MEMORY_MIN),
            part_size: config.part_size.max(PART_MIN),
            window_max: config.window_max.max(PART_MIN),
            ..config
        };
        Arc::new(Self {
            local: LocalSource::new(clock.clone()),
            resources: ReadResources::new(client, config, caches, clock),
            registry: Arc::default(),
            renewals: Renewals::default(),
            gets_at_give_back: AtomicU64::new(0),
        })
    }

    /// The version `before` of the object `key` is about to be copied onto itself: its readers go
    /// on with the copy.
    pub(crate) fn renewing(&self, key: &Key, before: &ETag) -> Renewal {
        self.renewals.begin(key, before)
    }

    /// The version that this mount has made of the bytes of `before`, if there is one.
    pub(crate) async fn version_behind(&self, key: &Key, before: &ETag) -> Option<ETag> {
        self.renewals.version_behind(key, before).await
    }

    /// The mount's memory, for writers.
    #[must_use]
    pub fn memory(&self) -> (Arc<Budget>, BlockPool, Arc<dyn Fn() + Send + Sync>) {
        let memory = &self.resources.memory;
        let (budget, pool) = (Arc::clone(&memory.budget), memory.pool.clone());
        let memory = Arc::downgrade(memory);
        let make_room = move || {
            if let Some(memory) = memory.upgrade() {
                memory.make_room();
            }
        };
        (budget, pool, Arc::new(make_room))
    }

    /// Has `holder` give back its memory when others need it, or when it was not used for
    /// [`READER_IDLE`].
    pub(crate) fn add_memory_holder(&self, holder: Weak<dyn MemoryHolder>) {
        self.resources.memory.add_holder(holder);
    }

    /// Counts of requests and of held memory.
    #[must_use]
    pub fn stats(&self) -> ReadStats {
        let memory = &self.resources.memory;
        let metrics = self.resources.fetcher.metrics();
        ReadStats {
            gets: metrics.gets(),
            hedges: metrics.hedges(),
            hedges_won: metrics.hedges_won(),
            bytes_requested: metrics.bytes_requested(),
            block_bytes: memory.pool.bytes_in_use() as u64,
            idle_bytes: memory.pool.idle_bytes() as u64,
            budget_used: memory.budget.used(),
            budget_ahead: memory.budget.used_ahead(),
            budget_written: memory.budget.used_by_writers(),
            budget_peak: memory.budget.peak(),
            budget_limit: memory.budget.limit(),
            readers_holding: memory.holder_count(),
            streams: self.resources.stream_count(),
            versions_shared: self.registry.len(),
        }
    }

    /// Bytes that all readers have read so far.
    #[must_use]
    pub fn consumed(&self) -> u64 {
        self.resources.consumed()
    }

    /// Has local files with the bytes of whole objects from `files`. Only the first call has an
    /// effect.
    pub fn set_local_files(&self, files: Arc<dyn LocalFiles>) {
        self.local.set(files);
    }

    /// Whether there may be local files with the bytes of whole objects.
    #[must_use]
    pub fn has_local_files(&self) -> bool {
        self.local.is_set()
    }

    /// Whether local files are in use.
    #[must_use]
    pub fn uses_local_files(&self) -> bool {
        self.local.is_used()
    }

    /// Begins or ends the use of local files. Returns whether that is a change.
    pub fn use_local_files(&self, is_used: bool) -> bool {
        self.local.use_files(is_used)
    }

    /// The version of an open that only reads, with its local file if there is one. `None` if no
    /// local file can ever stand for it.
    #[must_use]
    pub fn local_version(&self, key: &Key, etag: &ETag, size: u64) -> Option<LocalVersion> {
        self.local.version(key, etag, size)
    }

    /// Gives no local file for a version for some seconds.
    pub fn pause_local_file(&self, key: Key, etag: ETag) {
        self.local.pause(key, etag);
    }

    /// Sends second GETs for late ones, for as long as the mount lives. A task of a tokio runtime.
    pub fn hedge(&self) -> impl Future<Output = ()> + Send + use<> {
        self.resources.fetcher.hedge()
    }

    /// Gives back the blocks of files that nobody has read for a while, and the pool's memory if
    /// no GET was sent since the last call. Reads give blocks back from time to time; an idle mount
    /// needs this call, every [`READER_IDLE`].
    pub fn give_back_idle(&self) {
        let memory = &self.resources.memory;
        memory.reclaim(READER_IDLE, u64::MAX);
        let gets = self.resources.fetcher.metrics().gets();
        let is_unused = self.gets_at_give_back.swap(gets, Ordering::Relaxed) == gets;
        if is_unused && memory.pool.bytes_in_use() == 0 {
            memory.pool.trim();
        }
    }
}

impl fmt::Debug for ReadContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadContext")
            .field("resources", &self.resources)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// Least read memory: a quarter is kept for demand and must serve the largest READ.
const READ_MEMORY_MIN: u64 = 4 * READ_SIZE_MAX as u64;
