//! Keeps read-ahead from taking every connection, so that a reader that is blocked never queues
//! behind it.
//!
//! Knows no request: it admits tickets and hands back those that waited.
//! Invariant: at most `share` admitted tickets, unless the queue was full.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::operation::GetOperation;

/// The gate for read-ahead.
pub(in crate::crt_client) struct Admission {
    share: usize,
    queue_max: usize,
    /// Held for a few instructions; no other lock is taken under it, and nothing is sent.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    admitted: usize,
    queue: VecDeque<Arc<GetOperation>>,
}

/// A read-ahead's right to be in flight. Give it back with [`Admission::leave`].
#[derive(Debug)]
#[must_use]
pub(in crate::crt_client) struct Ticket(());

impl Admission {
    /// A gate that lets `share` read-aheads be in flight and `queue_max` wait.
    pub(in crate::crt_client) fn new(share: usize, queue_max: usize) -> Self {
        Self {
            share: share.max(1),
            queue_max,
            state: Mutex::new(State::default()),
        }
    }

    /// A ticket, or `None`: the flight waits in the queue and `leave` will name it.
    pub(in crate::crt_client) fn enter(&self, flight: &Arc<GetOperation>) -> Option<Ticket> {
        let mut state = self.state.lock();
        if state.admitted >= self.share && state.queue.len() < self.queue_max {
            state.queue.push_back(Arc::clone(flight));
            return None;
        }
        state.admitted += 1;
        Some(Ticket(()))
    }

    /// A read-ahead is done. Returns the next to be sent, with its ticket.
    pub(in crate::crt_client) fn leave(
        &self,
        ticket: Ticket,
    ) -> Option<(Arc<GetOperation>, Ticket)> {
        let mut state = self.state.lock();
        if state.admitted <= self.share
            && let Some(next) = state.queue.pop_front()
        {
            return Some((next, ticket));
        }
        state.admitted -= 1;
        None
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        write!(
            f,
            "Admission({} of {} in flight, {} waiting)",
            state.admitted,
            self.share,
            state.queue.len()
        )
    }
}
