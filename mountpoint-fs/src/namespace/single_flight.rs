//! One future with several waiters: identical lookups share their requests.
//!
//! Knows nothing of the future's work, which runs in the [`background`]. A waiter that is dropped
//! leaves it to the others. When the last waiter is dropped, so is the future.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use futures::future::{AbortHandle, Abortable};

use crate::sync::Mutex;
use crate::write::background::{self, SharedOutcome};

/// Futures in flight, by key. The lock guards the map only.
pub(crate) struct SingleFlight<K, T> {
    running: Mutex<HashMap<K, InFlight<T>>>,
}

struct InFlight<T> {
    flight: Arc<Flight<T>>,
    waiters: usize,
}

struct Flight<T> {
    /// `None` if the future panicked.
    outcome: SharedOutcome<Option<T>>,
    /// Drops the future.
    abort: AbortHandle,
}

impl<K: Clone + Eq + Hash, T: Clone + Send + 'static> SingleFlight<K, T> {
    pub(crate) fn new() -> Self {
        Self {
            running: Mutex::new(HashMap::new()),
        }
    }

    /// Waits for the future of `key` that is in flight; starts `begin` if there is none.
    pub(crate) async fn join<F>(&self, key: K, begin: impl FnOnce() -> F) -> T
    where
        F: Future<Output = T> + Send + 'static,
    {
        let (waiter, work) = self.wait_for(key, begin);
        if let Some(work) = work {
            let flight = Arc::clone(&waiter.flight);
            background::run(async move {
                let mut ending = Ending {
                    flight,
                    outcome: None,
                };
                ending.outcome = work.await.ok();
            });
        }
        let outcome = waiter.flight.outcome.wait().await;
        // A later caller starts a new future.
        waiter.leave(|_| true);
        outcome.expect("the shared future has panicked")
    }

    /// One more waiter for the future of `key`, and the future if it is a new one.
    fn wait_for<F: Future>(
        &self,
        key: K,
        begin: impl FnOnce() -> F,
    ) -> (Waiter<'_, K, T>, Option<Abortable<F>>) {
        let mut running = self.running.lock();
        // An outcome that is there already is older than this caller.
        let is_running = |known: &&mut InFlight<T>| !known.flight.outcome.is_settled();
        let known = running.get_mut(&key).filter(is_running);
        let (flight, work) = if let Some(known) = known {
            known.waiters += 1;
            (Arc::clone(&known.flight), None)
        } else {
            let (abort, registration) = AbortHandle::new_pair();
            let flight = Arc::new(Flight {
                outcome: SharedOutcome::new(),
                abort,
            });
            let in_flight = InFlight {
                flight: Arc::clone(&flight),
                waiters: 1,
            };
            running.insert(key.clone(), in_flight);
            (flight, Some(Abortable::new(begin(), registration)))
        };
        let waiter = Waiter {
            joins: self,
            key,
            flight,
        };
        (waiter, work)
    }

    /// Whether a future of `key` is in flight.
    pub(crate) fn is_in_flight<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.running.lock().contains_key(key)
    }

    /// Number of futures in flight.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.running.lock().len()
    }
}

impl<K, T> fmt::Debug for SingleFlight<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SingleFlight({})", self.running.lock().len())
    }
}

/// Tells the waiters how a future has ended, when it is dropped: a panic of the future drops it
/// too.
struct Ending<T: Clone> {
    flight: Arc<Flight<T>>,
    outcome: Option<T>,
}

impl<T: Clone> Drop for Ending<T> {
    fn drop(&mut self) {
        self.flight.outcome.settle(self.outcome.take());
    }
}

/// One waiter of a future.
struct Waiter<'a, K: Eq + Hash, T> {
    joins: &'a SingleFlight<K, T>,
    key: K,
    flight: Arc<Flight<T>>,
}

impl<K: Eq + Hash, T> Waiter<'_, K, T> {
    /// Removes the future from the map if it is still there and `is_over` returns `true`. Returns
    /// whether it was removed.
    fn leave(&self, is_over: impl FnOnce(&mut InFlight<T>) -> bool) -> bool {
        let mut running = self.joins.running.lock();
        let known = running.get_mut(&self.key);
        let is_its = known
            .filter(|known| Arc::ptr_eq(&known.flight, &self.flight))
            .is_some_and(is_over);
        is_its && running.remove(&self.key).is_some()
    }
}

