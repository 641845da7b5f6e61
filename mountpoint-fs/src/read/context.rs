//! What the readers of one mount share: client, memory, settings, and who holds blocks.
//!
//! Knows nothing of patterns or requests. Readers that hold blocks are listed here, so that those
//! of idle files can be given back when others need the memory, or after a while.
//!
//! Lock order: a reader's own lock, then the list's. Memory is given back with neither held. Any
//! thread.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mountpoint_client::ObjectClient;
use mountpoint_crt_sys::block::{BlockFill, BlockPool};

use crate::clock::Clock;
use crate::config::ReadConfig;
use crate::config::limits::{
    PART_MIN, POOL_IDLE_SHARE, READ_MEMORY_MIN, READER_IDLE, READER_QUIET, SHARE_BEHIND_MAX,
    SHARE_BEHIND_SHARE, SHARE_USED_SHARE,
};
use crate::memory::{Budget, Reservation, Shortage};
use crate::read::fetch::HedgeScheduler;
use crate::read::layout::LayoutCache;
use crate::read::object::ObjectRegistry;
use crate::read::object::OpenObject;
use crate::read::plan::MinLatencies;
use crate::read::plan::ProvenWindow;
use crate::sync::Mutex;

/// What all readers of a mount share: client, block pool, memory budget, settings.
pub struct ReadContext {
    pub(super) client: Arc<dyn ObjectClient>,
    pub(super) config: ReadConfig,
    pub(super) clock: Clock,
    pub(super) budget: Arc<Budget>,
    pub(super) min_latencies: MinLatencies,
    pub(super) proven_window: ProvenWindow,
    pub(super) layouts: LayoutCache,
    pub(super) hedge_scheduler: HedgeScheduler,
    /// Those that readers may share.
    pub(super) registry: ObjectRegistry,
    pool: BlockPool,
    holders: Mutex<HashMap<HolderId, Weak<OpenObject>>>,
    holder_next: AtomicU64,
    streams: AtomicUsize,
    /// Bytes that all readers have read so far.
    consumed: AtomicU64,
    /// When idle readers are looked for the next time, in milliseconds of the clock.
    sweep_at_ms: AtomicU64,
    gets: AtomicU64,
    hedges: AtomicU64,
    /// `gets` when idle memory was last given back.
    gets_at_give_back: AtomicU64,
    bytes_requested: AtomicU64,
}

/// Names a reader in the list of those that hold blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct HolderId(u64);

/// Counts of the read path, for tests and debugging.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadStats {
    /// GETs sent so far.
    pub gets: u64,
    /// Those of them that were sent because another was late.
    pub hedges: u64,
    /// Bytes they asked for.
    pub bytes_requested: u64,
    /// Memory behind the blocks that are alive, in bytes; up to a quarter more than their lengths.
    pub block_bytes: u64,
    /// Unused memory kept for the next blocks, in bytes.
    pub idle_bytes: u64,
    /// Bytes of the budget in use.
    pub budget_used: u64,
    /// Most that ever were.
    pub budget_peak: u64,
    /// Bytes that may be.
    pub budget_limit: u64,
    /// Readers that hold blocks beyond a read.
    pub readers_holding: usize,
    /// Streams that are read ahead.
    pub streams: usize,
    /// Versions that are open and whose readers share what they fetch.
    pub versions_shared: usize,
}

impl ReadContext {
    /// Made once per mount. Settings too small to work with are raised to what works.
    #[must_use]
    pub fn new(client: Arc<dyn ObjectClient>, config: ReadConfig, clock: Clock) -> Arc<Self> {
        let config = ReadConfig {
            memory_max: config.memory_max.max(READ_MEMORY_MIN),
            part_size: config.part_size.max(PART_MIN),
            window_max: config.window_max.max(PART_MIN),
            ..config
        };
        let memory_max = config.memory_max;
        let idle_max = usize::try_from(memory_max / POOL_IDLE_SHARE).unwrap_or(usize::MAX);
        Arc::new(Self {
            client,
            hedge_scheduler: HedgeScheduler::new(config.hedging),
            config,
            clock,
            budget: Budget::new(memory_max),
            min_latencies: MinLatencies::default(),
            proven_window: ProvenWindow::default(),
            layouts: LayoutCache::default(),
            registry: ObjectRegistry::default(),
            pool: BlockPool::new(idle_max),
            holders: Mutex::default(),
            holder_next: AtomicU64::new(0),
            streams: AtomicUsize::new(0),
            consumed: AtomicU64::new(0),
            sweep_at_ms: AtomicU64::new(0),
            gets: AtomicU64::new(0),
            hedges: AtomicU64::new(0),
            gets_at_give_back: AtomicU64::new(0),
            bytes_requested: AtomicU64::new(0),
        })
    }

