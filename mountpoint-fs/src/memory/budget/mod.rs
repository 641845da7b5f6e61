//! The limit on the memory of all blocks: one ledger for reads and for writes.
//!
//! Counts bytes, knows neither blocks nor files. The creator of a block first takes a
//! [`Reservation`] and keeps it beside the block's memory; dropping it gives the
//! bytes back. Read-ahead is refused when memory is short and never waits; a read that blocks an
//! application waits in a first-come, first-served queue. A writer waits in a queue of its own
//! until [`Admission`] grants it a buffer, and then behind the reads that came before.
//!
//! Invariant: `used <= limit`, unless one single reservation is larger than the limit and alone, or
//! bytes are in memory in any case ([`Budget::pending`], [`Budget::hold`]); no request overtakes a
//! waiting one of its queue. Called from any thread; never blocks; wakes with no lock held.

mod ledger;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::sync::oneshot;

pub use self::ledger::Purpose;
use self::ledger::{Class, Granted, Ledger};
use super::admission::{Admission, BufferKind, BufferRequest, WaitState};
use crate::config::limits::{WRITE_PART_DEFAULT, WRITE_SIZE_MAX};
use crate::sync::Mutex;

/// The memory that waiting requests and existing memory beyond the limit lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deficit {
    /// Bytes to give back before all requests are served and the limit holds.
    pub bytes: u64,
    /// Bytes of the largest waiting request; 0 if none waits.
    pub largest: u64,
}

/// The limit. Shared as `Arc<Budget>`.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    ahead_max: u64,
    /// Guards the counts and the queues. A leaf: nothing else is locked or woken while it is held.
    state: Mutex<Ledger<oneshot::Sender<Reserve>>>,
}

impl Budget {
    /// A budget of `limit` bytes.
    #[must_use]
    pub fn new(limit: u64) -> Arc<Self> {
        let part = WRITE_PART_DEFAULT + WRITE_SIZE_MAX as u64;
        Arc::new(Self {
            limit,
            ahead_max: limit / 4 * READ_AHEAD_QUARTERS,
            state: Mutex::new(Ledger::new(Admission::new(limit, part))),
        })
    }

    /// Sets the bytes of a written file's first part. Called before any file is written.
    pub fn set_first_part(&self, part: u64) {
        self.state.lock().writers.admission = Admission::new(self.limit, part);
    }

    /// Bytes that may be reserved in all.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes that read-ahead may hold.
    #[must_use]
    pub fn ahead_max(&self) -> u64 {
        self.ahead_max
    }