impl<K: Eq + Hash, T> Drop for Waiter<'_, K, T> {
    fn drop(&mut self) {
        let was_last = self.leave(|known| {
            known.waiters -= 1;
            known.waiters == 0
        });
        if was_last {
            self.flight.abort.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, pending};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::pin::Pin;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    use futures::FutureExt;
    use futures::channel::oneshot;
    use futures::task::noop_waker_ref;

    use super::*;
    use crate::sync::explore;

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

    #[test]
    fn a_panic_of_the_future_is_one_of_all_its_waiters() {
        let joins = SingleFlight::<u8, u32>::new();
        let (answer, asked) = oneshot::channel::<()>();
        let mut first = Box::pin(joins.join(7, || async {
            asked.await.unwrap();
            panic!("a mistake")
        }));
        let mut second = Box::pin(joins.join(7, || -> Ready<u32> { panic!("it is in flight") }));
        assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
        let woken = catch_unwind(AssertUnwindSafe(|| answer.send(())));
        assert!(woken.is_err());
        catch_unwind(AssertUnwindSafe(|| poll(&mut first))).unwrap_err();
        catch_unwind(AssertUnwindSafe(|| poll(&mut second))).unwrap_err();
        assert_eq!(joins.len(), 0);
        assert_eq!(joins.join(7, || async { 1 }).now_or_never(), Some(1));
    }

    #[test]
    fn an_outcome_that_nobody_has_taken_is_not_that_of_a_later_caller() {
        let joins = SingleFlight::<u8, u32>::new();
        let (answer, asked) = oneshot::channel();
        let mut first = Box::pin(joins.join(7, || async { asked.await.unwrap() }));
        assert!(poll(&mut first).is_pending());
        answer.send(3).unwrap();
        assert_eq!(joins.join(7, || async { 4 }).now_or_never(), Some(4));
        assert_eq!(poll(&mut first), Poll::Ready(3));
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

    /// Three callers, one of which leaves early, and a thread that answers.
    #[test]
    fn no_caller_gets_an_outcome_that_was_there_before_its_call() {
        explore(|| {
            let joins = Arc::new(SingleFlight::<u8, usize>::new());
            let numbers = Arc::new(AtomicUsize::new(0));
            let asked = Arc::new(Mutex::new(Vec::<oneshot::Sender<()>>::new()));
            let call = |number: usize| {
                let (joins, asked) = (Arc::clone(&joins), Arc::clone(&asked));
                let numbers = Arc::clone(&numbers);
                move || {
                    let is_there = |known: &InFlight<usize>| known.flight.outcome.is_settled();
                    let before = match joins.running.lock().get(&7).is_some_and(is_there) {
                        true => numbers.load(Ordering::SeqCst),
                        false => 0,
                    };
                    let begin = move || async move {
                        let (answer, answered) = oneshot::channel();
                        asked.lock().push(answer);
                        answered.await.unwrap();
                        numbers.fetch_add(1, Ordering::SeqCst) + 1
                    };
                    let mut waiter = Box::pin(joins.join(7, begin));
                    if number == 2 {
                        let _ = poll(&mut waiter);
                        return;
                    }
                    let outcome = shuttle::future::block_on(waiter);
                    assert!(outcome > before, "{outcome} was there before the call");
                }
            };
            let callers: Vec<_> = (0..3).map(|it| shuttle::thread::spawn(call(it))).collect();
            let is_over = Arc::new(AtomicBool::new(false));
            let its = Arc::clone(&is_over);
            let server = shuttle::thread::spawn(move || {
                while !its.load(Ordering::SeqCst) {
                    let answer = asked.lock().pop();
                    // The caller may have left.
                    answer.map(|answer| answer.send(()).ok());
                    shuttle::thread::yield_now();
                }
            });
            callers.into_iter().for_each(|it| it.join().unwrap());
            is_over.store(true, Ordering::SeqCst);
            server.join().unwrap();
            assert_eq!(joins.len(), 0);
        });
    }

    #[test]
    fn many_threads_join_and_drop_out() {
        let joins = Arc::new(SingleFlight::<u8, u32>::new());
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let joins = Arc::clone(&joins);
                scope.spawn(move || {
                    for round in 0..200 {
                        // Completes on another thread.
                        let begin = || async move {
                            let (answer, asked) = oneshot::channel();
                            let other = std::thread::Builder::new();
                            other.spawn(move || answer.send(4).ok()).unwrap();
                            asked.await.unwrap()
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
