//! One future with several waiters: identical lookups share their requests.
//!
//! Knows nothing of the future's work. Unlike `futures::future::Shared`, wakers run without a lock:
//! a waker may resume its operation at once, and that operation polls this future again.
//!
//! Invariants: one waiter at a time polls the future, outside the lock. When a waiter is dropped,
//! the future wakes the others and one of them continues. When the last waiter is dropped, so is
//! the future.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use crate::sync::Mutex;

/// Futures in flight, by key. The lock guards the map only.
pub(in crate::namespace) struct SingleFlight<K, T> {
    running: Mutex<HashMap<K, InFlight<T>>>,
}

struct InFlight<T> {
    flight: Weak<SharedFuture<T>>,
    waiters: usize,
}

impl<K: Clone + Eq + Hash + Unpin, T: Clone + Send + 'static> SingleFlight<K, T> {
    pub(in crate::namespace) fn new() -> Self {
        Self {
            running: Mutex::new(HashMap::new()),
        }
    }

    /// Waits for the future of `key` that is in flight; starts `begin` if there is none.
    pub(in crate::namespace) async fn join<F>(&self, key: K, begin: impl FnOnce() -> F) -> T
    where
        F: Future<Output = T> + Send + 'static,
    {
        let flight = {
            let mut running = self.running.lock();
            let known = running
                .get_mut(&key)
                .and_then(|known| Some((known.flight.upgrade()?, &mut known.waiters)));
            if let Some((flight, waiters)) = known {
                *waiters += 1;
                flight
            } else {
                let flight = Arc::new(SharedFuture::new(begin()));
                let in_flight = InFlight {
                    flight: Arc::downgrade(&flight),
                    waiters: 1,
                };
                running.insert(key.clone(), in_flight);
                flight
            }
        };
        let waiter = Waiter {
            joins: self,
            key,
            flight,
            waker: None,
        };
        waiter.await
    }

    /// Whether a future of `key` is in flight.
    pub(in crate::namespace) fn is_in_flight<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.running.lock().contains_key(key)
    }

    /// Number of futures in flight.
    #[cfg(test)]
    pub(in crate::namespace) fn len(&self) -> usize {
        self.running.lock().len()
    }
}

impl<K, T> fmt::Debug for SingleFlight<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SingleFlight({})", self.running.lock().len())
    }
}

/// A future in flight. Its lock guards the state; polls and wake-ups run without it.
struct SharedFuture<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    work: Work<T>,
    /// Whether the future was woken during a poll: the polling waiter then polls again.
    woken: bool,
    waiters_max: u64,
    wakers: HashMap<u64, Waker>,
}

enum Work<T> {
    Waiting(Pin<Box<dyn Future<Output = T> + Send>>),
    Polling,
    Landed(T),
}

impl<T: Clone + Send + 'static> SharedFuture<T> {
    fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        let work = Work::Waiting(Box::pin(future));
        Self {
            state: Mutex::new(State {
                work,
                woken: false,
                waiters_max: 0,
                wakers: HashMap::new(),
            }),
        }
    }

    /// Polls the future unless another waiter is polling it. The first poll sets the waiter's `id`.
    fn poll(self: &Arc<Self>, id: &mut Option<u64>, cx: &Context<'_>) -> Poll<T> {
        let mut future = {
            let mut state = self.state.lock();
            let state = &mut *state;
            if let Work::Landed(outcome) = &state.work {
                return Poll::Ready(outcome.clone());
            }
            let id = *id.get_or_insert_with(|| {
                state.waiters_max += 1;
                state.waiters_max
            });
            state.wakers.insert(id, cx.waker().clone());
            match std::mem::replace(&mut state.work, Work::Polling) {
                Work::Waiting(future) => future,
                Work::Polling | Work::Landed(_) => return Poll::Pending,
            }
        };
        let alarm = Waker::from(Arc::new(Alarm(Arc::downgrade(self))));
        loop {
            let polled = future.as_mut().poll(&mut Context::from_waker(&alarm));
            let mut state = self.state.lock();
            match polled {
                Poll::Ready(outcome) => {
                    state.work = Work::Landed(outcome.clone());
                    let mut wakers = std::mem::take(&mut state.wakers);
                    drop(state);
                    wakers.retain(|waiter, _| Some(*waiter) != *id);
                    wakers.into_values().for_each(Waker::wake);
                    return Poll::Ready(outcome);
                }
                Poll::Pending if std::mem::take(&mut state.woken) => {}
                Poll::Pending => {
                    state.work = Work::Waiting(future);
                    return Poll::Pending;
                }
            }
        }
    }
}

