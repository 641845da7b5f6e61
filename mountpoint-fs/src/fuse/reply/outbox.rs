//! Replies that wait for the thread of their queue.
//!
//! Invariant: a reply that is put in while the thread sleeps wakes it; the thread goes to sleep
//! only while the outbox is empty, decided under one lock. A closed outbox takes nothing. Threads:
//! any. The lock guards a few moves; no other is taken under it.

use std::sync::Arc;

use mountpoint_crt_sys::fuse_ring::{RingWaker, Slot};

use super::reply::Reply;
use crate::sync::Mutex;

/// A reply, the number of its request, and the slot of both.
pub(in crate::fuse) type Outgoing = (Slot, u64, Reply);

/// Replies that wait for the thread that sends them: at most one for each entry.
#[derive(Debug)]
pub(in crate::fuse) struct Outbox {
    waker: Arc<RingWaker>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    replies: Vec<Outgoing>,
    is_asleep: bool,
    is_closed: bool,
}

impl Outbox {
    pub(in crate::fuse) fn new(waker: Arc<RingWaker>) -> Arc<Self> {
        Arc::new(Self {
            waker,
            state: Mutex::default(),
        })
    }

    /// Queues a reply.
    pub(in crate::fuse) fn send(&self, slot: Slot, unique: u64, reply: Reply) {
        let mut state = self.state.lock();
        if state.is_closed {
            drop(state);
            tracing::debug!(unique, "no application waits for a reply");
            return;
        }
        state.replies.push((slot, unique, reply));
        let wakes = std::mem::take(&mut state.is_asleep);
        drop(state);
        if wakes {
            self.waker.wake();
        }
    }

    /// Moves the queued replies into `replies`, which is empty. Returns whether the outbox is open.
    pub(in crate::fuse) fn take(&self, replies: &mut Vec<Outgoing>) -> bool {
        debug_assert!(replies.is_empty());
        let mut state = self.state.lock();
        std::mem::swap(&mut state.replies, replies);
        !state.is_closed
    }

    /// Whether the thread may sleep. If so, the next reply wakes it.
    pub(in crate::fuse) fn may_sleep(&self) -> bool {
        let mut state = self.state.lock();
        state.is_asleep = state.replies.is_empty() && !state.is_closed;
        state.is_asleep
    }

    /// Notes that the thread has woken up.
    pub(in crate::fuse) fn awake(&self) {
        self.state.lock().is_asleep = false;
    }

    /// Ends the thread, and drops unsent replies: the connection is gone.
    pub(in crate::fuse) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let rest = std::mem::take(&mut state.replies);
        drop(state);
        // Outside the lock: blocks go back to their pool.
        drop(rest);
        self.waker.wake();
    }
}
