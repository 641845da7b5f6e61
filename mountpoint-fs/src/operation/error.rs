//! Errors of operations, sorted by what the application is told.
//!
//! Only `fuse::errno` turns them into an errno.

use mountpoint_client::{ClientError, ErrorKind};

/// A failed operation.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FsError {
    /// No such name.
    #[error("no such file or directory")]
    NotFound,
    /// The inode is not a directory.
    #[error("not a directory")]
    NotADirectory,
    /// The inode is a directory.
    #[error("is a directory")]
    IsADirectory,
    /// The name is longer than 255 bytes, or the key than 1024.
    #[error("name too long")]
    NameTooLong,
    /// The name cannot be part of a key.
    #[error("name cannot be part of an S3 key: {0}")]
    InvalidName(&'static str),
    /// The handle is not open, or not open for this operation.
    #[error("bad file handle")]
    BadHandle,
    /// The handle only reads, or only writes. The text gives the reason.
    #[error("{0}")]
    OneWay(&'static str),
    /// The inode is unknown by now, or an open file's object was replaced or deleted.
    #[error("stale: {0}")]
    Stale(String),
    /// The mount allows no writes.
    #[error("read-only file system")]
    ReadOnly,
    /// The mount's flags forbid the operation, or the file is being written. The text names the
    /// flag.
    #[error("{0}")]
    NotPermitted(String),
    /// There is no extended attribute of that name.
    #[error("no such extended attribute")]
    NoAttribute,
    /// The name is taken.
    #[error("file exists")]
    Exists,
    /// The directory has entries.
    #[error("directory not empty")]
    NotEmpty,
    /// The operation exceeds what this mount can remember.
    #[error("no space: {0}")]
    NoSpace(String),
    /// Only a copy of the bytes can do it. The error makes the application copy by itself.
    #[error("{0}")]
    NeedsCopy(String),
    /// The name, or a directory above it, is being renamed or removed through this mount. Nothing
    /// was done.
    #[error("busy: {0}")]
    InMotion(String),
    /// Another process or client is changing the object.
    #[error("busy: {0}")]
    Busy(String),
    /// The size exceeds the limit of an object, or of this upload.
    #[error("file too large: {0}")]
    TooLarge(String),
    /// An offset or a flag that this file system has no meaning for.
    #[error("invalid argument: {0}")]
    InvalidArgument(&'static str),
    /// The write is not at the file's end, or the open asks for random writes.
    #[error("{0}")]
    NotSequential(String),
    /// The file system does not support the operation.
    #[error("not supported: {0}")]
    Unsupported(&'static str),
    /// S3 denied access, or the object is archived.
    #[error("permission denied: {0}")]
    Denied(String),
    /// The application was interrupted by a signal.
    #[error("interrupted")]
    Interrupted,
    /// The local disk failed. The text names the directory.
    #[error("{0}")]
    Local(String),
    /// Any other failure of the store.
    #[error("{0}")]
    Client(ClientError),
}

impl From<ClientError> for FsError {
    /// Converts a failed request. The text goes to the log and names what would change the outcome.
    fn from(error: ClientError) -> Self {
        match error.kind {
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::PreconditionFailed => Self::Stale(error.to_string()),
            ErrorKind::Denied => Self::Denied(format!(
                "{error}; reading needs s3:ListBucket on the bucket and s3:GetObject on its objects"
            )),
            ErrorKind::Credentials => Self::Client(ClientError {
                message: format!(
                    "{}; credentials are missing, expired or unknown to the server",
                    error.message
                ),
                ..error
            }),
            ErrorKind::TooManyParts => Self::TooLarge(error.to_string()),
            ErrorKind::Archived => Self::Denied(format!("{error}; restore the object to read it")),
            ErrorKind::Cancelled => Self::Interrupted,
            ErrorKind::NoSuchBucket
            | ErrorKind::NoSuchUpload
            | ErrorKind::WrongRegion(_)
            | ErrorKind::Unsupported
            | ErrorKind::InvalidRequest
            | ErrorKind::InvalidResponse
            | ErrorKind::Conflict
            | ErrorKind::Throttled
            | ErrorKind::Unreachable
            | ErrorKind::Transient => Self::Client(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_request_becomes_what_the_application_can_act_on() {
        let told = |kind| FsError::from(ClientError::new(kind, "HEAD a/b"));
        assert!(matches!(told(ErrorKind::NotFound), FsError::NotFound));
        assert!(
            matches!(told(ErrorKind::PreconditionFailed), FsError::Stale(text) if text.contains("a/b"))
        );
        for kind in [ErrorKind::Denied, ErrorKind::Archived] {
            assert!(matches!(told(kind), FsError::Denied(text) if text.contains("a/b")));
        }
        for kind in [
            ErrorKind::NoSuchBucket,
            ErrorKind::Credentials,
            ErrorKind::Throttled,
            ErrorKind::Transient,
            ErrorKind::InvalidResponse,
        ] {
            assert!(matches!(told(kind.clone()), FsError::Client(error) if error.kind == kind));
        }
    }
}
