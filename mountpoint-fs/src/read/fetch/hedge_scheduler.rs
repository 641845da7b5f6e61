//! Which GETs readers wait for, and when each is looked at next.
//!
//! Decides nothing: [`HedgePolicy`] says which is late, the fetch itself sends the second GET. A
//! task of the mount's runtime ([`ReadContext::hedge`]) looks, while anything is watched; nothing
//! runs while nobody waits.
//!
//! Invariant: at most [`HEDGE_WATCHED_MAX`] are watched, each once. One that is over, or that
//! nobody waits for, is forgotten when it is looked at.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::fetch::Fetch;
use super::hedge_policy::HedgePolicy;
use crate::config::limits::{HEDGE_TICK, HEDGE_WATCHED_MAX, READER_IDLE};
use crate::read::context::ReadContext;
use crate::sync::Mutex;

/// The watched GETs of a mount.
#[derive(Debug)]
pub(in crate::read) struct HedgeScheduler {
    pub(in crate::read) policy: HedgePolicy,
    is_on: bool,
    /// A leaf: nothing else is locked or woken while it is held.
    watched: Mutex<BinaryHeap<Watched>>,
    /// There is something to look at, where there was nothing.
    begun: Arc<Notify>,
}

/// One GET, and what was seen of it.
#[derive(Debug)]
pub(in crate::read) struct Watched {
    pub(in crate::read) fetch: Weak<Fetch>,
    /// When it is looked at.
    pub(in crate::read) due: Duration,
    /// When it was looked at before, and what was valid then.
    pub(in crate::read) seen_at: Duration,
    pub(in crate::read) seen: usize,
}

impl HedgeScheduler {
    pub(in crate::read) fn new(is_on: bool) -> Self {
        Self {
            policy: HedgePolicy::default(),
            is_on,
            watched: Mutex::default(),
            begun: Arc::default(),
        }
    }

    /// Whether second GETs are sent at all.
    pub(in crate::read) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Has a GET looked at when it is due; `false` if too many are.
    pub(in crate::read) fn watch(&self, entry: Watched) -> bool {
        let mut watched = self.watched.lock();
        if watched.len() >= HEDGE_WATCHED_MAX {
            return false;
        }
        let is_first = watched.is_empty();
        watched.push(entry);
        drop(watched);
        if is_first {
            self.begun.notify_one();
        }
        true
    }

    /// One that is due.
    fn take_due(&self, now: Duration) -> Option<Watched> {
        let mut watched = self.watched.lock();
        if watched.peek()?.due > now {
            return None;
        }
        watched.pop()
    }

    fn is_watching(&self) -> bool {
        !self.watched.lock().is_empty()
    }
}

impl ReadContext {
    /// Sends second GETs for those that are late, for as long as the context lives. A task of a
    /// tokio runtime.
    pub async fn hedge(context: Weak<Self>) {
        loop {
            let Some(this) = context.upgrade() else {
                return;
            };
            let begun = Arc::clone(&this.hedge_scheduler.begun);
            let is_watching = this.hedge_late();
            drop(this);
            if is_watching {
                tokio::time::sleep(HEDGE_TICK).await;
            } else {
                // However it ends, it is time to look whether the context is still there.
                drop(tokio::time::timeout(READER_IDLE, begun.notified()).await);
            }
        }
    }

    /// Looks at the GETs that are due. Returns whether any are left. Called with no lock held.
    pub(in crate::read) fn hedge_late(&self) -> bool {
        let now = self.clock.now();
        while let Some(entry) = self.hedge_scheduler.take_due(now) {
            if let Some(fetch) = entry.fetch.upgrade() {
                fetch.look(entry, now);
            }
        }
        self.hedge_scheduler.is_watching()
    }
}

/// By when they are due, soonest last: what a heap gives first.
impl Ord for Watched {
    fn cmp(&self, other: &Self) -> Ordering {
        other.due.cmp(&self.due)
    }
}

impl PartialOrd for Watched {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Watched {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for Watched {}
