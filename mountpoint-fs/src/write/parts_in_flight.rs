//! How many parts of all uploads are on their way.
//!
//! More than fill the network would only wait, in memory that is touched for the first time. So who has sent a part
//! goes on with the next one when there is room. What is being filled does not count: a writer that pauses holds up
//! nobody. Any thread; a part that has been sent always comes to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Counts parts that are being sent.
#[derive(Debug)]
pub(super) struct PartsInFlight {
    max: usize,
    count: AtomicUsize,
    ended: Notify,
}

/// A part on its way; dropped at its end.
#[derive(Debug)]
pub(super) struct PartInFlight(Arc<PartsInFlight>);

impl PartsInFlight {
    /// For a client that sends `max` at the same time.
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max: max.max(1),
            count: AtomicUsize::new(0),
            ended: Notify::new(),
        })
    }

    /// A part is being sent from now on, whether there is room or not.
    pub(super) fn enter(self: &Arc<Self>) -> PartInFlight {
        self.count.fetch_add(1, Ordering::AcqRel);
        PartInFlight(Arc::clone(self))
    }

    /// Whether another one would be sent at once.
    pub(super) fn has_room(&self) -> bool {
        self.count.load(Ordering::Acquire) < self.max
    }

    /// Waits until it would.
    pub(super) async fn room(&self) {
        loop {
            let ended = self.ended.notified();
            if self.has_room() {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for PartInFlight {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
        self.0.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn who_comes_when_all_are_in_flight_waits_for_an_end() {
        let parts = PartsInFlight::new(2);
        let (first, second) = (parts.enter(), parts.enter());
        assert!(!parts.has_room());
        let mut waiting = [Box::pin(parts.room()), Box::pin(parts.room())];
        assert!(
            waiting
                .iter_mut()
                .all(|room| room.as_mut().now_or_never().is_none())
        );
        drop(first);
        assert!(
            waiting
                .iter_mut()
                .all(|room| room.as_mut().now_or_never().is_some())
        );
        // One that was being filled is sent all the same.
        let third = parts.enter();
        let fourth = parts.enter();
        drop((second, third));
        assert!(parts.has_room());
        drop(fourth);
    }
}
