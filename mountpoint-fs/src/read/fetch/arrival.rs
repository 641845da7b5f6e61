//! The wait of a read for bytes of a fetch.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::task::{Context, Poll};
use std::time::Duration;

use mountpoint_client::ClientError;

use super::fetch::Fetch;
use crate::metrics::is_measured;
use crate::metrics::trace::{self, OperationTrace};

/// Waits for bytes of a fetch. Dropping it leaves no waiter behind, and tells the operation for
/// what it waited.
#[derive(Debug)]
pub(super) struct Arrival<'a> {
    fetch: &'a Fetch,
    needs: usize,
    ticket: Option<u64>,
    /// Set once an operation that is measured waits.
    trace: Option<Arc<OperationTrace>>,
}

impl<'a> Arrival<'a> {
    /// Waits until the first `needs` bytes of `fetch` are valid.
    pub(super) fn of(fetch: &'a Fetch, needs: usize) -> Self {
        assert!(needs <= fetch.len());
        Self {
            fetch,
            needs,
            ticket: None,
            trace: None,
        }
    }

    /// The operation that this thread polls waits, at the latest since `now`.
    pub(super) fn waits(&mut self, now: Duration) {
        if self.trace.is_none()
            && is_measured()
            && let Some(trace) = trace::current()
        {
            trace.waits(|| now);
            self.fetch.progress.begins_wait(&trace, now);
            self.trace = Some(trace);
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
        if let Some(trace) = &self.trace {
            let progress = &self.fetch.progress;
            progress.ends_wait(trace, self.fetch.metrics.now());
        }
    }
}
