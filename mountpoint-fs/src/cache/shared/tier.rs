//! The shared state of a mount's extents: the bucket, the policy, the counts.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mountpoint_client::{ClientError, ObjectClient};
use mountpoint_crt_sys::block::BlockFill;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::extent::SharedExtent;
use super::format::{HeldBytes, STORED_LEN_MAX};
use super::policy::TierPolicy;
use super::statistics::SharedCacheStats;
use crate::cache::StoreId;
use crate::clock::Clock;
use crate::sync::Mutex;

/// The facts of a mount that its shared cache needs.
#[derive(Debug)]
pub struct SharedCacheParts {
    /// A client of the shared bucket.
    pub client: Arc<dyn ObjectClient>,
    /// Begins all keys of the cache; empty, or ends with `/`.
    pub prefix: String,
    /// The store whose objects are kept.
    pub store: StoreId,
    /// Most bytes that wait until they are all of an extent.
    pub held_max: u64,
    /// Where requests go on.
    pub runtime: Handle,
    /// Tells mounts apart; another number in each process.
    pub seed: u64,
}

/// Memory for bytes on their way from and to the bucket.
pub(crate) trait BlockSource: fmt::Debug + Send + Sync {
    /// A block of `len` bytes; `None` if memory is short.
    fn block(&self, len: u64) -> Option<BlockFill>;
}

/// The bucket, and what was learned of it.
pub(super) struct Tier {
    pub(super) client: Arc<dyn ObjectClient>,
    pub(super) prefix: String,
    pub(super) store: StoreId,
    pub(super) runtime: Handle,
    pub(super) clock: Clock,
    /// A leaf.
    pub(super) stats: Mutex<SharedCacheStats>,
    pub(super) held: HeldBytes,
    held_max: u64,
    /// A leaf.
    policy: Mutex<TierPolicy>,
    /// Extents whose pieces are held, the oldest first. A leaf.
    assembling: Mutex<VecDeque<Weak<SharedExtent>>>,
    /// Differs from process to process.
    pub(super) seed: u64,
    /// Whether the server puts objects only where there is none.
    pub(super) has_conditions: AtomicBool,
    /// Extents that are being stored, and how many may be.
    storing: AtomicUsize,
    storing_max: usize,
    has_stored: Notify,
}

/// One extent that is being stored, until it is dropped.
pub(super) struct Storing(Arc<Tier>);

