//! Which GETs readers wait for, in the order in which they are due to be looked at.
//!
//! Decides nothing. Invariant: at most [`HEDGE_WATCHED_MAX`] GETs are watched, each once.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::fetch::Fetch;
use crate::sync::Mutex;

/// The watched GETs of a mount.
#[derive(Debug, Default)]
pub(super) struct HedgeQueue {
    /// A leaf: nothing else is locked or woken while it is held.
    watched: Mutex<BinaryHeap<Watched>>,
    /// Notified when the first GET joins an empty queue.
    begun: Arc<Notify>,
}

/// One GET, and what was seen of it.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) fetch: Weak<Fetch>,
    /// The time of the next look.
    pub(super) due: Duration,
    /// The time of the look before.
    pub(super) seen_at: Duration,
    /// Bytes that were valid then.
    pub(super) seen: usize,
}

impl HedgeQueue {
    /// Adds a GET; `false` if the queue is full.
    pub(super) fn push(&self, entry: Watched) -> bool {
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

    /// Takes out a GET that is due.
    pub(super) fn take_due(&self, now: Duration) -> Option<Watched> {
        let mut watched = self.watched.lock();
        if watched.peek()?.due > now {
            return None;
        }
        watched.pop()
    }

    /// Whether no GET is watched.
    pub(super) fn is_empty(&self) -> bool {
        self.watched.lock().is_empty()
    }

    /// Notified when the first GET joins an empty queue.
    pub(super) fn begun(&self) -> Arc<Notify> {
        Arc::clone(&self.begun)
    }
}

/// By their due times, the soonest last: what a heap gives first.
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

/// GETs that are watched at once. A finished GET counts until the next check.
///
/// 16,384 are as many as 400,000 reads a second leave behind in four times the least delay.
const HEDGE_WATCHED_MAX: usize = 16 << 10;
