//! The waits of an operation: the time of each, by cause.
//!
//! The code that polls an operation [`enter`]s its trace; code below that waits adds its time, from
//! the first poll that was not ready to the end. Time that no cause claims is the operation's own:
//! the caller knows what that means. Waits of tasks that belong to no operation are not counted.
//! Any thread; a leaf without locks.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use super::capture::CapturedCall;
use super::registry::is_measured;
use super::wait::nanos;
pub use super::wait::{WaitCause, WaitTimes, micros, now};

/// The waits of one operation so far.
#[derive(Debug, Default)]
pub struct OperationTrace {
    nanos: [AtomicU64; WaitCause::ALL.len()],
    /// When the operation was parked, in nanoseconds of [`now`]; 0 before.
    parked_at: AtomicU64,
    /// The thread of the application, 0 if it is not known.
    thread: AtomicU32,
    /// Set if the operation is captured.
    captured: Option<Arc<CapturedCall>>,
}

/// The request of the kernel that causes work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The thread of the application that waits for it; 0 if it is not known.
    pub thread: u32,
    /// Its number; 0 if it is not captured.
    pub call: u64,
}

impl OperationTrace {
    /// No wait yet of an operation that `thread` waits for.
    #[must_use]
    pub fn of(thread: u32, captured: Option<Arc<CapturedCall>>) -> Self {
        Self {
            thread: AtomicU32::new(thread),
            captured,
            ..Self::default()
        }
    }

    /// Forgets everything, for the next operation, which `thread` waits for.
    pub fn reset(&mut self, thread: u32, captured: Option<Arc<CapturedCall>>) {
        *self.thread.get_mut() = thread;
        self.captured = captured;
        for nanos in &mut self.nanos {
            *nanos.get_mut() = 0;
        }
        *self.parked_at.get_mut() = 0;
    }

    /// The operation waits from now on.
    pub fn parks(&self) {
        self.parked_at.store(nanos(now()).max(1), Ordering::Relaxed);
    }

    /// Adds a wait that began at `began`, a time of [`now`].
    pub fn add(&self, cause: WaitCause, began: Duration, time: Duration) {
        self.nanos[cause as usize].fetch_add(nanos(time), Ordering::Relaxed);
        if let Some(captured) = &self.captured {
            captured.waited(cause, began, time);
        }
    }

    fn origin(&self) -> Origin {
        Origin {
            thread: self.thread.load(Ordering::Relaxed),
            call: self
                .captured
                .as_ref()
                .map_or(0, |captured| captured.causes()),
        }
    }

    /// The times by cause. What no cause claims of the time since the operation was parked until
    /// `end`, a time of [`now`], counts as `rest`.
    #[must_use]
    pub fn times(&self, rest: WaitCause, end: Duration) -> WaitTimes {
        let mut times = WaitTimes::default();
        for (time, nanos) in times.iter_mut().zip(&self.nanos) {
            *time = Duration::from_nanos(nanos.load(Ordering::Relaxed));
        }
        let parked_at = self.parked_at.load(Ordering::Relaxed);
        if parked_at > 0 {
            let waited = end.saturating_sub(Duration::from_nanos(parked_at));
            let claimed: Duration = times.iter().sum();
            times[rest as usize] += waited.saturating_sub(claimed);
        }
        times
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<OperationTrace>>> = const { RefCell::new(None) };
}

/// The trace of the operation that this thread polls, if there is one.
#[must_use]
pub fn current() -> Option<Arc<OperationTrace>> {
    CURRENT.with_borrow(Option::clone)
}

/// The request of the kernel whose operation this thread polls; nothing of it is known if there is
/// none.
#[must_use]
pub fn current_origin() -> Origin {
    CURRENT.with_borrow(|trace| match trace {
        Some(trace) => trace.origin(),
        None => Origin::default(),
    })
}

/// From here to the drop of the guard, this thread polls the operation of `trace`.
#[must_use]
pub fn enter(trace: &Arc<OperationTrace>) -> EnteredTrace {
    EnteredTrace(CURRENT.replace(Some(Arc::clone(trace))))
}

/// Returns to the trace before.
#[derive(Debug)]
pub struct EnteredTrace(Option<Arc<OperationTrace>>);

impl Drop for EnteredTrace {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Waits for `future`. The time counts as `cause` for the current operation, and is told to
/// `observe` if there was a wait.
pub async fn waits<F: Future>(
    cause: WaitCause,
    future: F,
    observe: impl FnOnce(Duration),
) -> F::Output {
    let mut future = pin!(future);
    let mut timer = WaitTimer { cause, began: None };
    let output = poll_fn(|context| {
        let polled = future.as_mut().poll(context);
        if matches!(polled, Poll::Pending) && timer.began.is_none() && is_measured() {
            timer.began = Some((now(), current()));
        }
        polled
    })
    .await;
    if let Some((began, _)) = &timer.began {
        observe(now().saturating_sub(*began));
    }
    output
}

/// Counts a wait when it ends, also if it is given up.
struct WaitTimer {
    cause: WaitCause,
    began: Option<(Duration, Option<Arc<OperationTrace>>)>,
}

impl Drop for WaitTimer {
    fn drop(&mut self) {
        if let Some((began, Some(trace))) = self.began.take() {
            trace.add(self.cause, began, now().saturating_sub(began));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_cause_claims_is_the_rest() {
        let trace = Arc::new(OperationTrace::default());
        trace.add(WaitCause::Memory, now(), Duration::from_secs(7));
        let times = trace.times(WaitCause::Names, now());
        assert_eq!(times[WaitCause::Memory as usize], Duration::from_secs(7));
        assert_eq!(times.iter().sum::<Duration>(), Duration::from_secs(7));
        let idle = OperationTrace::default();
        idle.parks();
        let end = now() + Duration::from_secs(1);
        assert!(idle.times(WaitCause::Names, end)[WaitCause::Names as usize] > Duration::ZERO);
    }

    #[test]
    fn the_trace_of_a_thread_is_that_of_the_innermost_operation() {
        let (outer, inner) = (Arc::default(), Arc::default());
        let is = |trace| current().is_some_and(|current| Arc::ptr_eq(&current, trace));
        assert!(current().is_none());
        let entered = enter(&outer);
        assert!(is(&outer));
        drop(enter(&inner));
        assert!(is(&outer));
        let within = enter(&inner);
        assert!(is(&inner));
        drop(within);
        drop(entered);
        assert!(current().is_none());
    }
}