/// Wakes all waiters of a future. A weak reference, because the future holds this waker.
struct Alarm<T>(Weak<SharedFuture<T>>);

impl<T: Send + 'static> Wake for Alarm<T> {
    fn wake(self: Arc<Self>) {
        let Some(flight) = self.0.upgrade() else {
            return;
        };
        let wakers = {
            let mut state = flight.state.lock();
            if matches!(state.work, Work::Polling) {
                state.woken = true;
                return;
            }
            std::mem::take(&mut state.wakers)
        };
        wakers.into_values().for_each(Waker::wake);
    }
}

/// One waiter of a future.
struct Waiter<'a, K: Clone + Eq + Hash, T: Clone> {
    joins: &'a SingleFlight<K, T>,
    key: K,
    flight: Arc<SharedFuture<T>>,
    waker: Option<u64>,
}

impl<K: Clone + Eq + Hash + Unpin, T: Clone + Send + 'static> Future for Waiter<'_, K, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Self { flight, waker, .. } = &mut *self;
        let polled = flight.poll(waker, cx);
        if polled.is_ready() {
            // A later caller starts a new future.
            self.leave(|_| true);
        }
        polled
    }
}

impl<K: Clone + Eq + Hash, T: Clone> Waiter<'_, K, T> {
    /// Removes the future from the map if it is still there and `is_over` returns `true`.
    fn leave(&self, is_over: impl FnOnce(&mut InFlight<T>) -> bool) {
        let mut running = self.joins.running.lock();
        if let Some(known) = running.get_mut(&self.key)
            && known.flight.as_ptr() == Arc::as_ptr(&self.flight)
            && is_over(known)
        {
            running.remove(&self.key);
        }
    }
}

