//! The locks of this crate, in one place so that a scheduler for tests could replace them; and what
//! counts.

use std::sync::atomic::{AtomicUsize, Ordering};

pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

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
