//! WRITEs that arrive before the bytes in front of them.
//!
//! The kernel cuts one asynchronous write (`io_submit`, `io_uring`) into WRITEs of at most
//! [`WRITE_SIZE_MAX`], sends them without waiting for their answers, and session threads take them
//! in any order. Such a WRITE waits until what is missing in front of it was taken. What does not
//! come within [`AHEAD_WAIT`] is a gap, and so is every place ahead that a thread writes to which
//! waits for the answer: it has sent nothing else.
//!
//! This decides only whether bytes are still to come; what becomes of a gap is decided by
//! [`Writer::need`].
//!
//! Memory: what waits is held by the kernel's limit of background requests, [`AHEAD_MAX`] of one
//! file at most.
//!
//! [`WRITE_SIZE_MAX`]: crate::config::limits::WRITE_SIZE_MAX

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::channel::oneshot::{self, Receiver, Sender};
use tokio::sync::MutexGuard;

use super::state::Sink;
use super::writer::Writer;
use crate::config::limits::{AHEAD_MAX, AHEAD_WAIT};
use crate::sync::Mutex;

/// WRITEs of one file that wait for the bytes in front of them.
#[derive(Debug, Default)]
pub(in crate::write) struct Reordering {
    /// The lock is a leaf.
    waiting: Mutex<Vec<Waiter>>,
    /// One waited in vain: the program leaves gaps, and is not waited for again.
    has_gaps: AtomicBool,
}

#[derive(Debug)]
struct Waiter {
    offset: u64,
    until: Duration,
    tell: Sender<()>,
}

impl Reordering {
    fn wait(&self, offset: u64, until: Duration) -> Receiver<()> {
        let (tell, told) = oneshot::channel();
        let waiter = Waiter {
            offset,
            until,
            tell,
        };
        self.waiting.lock().push(waiter);
        told
    }

    /// Bytes were taken up to `end`: those that wait for that go on.
    pub(in crate::write) fn reached(&self, end: u64) {
        self.release(|waiter| waiter.offset <= end);
    }

    /// It is `now`: those that have waited for long enough go on.
    pub(in crate::write) fn expire(&self, now: Duration) {
        self.release(|waiter| waiter.until <= now);
    }

    /// The file has failed: nobody waits any more.
    pub(in crate::write) fn release_all(&self) {
        self.release(|_| true);
    }

    fn release(&self, is_over: impl Fn(&Waiter) -> bool) {
        let over: Vec<_> = {
            let mut waiting = self.waiting.lock();
            if waiting.is_empty() {
                return;
            }
            waiting.extract_if(.., |waiter| is_over(waiter)).collect()
        };
        for waiter in over {
            // Its WRITE may have been given up.
            waiter.tell.send(()).ok();
        }
    }
}

impl Writer {
    /// The end of the file, when the bytes in front of `offset` were taken or will not come.
    /// `goes_on` tells whether the thread that writes at `offset` may have sent others before,
    /// which have not arrived.
    pub(in crate::write) async fn in_order(
        &self,
        offset: u64,
        goes_on: &(dyn Fn() -> bool + Send + Sync),
    ) -> MutexGuard<'_, Sink> {
        let mut seen = None;
        loop {
            let sink = self.sink.lock().await;
            let is_ahead = self.is_ahead(&sink, offset) && offset - sink.end <= AHEAD_MAX;
            if !is_ahead || self.ahead.has_gaps.load(Ordering::Relaxed) {
                return sink;
            }
            // Nothing has come for as long as is waited: nothing will, for this write and for those
            // behind it.
            if seen == Some(sink.end) {
                self.ahead.has_gaps.store(true, Ordering::Relaxed);
                return sink;
            }
            if seen.is_none() && !goes_on() {
                return sink;
            }
            seen = Some(sink.end);
            let told = self
                .ahead
                .wait(offset, self.context.clock.now() + AHEAD_WAIT);
            drop(sink);
            let _counted = self.context.pressure.wait_ahead();
            // It is told in any case: the file outlives its WRITEs.
            told.await.ok();
        }
    }

    /// Whether bytes are missing in front of `offset`.
    pub(in crate::write) fn is_ahead(&self, sink: &Sink, offset: u64) -> bool {
        offset > sink.end && self.failure.get().is_none()
    }
}