    /// The mount's memory, for those who write.
    #[must_use]
    pub fn memory(self: &Arc<Self>) -> (Arc<Budget>, BlockPool, Arc<dyn Fn() + Send + Sync>) {
        let this = Arc::downgrade(self);
        let make_room = move || {
            if let Some(this) = this.upgrade() {
                this.make_room();
            }
        };
        (
            Arc::clone(&self.budget),
            self.pool.clone(),
            Arc::new(make_room),
        )
    }

    /// What has been asked for and what is held.
    #[must_use]
    pub fn stats(&self) -> ReadStats {
        ReadStats {
            gets: self.gets.load(Ordering::Relaxed),
            hedges: self.hedges.load(Ordering::Relaxed),
            bytes_requested: self.bytes_requested.load(Ordering::Relaxed),
            block_bytes: self.pool.bytes_in_use() as u64,
            idle_bytes: self.pool.idle_bytes() as u64,
            budget_used: self.budget.used(),
            budget_peak: self.budget.peak(),
            budget_limit: self.budget.limit(),
            readers_holding: self.holders.lock().len(),
            streams: self.stream_count(),
            versions_shared: self.registry.len(),
        }
    }

    /// Gives back the blocks of files that nobody has read for a while, and the pool's memory if
    /// there was no GET since the last call. Reads see to the blocks themselves from time to time;
    /// a mount that is wholly idle needs it to be called, every [`READER_IDLE`].
    pub fn give_back_idle(&self) {
        self.reclaim(READER_IDLE, u64::MAX);
        let gets = self.gets.load(Ordering::Relaxed);
        let unused = self.gets_at_give_back.swap(gets, Ordering::Relaxed) == gets;
        if unused && self.budget.used() == 0 {
            self.pool.trim();
        }
    }

