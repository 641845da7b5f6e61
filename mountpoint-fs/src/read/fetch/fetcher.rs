//! Sends the GETs of a mount, and waits for their bytes.
//!
//! Knows neither patterns nor open files: callers say which range of which version they need.

use std::fmt;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use mountpoint_client::types::Priority;
use mountpoint_client::{ClientError, ObjectClient, billing};
use mountpoint_crt_sys::block::BlockFill;

use super::arrival::Arrival;
use super::fetch::{Fetch, Source};
use super::hedger::Hedger;
use super::metrics::GetMetrics;
use crate::cache::{CachedCopies, FillObserver};
use crate::clock::Clock;
use crate::memory::{Purpose, Reservation};
use crate::read::block_memory::BlockMemory;
use crate::read::object_version::ObjectVersion;

/// Sends GETs into blocks of the mount's memory.
pub(in crate::read) struct Fetcher {
    sender: Arc<GetSender>,
    memory: Arc<BlockMemory>,
    hedger: Arc<Hedger>,
}

/// Sends the first GET of each fetch.
struct GetSender {
    client: Arc<dyn ObjectClient>,
    metrics: Arc<GetMetrics>,
}

/// Where the bytes of a fetch may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::read) enum Sources {
    /// The caches, then the store.
    All,
    /// The store only: its answer is to tell whether the version is the newest.
    Store,
}

impl Fetcher {
    pub(in crate::read) fn new(
        client: Arc<dyn ObjectClient>,
        memory: Arc<BlockMemory>,
        clock: Clock,
        hedging: bool,
    ) -> Self {
        let metrics = Arc::new(GetMetrics::new(clock));
        let hedger = Hedger::new(
            Arc::clone(&client),
            Arc::clone(&memory),
            Arc::clone(&metrics),
            hedging,
        );
        Self {
            sender: Arc::new(GetSender { client, metrics }),
            memory,
            hedger,
        }
    }

    /// Counts and latencies of all GETs.
    pub(in crate::read) fn metrics(&self) -> &GetMetrics {
        &self.sender.metrics
    }

    /// Sends second GETs for late ones, for as long as the fetcher lives. A task of a tokio
    /// runtime.
    pub(in crate::read) fn hedge(&self) -> impl Future<Output = ()> + Send + use<> {
        Hedger::run(Arc::downgrade(&self.hedger))
    }

    /// Looks once at the GETs that may be late. Returns whether any are left to look at.
    #[cfg(test)]
    pub(in crate::read) fn look_at_due(&self) -> bool {
        self.hedger.look_at_due()
    }

    /// A fetch of `range` into a block that `memory` pays for. It is sent by [`Fetcher::launch`].
    pub(in crate::read) fn prepare(
        &self,
        version: &Arc<ObjectVersion>,
        range: Range<u64>,
        memory: Reservation,
        purpose: Purpose,
        copies: &CachedCopies,
    ) -> (Arc<Fetch>, BlockFill) {
        let fill = self.memory.block(memory);
        let metrics = &self.sender.metrics;
        let fetch = Fetch::new(version, range, fill.block(), purpose, metrics, copies);
        (fetch, fill)
    }

    /// Has the block of `fetch` filled, which it was prepared with. Called with no lock held: a
    /// client may tell the observer before it returns.
    pub(in crate::read) fn launch(&self, fetch: Arc<Fetch>, fill: BlockFill, sources: Sources) {
        match sources {
            Sources::All => self.sender.read_disk(fetch, fill),
            Sources::Store => {
                fetch.set_source(Source::Store);
                self.sender.get(fetch, fill);
            }
        }
    }

    /// Waits until the first `needs` bytes of `fetch` are valid. Asks again if they are late.
    pub(in crate::read) async fn wait(
        &self,
        fetch: &Arc<Fetch>,
        needs: usize,
    ) -> Result<(), ClientError> {
        let mut arrival = Arrival::of(fetch, needs);
        poll_fn(|context| {
            let outcome = Pin::new(&mut arrival).poll(context);
            if outcome.is_pending() {
                let now = self.sender.metrics.now();
                arrival.waits(now);
                self.hedger.watch(fetch, now);
            }
            outcome
        })
        .await
    }
}

impl GetSender {
    /// Sends the GET for what `fill` lacks.
    fn get(&self, fetch: Arc<Fetch>, fill: BlockFill) {
        self.metrics.count_get((fetch.len() - fill.filled()) as u64);
        self.metrics.hedge_policy.sent();
        let request = fetch.request(0, priority(&fetch));
        let _caller = billing::enter(fetch.caller());
        // Dropping the handle lets the GET finish: closing its connection costs more than a part.
        drop(self.client.get(request, fill, fetch));
    }

    /// Has the disk fill the block, and the others with what the disk does not have.
    fn read_disk(self: &Arc<Self>, fetch: Arc<Fetch>, mut fill: BlockFill) {
        let Some(cached) = fetch.on_disk().cloned() else {
            return self.read_shared(fetch, fill);
        };
        fetch.set_source(Source::Disk);
        if cached.read_at_once(fetch.range(), &mut fill) {
            fetch.ended_from(Source::Disk);
            return;
        }
        let (this, reached) = (Arc::clone(self), Arc::clone(&fetch));
        let range = fetch.range().clone();
        let progressed = move || reached.advanced();
        cached.read(range, fill, progressed, move |fill, is_full| {
            if is_full {
                drop(fill);
                fetch.ended_from(Source::Disk);
            } else {
                this.read_shared(fetch, fill);
            }
        });
    }

    /// Has the shared bucket fill the block, and the store with what the bucket does not have.
    fn read_shared(self: &Arc<Self>, fetch: Arc<Fetch>, fill: BlockFill) {
        let Some(shared) = fetch.in_shared().cloned() else {
            fetch.set_source(Source::Store);
            return self.get(fetch, fill);
        };
        fetch.set_source(Source::Shared);
        let _caller = billing::enter(fetch.caller());
        let this = Arc::clone(self);
        let range = fetch.range().clone();
        let reader = Arc::clone(&fetch) as Arc<dyn FillObserver>;
        shared.read(
            range,
            fill,
            priority(&fetch),
            reader,
            move |fill, is_full| {
                if is_full {
                    drop(fill);
                    fetch.ended_from(Source::Shared);
                } else if fetch.has_second() {
                    drop(fill);
                    fetch.leaves_to_second();
                } else {
                    fetch.set_source(Source::Store);
                    this.get(fetch, fill);
                }
            },
        );
    }
}

fn priority(fetch: &Fetch) -> Priority {
    match fetch.purpose() {
        Purpose::Demand => Priority::Foreground,
        Purpose::ReadAhead => Priority::ReadAhead,
    }
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher")
            .field("metrics", &self.sender.metrics)
            .finish_non_exhaustive()
    }
}
