//! What the application and the log are told of a failed change.

use std::fmt::Display;
use std::time::{Duration, SystemTime};

use mountpoint_client::types::{Key, ObjectInfo};
use mountpoint_client::{ClientError, ErrorKind};

use crate::operation::FsError;

/// `error` of a request that needs `permission` of S3.
pub(super) fn failed(error: ClientError, permission: &str) -> FsError {
    match error.kind {
        ErrorKind::Denied => FsError::Denied(format!("{error}; it needs {permission}")),
        _ => FsError::from(error),
    }
}

/// That the listing of `prefix` has a key twice, so that it may have no end and says nothing of what is there.
pub(super) fn repeats(prefix: &str) -> FsError {
    let message = format!("listing of {prefix:?}: the server sent names twice");
    FsError::Client(ClientError::new(ErrorKind::InvalidResponse, message))
}

/// What the bucket says of an object behind a change whose answer was `lost`; `None` if it is not there. If the bucket cannot
/// be asked, nobody knows whether the change was made: it is not said that somebody else was first.
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

/// Why a change that was refused, or failed, may have been made all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// An answer was lost.
    Lost,
    /// An answer was lost, and another request for the object was met: S3 may have dropped the upload.
    Conflict,
    /// A proxy may have sent the request twice.
    Twice,
}

impl Doubt {
    /// What can be doubted of a change that failed with `error`.
    pub(crate) fn of(error: &ClientError) -> Option<Self> {
        // An answer that leaves it open; a server that gives none would not answer a question either.
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

/// Whether the object, which looks as the change that failed with `error` was to make it, may be taken for that. Where no
/// answer was lost the refusal is most likely true: one that was there before is somebody else's, and of an empty one
/// nothing tells whose it is.
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

/// Servers say times in whole seconds.
fn whole_second(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.map_or(0, |since| since.as_secs()))
}

/// Tells the log that a change was made although its last answer was `error`.
pub(crate) fn tell_own(key: &Key, error: &ClientError) {
    tracing::warn!(
        %key,
        "the bucket holds what was sent, so the change was made, although its last answer was: {error}"
    );
}

/// That nobody can tell whether the change was made whose answer was `lost`.
pub(crate) fn unknown(lost: &ClientError, why: impl Display) -> ClientError {
    ClientError {
        kind: ErrorKind::Transient,
        message: format!(
            "the answer was lost, and whether it was done could not be found out ({why}): {}",
            lost.message
        ),
        ..lost.clone()
    }
}

pub(super) const PUT: &str = "s3:PutObject";
pub(super) const DELETE: &str = "s3:DeleteObject";
pub(super) const COPY: &str = "s3:GetObject and s3:PutObject";
pub(super) const LIST: &str = "s3:ListBucket";
/// Why the bucket may not tell who has made an object.
pub(super) const LOOKS_THE_SAME: &str = "another object may look the same";
