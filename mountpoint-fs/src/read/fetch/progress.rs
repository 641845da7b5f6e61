//! The cause of a fetch's wait, from one moment to the next.
//!
//! Told by its GET; asked by the readers that wait for it, whose waits are split so. No clock is
//! read without a recorder. Any thread.

use std::sync::Arc;
use std::time::Duration;

use crate::metrics::is_measured;
use crate::metrics::trace::{OperationTrace, WaitCause, WaitTimes, current, now};
use crate::sync::Mutex;

/// The times of one fetch by cause.
#[derive(Debug, Default)]
pub(super) struct FetchProgress {
    /// A leaf, held for a few instructions. `None` before the first cause.
    state: Mutex<Option<Spent>>,
}

#[derive(Clone, Copy, Debug)]
struct Spent {
    cause: WaitCause,
    since: Duration,
    times: WaitTimes,
}

impl FetchProgress {
    /// From now on the fetch waits for `cause`. Until the first call, it waits for a connection.
    pub(super) fn enters(&self, cause: WaitCause) {
        if is_measured() {
            let mut state = self.state.lock();
            *state = Some(Spent {
                cause,
                since: now(),
                times: state.map_or_else(WaitTimes::default, Spent::times),
            });
        }
    }

    /// The times so far.
    pub(super) fn times(&self) -> WaitTimes {
        let state = *self.state.lock();
        state.map_or_else(WaitTimes::default, Spent::times)
    }
}

impl Spent {
    fn times(self) -> WaitTimes {
        let mut times = self.times;
        times[self.cause as usize] += now().saturating_sub(self.since);
        times
    }
}

/// A reader's wait for a fetch, from its begin to its drop.
pub(super) struct FetchWait<'a, F: Fn() -> WaitTimes> {
    times: &'a F,
    began: Option<(Arc<OperationTrace>, Duration, WaitTimes)>,
}

impl<'a, F: Fn() -> WaitTimes> FetchWait<'a, F> {
    /// No wait yet, for a fetch that has spent `times`.
    pub(super) fn new(times: &'a F) -> Self {
        Self { times, began: None }
    }

    /// The reader waits.
    pub(super) fn begins(&mut self) {
        if self.began.is_none()
            && is_measured()
            && let Some(trace) = current()
        {
            self.began = Some((trace, now(), (self.times)()));
        }
    }
}

impl<F: Fn() -> WaitTimes> Drop for FetchWait<'_, F> {
    fn drop(&mut self) {
        let Some((trace, began, before)) = self.began.take() else {
            return;
        };
        let mut rest = now().saturating_sub(began);
        let mut times = (self.times)();
        for (time, before) in times.iter_mut().zip(before) {
            *time = time.saturating_sub(before).min(rest);
            rest -= *time;
        }
        // Before the first cause: the GET waited to be sent.
        trace.add(WaitCause::Connection, began, rest);
        let mut since = began + rest;
        for (cause, time) in WaitCause::ALL.into_iter().zip(times) {
            if !time.is_zero() {
                trace.add(cause, since, time);
                since += time;
            }
        }
    }
}
