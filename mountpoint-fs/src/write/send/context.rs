//! The shared state of all requests of a mount's writers: client, server features, journal.

use std::fmt;
use std::sync::Arc;
use std::task::{Poll, Waker};

use mountpoint_client::ObjectClient;
use tokio::sync::Semaphore;

use super::features::ServerFeatures;
use super::parts::parts_in_flight::PartsInFlight;
use super::permission::Permission;
use crate::clock::Clock;
use crate::config::WriteConfig;
use crate::journal::Journal;
use crate::mutate::Mutator;
use crate::sync::Mutex;
use crate::write::memory::pressure::MemoryPressure;

/// The shared state of the requests of all writers. Made once per mount.
pub(in crate::write) struct SendContext {
    pub(in crate::write) client: Arc<dyn ObjectClient>,
    pub(in crate::write) config: WriteConfig,
    pub(in crate::write) clock: Clock,
    /// Counts bodies in flight.
    pub(in crate::write) pressure: Arc<MemoryPressure>,
    pub(in crate::write) parts: Arc<PartsInFlight>,
    pub(in crate::write) features: ServerFeatures,
    pub(in crate::write) permission: Permission,
    pub(in crate::write) journal: Arc<Journal>,
    /// Replaces the metadata of objects.
    pub(in crate::write) mutator: Arc<Mutator>,
    /// Permits for copies on the server.
    pub(in crate::write) copies: Semaphore,
    pub(in crate::write) tally: Arc<Tally>,
}

impl SendContext {
    /// Counts background work, until the guard is dropped.
    pub(in crate::write) fn begin(&self) -> PendingWork {
        self.tally.0.lock().count += 1;
        PendingWork(Arc::clone(&self.tally))
    }
}

impl fmt::Debug for SendContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendContext")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// The number of background tasks, and the waiters for their end. The lock is a leaf.
#[derive(Debug, Default)]
pub(in crate::write) struct Tally(Mutex<Count>);

#[derive(Debug, Default)]
struct Count {
    count: usize,
    wakers: Vec<Waker>,
}

impl Tally {
    /// Returns when no background task is left.
    pub(in crate::write) async fn empty(&self) {
        std::future::poll_fn(|cx| {
            let mut count = self.0.lock();
            if count.count == 0 {
                return Poll::Ready(());
            }
            count.wakers.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// One background task: the end of the mount waits for it.
#[derive(Debug)]
pub struct PendingWork(Arc<Tally>);

impl Drop for PendingWork {
    fn drop(&mut self) {
        let wakers = {
            let mut count = self.0.0.lock();
            count.count -= 1;
            if count.count == 0 {
                std::mem::take(&mut count.wakers)
            } else {
                Vec::new()
            }
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}
