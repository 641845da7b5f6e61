//! The shared state of a mount's open objects: settings, memory, GETs, and lessons of reads.
//!
//! Knows no object and no reader. Any thread; no lock of its own.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use mountpoint_client::ObjectClient;

use super::block_memory::BlockMemory;
use super::fetch::Fetcher;
use super::layout::LayoutCache;
use super::object_version::ObjectVersion;
use super::plan::ProvenWindow;
use crate::cache::{BlockSource, CachedCopies, Caches};
use crate::clock::Clock;
use crate::config::ReadConfig;

/// The shared state of one mount's open objects.
pub(super) struct ReadResources {
    pub(super) config: ReadConfig,
    pub(super) clock: Clock,
    pub(super) memory: Arc<BlockMemory>,
    pub(super) fetcher: Fetcher,
    pub(super) proven_window: ProvenWindow,
    pub(super) layouts: LayoutCache,
    /// Content on a local disk and in a shared bucket, if the user wants that.
    caches: Caches,
    streams: AtomicUsize,
    /// Bytes that all readers have read so far.
    consumed: AtomicU64,
}

impl ReadResources {
    pub(super) fn new(
        client: Arc<dyn ObjectClient>,
        config: ReadConfig,
        caches: Caches,
        clock: Clock,
    ) -> Arc<Self> {
        let memory = BlockMemory::new(config.memory_max, clock.clone());
        let fetcher = Fetcher::new(client, Arc::clone(&memory), clock.clone(), config.hedging);
        Arc::new(Self {
            config,
            clock,
            memory,
            fetcher,
            proven_window: ProvenWindow::default(),
            layouts: LayoutCache::default(),
            caches,
            streams: AtomicUsize::new(0),
            consumed: AtomicU64::new(0),
        })
    }

    /// `version` in the caches.
    pub(super) fn copies(&self, version: &ObjectVersion) -> CachedCopies {
        if version.size == 0 {
            return CachedCopies::default();
        }
        let Caches { disk, shared } = &self.caches;
        let ObjectVersion { key, etag, size } = version;
        let memory = || Arc::clone(&self.memory) as Arc<dyn BlockSource>;
        CachedCopies {
            disk: disk.as_ref().map(|disk| disk.object(key, etag, *size)),
            shared: shared
                .as_ref()
                .map(|shared| shared.object(key, etag, *size, memory())),
        }
    }

    /// Bytes that all readers have read so far, with the `len` that one reads now.
    pub(super) fn count_consumed(&self, len: u64) -> u64 {
        self.consumed.fetch_add(len, Ordering::Relaxed) + len
    }

    /// Bytes that all readers have read so far.
    pub(super) fn consumed(&self) -> u64 {
        self.consumed.load(Ordering::Relaxed)
    }

    /// An object has `now` streams, where it had `before`.
    pub(super) fn count_streams(&self, before: usize, now: usize) {
        self.streams.fetch_add(now, Ordering::Relaxed);
        self.streams.fetch_sub(before, Ordering::Relaxed);
    }

    /// Streams of all readers.
    pub(super) fn stream_count(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }

    /// Whether the largest window is a share of memory, less than the setting.
    pub(super) fn is_window_a_share(&self) -> bool {
        self.window_max() < self.config.window_max
    }

    /// Largest window of one stream: its share of what read-ahead may hold.
    pub(super) fn window_max(&self) -> u64 {
        let streams = self.stream_count().max(1) as u64;
        let share = self.memory.budget.ahead_max() / streams;
        self.config.window_max.min(share)
    }
}

impl fmt::Debug for ReadResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadResources")
            .field("config", &self.config)
            .field("streams", &self.stream_count())
            .finish_non_exhaustive()
    }
}
