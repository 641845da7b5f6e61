//! One GET in the air and those who wait for its bytes.
//!
//! A flight fills one block from one range of one version; it does not know who reads, or why. A reader waits for
//! a place in the block ([`Flight::arrival`]), not for the whole of it. This is where hedging and deadlines belong.
//!
//! Invariant: a waiter is woken when its bytes are valid or the flight has ended, and no lock is held then. The
//! client's thread calls the observer; it takes the lock only when somebody's bytes have come.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering, fence};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mountpoint_client::types::GetOutput;
use mountpoint_client::{ClientError, ErrorKind, GetObserver};
use mountpoint_crt_sys::block::Block;

use super::context::ReadContext;
use crate::executor;
use crate::memory::Purpose;
use crate::sync::Mutex;

/// A GET, from before it is sent until its block is forgotten.
#[derive(Debug)]
pub(super) struct Flight {
    range: Range<u64>,
    block: Block,
    purpose: Purpose,
    /// What is told how long it took.
    context: Arc<ReadContext>,
    /// When it was made, by the context's clock.
    began: Duration,
    /// `RUNNING`, `DONE` or `FAILED`.
    state: AtomicU8,
    /// Fewest valid bytes that a waiter needs; `usize::MAX` if nobody waits.
    wanted: AtomicUsize,
    /// A leaf: nothing else is locked or woken while it is held.
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    waiters: Vec<Waiter>,
    next_ticket: u64,
    /// Why it failed; set before `state` says so.
    error: Option<ClientError>,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    /// Bytes from the front of the block that must be valid.
    needs: usize,
    waker: Waker,
}

impl Flight {
    /// A flight that is about to fill `block` from `range`.
    pub(super) fn new(
        context: &Arc<ReadContext>,
        range: Range<u64>,
        block: Block,
        purpose: Purpose,
    ) -> Arc<Self> {
        Arc::new(Self {
            range,
            block,
            purpose,
            context: Arc::clone(context),
            began: context.clock.now(),
            state: AtomicU8::new(RUNNING),
            wanted: AtomicUsize::new(usize::MAX),
            waiting: Mutex::default(),
        })
    }

    /// Its bytes of the object.
    pub(super) fn range(&self) -> &Range<u64> {
        &self.range
    }

    /// Where they land.
    pub(super) fn block(&self) -> &Block {
        &self.block
    }

    /// What it was started for.
    pub(super) fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Whether the first `needs` bytes of the block are valid.
    pub(super) fn has(&self, needs: usize) -> bool {
        self.block.valid() >= needs
    }

    /// Whether the first `needs` bytes of the block will never be valid.
    pub(super) fn has_failed_before(&self, needs: usize) -> bool {
        self.state.load(Ordering::Acquire) == FAILED && !self.has(needs)
    }

    /// Waits until the first `needs` bytes of the block are valid.
    pub(super) fn arrival(&self, needs: usize) -> Arrival<'_> {
        assert!(needs <= self.block.capacity());
        Arrival {
            flight: self,
            needs,
            ticket: None,
        }
    }

    fn outcome(&self, needs: usize) -> Option<Result<(), ClientError>> {
        if self.has(needs) {
            return Some(Ok(()));
        }
        if self.has_failed_before(needs) {
            let error = self.waiting.lock().error.clone();
            return Some(Err(error.expect("set before the state")));
        }
        None
    }

    /// Wakes those whose bytes are valid, or all.
    fn wake(&self, is_over: bool) {
        let woken: Vec<Waker> = {
            let mut waiting = self.waiting.lock();
            let valid = self.block.valid();
            let served = waiting
                .waiters
                .extract_if(.., |waiter| is_over || waiter.needs <= valid);
            let woken = served.map(|waiter| waiter.waker).collect();
            self.publish_wanted(&waiting);
            woken
        };
        if !woken.is_empty() {
            executor::deliver(woken);
        }
    }

    fn publish_wanted(&self, waiting: &Waiting) {
        let wanted = waiting.waiters.iter().map(|waiter| waiter.needs).min();
        self.wanted
            .store(wanted.unwrap_or(usize::MAX), Ordering::Relaxed);
    }
}

impl GetObserver for Flight {
    fn progressed(&self) {
        // Against the fence in `Arrival::poll`: either that sees the bytes, or this sees the waiter.
        fence(Ordering::SeqCst);
        if self.has(self.wanted.load(Ordering::Relaxed)) {
            self.wake(false);
        }
    }

    fn finished(&self, outcome: Result<GetOutput, ClientError>) {
        let error = match outcome {
            Ok(_) if self.has(self.block.capacity()) => None,
            Ok(_) => Some(ClientError::new(
                ErrorKind::InvalidResponse,
                "a GET ended before its range did",
            )),
            Err(error) => Some(error),
        };
        let state = if error.is_some() {
            FAILED
        } else {
            self.context.count_get(&self.range, self.began);
            DONE
        };
        self.waiting.lock().error = error;
        self.state.store(state, Ordering::Release);
        self.wake(true);
    }
}

/// Waits for bytes of a flight. Dropping it leaves no waiter behind.
#[derive(Debug)]
pub(super) struct Arrival<'a> {
    flight: &'a Flight,
    needs: usize,
    ticket: Option<u64>,
}

impl Future for Arrival<'_> {
    type Output = Result<(), ClientError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(outcome) = self.flight.outcome(self.needs) {
            return Poll::Ready(outcome);
        }
        {
            let mut waiting = self.flight.waiting.lock();
            let ticket = *self.ticket.get_or_insert_with(|| {
                waiting.next_ticket += 1;
                waiting.next_ticket
            });
            match waiting
                .waiters
                .iter_mut()
                .find(|waiter| waiter.ticket == ticket)
            {
                Some(waiter) => waiter.waker.clone_from(cx.waker()),
                None => waiting.waiters.push(Waiter {
                    ticket,
                    needs: self.needs,
                    waker: cx.waker().clone(),
                }),
            }
            self.flight.publish_wanted(&waiting);
        }
        fence(Ordering::SeqCst);
        match self.flight.outcome(self.needs) {
            Some(outcome) => Poll::Ready(outcome),
            None => Poll::Pending,
        }
    }
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut waiting = self.flight.waiting.lock();
        if let Some(place) = waiting
            .waiters
            .iter()
            .position(|waiter| waiter.ticket == ticket)
        {
            waiting.waiters.swap_remove(place);
            self.flight.publish_wanted(&waiting);
        }
    }
}

const RUNNING: u8 = 0;
const DONE: u8 = 1;
const FAILED: u8 = 2;
