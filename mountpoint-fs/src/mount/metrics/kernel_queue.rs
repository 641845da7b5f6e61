//! The kernel's queue: requests that it has begun and this program has not taken yet.
//!
//! Linux tells how many requests there are, not since when. So the queue is looked at from time to
//! time, and each request in it counts as waiting until the next look.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Gauge, counter, gauge};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::collector::MeasuredParts;
use crate::fuse::Connection;
use crate::metrics::names::{FUSE_WAIT_TIME, KERNEL_QUEUE};
use crate::metrics::trace::WaitCause;

/// Looks at the kernel's queue.
pub(super) struct KernelQueue {
    connection: Option<Connection>,
    /// Counts the requests that this program works on.
    taken: Arc<dyn Fn() -> usize + Send + Sync>,
    queued: Gauge,
    waited: Counter,
}

impl KernelQueue {
    /// The queue of a mount.
    pub(super) fn new(parts: &MeasuredParts) -> Self {
        let cause = WaitCause::KernelQueue.name();
        Self {
            connection: parts.connection.clone(),
            taken: Arc::clone(&parts.waiting),
            queued: gauge!(KERNEL_QUEUE),
            waited: counter!(FUSE_WAIT_TIME, "fuse_request" => "any", "cause" => cause),
        }
    }

    /// Looks until the future is dropped, or the kernel does not show the queue.
    pub(super) async fn watch(self) {
        let mut tick = interval_at(Instant::now() + LOOK_INTERVAL, LOOK_INTERVAL);
        // A late look must not count for the time of two.
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while let Some(waiting) = self.waiting() {
            let taken = u64::try_from((self.taken)()).unwrap_or(u64::MAX);
            let queued = waiting.saturating_sub(taken);
            self.queued.set(queued as f64);
            let micros = u64::try_from(LOOK_INTERVAL.as_micros()).unwrap_or(u64::MAX);
            self.waited.increment(queued.saturating_mul(micros));
            tick.tick().await;
        }
        pending::<()>().await;
    }

    fn waiting(&self) -> Option<u64> {
        self.connection.as_ref()?.waiting().ok()
    }
}

/// Time between two looks: a queue that matters lasts longer, and a look costs 20 us.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
