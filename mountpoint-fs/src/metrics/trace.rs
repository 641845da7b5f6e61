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
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use super::capture::CapturedCall;
use super::registry::is_measured;
pub use super::wait::{WaitCause, WaitTimes, measure_by, micros, nanos, now};

/// The waits of one operation so far.
#[derive(Debug, Default)]
pub struct OperationTrace {
    nanos: [AtomicU64; WaitCause::ALL.len()],
    /// When the operation began to wait, in nanoseconds of [`now`]; 0 before.
    waits_since: AtomicU64,
    /// When its request arrived, by [`now`].
    arrived: Duration,
    /// The thread of the application, 0 if it is not known.
    thread: u32,
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
    /// When it arrived, by [`now`].
    pub arrived: Duration,
}

impl OperationTrace {
    /// No wait yet of an operation that `thread` waits for, and whose request arrived at `arrived`,
    /// a time of [`now`].
    #[must_use]
    pub fn of(thread: u32, arrived: Duration, captured: Option<Arc<CapturedCall>>) -> Self {
        Self {
            arrived,
            thread,
            captured,
            ..Self::default()
        }
    }

    /// The operation waits from `now` on, unless it has waited before.
    pub fn waits(&self, now: impl FnOnce() -> Duration) {
        if self.waits_since.load(Ordering::Relaxed) == 0 {
            let since = nanos(now()).max(1);
            self.waits_since.store(since, Ordering::Relaxed);
        }
    }

    /// Adds a wait of `time` nanoseconds that began `ago` nanoseconds before now.
    pub fn add(&self, cause: WaitCause, ago: u64, time: u64) {
        self.nanos[cause as usize].fetch_add(time, Ordering::Relaxed);
        if let Some(captured) = &self.captured {
            let began = now().saturating_sub(Duration::from_nanos(ago));
            captured.waited(cause, began, Duration::from_nanos(time));
        }
    }

    fn origin(&self) -> Origin {
        let captured = self.captured.as_ref();
        Origin {
            thread: self.thread,
            call: captured.map_or(0, |captured| captured.causes()),
            arrived: self.arrived,
        }
    }

    /// The times by cause. What no cause claims of the time since the operation began to wait until
    /// `end`, a time of [`now`], counts as `rest`.
    #[must_use]
    pub fn times(&self, rest: WaitCause, end: Duration) -> WaitTimes {
        let mut times = WaitTimes::default();
        for (time, nanos) in times.iter_mut().zip(&self.nanos) {
            *time = nanos.load(Ordering::Relaxed);
        }
        let since = self.waits_since.load(Ordering::Relaxed);
        if since > 0 {
            let waited = nanos(end).saturating_sub(since);
            let claimed: u64 = times.iter().sum();
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
            let time = nanos(now().saturating_sub(began));
            trace.add(self.cause, time, time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_cause_claims_is_the_rest() {
        let trace = OperationTrace::default();
        trace.add(WaitCause::Memory, 8, 7);
        let times = trace.times(WaitCause::Names, now());
        assert_eq!(times[WaitCause::Memory as usize], 7);
        assert_eq!(times.iter().sum::<u64>(), 7);
        let idle = OperationTrace::default();
        idle.waits(now);
        let end = now() + Duration::from_secs(1);
        assert!(idle.times(WaitCause::Names, end)[WaitCause::Names as usize] > 0);
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
