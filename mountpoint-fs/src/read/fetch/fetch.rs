//! One range in flight and the reads that wait for its bytes.
//!
//! A fetch asks for one range of one version; it does not know who reads, or why. A reader waits
//! for a place in the range ([`Fetch::arrival`]), not for the whole of it. One GET fills one block
//! with it. If that is late, a second GET, over another connection, fills a block of its own with
//! what is missing; readers get bytes of whichever has them, and what the other still brings is
//! dropped: to cancel it would cost its connection.
//!
//! Invariant: a waiter is woken when its bytes are valid or the fetch has ended, and no lock is
//! held then. The client's thread calls the observer; it takes the lock only when somebody's bytes
//! have come. A fetch fails when the last of its GETs has, and is done when the first is.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mountpoint_client::types::{ETag, GetOutput, GetRequest, Key, Priority};
use mountpoint_client::{ClientError, ErrorKind, GetObserver};
use mountpoint_crt_sys::block::{Block, BlockFill};

use super::hedge_policy::{Sight, Verdict};
use super::hedge_scheduler::Watched;
use crate::config::limits::HEDGE_DELAY_MIN;
use crate::executor;
use crate::memory::Purpose;
use crate::operation::Slices;
use crate::read::context::ReadContext;
use crate::sync::Mutex;

/// A range, from before its GET is sent until it is forgotten.
#[derive(Debug)]
pub(in crate::read) struct Fetch {
    key: Key,
    etag: ETag,
    object_size: u64,
    range: Range<u64>,
    /// Where its bytes land.
    block: Block,
    purpose: Purpose,
    /// What is told how long it took.
    context: Arc<ReadContext>,
    /// When it was made, by the context's clock.
    began: Duration,
    /// Whether its first byte has come.
    has_begun: AtomicBool,
    /// The network interface that its GET went over.
    interface: AtomicUsize,
    /// Whether somebody looks from time to time if it is late.
    is_watched: AtomicBool,
    /// The second GET's side, if there was one.
    second: OnceLock<Second>,
    /// `RUNNING`, `DONE` or `FAILED`.
    state: AtomicU8,
    /// Fewest valid bytes that a waiter needs; `usize::MAX` if nobody waits.
    wanted: AtomicUsize,
    /// A leaf: nothing else is locked or woken while it is held.
    waiting: Mutex<Waiting>,
}

/// What a second GET fills.
#[derive(Debug)]
struct Second {
    /// Bytes of the fetch that the first had brought when it was sent: it asks for those behind.
    from: usize,
    block: Block,
}

#[derive(Debug, Default)]
struct Waiting {
    waiters: Vec<Waiter>,
    next_ticket: u64,
    /// GETs that have ended with an error.
    failures: u8,
    /// Why the last of them did; set before `state` says so.
    error: Option<ClientError>,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    /// Bytes from the front of the block that must be valid.
    needs: usize,
    waker: Waker,
}

impl Fetch {
    /// A fetch that is about to fill `block` from `range` of a version.
    pub(in crate::read) fn new(
        context: &Arc<ReadContext>,
        (key, etag, object_size): (&Key, &ETag, u64),
        range: Range<u64>,
        block: Block,
        purpose: Purpose,
    ) -> Arc<Self> {
        Arc::new(Self {
            key: key.clone(),
            etag: etag.clone(),
            object_size,
            range,
            block,
            purpose,
            context: Arc::clone(context),
            began: context.clock.now(),
            has_begun: AtomicBool::new(false),
            interface: AtomicUsize::new(UNKNOWN),
            is_watched: AtomicBool::new(false),
            second: OnceLock::new(),
            state: AtomicU8::new(RUNNING),
            wanted: AtomicUsize::new(usize::MAX),
            waiting: Mutex::default(),
        })
    }

    /// Sends its GET, into the block that it was made with. Called with no lock held: a client may
    /// tell the observer before it returns.
    pub(in crate::read) fn launch(self: Arc<Self>, fill: BlockFill) {
        let priority = match self.purpose {
            Purpose::Demand => Priority::Foreground,
            Purpose::ReadAhead => Priority::ReadAhead,
        };
        self.context.hedge_scheduler.policy.sent();
        let request = self.request(0, priority);
        let context = Arc::clone(&self.context);
        // Dropping the handle lets the GET finish: closing its connection costs more than a part.
        drop(context.client.get(request, fill, self));
    }

    /// A GET for what is behind its first `from` bytes.
    fn request(&self, from: usize, priority: Priority) -> GetRequest {
        GetRequest {
            key: self.key.clone(),
            range: self.range.start + from as u64..self.range.end,
            if_match: Some(self.etag.clone()),
            object_size: Some(self.object_size),
            priority,
        }
    }

    /// Its bytes of the object.
    pub(in crate::read) fn range(&self) -> &Range<u64> {
        &self.range
    }

