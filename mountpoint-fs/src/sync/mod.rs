//! The locks of this crate, in one place so that a scheduler for tests replaces them; and what
//! counts.

#[cfg(test)]
mod test_locks;

use std::sync::atomic::{AtomicUsize, Ordering};

#[cfg(not(test))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(test)]
pub use test_locks::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(test)]
pub(crate) use test_locks::{JoinHandle, explore, run_on, spawn};

/// A thread of this process.
#[cfg(not(test))]
#[derive(Debug)]
pub(crate) struct JoinHandle(std::thread::JoinHandle<()>);

#[cfg(not(test))]
impl JoinHandle {
    /// Waits for the end of the thread.
    ///
    /// # Errors
    /// The thread has panicked.
    pub(crate) fn join(self) -> std::thread::Result<()> {
        self.0.join()
    }

    /// Whether it is the calling thread.
    pub(crate) fn is_current(&self) -> bool {
        self.0.thread().id() == std::thread::current().id()
    }
}

/// Starts a thread.
///
/// # Errors
/// The machine has no room for one more.
#[cfg(not(test))]
pub(crate) fn spawn(
    name: String,
    run: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle> {
    let builder = std::thread::Builder::new().name(name);
    builder.spawn(run).map(JoinHandle)
}

/// Runs `job` on a worker of `runtime`. Nothing waits for its end.
#[cfg(not(test))]
pub(crate) fn run_on(runtime: &tokio::runtime::Handle, job: impl FnOnce() + Send + 'static) {
    drop(runtime.spawn(async move { job() }));
}

/// Counts one more, until it is dropped.
#[derive(Debug)]
pub struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    /// One more of `count`.
    #[must_use]
    pub fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
