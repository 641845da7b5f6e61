//! A limit of read-ahead's connections, so that a blocked reader never queues behind read-ahead.
//!
//! Knows no request: it gives out tickets, and begins the read-aheads that waited for one.
//!
//! Invariant: at most `share` admitted tickets, unless the queue was full.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

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
    queue: VecDeque<Arc<dyn Queued>>,
}

/// A read-ahead that waits for its turn.
pub(in crate::crt_client) trait Queued: Send + Sync {
    /// Begins the read-ahead. Gives the ticket back if no reader wants its bytes by now.
    fn begin(self: Arc<Self>, ticket: Ticket) -> Option<Ticket>;
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

    /// A ticket, or `None`: the read-ahead waits in the queue for [`Queued::begin`].
    pub(in crate::crt_client) fn enter(&self, read_ahead: Arc<dyn Queued>) -> Option<Ticket> {
        let mut state = self.state.lock();
        if state.admitted >= self.share && state.queue.len() < self.queue_max {
            state.queue.push_back(read_ahead);
            return None;
        }
        state.admitted += 1;
        Some(Ticket(()))
    }

    /// A read-ahead is done: the next one that is still wanted begins in its place.
    pub(in crate::crt_client) fn leave(&self, ticket: Ticket) {
        let mut free = Some(ticket);
        while let Some(ticket) = free.take() {
            let Some(next) = self.next() else { return };
            free = next.begin(ticket);
        }
    }

    /// The read-ahead that begins in a free place, unless the place is given up.
    fn next(&self) -> Option<Arc<dyn Queued>> {
        let mut state = self.state.lock();
        if state.admitted <= self.share
            && let Some(next) = state.queue.pop_front()
        {
            return Some(next);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A read-ahead that keeps its ticket, unless it was cancelled.
    #[derive(Default)]
    struct ReadAhead {
        is_cancelled: bool,
        ticket: Mutex<Option<Ticket>>,
    }

    impl ReadAhead {
        fn has_begun(&self) -> bool {
            self.ticket.lock().is_some()
        }
    }

    impl Queued for ReadAhead {
        fn begin(self: Arc<Self>, ticket: Ticket) -> Option<Ticket> {
            if self.is_cancelled {
                return Some(ticket);
            }
            *self.ticket.lock() = Some(ticket);
            None
        }
    }

    fn enter(admission: &Admission, is_cancelled: bool) -> Arc<ReadAhead> {
        let read_ahead = Arc::new(ReadAhead {
            is_cancelled,
            ticket: Mutex::default(),
        });
        let ticket = admission.enter(Arc::clone(&read_ahead) as Arc<dyn Queued>);
        *read_ahead.ticket.lock() = ticket;
        read_ahead
    }

    fn leave(admission: &Admission, read_ahead: &ReadAhead) {
        let ticket = read_ahead.ticket.lock().take().unwrap();
        admission.leave(ticket);
    }

    #[test]
    fn the_next_that_is_still_wanted_takes_a_free_place() {
        let admission = Admission::new(2, 10);
        let all = [false, false, true, false, false].map(|cancelled| enter(&admission, cancelled));
        let begun = || all.each_ref().map(|one| one.has_begun());
        assert_eq!(begun(), [true, true, false, false, false]);
        leave(&admission, &all[0]);
        assert_eq!(begun(), [false, true, false, true, false]);
        leave(&admission, &all[1]);
        leave(&admission, &all[3]);
        assert_eq!(begun(), [false, false, false, false, true]);
        leave(&admission, &all[4]);
        assert!(enter(&admission, false).has_begun());
        assert!(enter(&admission, false).has_begun());
        assert!(!enter(&admission, false).has_begun());
    }

    #[test]
    fn a_full_queue_admits_beyond_the_share() {
        let admission = Admission::new(1, 1);
        let all = [(); 3].map(|()| enter(&admission, false));
        let begun = || all.each_ref().map(|one| one.has_begun());
        assert_eq!(begun(), [true, false, true]);
        // The share is exceeded: nobody takes this place.
        leave(&admission, &all[0]);
        assert_eq!(begun(), [false, false, true]);
        leave(&admission, &all[2]);
        assert_eq!(begun(), [false, true, false]);
    }
}
