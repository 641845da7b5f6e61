//! A wish that a long operation end early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use super::FsError;

/// Told to an operation that must not be left half-way where it happens to be: it looks at it where it can stop.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Wish>);

#[derive(Debug, Default)]
struct Wish {
    is_asked: AtomicBool,
    asked: Notify,
}

impl Stop {
    /// Nobody wishes it, and nobody ever will.
    #[must_use]
    pub fn never() -> Self {
        Self::default()
    }

    /// From now on it is wished.
    pub fn ask(&self) {
        self.0.is_asked.store(true, Ordering::Release);
        self.0.asked.notify_waiters();
    }

    /// Whether it is wished.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.is_asked.load(Ordering::Acquire)
    }

    /// Returns when it is asked for after this was called.
    pub fn asked(&self) -> impl Future<Output = ()> + Send + '_ {
        self.0.asked.notified()
    }

    /// [`FsError::Interrupted`] if it is wished.
    pub fn check(&self) -> Result<(), FsError> {
        if self.is_asked() {
            Err(FsError::Interrupted)
        } else {
            Ok(())
        }
    }
}