    /// Bytes reserved now.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.state.lock().used
    }

    /// Bytes that read-ahead holds.
    #[must_use]
    pub fn used_ahead(&self) -> u64 {
        self.state.lock().ahead
    }

    /// Bytes that buffers of written files hold, or were granted.
    #[must_use]
    pub fn used_by_writers(&self) -> u64 {
        self.state.lock().writers.admission.used()
    }

    /// Most bytes that were ever reserved at once.
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.state.lock().peak
    }

    /// The deficit; `None` if no request waits and the limit holds.
    #[must_use]
    pub fn deficit(&self) -> Option<Deficit> {
        let state = self.state.lock();
        let wanted = state.queue.iter().map(|waiter| waiter.bytes);
        let bytes = (state.used + wanted.clone().sum::<u64>()).saturating_sub(self.limit);
        let is_short = bytes > 0 || !state.queue.is_empty();
        let largest = wanted.max().unwrap_or(0);
        is_short.then_some(Deficit { bytes, largest })
    }

    /// Reserves `bytes` for a read at once, or returns `None`.
    #[must_use]
    pub fn try_reserve(self: &Arc<Self>, bytes: u64, purpose: Purpose) -> Option<Reservation> {
        let mut state = self.state.lock();
        let fits = state.queue.is_empty()
            && match purpose {
                Purpose::ReadAhead => {
                    state.used + bytes <= self.limit && state.ahead + bytes <= self.ahead_max
                }
                Purpose::Demand => state.fits(bytes, self.limit),
            };
        if !fits {
            return None;
        }
        if purpose == Purpose::ReadAhead {
            state.ahead += bytes;
        }
        state.take(bytes);
        Some(self.reservation(bytes, Class::Read(purpose)))
    }

    /// Reserves `bytes` when they are free, for a read that blocks an application.
    ///
    /// The place in the queue is taken now, not when the future is first polled.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Reserve {
        let ticket = self.state.lock().enter(bytes, self.limit);
        Reserve {
            budget: Arc::clone(self),
            bytes,
            class: Class::Read(Purpose::Demand),
            ticket,
            taken: false,
        }
    }

    /// Reserves memory for a written file's buffer at once, or returns `None`. `expected` are the
    /// bytes of WRITEs that may wait at once.
    #[must_use]
    pub fn try_buffer(
        self: &Arc<Self>,
        request: BufferRequest,
        expected: u64,
    ) -> Option<Reservation> {
        let mut state = self.state.lock();
        if !state.writers.is_empty() || !state.queue.is_empty() {
            return None;
        }
        state.writers.admission.expect(expected);
        let (kind, bytes) = state.writers.admission.choose(request, WaitState::First)?;
        let more = bytes - request.held;
        if !state.fits(more, self.limit) {
            return None;
        }
        state.writers.admission.take(kind, more);
        state.take(more);
        Some(self.reservation(more, Class::Buffer(kind)))
    }

    /// Waits for memory for a buffer of a file with `written` taken bytes. The future returns it
    /// when reads have given their share back; `None` if there will be no memory.
    pub fn buffer(
        self: &Arc<Self>,
        request: BufferRequest,
        written: u64,
        expected: u64,
    ) -> impl Future<Output = Option<Reserve>> + Send + use<> {
        let (told, granted) = oneshot::channel();
        let (ticket, is_first) = {
            let mut state = self.state.lock();
            let ticket = state.next_ticket();
            // A writer that waits only for reads gets no more than a writer that need not wait.
            let is_first = state.writers.is_empty();
            state.writers.push(ticket, request, written, told);
            (ticket, is_first)
        };
        let place = WriterTicket {
            budget: Arc::clone(self),
            ticket,
        };
        let wait = if is_first {
            WaitState::First
        } else {
            WaitState::Waited
        };
        self.serve_writers(wait, Some(expected));
        async move {
            let reserve = granted.await.ok();
            drop(place);
            reserve
        }
    }

    /// Grants waiting writers the free memory, in the order of their requests. If nothing in flight
    /// would give memory back, one of them is [`WaitState::Stuck`]: the first that can be granted
    /// some. `expected` as in [`Self::try_buffer`], if it was counted again.
    pub fn serve_writers(self: &Arc<Self>, wait: WaitState, expected: Option<u64>) {
        let granted = {
            let mut state = self.state.lock();
            if let Some(expected) = expected {
                state.writers.admission.expect(expected);
            }
            state.grant(wait, self.limit)
        };
        self.tell(granted);
    }

    /// Fails the waiting writer with the least bytes to lose.
    pub fn fail_writer(self: &Arc<Self>) {
        let failed = self.state.lock().writers.fail_one();
        drop(failed);
        self.serve_writers(WaitState::Waited, None);
    }

    /// Fails all writers that wait, now and later. For the end of the mount.
    pub fn fail_writers(&self) {
        let failed = self.state.lock().writers.fail_all();
        drop(failed);
    }

    /// Whether a writer waits, or would wait for a small buffer of `bytes` more.
    #[must_use]
    pub fn is_short_for_writers(&self, bytes: u64, expected: u64) -> bool {
        let mut state = self.state.lock();
        state.writers.admission.expect(expected);
        !state.writers.is_empty() || !state.writers.admission.has_room(bytes)
    }

    /// Counts a WRITE of `bytes` that waits, even beyond the limit: its bytes are in memory. No
    /// other request is served until they fit. Bytes beyond all memory of writers are not counted.
    #[must_use]
    pub fn pending(self: &Arc<Self>, bytes: u64) -> Reservation {
        let mut state = self.state.lock();
        let counted = state.writers.admission.wait(bytes);
        state.take(counted);
        self.reservation(counted, Class::Pending)
    }

    /// Counts `bytes` that are held in any case, even beyond the limit: the caller bounds them. No
    /// other request is served until they fit.
    #[must_use]
    pub fn hold(self: &Arc<Self>, bytes: u64) -> Reservation {
        let mut state = self.state.lock();
        state.held += bytes;
        state.take(bytes);
        self.reservation(bytes, Class::Held)
    }

    fn reservation(self: &Arc<Self>, bytes: u64, class: Class) -> Reservation {
        Reservation {
            budget: Arc::clone(self),
            bytes,
            class,
        }
    }

    /// Gives back `bytes`, which are `used` unless they were only granted.
    fn release(self: &Arc<Self>, bytes: u64, class: Class, used: u64) {
        let (granted, woken) = {
            let mut state = self.state.lock();
            assert!(used <= state.used);
            state.used -= used;
            let granted = match class {
                Class::Read(Purpose::Demand) => Vec::new(),
                Class::Read(Purpose::ReadAhead) => {
                    assert!(bytes <= state.ahead);
                    state.ahead -= bytes;
                    Vec::new()
                }
                Class::Buffer(kind) => {
                    state.writers.admission.give_back(kind, bytes);
                    state.grant(WaitState::Waited, self.limit)
                }
                Class::Held => {
                    assert!(bytes <= state.held);
                    state.held -= bytes;
                    Vec::new()
                }
                Class::Pending => {
                    state.writers.admission.waited(bytes);
                    state.grant(WaitState::Waited, self.limit)
                }
            };
            (granted, state.serve_queue(self.limit))
        };
        woken.into_iter().for_each(Waker::wake);
        self.tell(granted);
    }

    /// Notifies writers of their grants. The memory of a writer that has given up goes to the next.
    fn tell(self: &Arc<Self>, granted: Vec<Granted<oneshot::Sender<Reserve>>>) {
        for grant in granted {
            let reserve = Reserve {
                budget: Arc::clone(self),
                bytes: grant.bytes,
                class: Class::Buffer(grant.kind),
                ticket: grant.ticket,
                taken: false,
            };
            drop(grant.told.send(reserve));
        }
    }
}

