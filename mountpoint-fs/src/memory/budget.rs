//! The limit on the memory of all blocks.
//!
//! Counts bytes, knows neither blocks nor files. The creator of a block first takes a
//! [`Reservation`] and keeps it beside the block's memory; dropping it gives the bytes back.
//! Read-ahead is refused when memory is short and never waits; a read that blocks an application
//! waits in a first-come, first-served queue.
//!
//! Invariant: `used <= limit`, unless one single reservation is larger than the limit and alone, or
//! memory that existed already was counted ([`Budget::reserve_held`]); no request overtakes a
//! waiting one. Called from any thread; never blocks; wakes with no lock held.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::config::limits::READ_AHEAD_QUARTERS;
use crate::sync::Mutex;

/// The purpose of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// An application waits for these bytes.
    Demand,
    /// The bytes are prefetched ahead of the reader.
    ReadAhead,
}

/// The memory that waiting requests and existing memory beyond the limit lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
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
    /// Guards the counts and the queue. A leaf: nothing else is locked or woken while it is held.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: u64,
    ahead: u64,
    peak: u64,
    /// Waiting requests, in order of their ticket.
    queue: VecDeque<Waiter>,
    next_ticket: u64,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    bytes: u64,
    waker: Option<Waker>,
}

impl Budget {
    /// A budget of `limit` bytes.
    #[must_use]
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self {
            limit,
            ahead_max: limit / 4 * READ_AHEAD_QUARTERS,
            state: Mutex::default(),
        })
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

    /// Most bytes that were ever reserved at once.
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.state.lock().peak
    }

    /// The shortage; `None` if no request waits and the limit holds.
    #[must_use]
    pub fn shortage(&self) -> Option<Shortage> {
        let state = self.state.lock();
        let wanted = state.queue.iter().map(|waiter| waiter.bytes);
        let bytes = (state.used + wanted.clone().sum::<u64>()).saturating_sub(self.limit);
        let is_short = bytes > 0 || !state.queue.is_empty();
        let largest = wanted.max().unwrap_or(0);
        is_short.then_some(Shortage { bytes, largest })
    }

    /// Reserves `bytes` at once, or returns `None`.
    #[must_use]
    pub fn try_reserve(self: &Arc<Self>, bytes: u64, purpose: Purpose) -> Option<Reservation> {
        let mut state = self.state.lock();
        let fits = state.queue.is_empty()
            && match purpose {
                Purpose::Demand => state.fits(bytes, self.limit),
                Purpose::ReadAhead => {
                    state.used + bytes <= self.limit && state.ahead + bytes <= self.ahead_max
                }
            };
        fits.then(|| {
            state.take(bytes);
            if purpose == Purpose::ReadAhead {
                state.ahead += bytes;
            }
            Reservation {
                budget: Arc::clone(self),
                bytes,
                purpose,
            }
        })
    }

    /// Counts `bytes` that exist already, even beyond the limit. No other request is served until
    /// they fit.
    #[must_use]
    pub fn reserve_held(self: &Arc<Self>, bytes: u64) -> Reservation {
        self.state.lock().take(bytes);
        Reservation {
            budget: Arc::clone(self),
            bytes,
            purpose: Purpose::Demand,
        }
    }

    /// Reserves `bytes` when they are free, for a read that blocks an application.
    ///
    /// The place in the queue is taken now, not when the future is first polled.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Reserve {
        let mut state = self.state.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        if state.queue.is_empty() && state.fits(bytes, self.limit) {
            state.take(bytes);
        } else {
            state.queue.push_back(Waiter {
                ticket,
                bytes,
                waker: None,
            });
        }
        Reserve {
            budget: Arc::clone(self),
            bytes,
            ticket,
            taken: false,
        }
    }

    fn release(&self, bytes: u64, purpose: Purpose) {
        let woken = {
            let mut state = self.state.lock();
            assert!(bytes <= state.used);
            state.used -= bytes;
            if purpose == Purpose::ReadAhead {
                assert!(bytes <= state.ahead);
                state.ahead -= bytes;
            }
            state.serve_queue(self.limit)
        };
        woken.into_iter().for_each(Waker::wake);
    }
}

impl State {
    /// Whether a demand fits. One that is larger than the whole budget is served alone rather than
    /// never.
    fn fits(&self, bytes: u64, limit: u64) -> bool {
        self.used == 0 || self.used + bytes <= limit
    }

    fn take(&mut self, bytes: u64) {
        self.used += bytes;
        self.peak = self.peak.max(self.used);
    }

    /// Serves the oldest requests as far as memory goes. Returns the wakers to call.
    fn serve_queue(&mut self, limit: u64) -> Vec<Waker> {
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

    fn place_of(&self, ticket: u64) -> Option<usize> {
        self.queue
            .binary_search_by_key(&ticket, |waiter| waiter.ticket)
            .ok()
    }
}

/// Bytes of the budget, given back on drop.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
    purpose: Purpose,
}

impl Reservation {
    /// Number of bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Moves `bytes` of it into a reservation of their own. Panics if it holds fewer.
    #[must_use]
    pub fn split(&mut self, bytes: u64) -> Self {
        assert!(bytes <= self.bytes);
        self.bytes -= bytes;
        Self {
            budget: Arc::clone(&self.budget),
            bytes,
            purpose: self.purpose,
        }
    }

    /// Merges `other` into this reservation. Panics if their purposes differ.
    pub fn merge(&mut self, mut other: Self) {
        assert!(Arc::ptr_eq(&self.budget, &other.budget));
        assert_eq!(self.purpose, other.purpose);
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.release(self.bytes, self.purpose);
        }
    }
}