    pub(super) fn new_holder(&self) -> HolderId {
        HolderId(self.holder_next.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn add_holder(&self, reader: HolderId, object: Weak<OpenObject>) {
        self.holders.lock().insert(reader, object);
    }

    pub(super) fn remove_holder(&self, reader: HolderId) {
        self.holders.lock().remove(&reader);
    }

    /// A reader has `now` streams, where it had `before`.
    pub(super) fn count_streams(&self, before: usize, now: usize) {
        self.streams.fetch_add(now, Ordering::Relaxed);
        self.streams.fetch_sub(before, Ordering::Relaxed);
    }

    /// Bytes that all readers have read so far, with the `len` that one reads now.
    pub(super) fn count_consumed(&self, len: u64) -> u64 {
        self.consumed.fetch_add(len, Ordering::Relaxed) + len
    }

    /// Bytes that all readers have read so far.
    #[must_use]
    pub fn consumed(&self) -> u64 {
        self.consumed.load(Ordering::Relaxed)
    }

    /// A GET of `range` that was sent when the clock said `began` has just come to its end.
    pub(super) fn count_get(&self, range: &Range<u64>, began: Duration) {
        let now = self.clock.now();
        let delay = now.saturating_sub(began);
        let len = range.end - range.start;
        self.min_latencies.record(len, delay, now);
        self.hedge_scheduler.policy.ended(len, delay);
    }

    /// The first byte of such a GET has just come.
    pub(super) fn count_first_byte(&self, range: &Range<u64>, began: Duration) {
        let now = self.clock.now();
        let delay = now.saturating_sub(began);
        self.min_latencies.record_first_byte(delay, now);
        self.hedge_scheduler
            .policy
            .began(range.end - range.start, delay);
    }

    /// A GET was sent because another is late.
    pub(super) fn count_hedge(&self) {
        self.hedges.fetch_add(1, Ordering::Relaxed);
    }

    /// Streams of all readers.
    pub(super) fn stream_count(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }

    /// Largest window of one stream: its share of what read-ahead may hold.
    pub(super) fn window_max(&self) -> u64 {
        let streams = self.stream_count().max(1) as u64;
        self.config
            .window_max
            .min(self.budget.ahead_max() / streams)
    }

    /// How far one reader may be behind another of the same file for what that has read to stay; 0
    /// where memory is short.
    pub(super) fn behind_max(&self) -> u64 {
        let limit = self.budget.limit();
        if self.budget.used() > limit / SHARE_USED_SHARE {
            return 0;
        }
        SHARE_BEHIND_MAX.min(limit / SHARE_BEHIND_SHARE)
    }

    /// A block whose memory holds `reservation` for as long as it lives.
    pub(super) fn block(&self, reservation: Reservation) -> BlockFill {
        let len = usize::try_from(reservation.bytes()).expect("a block fits into memory");
        self.gets.fetch_add(1, Ordering::Relaxed);
        self.bytes_requested
            .fetch_add(reservation.bytes(), Ordering::Relaxed);
        self.pool.allocate_guarded(len, reservation)
    }

    /// Now and then, looks for idle readers, and for what stays for those of others. Called with no
    /// lock held.
    pub(super) fn sweep(&self, now: Duration) {
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let due = self.sweep_at_ms.load(Ordering::Relaxed);
        let next = now_ms.saturating_add(SWEEP_PERIOD_MS);
        if now_ms >= due
            && self
                .sweep_at_ms
                .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            self.reclaim(READER_IDLE, u64::MAX);
            for (_, object) in self.holders_by_age() {
                object.give_back_shared(self.behind_max());
            }
        }
    }

    /// Makes room for those who wait for memory, and for what writers hold beyond it. Called with
    /// no lock held: by who has just taken a place in the queue, and by who has just mapped blocks,
    /// so that one of the two sees the other.
    ///
    /// First go the blocks of files that nobody reads, then what is left of demanded blocks. Blocks
    /// read ahead of an active stream stay: their share leaves room for every demand that is no
    /// larger than the rest.
    pub(super) fn make_room(&self) {
        let Some(Shortage { bytes, largest }) = self.budget.shortage() else {
            return;
        };
        let mut freed = self.reclaim(READER_QUIET, bytes);
        if freed >= bytes {
            return;
        }
        let holders = self.holders_by_age();
        for (_, object) in &holders {
            freed += object.give_back_shared(0);
        }
        if freed >= bytes {
            return;
        }
        let keep_ahead = largest <= self.budget.limit() - self.budget.ahead_max();
        for (_, object) in holders {
            freed += object.give_back(keep_ahead);
            if freed >= bytes {
                break;
            }
        }
    }

    /// Gives back what files hold that were not read for `quiet`, the longest unread first, until
    /// `wanted` bytes are on their way. Returns how many are.
    pub(super) fn reclaim(&self, quiet: Duration, wanted: u64) -> u64 {
        let now = self.clock.now();
        let mut freed = 0;
        for (used, object) in self.holders_by_age() {
            if freed >= wanted || used + quiet > now {
                break;
            }
            freed += object.give_back(false);
        }
        freed
    }

    /// Readers that hold blocks, the longest unread first.
    fn holders_by_age(&self) -> Vec<(Duration, Arc<OpenObject>)> {
        let holders = self.holders.lock();
        let mut by_age: Vec<_> = holders
            .values()
            .filter_map(Weak::upgrade)
            .map(|object| (object.used_at(), object))
            .collect();
        drop(holders);
        by_age.sort_by_key(|(used, _)| *used);
        by_age
    }
}

impl fmt::Debug for ReadContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadContext")
            .field("config", &self.config)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

const SWEEP_PERIOD_MS: u64 = 1000;
