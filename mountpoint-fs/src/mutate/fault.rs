//! Errors and log lines of failed changes.

use std::fmt::Display;
use std::time::{Duration, SystemTime};

use mountpoint_client::types::{Key, ObjectInfo};
use mountpoint_client::{ClientError, ErrorKind};

use crate::operation::FsError;

/// The error of a request that needs `permission` of S3.
pub(super) fn failed(error: ClientError, permission: &str) -> FsError {
    match error.kind {
        ErrorKind::Denied => FsError::Denied(format!("{error}; the request needs {permission}")),
        _ => FsError::from(error),
    }
}

/// The error for a listing of `prefix` that repeats a key.
///
/// Such a listing may have no end and proves nothing about the directory's entries.
pub(super) fn repeats(prefix: &str) -> FsError {
    let message = format!("listing of {prefix:?}: the server sent names twice");
    FsError::Client(ClientError::new(ErrorKind::InvalidResponse, message))
}

/// The bucket's answer about an object after a change whose answer was `lost`.
///
/// `None` if the object does not exist. If the bucket cannot be asked, the outcome stays unknown:
/// the error does not claim that another client was first.
pub(super) fn seen<T>(
    looked: Result<T, ClientError>,
    lost: &ClientError,
) -> Result<Option<T>, ClientError> {
    match looked {
        Ok(there) => Ok(Some(there)),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unknown(lost, &error)),
    }
}

/// A reason why a change that was refused, or failed, may have been made nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// An answer was lost.
    Lost,
    /// An answer was lost after a conflict: S3 may have dropped the upload.
    Conflict,
    /// A proxy may have sent the request twice.
    Twice,
}

impl Doubt {
    /// The doubt about a change that failed with `error`.
    pub(crate) fn of(error: &ClientError) -> Option<Self> {
        // An answer that leaves the outcome open. A server that sends no answer would not answer a
        // second question either.
        let is_open = error.kind.is_retryable() && error.status.is_some();
        if error.met_conflict || error.kind == ErrorKind::Conflict {
            return Some(Self::Conflict);
        }
        if error.answer_was_lost || is_open {
            return Some(Self::Lost);
        }
        let is_twice = error.maybe_twice_since.is_some() || error.kind == ErrorKind::NoSuchUpload;
        is_twice.then_some(Self::Twice)
    }
}

/// Whether the object may be the result of the change that failed with `error`.
///
/// The caller has found that the object looks like the intended one. Where no answer was lost the
/// refusal is most likely true: an older object belongs to another client, and an empty one does
/// not show its origin.
pub(crate) fn may_be_own(there: &ObjectInfo, error: &ClientError) -> bool {
    match Doubt::of(error) {
        None => false,
        Some(Doubt::Lost | Doubt::Conflict) => true,
        Some(Doubt::Twice) => {
            let since = error.maybe_twice_since;
            there.size > 0 && since.is_some_and(|since| there.last_modified >= whole_second(since))
        }
    }
}

/// Rounds down to whole seconds, the resolution of servers.
fn whole_second(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.map_or(0, |since| since.as_secs()))
}

/// Logs that a change was made although its last answer was `error`.
pub(crate) fn tell_own(key: &Key, error: &ClientError) {
    tracing::warn!(
        %key,
        "the bucket holds the sent bytes, so the change was made, although its last answer was: {error}"
    );
}

/// The error for a change whose answer was `lost` and whose outcome is unknown.
pub(crate) fn unknown(lost: &ClientError, why: impl Display) -> ClientError {
    ClientError {
        kind: ErrorKind::Transient,
        message: format!(
            "the answer was lost, and the outcome of the request is unknown ({why}): {}",
            lost.message
        ),
        ..lost.clone()
    }
}

pub(super) const PUT: &str = "s3:PutObject";
pub(super) const DELETE: &str = "s3:DeleteObject";
pub(super) const COPY: &str = "s3:GetObject and s3:PutObject";
pub(super) const LIST: &str = "s3:ListBucket";
/// A reason why the bucket may not tell the origin of an object.
pub(super) const LOOKS_THE_SAME: &str = "another object may look the same";
