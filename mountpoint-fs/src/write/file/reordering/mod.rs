//! WRITEs that arrive before the bytes in front of them.
//!
//! The kernel cuts one asynchronous write (`io_submit`, `io_uring`) into WRITEs of at most
//! [`WRITE_SIZE_MAX`], sends them without waiting for their answers, and session threads take them
//! in any order. Such a WRITE waits until what is missing in front of it was taken. What does not
//! come within `REORDER_WAIT` is a gap, and so is every place ahead that a thread writes to which
//! waits for the answer: it has sent nothing else.
//!
//! This decides only whether bytes are still to come; what becomes of a gap is decided by
//! `Writer::need`.
//!
//! Memory: what waits is held by the kernel's limit of background requests, `REORDER_DISTANCE_MAX`
//! of one file at most.
//!
//! [`WRITE_SIZE_MAX`]: crate::config::limits::WRITE_SIZE_MAX

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::channel::oneshot::{self, Receiver, Sender};

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
    /// Has a WRITE at `offset` wait for the bytes in front of it, until the time `until`.
    pub(in crate::write) fn wait(&self, offset: u64, until: Duration) -> Receiver<()> {
        let (tell, told) = oneshot::channel();
        let waiter = Waiter {
            offset,
            until,
            tell,
        };
        self.waiting.lock().push(waiter);
        told
    }

    /// Whether the program leaves gaps: nothing is waited for.
    pub(in crate::write) fn has_gaps(&self) -> bool {
        self.has_gaps.load(Ordering::Relaxed)
    }

    /// The bytes in front of a WRITE have not come for as long as is waited.
    pub(in crate::write) fn waited_in_vain(&self) {
        self.has_gaps.store(true, Ordering::Relaxed);
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
