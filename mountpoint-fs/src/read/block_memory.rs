//! The memory of all blocks of a mount, and which blocks go when memory is short.
//!
//! Knows nothing of patterns or requests. Open files that hold blocks are listed here, so that
//! their blocks can be given back when others need the memory, or after a while; so is other memory
//! that need not stay.
//!
//! Lock order: an open file's own lock, then the list's. Memory is given back with neither held.
//! Any thread.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use metrics::Histogram;
use mountpoint_crt_sys::block::{BlockFill, BlockPool};

use crate::cache::BlockSource;
use crate::clock::Clock;
use crate::config::limits::READER_IDLE;
use crate::memory::{Budget, Deficit, Purpose, Reservation, Reserve};
use crate::metrics::names::MEMORY_WAIT;
use crate::metrics::trace::{WaitCause, micros, waits};
use crate::sync::Mutex;

/// An open file that holds blocks between its reads, or another place that holds bytes for reads to
/// come. Called with no lock held.
pub(crate) trait MemoryHolder: Debug + Send + Sync {
    /// The time of its latest read.
    fn used_at(&self) -> Duration;

    /// Gives back all memory, or with `keep_ahead` only blocks that a read waited for. Returns how
    /// many bytes that is.
    fn give_back(&self, keep_ahead: bool) -> u64;

    /// Gives back blocks that stay only for readers more than `behind_max` behind others. Returns
    /// how many bytes they have.
    fn give_back_shared(&self, behind_max: u64) -> u64;
}

/// Names an open file in the list of those that hold blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct HolderId(u64);

/// The budget and the pool of a mount's blocks, and the open files that hold some.
#[derive(Debug)]
pub(super) struct BlockMemory {
    pub(super) budget: Arc<Budget>,
    pub(super) pool: BlockPool,
    clock: Clock,
    holders: Mutex<HashMap<HolderId, Weak<dyn MemoryHolder>>>,
    next_holder: AtomicU64,
    /// When idle files are looked for the next time, in milliseconds of the clock.
    sweep_at_ms: AtomicU64,
    waits: Histogram,
}

impl BlockMemory {
    /// Memory of at most `limit` bytes.
    pub(super) fn new(limit: u64, clock: Clock) -> Arc<Self> {
        let idle_max = usize::try_from(limit / POOL_IDLE_SHARE).unwrap_or(usize::MAX);
        Arc::new(Self {
            budget: Budget::new(limit),
            pool: BlockPool::new(idle_max),
            clock,
            holders: Mutex::default(),
            next_holder: AtomicU64::new(0),
            sweep_at_ms: AtomicU64::new(0),
            waits: metrics::histogram!(MEMORY_WAIT, "area" => "read"),
        })
    }

    /// A block whose memory holds `reservation` for as long as it lives.
    pub(super) fn block(&self, reservation: Reservation) -> BlockFill {
        let len = usize::try_from(reservation.bytes()).expect("a block fits into memory");
        self.pool.allocate_guarded(len, reservation)
    }

    /// Waits for memory, and measures the wait.
    pub(super) async fn wait_for(&self, turn: Reserve) -> Reservation {
        let observe = |waited| self.waits.record(micros(waited));
        waits(WaitCause::Memory, turn, observe).await
    }

    /// Lists a holder of memory.
    pub(super) fn add_holder(&self, holder: Weak<dyn MemoryHolder>) -> HolderId {
        let id = HolderId(self.next_holder.fetch_add(1, Ordering::Relaxed));
        self.holders.lock().insert(id, holder);
        id
    }

    /// Removes an open file that holds no blocks.
    pub(super) fn remove_holder(&self, holder: HolderId) {
        self.holders.lock().remove(&holder);
    }

    /// How many open files hold blocks.
    pub(super) fn holder_count(&self) -> usize {
        self.holders.lock().len()
    }