/// A writer's place in its queue, given up on drop.
struct WriterTicket {
    budget: Arc<Budget>,
    ticket: u64,
}

impl Drop for WriterTicket {
    fn drop(&mut self) {
        let waiter = self.budget.state.lock().writers.remove(self.ticket);
        if waiter.is_some() {
            // The writer may have blocked the next one.
            self.budget.serve_writers(WaitState::Waited, None);
        }
    }
}

/// Bytes of the budget, given back on drop.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
    class: Class,
}

impl Reservation {
    /// Number of bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the bytes are for a part that can be filled and sent.
    #[must_use]
    pub fn is_for_part(&self) -> bool {
        self.class == Class::Buffer(BufferKind::Part)
    }

    /// Moves `bytes` of it into a reservation of their own. Panics if it holds fewer.
    #[must_use]
    pub fn split(&mut self, bytes: u64) -> Self {
        assert!(bytes <= self.bytes);
        self.bytes -= bytes;
        self.budget.reservation(bytes, self.class)
    }

    /// Merges `other` into this reservation. Panics if their classes differ.
    pub fn merge(&mut self, mut other: Self) {
        assert!(Arc::ptr_eq(&self.budget, &other.budget));
        assert_eq!(self.class, other.class);
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Holds the bytes of a buffer for `kind` from now on. The caller serves waiting writers.
    pub fn convert(&mut self, kind: BufferKind) {
        let Class::Buffer(from) = self.class else {
            unreachable!("not the memory of a buffer");
        };
        self.class = Class::Buffer(kind);
        let admission = &mut self.budget.state.lock().writers.admission;
        admission.convert(self.bytes, from, kind);
    }

    /// Cuts a part's memory down to a small buffer of `kept` bytes. Returns the rest, which is to
    /// be dropped when it is free; `None` if small buffers have as much as they may. The caller
    /// serves waiting writers.
    #[must_use]
    pub fn cut(&mut self, kept: u64) -> Option<Self> {
        let mut state = self.budget.state.lock();
        if !state.writers.admission.cut(self.bytes, kept) {
            return None;
        }
        drop(state);
        let rest = self.bytes - kept;
        self.bytes = kept;
        self.class = Class::Buffer(BufferKind::Small);
        Some(self.budget.reservation(rest, Class::Read(Purpose::Demand)))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.release(self.bytes, self.class, self.bytes);
        }
    }
}

/// A place in the queue. Dropping it gives the place up.
#[derive(Debug)]
pub struct Reserve {
    budget: Arc<Budget>,
    bytes: u64,
    class: Class,
    ticket: u64,
    taken: bool,
}

impl Future for Reserve {
    type Output = Reservation;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reservation> {
        assert!(!self.taken, "polled after it was ready");
        {
            let mut state = self.budget.state.lock();
            if let Some(place) = state.place_of(self.ticket) {
                state.queue[place].waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
        }
        self.taken = true;
        Poll::Ready(self.budget.reservation(self.bytes, self.class))
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let waiter = {
            let mut state = self.budget.state.lock();
            let place = state.place_of(self.ticket);
            place.and_then(|place| state.queue.remove(place))
        };
        let used = if waiter.is_some() { 0 } else { self.bytes };
        self.budget.release(self.bytes, self.class, used);
    }
}

/// Share of the read memory that read-ahead may hold, in quarters. The rest always serves reads
/// that wait.
const READ_AHEAD_QUARTERS: u64 = 3;
