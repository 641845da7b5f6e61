//! What the application and the log are told of a failed change.

use std::fmt::Display;

use mountpoint_client::{ClientError, ErrorKind};

use crate::operation::FsError;

/// `error` of a request that needs `permission` of S3.
pub(super) fn failed(error: ClientError, permission: &str) -> FsError {
    match error.kind {
        ErrorKind::Denied => FsError::Denied(format!("{error}; it needs {permission}")),
        _ => FsError::from(error),
    }
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

/// That nobody can tell whether the change was made whose answer was `lost`.
pub(super) fn unknown(lost: &ClientError, why: impl Display) -> ClientError {
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
