//! WRITEs that arrive before the bytes in front of them.
//!
//! The kernel cuts one asynchronous write (`io_submit`, `io_uring`) into WRITEs of at most
//! [`WRITE_SIZE_MAX`], sends them without waiting for their answers, and session threads take them
//! in any order. Such a WRITE waits until the missing bytes in front of it were taken. Bytes that
//! do not come within `REORDER_WAIT` are a gap. So are bytes in front of a write of a thread that
//! waits for each answer: the thread has sent no other WRITE.
//!
//! This module decides only whether bytes are still to come; `Writer::need` decides about gaps.
//!
//! Memory: the kernel's limit of background requests bounds the waiting WRITEs, and
//! `REORDER_DISTANCE_MAX` those of one file.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::channel::oneshot::{self, Receiver, Sender};

use crate::config::limits::{MAX_BACKGROUND_MAX, WRITE_SIZE_MAX};
use crate::sync::Mutex;

/// WRITEs of one file that wait for the bytes in front of them.
#[derive(Debug, Default)]
pub(in crate::write) struct Reordering {
    /// The lock is a leaf.
    waiting: Mutex<Vec<Waiter>>,
    /// A WRITE waited in vain: the program leaves gaps, so no further WRITE of it waits.
    has_gaps: AtomicBool,
}

#[derive(Debug)]
struct Waiter {
    offset: u64,
    until: Duration,
    tell: Sender<()>,
}

impl Reordering {
    /// Lets a WRITE at `offset` wait for the bytes in front of it, until the time `until`.
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

    /// Whether the program leaves gaps: its WRITEs do not wait.
    pub(in crate::write) fn has_gaps(&self) -> bool {
        self.has_gaps.load(Ordering::Relaxed)
    }

    /// Notes that a WRITE has waited in vain for the bytes in front of it.
    pub(in crate::write) fn waited_in_vain(&self) {
        self.has_gaps.store(true, Ordering::Relaxed);
    }

    /// Resumes the WRITEs that wait for bytes up to `end`, which were taken.
    pub(in crate::write) fn reached(&self, end: u64) {
        self.release(|waiter| waiter.offset <= end);
    }

    /// Resumes the WRITEs that have waited for long enough at the time `now`.
    pub(in crate::write) fn expire(&self, now: Duration) {
        self.release(|waiter| waiter.until <= now);
    }

    /// Resumes all WRITEs: the file has failed.
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
            // The application may have given the WRITE up.
            waiter.tell.send(()).ok();
        }
    }
}

/// How long a WRITE beyond a file's end waits for each WRITE before it.
///
/// The earlier WRITE may be in flight: the kernel has sent it, and a session thread is handling it.
/// That takes microseconds, and longer on a starved machine.
pub(super) const REORDER_WAIT: Duration = Duration::from_secs(1);

/// How far beyond the end of a file a WRITE may overtake others, in bytes.
///
/// That is the limit of the bytes that the kernel has in flight.
pub(super) const REORDER_DISTANCE_MAX: u64 = MAX_BACKGROUND_MAX as u64 * WRITE_SIZE_MAX as u64;
