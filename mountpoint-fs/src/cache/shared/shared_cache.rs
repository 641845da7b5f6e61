//! The shared tier of a mount, as the read path sees it: a source of blocks behind the disk and
//! before S3, and a sink behind the reader.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mountpoint_client::ObjectClient;
use mountpoint_client::types::{ETag, Key, Priority};
use mountpoint_crt_sys::block::BlockFill;

use super::check::{self, CheckFailure, CheckedStep};
use super::extent::{Offered, SharedExtent};
use super::format::{ExtentName, ExtentPlace, divide, folder};
use super::read::SharedRead;
use super::receive::FillObserver;
use super::statistics::SharedCacheStats;
use super::store::SharedStore;
use super::tier::{BlockSource, SharedCacheParts, Tier};
use crate::cache::identity::CachedVersion;
use crate::clock::Clock;
use crate::operation::Slices;
use crate::sync::Mutex;

/// Content in a bucket that mounts share.
#[derive(Debug)]
pub struct SharedCache {
    tier: Arc<Tier>,
}

/// One version of an object in a shared cache, while the object is open.
#[derive(Clone)]
pub(crate) struct SharedObject(Arc<OpenVersion>);

struct OpenVersion {
    tier: Arc<Tier>,
    version: CachedVersion,
    memory: Arc<dyn BlockSource>,
    /// Whether the last range came from the bucket.
    had_last: AtomicBool,
    /// Extents that were read of late, by their numbers. A leaf.
    extents: Mutex<HashMap<u64, Arc<SharedExtent>>>,
}

impl SharedCache {
    /// A cache in the bucket of a client.
    #[must_use]
    pub fn new(parts: SharedCacheParts, clock: Clock) -> Arc<Self> {
        let tier = Tier::new(parts, clock);
        Arc::new(Self { tier })
    }

    /// Begins the keys of all objects that a cache behind `prefix` stores.
    #[must_use]
    pub fn folder(prefix: &str) -> String {
        folder(prefix)
    }

    /// Proves that the bucket tells what it does not have. Changes nothing.
    ///
    /// # Errors
    /// The step that failed, and why.
    pub async fn look(&self) -> Result<(), (CheckedStep, CheckFailure)> {
        check::look(&self.tier).await
    }

    /// Proves that the bucket can be read and written.
    ///
    /// # Errors
    /// The step that failed, and why.
    pub async fn check(&self) -> Result<(), (CheckedStep, CheckFailure)> {
        check::run(&self.tier).await
    }

    /// Whether the client `other` sees the same bucket, whatever it calls it. Only behind
    /// [`Self::check`], and only if it may read there.
    pub async fn is_seen_by(&self, other: &dyn ObjectClient) -> bool {
        check::is_seen_by(&self.tier, other).await
    }

    /// The version `etag` of `key`, which is `size` bytes long.
    pub(crate) fn object(
        &self,
        key: &Key,
        etag: &ETag,
        size: u64,
        memory: Arc<dyn BlockSource>,
    ) -> SharedObject {
        let version = CachedVersion {
            store: self.tier.store.clone(),
            key: key.clone(),
            etag: etag.clone(),
            size,
        };
        SharedObject(Arc::new(OpenVersion {
            tier: Arc::clone(&self.tier),
            version,
            memory,
            had_last: AtomicBool::new(false),
            extents: Mutex::default(),
        }))
    }

    /// Counts since the mount.
    #[must_use]
    pub fn stats(&self) -> SharedCacheStats {
        *self.tier.stats.lock()
    }

    /// Waits until what was fetched is stored.
    pub async fn drained(&self, time_max: Duration) {
        if tokio::time::timeout(time_max, self.tier.drained())
            .await
            .is_err()
        {
            tracing::warn!("the shared cache is slow: the last bytes that were read are not kept");
        }
    }
}

impl SharedObject {
    /// `range`, divided where one extent ends and the next begins.
    pub(crate) fn divide(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        divide(range, self.0.version.size)
    }

