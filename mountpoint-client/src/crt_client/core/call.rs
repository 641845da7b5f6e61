//! One request that is not a GET into a block, and the permits that bound how many are in flight.

use std::time::Duration;

use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};

use crate::crt_client::fault::{Operation, UNANSWERED_MAX};
use crate::crt_client::options::{
    CONTROL_ATTEMPT_MAX, CONTROL_IN_FLIGHT_MAX, SLOW_ATTEMPT_MAX, WORK_IN_FLIGHT_MAX, WORK_LATE,
};

/// One request that is retried as a whole.
#[derive(Clone, Debug)]
pub(in crate::crt_client) struct Call {
    pub(in crate::crt_client) operation: Operation,
    pub(super) kind: CallKind,
}

impl Call {
    pub(in crate::crt_client) fn quick(operation: Operation) -> Self {
        let kind = CallKind::Control;
        Self { operation, kind }
    }

    pub(in crate::crt_client) fn upload(operation: Operation) -> Self {
        let kind = CallKind::Upload;
        Self { operation, kind }
    }

    pub(in crate::crt_client) fn slow(operation: Operation) -> Self {
        let kind = CallKind::Work;
        Self { operation, kind }
    }
}

/// How much work a request is, which decides how long it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    /// No body and little work.
    Control,
    /// The server waits for the request's body.
    Upload,
    /// S3 copies, or puts parts together.
    Work,
}

impl CallKind {
    /// An attempt that takes longer is given up.
    pub(super) fn attempt_max(self) -> Duration {
        match self {
            Self::Control => CONTROL_ATTEMPT_MAX,
            Self::Upload | Self::Work => SLOW_ATTEMPT_MAX,
        }
    }

    /// Attempts whose answers may stop in their middle, each after as long as a request is to wait.
    pub(super) fn silent_attempts_max(self) -> u32 {
        match self {
            Self::Control | Self::Upload => 1,
            // One of them waits as long as the others may in all.
            Self::Work => 2,
        }
    }

    /// An attempt that takes longer may be one of those that S3 does not answer.
    pub(super) fn is_late_after(self) -> Duration {
        match self {
            Self::Control | Self::Upload => UNANSWERED_MAX,
            Self::Work => WORK_LATE,
        }
    }
}

/// One permit for each request in flight that is not a GET, so that each kind has a bound, and none
/// waits for another.
#[derive(Debug)]
pub(in crate::crt_client) struct Permits {
    control: Semaphore,
    uploads: Semaphore,
    work: Semaphore,
}

impl Permits {
    pub(in crate::crt_client) fn new(uploads: usize) -> Self {
        Self {
            control: Semaphore::new(CONTROL_IN_FLIGHT_MAX),
            uploads: Semaphore::new(uploads),
            work: Semaphore::new(WORK_IN_FLIGHT_MAX),
        }
    }

    pub(super) async fn acquire(
        &self,
        kind: CallKind,
    ) -> Result<SemaphorePermit<'_>, AcquireError> {
        let permits = match kind {
            CallKind::Control => &self.control,
            CallKind::Upload => &self.uploads,
            CallKind::Work => &self.work,
        };
        permits.acquire().await
    }
}