    /// How many they are.
    pub(in crate::read) fn len(&self) -> usize {
        self.block.capacity()
    }

    /// What it was started for.
    pub(in crate::read) fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// How many bytes from its front are valid.
    fn valid(&self) -> usize {
        let first = self.block.valid();
        match self.second.get() {
            None => first,
            Some(second) => first.max(second.from + second.block.valid()),
        }
    }

    /// Whether its first `needs` bytes are valid.
    pub(in crate::read) fn has(&self, needs: usize) -> bool {
        self.valid() >= needs
    }

    /// Adds what holds `bytes`, which are valid, to `slices`.
    pub(in crate::read) fn add_slices(&self, bytes: Range<usize>, slices: &mut Slices) {
        let Some(second) = self.second.get().filter(|_| self.block.valid() < bytes.end) else {
            slices.push((self.block.clone(), bytes));
            return;
        };
        if bytes.start < second.from {
            slices.push((self.block.clone(), bytes.start..second.from));
        }
        let start = bytes.start.max(second.from) - second.from;
        slices.push((second.block.clone(), start..bytes.end - second.from));
    }

    /// Whether its first `needs` bytes will never be valid.
    pub(in crate::read) fn has_failed_before(&self, needs: usize) -> bool {
        self.state.load(Ordering::Acquire) == FAILED && !self.has(needs)
    }

