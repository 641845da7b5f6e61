//! Asks a late GET again: a second GET for the same bytes, over another connection.
//!
//! [`HedgePolicy`](super::hedge_policy) says which GET is late; here its verdict is carried out. A
//! task of the mount's runtime looks at the GETs that readers wait for; nothing runs while no
//! reader waits. A GET that is over, or that no reader waits for, is forgotten at the next look.

use std::sync::{Arc, Weak};
use std::time::Duration;

use mountpoint_client::types::Priority;
use mountpoint_client::{ObjectClient, billing};

use super::fetch::{Fetch, Source};
use super::hedge_policy::{HEDGE_DELAY_MIN, Sight, Verdict};
use super::hedge_queue::{HedgeQueue, Watched};
use super::metrics::GetMetrics;
use super::observers::SecondGet;
use crate::config::limits::READER_IDLE;
use crate::memory::Purpose;
use crate::read::block_memory::BlockMemory;

/// Watches the GETs of a mount and sends second ones.
pub(in crate::read) struct Hedger {
    client: Arc<dyn ObjectClient>,
    memory: Arc<BlockMemory>,
    metrics: Arc<GetMetrics>,
    is_on: bool,
    queue: HedgeQueue,
}

impl Hedger {
    pub(super) fn new(
        client: Arc<dyn ObjectClient>,
        memory: Arc<BlockMemory>,
        metrics: Arc<GetMetrics>,
        is_on: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            client,
            memory,
            metrics,
            is_on,
            queue: HedgeQueue::default(),
        })
    }

    /// Sends second GETs for late ones, for as long as the hedger lives. A task of a tokio runtime.
    pub(super) async fn run(hedger: Weak<Self>) {
        loop {
            let Some(this) = hedger.upgrade() else {
                return;
            };
            let begun = this.queue.begun();
            let is_watching = this.look_at_due();
            drop(this);
            if is_watching {
                tokio::time::sleep(HEDGE_TICK).await;
            } else {
                // However the wait ends, it is time to see whether the hedger still lives.
                drop(tokio::time::timeout(READER_IDLE, begun.notified()).await);
            }
        }
    }

    /// Looks at the GETs that are due. Returns whether any are left. Called with no lock held.
    pub(in crate::read) fn look_at_due(&self) -> bool {
        let now = self.metrics.now();
        while let Some(entry) = self.queue.take_due(now) {
            if let Some(fetch) = entry.fetch.upgrade() {
                self.look(&fetch, entry, now);
            }
        }
        !self.queue.is_empty()
    }

    /// A reader waits, now, for the bytes of `fetch`: looks at it when it may be late.
    pub(super) fn watch(&self, fetch: &Arc<Fetch>, now: Duration) {
        if !(self.is_on || fetch.source() != Source::Store)
            || fetch.has_second()
            || !fetch.begin_watch()
        {
            return;
        }
        let entry = Watched {
            fetch: Arc::downgrade(fetch),
            due: now,
            seen_at: now,
            seen: fetch.valid(),
        };
        let sight = fetch.sight(entry.seen_at, entry.seen, now);
        match self.verdict(fetch, &sight) {
            // The task sends it: this thread may have more to do than to wait for this GET.
            Verdict::Hedge => self.push(fetch, entry),
            Verdict::LookAgain(wait) | Verdict::Observe(wait) => {
                let due = now + wait;
                self.push(fetch, Watched { due, ..entry });
            }
            Verdict::Leave => fetch.end_watch(),
        }
    }

    fn look(&self, fetch: &Arc<Fetch>, entry: Watched, now: Duration) {
        if !fetch.is_awaited() {
            fetch.end_watch();
            // A reader that began to wait meanwhile found the GET watched still.
            if fetch.is_awaited() {
                self.watch(fetch, now);
            }
            return;
        }
        let sight = fetch.sight(entry.seen_at, entry.seen, now);
        match self.verdict(fetch, &sight) {
            Verdict::Hedge => {
                // A refused GET may be sent later: when more was earned, or memory was given back.
                if !self.hedge(fetch) {
                    let due = now + HEDGE_DELAY_MIN;
                    self.push(fetch, Watched { due, ..entry });
                }
            }
            Verdict::LookAgain(wait) => {
                let due = now + wait;
                self.push(fetch, Watched { due, ..entry });
            }
            Verdict::Observe(wait) => {
                let entry = Watched {
                    due: now + wait,
                    seen_at: now,
                    seen: entry.seen + usize::try_from(sight.gained).unwrap_or(0),
                    ..entry
                };
                self.push(fetch, entry);
            }
            Verdict::Leave => fetch.end_watch(),
        }
    }

    /// Whether what fills the block of `fetch` is late. A cache is, after a fixed time.
    fn verdict(&self, fetch: &Fetch, sight: &Sight) -> Verdict {
        let late = match fetch.source() {
            Source::Store if self.is_on => return self.metrics.hedge_policy.look(sight),
            Source::Store => return Verdict::Leave,
            Source::Disk => DISK_LATE,
            Source::Shared => SHARED_LATE,
        };
        match late.checked_sub(sight.age) {
            None | Some(Duration::ZERO) => Verdict::Hedge,
            Some(rest) => Verdict::LookAgain(rest),
        }
    }

    fn push(&self, fetch: &Fetch, entry: Watched) {
        if !self.queue.push(entry) {
            fetch.end_watch();
        }
    }

    /// Sends a second GET for the missing bytes. `false` if store, memory or budget refuse it now.
    fn hedge(&self, fetch: &Arc<Fetch>) -> bool {
        let from = fetch.valid();
        let missing = (fetch.len() - from) as u64;
        let source = fetch.source();
        let is_cache = source != Source::Store;
        if missing == 0 || !is_cache && self.client.is_throttled() {
            return false;
        }
        let Some(memory) = self.memory.budget.try_reserve(missing, Purpose::Demand) else {
            return false;
        };
        if !is_cache && !self.metrics.hedge_policy.spend() {
            return false;
        }
        let fill = self.memory.block(memory);
        if !fetch.begin_second(from, fill.block()) {
            return true;
        }
        if source == Source::Shared {
            fetch.shared_was_late();
        }
        self.metrics.count_get(missing);
        self.metrics.count_hedge();
        let avoid = fetch.interface();
        let request = fetch.request(from, Priority::Hedge { avoid });
        tracing::debug!(key = %request.key, range = ?request.range, "a GET is late: sent a second time");
        let observer = Arc::new(SecondGet(Arc::clone(fetch)));
        let _caller = billing::enter(fetch.caller());
        // Dropping the handle lets the GET finish: closing its connection costs more than a part.
        drop(self.client.get(request, fill, observer));
        true
    }
}

/// Time that the cache's disk may take for a part, after which S3 is asked as well. Any disk that
/// is worth a cache needs a tenth.
const DISK_LATE: Duration = Duration::from_millis(500);

/// Time that the shared bucket may take for a part, after which S3 is asked as well. S3
/// itself needs a tenth.
const SHARED_LATE: Duration = Duration::from_secs(1);

/// How often late GETs are looked for while readers wait.
const HEDGE_TICK: Duration = Duration::from_millis(5);
