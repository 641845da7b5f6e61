//! The waits of an operation: the time of each, by cause, also of the one that it waits for now.
//!
//! The code that polls an operation [`enter`]s its trace; code below that waits tells the cause
//! from the first poll that was not ready to the end. Time that no cause claims is the operation's
//! own: the caller knows what that means. Only the innermost code that waits claims a cause: a wait
//! for memory within a look-up is one for memory. Waits of tasks that belong to no operation are
//! not counted. Any thread; a leaf without locks.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mountpoint_client::pauses::{PausedTime, paused_time};

use super::capture::CapturedCall;
use super::registry::is_measured;
pub use super::wait::{
    WaitCause, WaitTimes, WaitToken, WaitsInProgress, measure_by, micros, nanos, now,
};

/// The waits of one operation so far.
#[derive(Debug, Default)]
pub struct OperationTrace {
    /// The times of waits that have ended, by cause.
    nanos: [AtomicU64; WaitCause::ALL.len()],
    /// What of the times [`Self::take_micros`] has returned.
    taken: [AtomicU64; WaitCause::ALL.len()],
    /// The wait in progress: a [`WaitToken`]; 0 if no cause claims it.
    current: AtomicU64,
    /// When the operation began to wait, in nanoseconds of [`now`]; 0 before.
    waits_since: AtomicU64,
    /// How long requests to S3 had paused then, if it may wait for such.
    paused_before: OnceLock<PausedTime>,
    /// The cause of what no other cause claims.
    rest: WaitCause,
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
    /// a time of [`now`]. What no cause claims of its waits counts as `rest`.
    #[must_use]
    pub fn of(
        rest: WaitCause,
        thread: u32,
        arrived: Duration,
        captured: Option<Arc<CapturedCall>>,
    ) -> Self {
        Self {
            rest,
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

    /// The operation is parked: it waits from now on at the latest.
    pub fn parks(&self) {
        self.waits(now);
        if self.rest.is_of_requests() {
            self.paused_before.get_or_init(paused_time);
        }
    }

    /// From `now` on the operation waits for `cause`, and for nothing else.
    pub fn enters(&self, cause: WaitCause, now: Duration) -> WaitToken {
        let token = WaitToken::new(cause, now);
        let before = self.current.swap(token.number(), Ordering::Relaxed);
        if let Some(before) = WaitToken::of(before) {
            self.add(before, now);
        }
        token
    }

    /// Goes on with the wait `token` for `cause`, unless another one has taken its place.
    pub fn goes_on(&self, token: WaitToken, cause: WaitCause, now: Duration) -> WaitToken {
        // A thread may have read the clock before another one that told sooner.
        let next = WaitToken::new(cause, now.max(token.since()));
        match self.replace(token, next.number(), now) {
            true => next,
            false => token,
        }
    }

    /// The wait `token` ends at `now`, unless another one has taken its place.
    pub fn leaves(&self, token: WaitToken, now: Duration) {
        self.replace(token, 0, now);
    }

    fn replace(&self, token: WaitToken, next: u64, now: Duration) -> bool {
        let (before, relaxed) = (token.number(), Ordering::Relaxed);
        let replaced = self
            .current
            .compare_exchange(before, next, relaxed, relaxed)
            .is_ok();
        if replaced {
            self.add(token, now);
        }
        replaced
    }

    /// Adds the wait `token`, which ends at `now`.
    fn add(&self, token: WaitToken, now: Duration) {
        let time = now.saturating_sub(token.since());
        self.nanos[token.cause() as usize].fetch_add(nanos(time), Ordering::Relaxed);
        if let Some(captured) = &self.captured {
            captured.waited(token.cause(), token.since(), time);
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

    /// The cause that the operation waits for now, and how long ago its request arrived.
    #[must_use]
    pub fn in_progress(&self, now: Duration) -> (WaitCause, Duration) {
        let current = WaitToken::of(self.current.load(Ordering::Relaxed));
        let cause = current.map_or(self.rest, WaitToken::cause);
        (cause, now.saturating_sub(self.arrived))
    }

    /// The times by cause until `end`, a time of [`now`].
    #[must_use]
    pub fn times(&self, end: Duration) -> WaitTimes {
        let mut times = WaitTimes::default();
        let current = WaitToken::of(self.current.load(Ordering::Relaxed));
        for (time, nanos) in times.iter_mut().zip(&self.nanos) {
            *time = nanos.load(Ordering::Relaxed);
        }
        if let Some(current) = current {
            times[current.cause() as usize] += nanos(end.saturating_sub(current.since()));
        }
        let since = self.waits_since.load(Ordering::Relaxed);
        if since > 0 {
            let waited = nanos(end).saturating_sub(since);
            let claimed: u64 = times.iter().sum();
            times[self.rest as usize] += waited.saturating_sub(claimed);
        }
        if let Some(before) = self.paused_before.get() {
            split_pauses(&mut times, self.rest, *before, paused_time());
        }
        times
    }

    /// The part of `times`, by cause and in microseconds, that no earlier call has returned.
    #[must_use]
    pub fn take_micros(&self, times: &WaitTimes) -> WaitTimes {
        let mut news = WaitTimes::default();
        for ((news, time), taken) in news.iter_mut().zip(times).zip(&self.taken) {
            if *time > 0 {
                let before = taken.fetch_max(*time, Ordering::Relaxed);
                *news = (time / 1000).saturating_sub(before / 1000);
            }
        }
        news
    }
}

/// Moves the time in which requests to S3 paused, between `before` and `after`, from `rest` to the
/// causes of the pauses.
fn split_pauses(times: &mut WaitTimes, rest: WaitCause, before: PausedTime, after: PausedTime) {
    for (cause, before, after) in [
        (WaitCause::Throttling, before.throttled, after.throttled),
        (WaitCause::Retry, before.failed, after.failed),
    ] {
        let paused = nanos(after.saturating_sub(before)).min(times[rest as usize]);
        times[rest as usize] -= paused;
        times[cause as usize] += paused;
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

/// From here to the drop of the guard, this thread polls the operation of `trace`, or work that the
/// operation has begun; one without a trace if there is none.
#[must_use]
pub fn enter(trace: Option<&Arc<OperationTrace>>) -> EnteredTrace {
    EnteredTrace(CURRENT.replace(trace.map(Arc::clone)))
}

/// Returns to the trace before.
#[derive(Debug)]
pub struct EnteredTrace(Option<Arc<OperationTrace>>);

impl Drop for EnteredTrace {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Waits for `future`, which is a wait of its own and has no others within. The time counts as
/// `cause` for the current operation, and is told to `observe` if there was a wait.
pub async fn waits<F: Future>(
    cause: WaitCause,
    future: F,
    observe: impl FnOnce(Duration),
) -> F::Output {
    let mut future = pin!(future);
    let mut timer = WaitTimer::default();
    let output = poll_fn(|context| {
        let polled = future.as_mut().poll(context);
        if polled.is_pending() && timer.began.is_none() && is_measured() {
            timer.begins(cause);
        }
        polled
    })
    .await;
    if let Some(began) = timer.began {
        observe(now().saturating_sub(began));
    }
    output
}

/// Counts a wait when it ends, also if it is given up.
#[derive(Debug, Default)]
struct WaitTimer {
    began: Option<Duration>,
    wait: Option<(Arc<OperationTrace>, WaitToken)>,
}

impl WaitTimer {
    fn begins(&mut self, cause: WaitCause) {
        let began = now();
        self.began = Some(began);
        self.wait = current().map(|trace| {
            let token = trace.enters(cause, began);
            (trace, token)
        });
    }
}

impl Drop for WaitTimer {
    fn drop(&mut self) {
        if let Some((trace, token)) = self.wait.take() {
            trace.leaves(token, now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A trace of an operation that waits since second 1.
    fn waiting(rest: WaitCause) -> OperationTrace {
        let trace = OperationTrace::of(rest, 0, SECOND, None);
        trace.waits(|| SECOND);
        trace
    }

    #[track_caller]
    fn check(trace: &OperationTrace, end: u32, expected: &[(WaitCause, u32)]) {
        let mut times = WaitTimes::default();
        for (cause, seconds) in expected {
            times[*cause as usize] = nanos(SECOND * *seconds);
        }
        assert_eq!(trace.times(SECOND * end), times);
    }

    #[test]
    fn what_no_cause_claims_is_the_rest() {
        let trace = waiting(WaitCause::Other);
        check(&trace, 4, &[(WaitCause::Other, 3)]);
        let token = trace.enters(WaitCause::Memory, SECOND * 2);
        trace.leaves(token, SECOND * 3);
        check(&trace, 4, &[(WaitCause::Memory, 1), (WaitCause::Other, 2)]);
        let idle = OperationTrace::default();
        check(&idle, 9, &[]);
    }

    #[test]
    fn a_wait_in_progress_counts_with_its_cause() {
        let trace = waiting(WaitCause::Names);
        assert_eq!(
            trace.in_progress(SECOND * 3),
            (WaitCause::Names, SECOND * 2)
        );
        let token = trace.enters(WaitCause::FirstByte, SECOND * 3);
        let token = trace.goes_on(token, WaitCause::Body, SECOND * 5);
        assert_eq!(trace.in_progress(SECOND * 9), (WaitCause::Body, SECOND * 8));
        let first = [(WaitCause::Names, 2), (WaitCause::FirstByte, 2)];
        check(&trace, 9, &[&first[..], &[(WaitCause::Body, 4)]].concat());
        trace.leaves(token, SECOND * 6);
        assert_eq!(trace.in_progress(SECOND * 9).0, WaitCause::Names);
    }

    #[test]
    fn a_wait_within_another_one_claims_its_time() {
        let trace = waiting(WaitCause::Change);
        let outer = trace.enters(WaitCause::Disk, SECOND);
        let inner = trace.enters(WaitCause::Memory, SECOND * 2);
        // The outer one may end first: its time was counted when the inner one began.
        trace.leaves(outer, SECOND * 4);
        let outer = trace.goes_on(outer, WaitCause::Body, SECOND * 5);
        assert_eq!(trace.in_progress(SECOND * 5).0, WaitCause::Memory);
        trace.leaves(inner, SECOND * 6);
        trace.leaves(outer, SECOND * 6);
        check(&trace, 6, &[(WaitCause::Disk, 1), (WaitCause::Memory, 4)]);
    }

    #[test]
    fn times_are_taken_once_while_they_grow() {
        let trace = waiting(WaitCause::Other);
        let token = trace.enters(WaitCause::Memory, SECOND);
        let take = |end: u32| trace.take_micros(&trace.times(SECOND * end));
        assert_eq!(take(3)[WaitCause::Memory as usize], 2_000_000);
        assert_eq!(take(3), WaitTimes::default());
        // A look that began earlier, and was late.
        assert_eq!(take(2), WaitTimes::default());
        trace.leaves(token, SECOND * 4);
        let last = take(5);
        assert_eq!(last[WaitCause::Memory as usize], 1_000_000);
        assert_eq!(last[WaitCause::Other as usize], 1_000_000);
    }

    #[test]
    fn pauses_are_taken_from_the_rest_and_not_from_more() {
        let seconds = Duration::from_secs;
        let paused = |throttled, failed| PausedTime {
            throttled: seconds(throttled),
            failed: seconds(failed),
        };
        let mut times = WaitTimes::default();
        times[WaitCause::Names as usize] = nanos(seconds(10));
        let (before, after) = (paused(100, 50), paused(107, 59));
        split_pauses(&mut times, WaitCause::Names, before, after);
        assert_eq!(times[WaitCause::Throttling as usize], nanos(seconds(7)));
        assert_eq!(times[WaitCause::Retry as usize], nanos(seconds(3)));
        assert_eq!(times[WaitCause::Names as usize], 0);
    }

    #[test]
    fn the_trace_of_a_thread_is_that_of_the_innermost_operation() {
        let (outer, inner) = (Arc::default(), Arc::default());
        let is = |trace| current().is_some_and(|current| Arc::ptr_eq(&current, trace));
        assert!(current().is_none());
        let entered = enter(Some(&outer));
        assert!(is(&outer));
        drop(enter(Some(&inner)));
        assert!(is(&outer));
        let within = enter(Some(&inner));
        assert!(is(&inner));
        drop(enter(None));
        drop(within);
        drop(entered);
        assert!(current().is_none());
    }
}
