//! Where parked operations are resumed.
//!
//! A kernel operation is a future. The FUSE session polls it once; if it is not ready it is parked and resumed
//! by whoever brings what it waits for. Inside [`deliver`] that happens on the delivering thread, with no hop;
//! a wake-up anywhere else (a timer, a dropped reservation) goes to a worker of the tokio runtime.

use std::task::Waker;

/// Wakes `wakers`, resuming parked operations on this thread. The caller holds no lock.
pub fn deliver(wakers: Vec<Waker>) {
    for waker in wakers {
        waker.wake();
    }
}