    /// Waits until its first `needs` bytes are valid.
    pub(in crate::read) fn arrival(self: &Arc<Self>, needs: usize) -> Arrival<'_> {
        assert!(needs <= self.len());
        Arrival {
            fetch: self,
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
            let valid = self.valid();
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

/// Its GETs.
impl Fetch {
    /// More bytes are valid than before.
    fn advanced(&self) {
        // Against the fence in `Arrival::poll`: either that sees the bytes, or this sees the
        // waiter.
        fence(Ordering::SeqCst);
        if self.has(self.wanted.load(Ordering::Relaxed)) {
            self.wake(false);
        }
    }

    /// The first byte of the first GET has come, or was seen with others.
    fn count_first_byte(&self) {
        if !self.has_begun.load(Ordering::Relaxed)
            && self.block.valid() > 0
            && !self.has_begun.swap(true, Ordering::Relaxed)
        {
            self.context.count_first_byte(&self.range, self.began);
        }
    }

    /// A GET has ended. The fetch has, if it was the one that mattered.
    fn ended(&self, outcome: Result<GetOutput, ClientError>) {
        let error = match outcome {
            Ok(_) if self.has(self.len()) => None,
            Ok(_) => Some(ClientError::new(
                ErrorKind::InvalidResponse,
                "a GET ended before its range did",
            )),
            Err(error) => Some(error),
        };
        let is_over = {
            let mut waiting = self.waiting.lock();
            let gets = 1 + u8::from(self.second.get().is_some());
            waiting.failures += u8::from(error.is_some());
            let state = match error {
                None => Some(DONE),
                Some(error) => {
                    waiting.error = Some(error);
                    (waiting.failures == gets).then_some(FAILED)
                }
            };
            if let Some(state) = state {
                self.state.store(state, Ordering::Release);
            }
            state.is_some()
        };
        if is_over {
            self.wake(true);
        }
    }

    /// Somebody waits for it: has it looked at when it may be late.
    fn watch(self: &Arc<Self>) {
        let hedge_scheduler = &self.context.hedge_scheduler;
        if !hedge_scheduler.is_on()
            || self.second.get().is_some()
            || self.is_watched.swap(true, Ordering::SeqCst)
        {
            return;
        }
        let now = self.context.clock.now();
        let entry = Watched {
            fetch: Arc::downgrade(self),
            due: now,
            seen_at: now,
            seen: self.valid(),
        };
        match hedge_scheduler.policy.look(&self.sight(&entry, now)) {
            // Not by this thread, which may have more to do than to wait for this.
            Verdict::Hedge => self.watch_again(entry),
            Verdict::LookAgain(wait) | Verdict::Observe(wait) => self.watch_again(Watched {
                due: now + wait,
                ..entry
            }),
            Verdict::Leave => self.is_watched.store(false, Ordering::SeqCst),
        }
    }

    /// It is due to be looked at. Called with no lock held.
    pub(in crate::read) fn look(self: &Arc<Self>, entry: Watched, now: Duration) {
        if !self.is_wanted() || !self.has_waiter() {
            self.is_watched.store(false, Ordering::SeqCst);
            // Who began to wait meanwhile found it watched still.
            if self.is_wanted() && self.has_waiter() {
                self.watch();
            }
            return;
        }
        let sight = self.sight(&entry, now);
        match self.context.hedge_scheduler.policy.look(&sight) {
            Verdict::Hedge => {
                // What could not be sent now may be later: when more was earned, or memory was
                // given back.
                if !self.hedge() {
                    let due = now + HEDGE_DELAY_MIN;
                    self.watch_again(Watched { due, ..entry });
                }
            }
            Verdict::LookAgain(wait) => self.watch_again(Watched {
                due: now + wait,
                ..entry
            }),
            Verdict::Observe(wait) => self.watch_again(Watched {
                due: now + wait,
                seen_at: now,
                seen: entry.seen + usize::try_from(sight.gained).unwrap_or(0),
                ..entry
            }),
            Verdict::Leave => self.is_watched.store(false, Ordering::SeqCst),
        }
    }

    fn has_waiter(&self) -> bool {
        self.wanted.load(Ordering::SeqCst) != usize::MAX
    }

    fn sight(&self, entry: &Watched, now: Duration) -> Sight {
        let valid = self.valid();
        Sight {
            len: self.len() as u64,
            valid: valid as u64,
            age: now.saturating_sub(self.began),
            watched: now.saturating_sub(entry.seen_at),
            gained: (valid - entry.seen) as u64,
        }
    }

    fn watch_again(&self, entry: Watched) {
        if !self.context.hedge_scheduler.watch(entry) {
            self.is_watched.store(false, Ordering::SeqCst);
        }
    }

    /// Sends a second GET for what is missing, if that may be.
    fn hedge(self: &Arc<Self>) -> bool {
        let context = &self.context;
        let from = self.block.valid();
        let missing = (self.len() - from) as u64;
        if missing == 0 || context.client.is_throttled() {
            return false;
        }
        let Some(memory) = context.budget.try_reserve(missing, Purpose::Demand) else {
            return false;
        };
        if !context.hedge_scheduler.policy.spend() {
            return false;
        }
        let fill = context.block(memory);
        let is_sent = {
            // So that the first GET's end counts the second, or is seen here.
            let _waiting = self.waiting.lock();
            let block = fill.block();
            self.is_wanted() && self.second.set(Second { from, block }).is_ok()
        };
        if !is_sent {
            return true;
        }
        context.count_hedge();
        let interface = self.interface.load(Ordering::Relaxed);
        let avoid = (interface != UNKNOWN).then_some(interface);
        let request = self.request(from, Priority::Hedge { avoid });
        tracing::debug!(key = %self.key, range = ?request.range, "a GET is late: sent a second time");
        let observer = Arc::new(SecondGet(Arc::clone(self)));
        // As the first: it ends by itself.
        drop(context.client.get(request, fill, observer));
        true
    }
}

/// Of the first GET.
impl GetObserver for Fetch {
    fn progressed(&self) {
        self.count_first_byte();
        self.advanced();
    }

    fn sent_over(&self, interface: usize) {
        self.interface.store(interface, Ordering::Relaxed);
    }

    fn is_wanted(&self) -> bool {
        self.state.load(Ordering::Acquire) == RUNNING
    }

    fn finished(&self, outcome: Result<GetOutput, ClientError>) {
        self.count_first_byte();
        if outcome.is_ok() {
            self.context.count_get(&self.range, self.began);
        }
        self.ended(outcome);
    }
}

/// Of the second.
#[derive(Debug)]
struct SecondGet(Arc<Fetch>);

impl GetObserver for SecondGet {
    fn progressed(&self) {
        self.0.advanced();
    }

    fn is_wanted(&self) -> bool {
        self.0.is_wanted()
    }

    fn finished(&self, outcome: Result<GetOutput, ClientError>) {
        self.0.ended(outcome);
    }
}

/// Waits for bytes of a fetch. Dropping it leaves no waiter behind.
#[derive(Debug)]
pub(in crate::read) struct Arrival<'a> {
    fetch: &'a Arc<Fetch>,
    needs: usize,
    ticket: Option<u64>,
}

impl Future for Arrival<'_> {
    type Output = Result<(), ClientError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(outcome) = self.fetch.outcome(self.needs) {
            return Poll::Ready(outcome);
        }
        {
            let mut waiting = self.fetch.waiting.lock();
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
            self.fetch.publish_wanted(&waiting);
        }
        fence(Ordering::SeqCst);
        match self.fetch.outcome(self.needs) {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                self.fetch.watch();
                Poll::Pending
            }
        }
    }
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut waiting = self.fetch.waiting.lock();
        if let Some(place) = waiting
            .waiters
            .iter()
            .position(|waiter| waiter.ticket == ticket)
        {
            waiting.waiters.swap_remove(place);
            self.fetch.publish_wanted(&waiting);
        }
    }
}

const RUNNING: u8 = 0;
const DONE: u8 = 1;
const FAILED: u8 = 2;
/// Of an interface: the GET was not sent yet.
const UNKNOWN: usize = usize::MAX;
