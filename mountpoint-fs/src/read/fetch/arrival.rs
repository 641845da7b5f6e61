//! The wait of a read for bytes of a fetch.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::task::{Context, Poll};
use std::time::Duration;

use mountpoint_client::ClientError;

use super::fetch::Fetch;
use crate::metrics::is_measured;
use crate::metrics::trace::{self, OperationTrace, WaitCause, WaitTimes, nanos};

/// Waits for bytes of a fetch. Dropping it leaves no waiter behind, and tells the operation for
/// what it waited.
#[derive(Debug)]
pub(super) struct Arrival<'a> {
    fetch: &'a Fetch,
    needs: usize,
    ticket: Option<u64>,
    /// Set once an operation that is measured waits.
    wait: Option<MeasuredWait>,
}

/// A wait that has begun.
#[derive(Debug)]
struct MeasuredWait {
    trace: Arc<OperationTrace>,
    began: Duration,
    /// The times of the fetch before.
    before: WaitTimes,
}

impl<'a> Arrival<'a> {
    /// Waits until the first `needs` bytes of `fetch` are valid.
    pub(super) fn of(fetch: &'a Fetch, needs: usize) -> Self {
        assert!(needs <= fetch.len());
        Self {
            fetch,
            needs,
            ticket: None,
            wait: None,
        }
    }

    /// The operation that this thread polls waits, at the latest since `now`.
    pub(super) fn waits(&mut self, now: Duration) {
        if self.wait.is_none()
            && is_measured()
            && let Some(trace) = trace::current()
        {
            trace.waits(|| now);
            self.wait = Some(MeasuredWait {
                trace,
                began: now,
                before: self.fetch.times(now),
            });
        }
    }
}

impl MeasuredWait {
    /// The wait has ended: splits it by the causes for which `fetch` waited meanwhile.
    fn ended(&self, fetch: &Fetch) {
        let now = fetch.metrics.now();
        let mut rest = nanos(now.saturating_sub(self.began));
        let mut times = fetch.times(now);
        for (time, before) in times.iter_mut().zip(self.before) {
            *time = time.saturating_sub(before).min(rest);
            rest -= *time;
        }
        // The rest, of clocks that were read out of turn.
        times[WaitCause::Connection as usize] += rest;
        let mut ago: u64 = times.iter().sum();
        for (cause, time) in WaitCause::ALL.into_iter().zip(times) {
            if time > 0 {
                self.trace.add(cause, ago, time);
                ago -= time;
            }
        }
    }
}

impl Future for Arrival<'_> {
    type Output = Result<(), ClientError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(outcome) = self.fetch.outcome(self.needs) {
            return Poll::Ready(outcome);
        }
        let waiters = &self.fetch.waiters;
        let ticket = waiters.wait(self.ticket, self.needs, cx.waker());
        self.ticket = Some(ticket);
        fence(Ordering::SeqCst);
        match self.fetch.outcome(self.needs) {
            Some(outcome) => Poll::Ready(outcome),
            None => Poll::Pending,
        }
    }
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.fetch.waiters.remove(ticket);
        }
        if let Some(wait) = &self.wait {
            wait.ended(self.fetch);
        }
    }
}