/// A place in the queue. Dropping it gives the place up.
#[derive(Debug)]
pub struct Reserve {
    budget: Arc<Budget>,
    bytes: u64,
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
        Poll::Ready(Reservation {
            budget: Arc::clone(&self.budget),
            bytes: self.bytes,
            purpose: Purpose::Demand,
        })
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let woken = {
            let mut state = self.budget.state.lock();
            match state.place_of(self.ticket) {
                Some(place) => drop(state.queue.remove(place)),
                None => state.used -= self.bytes,
            }
            state.serve_queue(self.budget.limit)
        };
        woken.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn read_ahead_is_refused_beyond_its_share() {
        let budget = Budget::new(100);
        let ahead = budget.try_reserve(75, Purpose::ReadAhead).unwrap();
        assert!(budget.try_reserve(1, Purpose::ReadAhead).is_none());
        let demand = budget.try_reserve(25, Purpose::Demand).unwrap();
        assert!(budget.try_reserve(1, Purpose::Demand).is_none());
        drop(ahead);
        drop(demand);
        assert_eq!((budget.used(), budget.peak()), (0, 100));
    }

    #[test]
    fn demand_is_served_in_order_and_read_ahead_never_overtakes() {
        let budget = Budget::new(100);
        let held = budget.try_reserve(60, Purpose::Demand).unwrap();
        let mut first = budget.reserve(50);
        let mut second = budget.reserve(10);
        assert!((&mut first).now_or_never().is_none());
        assert!(
            (&mut second).now_or_never().is_none(),
            "40 bytes are free, but the first waits"
        );
        assert!(budget.try_reserve(1, Purpose::ReadAhead).is_none());
        assert_eq!(
            budget.shortage(),
            Some(Shortage {
                bytes: 20,
                largest: 50
            })
        );
        drop(held);
        assert_eq!(first.now_or_never().unwrap().bytes(), 50);
        assert_eq!(second.now_or_never().unwrap().bytes(), 10);
        assert_eq!((budget.used(), budget.shortage()), (0, None));
    }

    #[test]
    fn giving_up_the_first_place_serves_the_next() {
        let budget = Budget::new(100);
        let held = budget.try_reserve(60, Purpose::Demand).unwrap();
        let first = budget.reserve(50);
        let second = budget.reserve(40);
        drop(first);
        let second = second.now_or_never().unwrap();
        drop(held);
        let unpolled = budget.reserve(60);
        assert_eq!(budget.used(), 100);
        drop(unpolled);
        drop(second);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_is_in_memory_beyond_the_limit_is_lacked_whether_or_not_anybody_waits() {
        let budget = Budget::new(100);
        let reads = budget.try_reserve(70, Purpose::ReadAhead).unwrap();
        assert_eq!(budget.shortage(), None);
        let held = budget.reserve_held(50);
        let lacked = |bytes, largest| Some(Shortage { bytes, largest });
        assert_eq!(budget.shortage(), lacked(20, 0));
        let mut first = budget.reserve(40);
        assert!((&mut first).now_or_never().is_none());
        assert_eq!(budget.shortage(), lacked(60, 40));
        drop(reads);
        assert_eq!(first.now_or_never().unwrap().bytes(), 40);
        assert_eq!(budget.shortage(), None);
        drop(held);
    }

    #[test]
    fn a_reservation_larger_than_the_budget_is_served_alone() {
        let budget = Budget::new(10);
        let held = budget.try_reserve(1, Purpose::Demand).unwrap();
        let mut large = budget.reserve(20);
        assert!((&mut large).now_or_never().is_none());
        drop(held);
        assert_eq!(large.now_or_never().unwrap().bytes(), 20);
    }

    #[test]
    fn split_reservations_give_back_once() {
        let budget = Budget::new(10);
        let mut whole = budget.try_reserve(8, Purpose::ReadAhead).map_or_else(
            || budget.try_reserve(8, Purpose::Demand).unwrap(),
            |_| panic!("8 of 10 is more than the share"),
        );
        let mut part = whole.split(3);
        drop(whole);
        assert_eq!(budget.used(), 3);
        let more = budget.try_reserve(2, Purpose::Demand).unwrap();
        part.merge(more);
        assert_eq!((part.bytes(), budget.used()), (5, 5));
        drop(part);
        assert_eq!(budget.used(), 0);
    }

    proptest! {
        /// After any operations the limit holds, no byte is lost, every request is served.
        #[test]
        fn counts_add_up(ops in proptest::collection::vec((0u8..4, 1u64..40, any::<prop::sample::Index>()), 1..80)) {
            let budget = Budget::new(100);
            let (mut held, mut waiting) = (Vec::new(), Vec::new());
            for (op, bytes, index) in ops {
                match op {
                    0 => held.extend(budget.try_reserve(bytes, Purpose::Demand)),
                    1 => held.extend(budget.try_reserve(bytes, Purpose::ReadAhead)),
                    2 => waiting.push(budget.reserve(bytes)),
                    _ if !held.is_empty() => drop(held.swap_remove(index.index(held.len()))),
                    _ if !waiting.is_empty() => drop(waiting.swap_remove(index.index(waiting.len()))),
                    _ => {}
                }
                prop_assert!(budget.used() <= 100);
            }
            held.clear();
            while !waiting.is_empty() {
                let before = waiting.len();
                waiting.retain_mut(|place| place.now_or_never().is_none());
                prop_assert!(waiting.len() < before, "a request is served each time");
            }
            prop_assert_eq!(budget.used(), 0);
            prop_assert_eq!(budget.state.lock().ahead, 0);
        }
    }
}
