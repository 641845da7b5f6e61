//! The wish of a removal or a rename that a store in progress ends before its object is made.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Asks the stores of a file to end. A store that makes its object does not.
#[derive(Debug, Default)]
pub(in crate::file) struct StoreStop {
    /// Callers that wait for the end of the store in progress.
    waiting: AtomicUsize,
    asked: Notify,
    /// A store has ended by that, and its caller has not noticed yet.
    has_stopped: AtomicBool,
}

/// The wish of one caller, as long as the value lives.
#[derive(Debug)]
pub(in crate::file) struct StopAsked(Arc<StoreStop>);

impl StoreStop {
    /// Asks the store in progress to end, and those that begin meanwhile.
    #[must_use]
    pub(in crate::file) fn ask(self: &Arc<Self>) -> StopAsked {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        self.asked.notify_waiters();
        StopAsked(Arc::clone(self))
    }

    /// Whether somebody asks.
    pub(in crate::file) fn is_asked(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Notes that the store in progress ends for that.
    pub(super) fn stopped(&self) {
        self.has_stopped.store(true, Ordering::Release);
    }

    /// Whether the store that has just failed has ended for that.
    pub(in crate::file) fn take_stopped(&self) -> bool {
        self.has_stopped.swap(false, Ordering::AcqRel)
    }

    /// Returns when somebody asks.
    pub(super) async fn asked(&self) {
        loop {
            // Made before the look, so that no wish is missed between.
            let asked = self.asked.notified();
            if self.is_asked() {
                return;
            }
            asked.await;
        }
    }
}

impl Drop for StopAsked {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}
