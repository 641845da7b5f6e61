//! The counts and queues of a budget.
//!
//! Pure: returns the wakers to call, and the writers to tell. A writer is answered through `T`.

use std::collections::VecDeque;
use std::task::Waker;

use crate::memory::admission::{Admission, BufferKind, WaitState};
use crate::memory::writer_queue::WriterQueue;

/// The purpose of a reservation for a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// An application waits for these bytes.
    Demand,
    /// The bytes are prefetched ahead of the reader.
    ReadAhead,
}

/// The class of a reservation, each with a limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Read(Purpose),
    /// A buffer of a written file.
    Buffer(BufferKind),
    /// The bytes of a waiting WRITE.
    Pending,
    /// Bytes that are held in any case.
    Held,
}

/// All counts and queues.
#[derive(Debug)]
pub(super) struct Ledger<T> {
    pub(super) used: u64,
    /// Bytes of `used` that are held in any case.
    pub(super) held: u64,
    pub(super) ahead: u64,
    pub(super) peak: u64,
    /// Requests that wait for bytes, in order of their ticket.
    pub(super) queue: VecDeque<Waiter>,
    /// Writers that wait for a grant; then they wait for its bytes in `queue`.
    pub(super) writers: WriterQueue<T>,
    next_ticket: u64,
}

/// A request that waits for bytes.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) ticket: u64,
    pub(super) bytes: u64,
    pub(super) waker: Option<Waker>,
}

/// A writer with a granted buffer, to be notified.
pub(super) struct Granted<T> {
    pub(super) told: T,
    pub(super) ticket: u64,
    pub(super) bytes: u64,
    pub(super) kind: BufferKind,
}

impl<T> Ledger<T> {
    /// Nothing is used, and no request waits.
    pub(super) fn new(admission: Admission) -> Self {
        Self {
            used: 0,
            held: 0,
            ahead: 0,
            peak: 0,
            queue: VecDeque::new(),
            writers: WriterQueue::new(admission),
            next_ticket: 0,
        }
    }

    /// A ticket that no other request has.
    pub(super) fn next_ticket(&mut self) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        ticket
    }

    /// Whether a demand fits. A demand above the whole budget is served alone rather than never.
    pub(super) fn fits(&self, bytes: u64, limit: u64) -> bool {
        self.used == self.held || self.used + bytes <= limit
    }

    /// Counts `bytes` as used.
    pub(super) fn take(&mut self, bytes: u64) {
        self.used += bytes;
        self.peak = self.peak.max(self.used);
    }

    /// Takes `bytes`, or waits for them. Returns the ticket.
    pub(super) fn enter(&mut self, bytes: u64, limit: u64) -> u64 {
        let ticket = self.next_ticket();
        if self.queue.is_empty() && self.fits(bytes, limit) {
            self.take(bytes);
        } else {
            self.queue.push_back(Waiter {
                ticket,
                bytes,
                waker: None,
            });
        }
        ticket
    }

    /// Grants waiting writers what [`Admission`] allows; each waits for its bytes from then on.
    pub(super) fn grant(&mut self, mut wait: WaitState, limit: u64) -> Vec<Granted<T>> {
        let mut granted = Vec::new();
        while let Some((told, kind, bytes)) = self.writers.grant(wait) {
            granted.push(Granted {
                told,
                ticket: self.enter(bytes, limit),
                bytes,
                kind,
            });
            wait = WaitState::Waited;
        }
        granted
    }

    /// Serves the oldest requests as far as memory goes. Returns the wakers to call.
    pub(super) fn serve_queue(&mut self, limit: u64) -> Vec<Waker> {
        let mut woken = Vec::new();
        while let Some(first) = self.queue.front() {
            if !self.fits(first.bytes, limit) {
                break;
            }
            self.take(first.bytes);
            woken.extend(self.queue.pop_front().and_then(|waiter| waiter.waker));
        }
        woken
    }

    /// The place of a request that waits for bytes.
    pub(super) fn place_of(&self, ticket: u64) -> Option<usize> {
        self.queue
            .binary_search_by_key(&ticket, |waiter| waiter.ticket)
            .ok()
    }
}
