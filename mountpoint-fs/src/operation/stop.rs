//! A request that a long operation end early.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::{Either, select};
use tokio::sync::Notify;

use super::FsError;

/// A stop request for an operation that must not be cancelled at an arbitrary point.
///
/// The operation checks it wherever it can stop safely.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<StopState>);

#[derive(Debug, Default)]
struct StopState {
    is_asked: AtomicBool,
    asked: Notify,
}

impl Stop {
    /// A stop request that is never made.
    #[must_use]
    pub fn never() -> Self {
        Self::default()
    }

    /// Requests the stop.
    pub fn ask(&self) {
        self.0.is_asked.store(true, Ordering::Release);
        self.0.asked.notify_waiters();
    }

    /// Whether the stop was requested.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.is_asked.load(Ordering::Acquire)
    }

    /// Returns when the stop is requested after this call.
    pub fn asked(&self) -> impl Future<Output = ()> + Send + '_ {
        self.0.asked.notified()
    }

    /// The outcome of `work`; [`FsError::Interrupted`] if the stop is requested before its end.
    pub async fn unless_asked<T>(
        &self,
        work: impl Future<Output = Result<T, FsError>>,
    ) -> Result<T, FsError> {
        match select(pin!(work), pin!(self.asked())).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(_) => Err(FsError::Interrupted),
        }
    }

    /// [`FsError::Interrupted`] if the stop was requested.
    pub fn check(&self) -> Result<(), FsError> {
        if self.is_asked() {
            Err(FsError::Interrupted)
        } else {
            Ok(())
        }
    }
}