    /// How far a reader may be behind another one for blocks to stay; 0 where memory is short.
    pub(super) fn behind_max(&self) -> u64 {
        let limit = self.budget.limit();
        if self.budget.used() > limit / SHARE_USED_SHARE {
            return 0;
        }
        SHARE_BEHIND_MAX.min(limit / SHARE_BEHIND_SHARE)
    }

    /// Gives back blocks of idle files and blocks that slower readers no longer need. Does so
    /// once in [`SWEEP_PERIOD_MS`], however often it is called. Called with no lock held.
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
            for (_, holder) in self.holders_by_age() {
                holder.give_back_shared(self.behind_max());
            }
        }
    }

    /// Makes room for requests that wait for memory, and for what writers hold beyond the limit.
    ///
    /// Called with no lock held: by the request that has just joined the queue, and by the read
    /// that has just mapped blocks, so that one of the two sees the other.
    ///
    /// Blocks of files that nobody reads go first, then what is left of demanded blocks. Blocks
    /// read ahead of an active stream stay: the share of read-ahead leaves room for every demand
    /// that is no larger than the rest.
    pub(super) fn make_room(&self) {
        let Some(Deficit { bytes, largest }) = self.budget.deficit() else {
            return;
        };
        let mut freed = self.reclaim(READER_QUIET, bytes);
        if freed >= bytes {
            return;
        }
        let holders = self.holders_by_age();
        for (_, holder) in &holders {
            freed += holder.give_back_shared(0);
        }
        if freed >= bytes {
            return;
        }
        let keep_ahead = largest <= self.budget.limit() - self.budget.ahead_max();
        for (_, holder) in holders {
            freed += holder.give_back(keep_ahead);
            if freed >= bytes {
                break;
            }
        }
    }

    /// Gives back blocks of files that were not read for `quiet`, the longest unread first, until
    /// that is `wanted` bytes. Returns how many bytes it is.
    pub(super) fn reclaim(&self, quiet: Duration, wanted: u64) -> u64 {
        let now = self.clock.now();
        let mut freed = 0;
        for (used_at, holder) in self.holders_by_age() {
            if freed >= wanted || used_at + quiet > now {
                break;
            }
            freed += holder.give_back(false);
        }
        freed
    }

    /// Open files that hold blocks, the longest unread first.
    fn holders_by_age(&self) -> Vec<(Duration, Arc<dyn MemoryHolder>)> {
        let holders = self.holders.lock();
        let mut by_age: Vec<_> = holders
            .values()
            .filter_map(Weak::upgrade)
            .map(|holder| (holder.used_at(), holder))
            .collect();
        drop(holders);
        by_age.sort_by_key(|(used_at, _)| *used_at);
        by_age
    }
}

/// Memory for the shared cache: less urgent than what a reader waits for.
impl BlockSource for BlockMemory {
    fn block(&self, len: u64) -> Option<BlockFill> {
        let reservation = self.budget.try_reserve(len, Purpose::ReadAhead)?;
        Some(Self::block(self, reservation))
    }
}

const SWEEP_PERIOD_MS: u64 = 1000;

/// Unused memory that the block pool keeps, as a share of the read memory. One in so many bytes.
const POOL_IDLE_SHARE: u64 = 8;

/// Time without a read after which a file's blocks are evicted before others.
const READER_QUIET: Duration = Duration::from_millis(500);

/// Largest distance between readers for which blocks stay that the first has read.
///
/// That is half a second at 500 MB/s, so that a reader that began so much later catches up. A
/// reader farther behind fetches again.
const SHARE_BEHIND_MAX: u64 = 256 << 20;

/// The largest such distance as a share of the mount's memory. One in so many bytes.
const SHARE_BEHIND_SHARE: u64 = 4;

/// Share of memory in use up to which blocks stay for slower readers. One in so many bytes.
///
/// Such blocks never keep other readers from reading ahead.
const SHARE_USED_SHARE: u64 = 2;
