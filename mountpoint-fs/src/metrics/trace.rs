//! What an operation waits for: the time of each of its waits, by cause.
//!
//! The code that polls an operation [`enter`]s its trace; code below that waits adds its time, from
//! the first poll that was not ready to the end. Time that no cause claims is the operation's own:
//! the caller knows what that means. Waits of tasks that belong to no operation are not counted.
//! Any thread; a leaf without locks.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::Poll;
use std::time::Duration;

use super::registry::is_measured;
use crate::clock::Clock;

/// The cause of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitCause {
    /// The kernel has not handed the request over yet.
    KernelQueue,
    /// Requests about names: look-ups, listings, attributes.
    Names,
    /// Memory for data.
    Memory,
    /// A place among the requests in flight.
    Connection,
    /// The first byte of an answer with data.
    FirstByte,
    /// The rest of that answer.
    Body,
    /// S3 said to slow down.
    Throttling,
    /// The time until a failed request is sent again.
    Retry,
    /// The disk of the cache.
    Disk,
    /// The bucket that mounts share.
    SharedCache,
    /// Requests that change the bucket, and the writes before.
    Change,
    /// The kernel takes the reply.
    Reply,
    /// None of these.
    Other,
}

impl WaitCause {
    /// Every cause, in the order of a request's life.
    pub const ALL: [Self; 13] = [
        Self::KernelQueue,
        Self::Names,
        Self::Memory,
        Self::Connection,
        Self::FirstByte,
        Self::Body,
        Self::Throttling,
        Self::Retry,
        Self::Disk,
        Self::SharedCache,
        Self::Change,
        Self::Reply,
        Self::Other,
    ];

    /// Whether such waits are for requests to S3 whose pauses are not told apart.
    #[must_use]
    pub fn is_of_requests(self) -> bool {
        matches!(self, Self::Names | Self::Change)
    }

    /// The cause as a label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::KernelQueue => "kernel_queue",
            Self::Names => "names",
            Self::Memory => "memory",
            Self::Connection => "connection",
            Self::FirstByte => "first_byte",
            Self::Body => "body",
            Self::Throttling => "throttling",
            Self::Retry => "retry",
            Self::Disk => "disk",
            Self::SharedCache => "shared_cache",
            Self::Change => "change",
            Self::Reply => "reply",
            Self::Other => "other",
        }
    }
}

/// Times by cause, as of [`WaitCause::ALL`].
pub type WaitTimes = [Duration; WaitCause::ALL.len()];

/// The waits of one operation so far.
#[derive(Debug, Default)]
pub struct OperationTrace {
    nanos: [AtomicU64; WaitCause::ALL.len()],
    /// When the operation was parked, in nanoseconds of [`now`]; 0 before.
    parked_at: AtomicU64,
    /// The thread of the application, 0 if it is not known.
    thread: AtomicU32,
}

impl OperationTrace {
    /// No wait yet of an operation that `thread` waits for.
    #[must_use]
    pub fn of(thread: u32) -> Self {
        Self {
            thread: AtomicU32::new(thread),
            ..Self::default()
        }
    }

    /// Forgets everything, for the next operation, which `thread` waits for.
    pub fn reset(&mut self, thread: u32) {
        *self.thread.get_mut() = thread;
        for nanos in &mut self.nanos {
            *nanos.get_mut() = 0;
        }
        *self.parked_at.get_mut() = 0;
    }

    /// The operation waits from now on.
    pub fn parks(&self) {
        self.parked_at.store(nanos(now()).max(1), Ordering::Relaxed);
    }

    /// Adds a wait.
    pub fn add(&self, cause: WaitCause, time: Duration) {
        self.nanos[cause as usize].fetch_add(nanos(time), Ordering::Relaxed);
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

/// The thread of the application that waits for the operation which this thread polls; 0 if there
/// is none, or it is not known.
#[must_use]
pub fn current_thread() -> u32 {
    CURRENT.with_borrow(|trace| match trace {
        Some(trace) => trace.thread.load(Ordering::Relaxed),
        None => 0,
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
            trace.add(self.cause, now().saturating_sub(began));
        }
    }
}

/// Time since the first call, for measurements alone: no decision depends on it.
#[must_use]
pub fn now() -> Duration {
    static CLOCK: LazyLock<Clock> = LazyLock::new(Clock::monotonic);
    CLOCK.now()
}

/// A time in microseconds, as metrics have it.
#[must_use]
pub fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_cause_claims_is_the_rest() {
        let trace = Arc::new(OperationTrace::default());
        trace.add(WaitCause::Memory, Duration::from_secs(7));
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
