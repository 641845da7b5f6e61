//! How many parts of all uploads are on their way.
//!
//! More than [`UploadConcurrency`] finds worth while would only wait, in memory that is touched for
//! the first time. So who has sent a part goes on with the next one when there is room. What is
//! being filled does not count: a writer that pauses holds up nobody. Any thread; a part that has
//! been sent always comes to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::concurrency::UploadConcurrency;
use crate::clock::Clock;
use crate::sync::Mutex;

/// Counts parts that are being sent.
#[derive(Debug)]
pub(in crate::write) struct PartsInFlight {
    clock: Clock,
    /// A leaf.
    concurrency: Mutex<UploadConcurrency>,
    /// What `concurrency` says.
    limit: AtomicUsize,
    count: AtomicUsize,
    /// A part has ended, or more may be in flight.
    ended: Notify,
}

/// A part on its way; dropped at its end.
#[derive(Debug)]
pub(in crate::write) struct PartInFlight {
    parts: Arc<PartsInFlight>,
    bytes: u64,
}

impl PartsInFlight {
    /// For a client that sends `max` at the same time.
    pub(in crate::write) fn new(max: usize, clock: Clock) -> Arc<Self> {
        let concurrency = UploadConcurrency::new(max);
        Arc::new(Self {
            clock,
            limit: AtomicUsize::new(concurrency.limit()),
            concurrency: Mutex::new(concurrency),
            count: AtomicUsize::new(0),
            ended: Notify::new(),
        })
    }

    /// The store took `time` to begin an upload.
    pub(in crate::write) fn upload_begun(&self, time: Duration) {
        let mut concurrency = self.concurrency.lock();
        concurrency.upload_begun(time);
        self.limit.store(concurrency.limit(), Ordering::Release);
        drop(concurrency);
        self.ended.notify_waiters();
    }

    /// A part of `bytes` is being sent from now on, whether there is room or not.
    pub(in crate::write) fn enter(self: &Arc<Self>, bytes: u64) -> PartInFlight {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.concurrency.lock().entered(self.clock.now());
        PartInFlight {
            parts: Arc::clone(self),
            bytes,
        }
    }

    /// Whether another one would be sent at once.
    pub(in crate::write) fn has_room(&self) -> bool {
        self.count.load(Ordering::Acquire) < self.limit.load(Ordering::Acquire)
    }

    /// Parts that are being sent.
    #[cfg(test)]
    pub(in crate::write) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Waits until it would.
    pub(in crate::write) async fn room(&self) {
        loop {
            let ended = self.ended.notified();
            if self.has_room() {
                return;
            }
            self.concurrency.lock().waited();
            ended.await;
        }
    }

    fn learn(&self, bytes: u64, in_flight: usize, now: Duration) {
        let mut concurrency = self.concurrency.lock();
        concurrency.ended(bytes, in_flight, now);
        self.limit.store(concurrency.limit(), Ordering::Release);
    }
}

impl Drop for PartInFlight {
    fn drop(&mut self) {
        let parts = &self.parts;
        let left = parts.count.fetch_sub(1, Ordering::AcqRel) - 1;
        parts.learn(self.bytes, left, parts.clock.now());
        parts.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn who_comes_when_all_are_in_flight_waits_for_an_end() {
        let parts = PartsInFlight::new(2, Clock::manual());
        let (first, second) = (parts.enter(1), parts.enter(1));
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
        let third = parts.enter(1);
        let fourth = parts.enter(1);
        drop((second, third));
        assert!(parts.has_room());
        drop(fourth);
        assert_eq!(parts.count(), 0);
    }
}
