//! The cause of a fetch's wait, from one moment to the next.
//!
//! Told by its GET; each change is passed on to the operations that wait for the fetch. Times are
//! of the mount's clock. Any thread.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::metrics::trace::{OperationTrace, WaitCause, WaitToken};
use crate::sync::Mutex;

/// The present cause of one fetch, and the operations that wait for it.
#[derive(Debug)]
pub(super) struct FetchProgress {
    /// A leaf, held for a few instructions.
    state: Mutex<Progress>,
}

#[derive(Debug)]
struct Progress {
    cause: WaitCause,
    /// Mostly one.
    waiting: SmallVec<[(Arc<OperationTrace>, WaitToken); 1]>,
}

impl FetchProgress {
    /// A fetch that waits for `cause`.
    pub(super) fn new(cause: WaitCause) -> Self {
        Self {
            state: Mutex::new(Progress {
                cause,
                waiting: SmallVec::new(),
            }),
        }
    }

    /// From `now` on the fetch waits for `cause`.
    pub(super) fn enters(&self, cause: WaitCause, now: Duration) {
        let mut state = self.state.lock();
        state.cause = cause;
        for (trace, token) in &mut state.waiting {
            *token = trace.goes_on(*token, cause, now);
        }
    }

    /// The operation of `trace` waits for the fetch since `began`.
    pub(super) fn begins_wait(&self, trace: &Arc<OperationTrace>, began: Duration) {
        let mut state = self.state.lock();
        let token = trace.enters(state.cause, began);
        state.waiting.push((Arc::clone(trace), token));
    }

    /// The operation of `trace` waits for the fetch no longer.
    pub(super) fn ends_wait(&self, trace: &Arc<OperationTrace>, now: Duration) {
        let mut state = self.state.lock();
        let is_it = |(waiting, _): &(Arc<_>, _)| Arc::ptr_eq(waiting, trace);
        if let Some(place) = state.waiting.iter().position(is_it) {
            let (trace, token) = state.waiting.swap_remove(place);
            trace.leaves(token, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::trace::nanos;

    #[test]
    fn each_cause_has_the_time_until_the_next() {
        let second = Duration::from_secs;
        let trace = Arc::new(OperationTrace::of(WaitCause::Other, 0, second(10), None));
        trace.waits(|| second(10));
        let progress = FetchProgress::new(WaitCause::Connection);
        progress.begins_wait(&trace, second(10));
        progress.enters(WaitCause::FirstByte, second(11));
        progress.enters(WaitCause::Retry, second(13));
        // A thread may have read the clock before another one that told sooner.
        progress.enters(WaitCause::FirstByte, second(12));
        progress.enters(WaitCause::Body, second(18));
        let check = |expected: &[(WaitCause, u64)]| {
            let times = trace.times(second(20));
            for (cause, seconds) in expected {
                assert_eq!(times[*cause as usize], nanos(second(*seconds)), "{cause:?}");
            }
        };
        let ended = [
            (WaitCause::Connection, 1),
            (WaitCause::FirstByte, 7),
            (WaitCause::Retry, 0),
        ];
        check(&[&ended[..], &[(WaitCause::Body, 2)]].concat());
        progress.ends_wait(&trace, second(19));
        progress.enters(WaitCause::Retry, second(19));
        check(&[&ended[..], &[(WaitCause::Body, 1)]].concat());
    }
}