impl Tier {
    pub(super) fn new(parts: SharedCacheParts, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            client: parts.client,
            prefix: parts.prefix,
            store: parts.store,
            runtime: parts.runtime,
            clock,
            stats: Mutex::default(),
            held: HeldBytes::default(),
            held_max: parts.held_max.max(STORED_LEN_MAX),
            storing_max: storing_max(parts.held_max),
            policy: Mutex::default(),
            assembling: Mutex::default(),
            seed: parts.seed,
            has_conditions: AtomicBool::new(true),
            storing: AtomicUsize::new(0),
            has_stored: Notify::new(),
        })
    }

    /// Asks or tells the policy, with the time.
    pub(super) fn policy<T>(&self, with: impl FnOnce(&mut TierPolicy, Duration) -> T) -> T {
        with(&mut self.policy.lock(), self.clock.now())
    }

    /// The bucket has answered a GET after `took`.
    pub(super) fn answered(&self, took: Duration) {
        if let Some(pause) = self.policy(|policy, now| policy.reads.answered(took, now)) {
            leave_alone(pause, &format!("it takes {took:?} to answer"));
        }
    }

    /// An object was not what its name says.
    pub(super) fn sent_damage(&self) {
        self.stats.lock().damaged += 1;
        if let Some(pause) = self.policy(|policy, now| policy.reads.sent_damage(now)) {
            leave_alone(pause, "its objects are damaged or foreign");
        }
    }

    /// A GET failed.
    pub(super) fn read_failed(&self, error: &ClientError) {
        self.stats.lock().errors += 1;
        tracing::debug!("the shared cache cannot be read: {error}");
        if let Some(pause) = self.policy(|policy, now| policy.reads.failed(now)) {
            leave_alone(pause, &format!("it cannot be read: {error}"));
        }
    }

    /// A PUT has succeeded, or found what it was to store.
    pub(super) fn stored(&self) {
        // A slow PUT holds nobody: only its failure counts.
        let took = Duration::ZERO;
        self.policy(|policy, now| policy.stores.answered(took, now));
    }

    /// A PUT failed.
    pub(super) fn store_failed(&self, error: &ClientError) {
        self.stats.lock().errors += 1;
        tracing::debug!("the shared cache cannot be written: {error}");
        if let Some(pause) = self.policy(|policy, now| policy.stores.failed(now)) {
            tracing::warn!("nothing is stored in the shared cache for {pause:?}: {error}");
        }
    }

    /// S3 is asked for a range too, because the bucket is late.
    pub(super) fn was_late(&self) {
        self.stats.lock().late += 1;
        if let Some(pause) = self.policy(|policy, now| policy.reads.failed(now)) {
            leave_alone(pause, "it is late");
        }
    }

    /// The first piece of `extent` is held. Older pieces go if that is too much.
    pub(super) fn assembles(&self, extent: &Arc<SharedExtent>) {
        let mut given_up = Vec::new();
        {
            let mut assembling = self.assembling.lock();
            assembling.push_back(Arc::downgrade(extent));
            while assembling.len() > ASSEMBLING_MAX {
                given_up.extend(assembling.pop_front().and_then(|it| it.upgrade()));
            }
        }
        given_up.iter().for_each(|extent| extent.give_up());
        self.bound_held();
    }

    /// Gives up the oldest pieces while too many bytes are held.
    pub(super) fn bound_held(&self) {
        while self.held.bytes() > self.held_max {
            let Some(oldest) = self.assembling.lock().pop_front() else {
                return;
            };
            if let Some(extent) = oldest.upgrade() {
                extent.give_up();
            }
        }
    }

    /// The right to store one extent, if there is not too much to do.
    pub(super) fn begin_storing(self: &Arc<Self>) -> Option<Storing> {
        let before = self.storing.fetch_add(1, Ordering::AcqRel);
        let storing = Storing(Arc::clone(self));
        let may_store = before < self.storing_max
            && self.policy(|policy, now| {
                let is_paused = policy.reads.is_paused(now) || policy.stores.is_paused(now);
                !is_paused && policy.store_rate.takes(now)
            });
        may_store.then_some(storing)
    }

    /// Waits until nothing is being stored.
    pub(super) async fn drained(&self) {
        loop {
            let stored = self.has_stored.notified();
            if self.storing.load(Ordering::Acquire) == 0 {
                return;
            }
            stored.await;
        }
    }
}

/// Extents that may be stored at once, where `held_max` bytes may be held.
pub(super) fn storing_max(held_max: u64) -> usize {
    let extents = usize::try_from(held_max / STORED_LEN_MAX).unwrap_or(STORING_MAX);
    extents.clamp(1, STORING_MAX)
}

fn leave_alone(pause: Duration, why: &str) {
    tracing::warn!("the shared cache is not used for {pause:?}: {why}; reads go to S3 instead");
}

impl Drop for Storing {
    fn drop(&mut self) {
        self.0.storing.fetch_sub(1, Ordering::AcqRel);
        self.0.has_stored.notify_waiters();
    }
}

impl fmt::Debug for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tier")
            .field("client", &self.client)
            .field("prefix", &self.prefix)
            .field("stats", &self.stats.lock())
            .finish_non_exhaustive()
    }
}

/// Extents whose pieces are held at once. Each stream needs one or two.
const ASSEMBLING_MAX: usize = 256;

/// Extents that are stored at once where memory allows: with 8 MiB in 100 ms each, 640 MB/s. Beyond
/// it the network is full, and readers need it more.
const STORING_MAX: usize = 8;