impl<K: Clone + Eq + Hash, T: Clone> Drop for Waiter<'_, K, T> {
    fn drop(&mut self) {
        if let Some(waker) = self.waker {
            let waker = self.flight.state.lock().wakers.remove(&waker);
            drop(waker);
        }
        self.leave(|known| {
            known.waiters -= 1;
            known.waiters == 0
        });
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, pending};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt;
    use futures::channel::oneshot;
    use futures::task::noop_waker_ref;

    use super::*;

    fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
        future.poll_unpin(&mut Context::from_waker(noop_waker_ref()))
    }

    #[derive(Default)]
    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn identical_ones_run_once_and_all_get_the_answer() {
        let joins = SingleFlight::<u8, u32>::new();
        let (answer, asked) = oneshot::channel();
        let mut first = Box::pin(joins.join(7, || async { asked.await.unwrap() }));
        assert!(poll(&mut first).is_pending());
        let mut second = Box::pin(joins.join(7, || -> Ready<u32> { panic!("it is in flight") }));
        let mut other = Box::pin(joins.join(8, pending));
        assert!(poll(&mut second).is_pending());
        assert!(poll(&mut other).is_pending());
        assert_eq!(joins.len(), 2);
        answer.send(5).unwrap();
        assert_eq!(poll(&mut second), Poll::Ready(5));
        assert_eq!(joins.len(), 1);
        assert_eq!(poll(&mut first), Poll::Ready(5));
        drop(other);
        assert_eq!(joins.len(), 0);
    }

    #[test]
    fn the_others_carry_on_when_the_one_that_polled_drops_out() {
        let joins = SingleFlight::<u8, u32>::new();
        let (answer, asked) = oneshot::channel();
        let mut first = Box::pin(joins.join(7, || async { asked.await.unwrap() }));
        assert!(poll(&mut first).is_pending());
        let mut second = Box::pin(joins.join(7, || -> Ready<u32> { panic!("it is in flight") }));
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(Arc::clone(&bell));
        assert!(
            second
                .poll_unpin(&mut Context::from_waker(&waker))
                .is_pending()
        );
        drop(first);
        answer.send(3).unwrap();
        assert_eq!(bell.0.load(Ordering::Relaxed), 1);
        assert_eq!(poll(&mut second), Poll::Ready(3));
    }

    #[test]
    fn a_flight_that_nobody_waits_for_is_dropped() {
        let joins = SingleFlight::<u8, u32>::new();
        let (answer, asked) = oneshot::channel();
        let mut only = Box::pin(joins.join(7, || async { asked.await.unwrap() }));
        assert!(poll(&mut only).is_pending());
        drop(only);
        assert_eq!(joins.len(), 0);
        assert!(answer.is_canceled());
        // A waiter that was never polled starts no future.
        drop(joins.join(7, || async { 1 }));
        assert_eq!(joins.len(), 0);
    }

    /// A waker may resume its operation at once, as that of the FUSE session does.
    #[test]
    fn a_waker_may_poll_again_at_once() {
        struct Resume(
            Mutex<Option<Pin<Box<dyn Future<Output = u32> + Send>>>>,
            AtomicUsize,
        );
        impl Wake for Resume {
            fn wake(self: Arc<Self>) {
                let waker = Waker::from(Arc::clone(&self));
                let mut future = self.0.lock().take().unwrap();
                match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    Poll::Ready(answer) => self
                        .1
                        .store(usize::try_from(answer).unwrap(), Ordering::Relaxed),
                    Poll::Pending => *self.0.lock() = Some(future),
                }
            }
        }
        let joins = Arc::new(SingleFlight::<u8, u32>::new());
        let (answer, asked) = oneshot::channel();
        let asked = Arc::new(Mutex::new(Some(asked)));
        let parked: Vec<_> = (0..3)
            .map(|_| {
                let (joins, asked) = (Arc::clone(&joins), Arc::clone(&asked));
                let begin = move || {
                    let asked = asked.lock().take().unwrap();
                    async { asked.await.unwrap() }
                };
                let operation = async move { joins.join(7, begin).await };
                let parked = Arc::new(Resume(
                    Mutex::new(Some(Box::pin(operation))),
                    AtomicUsize::new(0),
                ));
                Arc::clone(&parked).wake();
                parked
            })
            .collect();
        answer.send(9).unwrap();
        for parked in parked {
            assert_eq!(parked.1.load(Ordering::Relaxed), 9);
        }
    }

    #[test]
    fn many_threads_join_and_drop_out() {
        let joins = Arc::new(SingleFlight::<u8, u32>::new());
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let joins = Arc::clone(&joins);
                scope.spawn(move || {
                    for round in 0..200 {
                        // Completes after several wake-ups, one of them from another thread.
                        let begin = || async move {
                            let (answer, asked) = oneshot::channel();
                            let other = std::thread::Builder::new()
                                .spawn(move || answer.send(4).unwrap())
                                .unwrap();
                            let answer = asked.await.unwrap();
                            other.join().unwrap();
                            answer
                        };
                        let mut waiter = Box::pin(joins.join(1, begin));
                        if (round + thread) % 3 == 0 {
                            let _ = poll(&mut waiter);
                        } else {
                            assert_eq!(futures::executor::block_on(waiter), 4);
                        }
                    }
                });
            }
        });
        assert_eq!(joins.len(), 0);
    }
}