    /// Whether to ask for `range`: not across extents, and not where it is known that the bucket
    /// fails.
    pub(crate) fn may_have(&self, range: &Range<u64>) -> bool {
        let place = ExtentPlace::at(range.start, self.0.version.size);
        let is_on = |tier: &Tier| tier.policy(|policy, now| policy.reads.is_on(now));
        let may_have = range.end <= place.range.end && is_on(&self.0.tier);
        if !may_have {
            self.0.had_last.store(false, Ordering::Relaxed);
        }
        may_have
    }

    /// Whether the last range came from the bucket.
    pub(crate) fn had_last(&self) -> bool {
        self.0.had_last.load(Ordering::Relaxed)
    }

    /// Whether pieces of `range` are collected: not across extents, and not while the bucket is
    /// left alone.
    fn may_keep(&self, range: &Range<u64>) -> bool {
        let place = ExtentPlace::at(range.start, self.0.version.size);
        let is_paused = |tier: &Tier| {
            tier.policy(|policy, now| policy.reads.is_paused(now) || policy.stores.is_paused(now))
        };
        range.end <= place.range.end && !is_paused(&self.0.tier)
    }

    /// Fills `fill`, which is for `range`, from the bucket, on other threads. Calls `done` at the
    /// end with `fill`, and with whether it is full.
    pub(crate) fn read(
        &self,
        range: Range<u64>,
        fill: BlockFill,
        priority: Priority,
        reader: Arc<dyn FillObserver>,
        done: impl FnOnce(BlockFill, bool) + Send + 'static,
    ) {
        let tier = Arc::clone(&self.0.tier);
        let read = SharedRead {
            extent: self.extent(range.start),
            memory: Arc::clone(&self.0.memory),
            range,
            priority,
            reader,
            tier,
        };
        let runtime = self.0.tier.runtime.clone();
        let version = Arc::clone(&self.0);
        // The handle of the task is not needed: the task ends with its requests.
        drop(runtime.spawn(async move {
            let (fill, is_full) = read.run(fill).await;
            version.had_last.store(is_full, Ordering::Relaxed);
            done(fill, is_full);
        }));
    }

    /// Keeps the bytes of `range`, which are `slices` and came from S3, until their extent is
    /// whole; then stores it in the background, if there is time.
    pub(crate) fn store(&self, range: &Range<u64>, slices: Slices) {
        if !self.may_keep(range) {
            return;
        }
        let tier = &self.0.tier;
        let extent = self.extent(range.start);
        match extent.offer(range, slices, &tier.held) {
            Offered::First => tier.assembles(&extent),
            Offered::Held => tier.bound_held(),
            Offered::Whole(assembly, presence) => {
                let Some(storing) = tier.begin_storing() else {
                    tier.stats.lock().dropped += 1;
                    return extent.stored(None);
                };
                let store = SharedStore {
                    tier: Arc::clone(tier),
                    extent,
                    memory: Arc::clone(&self.0.memory),
                    assembly,
                    presence,
                    storing,
                };
                drop(tier.runtime.spawn(store.run()));
            }
        }
    }

    /// S3 is asked too, because the bucket is late.
    pub(crate) fn was_late(&self) {
        self.0.tier.was_late();
    }

    /// The extent with the byte at `offset`.
    fn extent(&self, offset: u64) -> Arc<SharedExtent> {
        let version = &self.0.version;
        let place = ExtentPlace::at(offset, version.size);
        let mut extents = self.0.extents.lock();
        if let Some(extent) = extents.get(&place.number) {
            return Arc::clone(extent);
        }
        if extents.len() >= EXTENTS_MAX {
            // Extents in use go on by themselves; the answers about the others are asked again.
            extents.clear();
        }
        let name = ExtentName::of(version, &place);
        let number = place.number;
        let extent = SharedExtent::new(place, name);
        extents.insert(number, Arc::clone(&extent));
        extent
    }
}

impl fmt::Debug for SharedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedObject")
            .field(&self.0.version)
            .finish()
    }
}

/// Extents of one open file of which anything is known: 32 GiB of it in 0.5 MiB of memory.
const EXTENTS_MAX: usize = 4096;
