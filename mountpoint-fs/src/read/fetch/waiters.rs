//! The reads that wait for bytes of one fetch.
//!
//! A reader waits for a place in the range, not for the whole of it. The fewest bytes that any
//! reader needs are kept beside the lock: the thread that delivers bytes takes the lock only when
//! the bytes of some reader have come.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;

use crate::sync::Mutex;

/// The waiting reads of one fetch.
#[derive(Debug)]
pub(super) struct Waiters {
    /// Fewest valid bytes that a waiter needs; `usize::MAX` if nobody waits.
    fewest: AtomicUsize,
    /// A leaf: nothing else is locked or woken while it is held.
    list: Mutex<WaiterList>,
}

#[derive(Debug, Default)]
struct WaiterList {
    waiters: Vec<Waiter>,
    next_ticket: u64,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    /// Bytes from the front of the block that must be valid.
    needs: usize,
    waker: Waker,
}

impl Default for Waiters {
    fn default() -> Self {
        Self {
            fewest: AtomicUsize::new(usize::MAX),
            list: Mutex::default(),
        }
    }
}

impl Waiters {
    /// Fewest valid bytes that a waiter needs; `usize::MAX` if nobody waits.
    pub(super) fn fewest_needed(&self) -> usize {
        self.fewest.load(Ordering::SeqCst)
    }

    /// Adds a read that needs `needs` bytes, or replaces the waker of the one with this `ticket`.
    /// Returns its ticket.
    pub(super) fn wait(&self, ticket: Option<u64>, needs: usize, waker: &Waker) -> u64 {
        let mut list = self.list.lock();
        let ticket = ticket.unwrap_or_else(|| {
            list.next_ticket += 1;
            list.next_ticket
        });
        let mut waiters = list.waiters.iter_mut();
        match waiters.find(|waiter| waiter.ticket == ticket) {
            Some(waiter) => waiter.waker.clone_from(waker),
            None => list.waiters.push(Waiter {
                ticket,
                needs,
                waker: waker.clone(),
            }),
        }
        self.publish_fewest(&list);
        ticket
    }

    /// Removes the read of a ticket, if it still waits.
    pub(super) fn remove(&self, ticket: u64) {
        let mut list = self.list.lock();
        let mut waiters = list.waiters.iter();
        if let Some(place) = waiters.position(|waiter| waiter.ticket == ticket) {
            list.waiters.swap_remove(place);
            self.publish_fewest(&list);
        }
    }

    /// Takes out the reads whose bytes are valid, by what they need. The caller wakes them.
    pub(super) fn take_served(&self, is_served: impl Fn(usize) -> bool) -> Vec<Waker> {
        let mut list = self.list.lock();
        let served = list
            .waiters
            .extract_if(.., |waiter| is_served(waiter.needs));
        let wakers = served.map(|waiter| waiter.waker).collect();
        self.publish_fewest(&list);
        wakers
    }

    fn publish_fewest(&self, list: &WaiterList) {
        let fewest = list.waiters.iter().map(|waiter| waiter.needs).min();
        self.fewest
            .store(fewest.unwrap_or(usize::MAX), Ordering::Relaxed);
    }
}
