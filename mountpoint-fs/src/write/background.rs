//! Work that continues even if its caller stops waiting, and results that several callers share.
//!
//! An upload must not depend on the application that began it: the application may be interrupted,
//! or pause between two writes. [`run`] polls a future at once, and then on each thread that wakes
//! it. No runtime is needed, so tests drive the work in virtual time. Futures that it wakes in turn
//! are resumed on the same thread ([`executor::delivering`]).
//!
//! Invariant: a future is polled by one thread at a time, with no lock held, and never inside
//! itself.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use mountpoint_client::billing::{self, Caller};

use crate::executor;
use crate::metrics::trace::{self, OperationTrace};
use crate::sync::Mutex;

/// Runs `work` to its end.
pub(crate) fn run(work: impl Future<Output = ()> + Send + 'static) {
    let work: Work = Box::pin(work);
    let job = Arc::new(Job {
        caller: billing::current(),
        trace: trace::current(),
        work: Mutex::new(Some(work)),
        state: AtomicU8::new(RUNNING),
    });
    job.go();
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Job {
    /// The program that causes the work's requests.
    caller: Option<Caller>,
    /// The waits of the operation that began the work, which mostly waits for it.
    trace: Option<Arc<OperationTrace>>,
    /// The future; `None` during a poll. The lock is held only to take it out or put it back.
    work: Mutex<Option<Work>>,
    state: AtomicU8,
}

/// No thread polls the future.
const IDLE: u8 = 0;
/// A thread polls the future.
const RUNNING: u8 = 1;
/// A thread polls the future, and must poll it once more.
const WOKEN: u8 = 2;

impl Job {
    /// Polls until there is nothing to do. The state is `RUNNING`, set by the caller.
    fn go(self: &Arc<Self>) {
        loop {
            let Some(mut work) = self.work.lock().take() else {
                return;
            };
            let waker = Waker::from(Arc::clone(self));
            let polled = executor::delivering(|| {
                let _entered = (
                    billing::enter(self.caller),
                    trace::enter(self.trace.as_ref()),
                );
                work.as_mut().poll(&mut Context::from_waker(&waker))
            });
            match polled {
                Poll::Ready(()) => return,
                Poll::Pending => *self.work.lock() = Some(work),
            }
            let rested =
                self.state
                    .compare_exchange(RUNNING, IDLE, Ordering::AcqRel, Ordering::Acquire);
            if rested.is_ok() {
                return;
            }
            self.state.store(RUNNING, Ordering::Release);
        }
    }
}

impl Wake for Job {
    fn wake(self: Arc<Self>) {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            let next = match state {
                IDLE => RUNNING,
                RUNNING => WOKEN,
                _ => return,
            };
            match self
                .state
                .compare_exchange(state, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(IDLE) => return self.go(),
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
    }
}

/// A result that comes once, for any number of waiting callers.
#[derive(Debug)]
pub(crate) struct SharedOutcome<T>(Arc<Mutex<Outcome<T>>>);

#[derive(Debug)]
struct Outcome<T> {
    value: Option<T>,
    wakers: Vec<Waker>,
}

impl<T> Clone for SharedOutcome<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Clone> SharedOutcome<T> {
    /// Not there yet.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Outcome {
            value: None,
            wakers: Vec::new(),
        })))
    }

    /// Publishes the outcome. Called once.
    pub(crate) fn settle(&self, value: T) {
        let wakers = {
            let mut outcome = self.0.lock();
            debug_assert!(outcome.value.is_none(), "settled twice");
            outcome.value = Some(value);
            std::mem::take(&mut outcome.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Whether the result is there.
    pub(crate) fn is_settled(&self) -> bool {
        self.0.lock().value.is_some()
    }

    /// The result, if it is there.
    pub(crate) fn get(&self) -> Option<T> {
        self.0.lock().value.clone()
    }

    /// Returns the result when it exists.
    pub(crate) async fn wait(&self) -> T {
        std::future::poll_fn(|cx| {
            let mut outcome = self.0.lock();
            match &outcome.value {
                Some(value) => Poll::Ready(value.clone()),
                None => {
                    if !outcome
                        .wakers
                        .iter()
                        .any(|waker| waker.will_wake(cx.waker()))
                    {
                        outcome.wakers.push(cx.waker().clone());
                    }
                    Poll::Pending
                }
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures::FutureExt as _;
    use futures::channel::oneshot;

    use super::*;

    #[test]
    fn work_goes_on_when_it_is_woken_and_nobody_waits() {
        let (first, woken_first) = oneshot::channel::<()>();
        let (second, woken_second) = oneshot::channel::<()>();
        let steps = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&steps);
        run(async move {
            counted.store(1, Ordering::SeqCst);
            woken_first.await.unwrap();
            counted.store(2, Ordering::SeqCst);
            woken_second.await.unwrap();
            counted.store(3, Ordering::SeqCst);
        });
        assert_eq!(steps.load(Ordering::SeqCst), 1);
        first.send(()).unwrap();
        assert_eq!(steps.load(Ordering::SeqCst), 2);
        std::thread::scope(|scope| {
            scope.spawn(move || second.send(()).unwrap());
        });
        assert_eq!(steps.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn work_that_wakes_itself_is_polled_again_and_not_inside_itself() {
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&polls);
        run(std::future::poll_fn(move |cx| {
            cx.waker().wake_by_ref();
            match counted.fetch_add(1, Ordering::SeqCst) {
                9 => Poll::Ready(()),
                _ => Poll::Pending,
            }
        }));
        assert_eq!(polls.load(Ordering::SeqCst), 10);
    }

    #[test]
    fn a_result_reaches_all_who_wait_and_all_who_come_later() {
        let settled = SharedOutcome::new();
        let (one, two) = (settled.clone(), settled.clone());
        let mut first = Box::pin(async move { one.wait().await });
        let mut second = Box::pin(async move { two.wait().await });
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none());
        settled.settle(7);
        assert_eq!(
            (first.now_or_never(), second.now_or_never()),
            (Some(7), Some(7))
        );
        assert_eq!(settled.get(), Some(7));
    }
}
