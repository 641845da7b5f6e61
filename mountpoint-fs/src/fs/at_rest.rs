//! Operations that meet a rename or a removal of a directory above.
//!
//! They wait for its end, as on a disk, and begin anew with the name that the directory has then.

use std::pin::pin;
use std::time::Duration;

use futures::future::select;

use super::FileSystem;
use crate::operation::{FsError, Stop};

impl FileSystem {
    /// Begins `operation` again each time that something in motion was in its way, which has ended
    /// by then.
    ///
    /// [`FsError::InMotion`] if there was something for so long, [`FsError::Interrupted`] if `stop`
    /// was asked for meanwhile: nothing was done then. An operation that has begun goes on.
    pub async fn when_at_rest<T, F: Future<Output = Result<T, FsError>>>(
        &self,
        stop: &Stop,
        operation: impl Fn() -> F,
    ) -> Result<T, FsError> {
        let begun = self.parts.clock.now();
        loop {
            let (ended, asked) = (
                pin!(self.parts.namespace.motion_ended()),
                pin!(stop.asked()),
            );
            let outcome = operation().await;
            if !matches!(outcome, Err(FsError::InMotion(_))) {
                return outcome;
            }
            stop.check()?;
            if self.parts.clock.now().saturating_sub(begun) >= MOTION_WAIT_MAX {
                return outcome;
            }
            select(ended, asked).await;
        }
    }
}

/// How long an operation waits for a rename above it before it fails with `EBUSY`.
///
/// Meanwhile the kernel may lock a directory, which blocks others. As long as a request may take.
/// The time is checked whenever a change ends, and every
/// [`READER_IDLE`](crate::config::limits::READER_IDLE).
pub(super) const MOTION_WAIT_MAX: Duration = Duration::from_secs(60);
