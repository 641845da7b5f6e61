//! The visible state of a file that is being written.

use std::time::SystemTime;

use crate::sync::Mutex;

/// Size and time of a file that is being written.
///
/// The writer updates them, `stat` reads them. The lock is a leaf, held for an instant.
#[derive(Debug)]
pub struct Progress(Mutex<State>);

#[derive(Clone, Copy, Debug)]
struct State {
    size: u64,
    mtime: SystemTime,
    /// Whether an application set the time, and no write followed.
    is_set: bool,
}

impl Progress {
    /// A file of `size` bytes, changed at `mtime`.
    #[must_use]
    pub fn new(size: u64, mtime: SystemTime) -> Self {
        Self(Mutex::new(State {
            size,
            mtime,
            is_set: false,
        }))
    }

    /// Bytes written so far.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.0.lock().size
    }

    /// Time of the last change.
    #[must_use]
    pub fn mtime(&self) -> SystemTime {
        self.0.lock().mtime
    }

    /// The time that an application set, if no write followed.
    #[must_use]
    pub fn set_time(&self) -> Option<SystemTime> {
        let state = self.0.lock();
        state.is_set.then_some(state.mtime)
    }

    /// Sets the size and the time of the last change.
    pub fn advance(&self, size: u64, mtime: SystemTime) {
        *self.0.lock() = State {
            size,
            mtime,
            is_set: false,
        };
    }

    /// Sets the time of the last change. The next write changes it again.
    pub fn set_mtime(&self, mtime: SystemTime) {
        let mut state = self.0.lock();
        (state.mtime, state.is_set) = (mtime, true);
    }
}
