//! What the application and the log are told of a failed change.

use mountpoint_client::{ClientError, ErrorKind};

use crate::operation::FsError;

/// `error` of a request that needs `permission` of S3.
pub(super) fn failed(error: ClientError, permission: &str) -> FsError {
    match error.kind {
        ErrorKind::Denied => FsError::Denied(format!("{error}; it needs {permission}")),
        _ => FsError::from(error),
    }
}

pub(super) const PUT: &str = "s3:PutObject";
pub(super) const DELETE: &str = "s3:DeleteObject";
pub(super) const COPY: &str = "s3:GetObject and s3:PutObject";
pub(super) const LIST: &str = "s3:ListBucket";
