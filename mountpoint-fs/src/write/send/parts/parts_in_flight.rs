//! How many parts of all uploads are in flight.
//!
//! Further parts would only wait, in memory that is touched for the first time. So a writer that
//! has sent a part goes on with the next one when there is room. A part that is being filled does
//! not count: a writer that pauses holds up no other. Any thread; a part that has been sent always
//! comes to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::store_distance::StoreDistance;

/// Counts parts that are being sent.
#[derive(Debug)]
pub(in crate::write) struct PartsInFlight {
    /// As many as fill the network.
    max: usize,
    /// Least time in which an upload began, in nanoseconds; `u64::MAX` before the first. The least
    /// says how far the store is, others how busy this machine was.
    begun_in: AtomicU64,
    count: AtomicUsize,
    /// A part has ended, or more may be in flight.
    ended: Notify,
}

/// A part in flight; dropped at its end.
#[derive(Debug)]
pub(in crate::write) struct PartInFlight(Arc<PartsInFlight>);

impl PartsInFlight {
    /// For a client that fills the network with `max` parts.
    pub(in crate::write) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max: max.max(1),
            begun_in: AtomicU64::new(u64::MAX),
            count: AtomicUsize::new(0),
            ended: Notify::new(),
        })
    }

    /// The store took `time` to begin an upload.
    pub(in crate::write) fn upload_begun(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX - 1);
        self.begun_in.fetch_min(nanos, Ordering::AcqRel);
        self.ended.notify_waiters();
    }

    /// Parts that may be in flight.
    pub(in crate::write) fn limit(&self) -> usize {
        let begun_in = self.begun_in.load(Ordering::Acquire);
        let is_known = begun_in != u64::MAX;
        if is_known && StoreDistance::of(Duration::from_nanos(begun_in)).is_remote() {
            self.max
        } else {
            self.max.min(PARTS_LOCAL_MAX)
        }
    }

    /// A part is being sent from now on, whether there is room or not.
    pub(in crate::write) fn enter(self: &Arc<Self>) -> PartInFlight {
        self.count.fetch_add(1, Ordering::AcqRel);
        PartInFlight(Arc::clone(self))
    }

    /// Whether another one would be sent at once.
    pub(in crate::write) fn has_room(&self) -> bool {
        self.count.load(Ordering::Acquire) < self.limit()
    }

    /// Parts that are being sent.
    #[cfg(test)]
    pub(in crate::write) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Waits until another one would be sent at once.
    pub(in crate::write) async fn room(&self) {
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

/// Most parts in flight to a store on this machine or beside it.
///
/// One writer to a store on the same machine came to 0.72, 0.83, 1.03 and 1.12 GB/s with 2, 3, 4
/// and 8 of them. With 25 it comes to as much and holds twice the memory; four writers are a fifth
/// slower.
const PARTS_LOCAL_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn a_writer_waits_for_an_end_when_all_are_in_flight() {
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
        assert_eq!(parts.count(), 0);
    }

    #[test]
    fn a_far_store_gets_all_parts_that_fill_the_network() {
        let ms = Duration::from_millis;
        for (max, begun_in, expected) in [
            (250, &[][..], PARTS_LOCAL_MAX),
            (250, &[ms(20)], 250),
            (250, &[ms(20), ms(1)], PARTS_LOCAL_MAX),
            (250, &[ms(1), ms(20)], PARTS_LOCAL_MAX),
            (10, &[ms(20)], 10),
            (7, &[ms(1)], 7),
            (0, &[], 1),
        ] {
            let parts = PartsInFlight::new(max);
            begun_in.iter().for_each(|time| parts.upload_begun(*time));
            assert_eq!(parts.limit(), expected, "{max} {begun_in:?}");
        }
    }
}
