//! Errors and log lines of failed changes.

use std::fmt::Display;

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
    /// No answer tells the outcome: it was lost, cannot be read, or is that of a server in trouble.
    Lost,
    /// A proxy may have sent the request twice, and the refusal is that of the second one.
    Twice,
}

impl Doubt {
    /// The doubt about a change that failed with `error`.
    pub(crate) fn of(error: &ClientError) -> Option<Self> {
        // A server that sends no answer would not answer a second question either.
        let is_open = error.kind.is_retryable() && error.status.is_some();
        let is_unreadable = error.kind == ErrorKind::InvalidResponse;
        if error.answer_was_lost || error.met_conflict || is_open || is_unreadable {
            return Some(Self::Lost);
        }
        let is_twice = error.maybe_twice || error.kind == ErrorKind::NoSuchUpload;
        is_twice.then_some(Self::Twice)
    }
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
