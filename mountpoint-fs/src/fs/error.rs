//! Why an operation failed, sorted by what the application should be told. `fuse::errno` alone turns it into an errno.

use mountpoint_client::ClientError;

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
    /// The handle is not open, or not for this.
    #[error("bad file handle")]
    BadHandle,
    /// The inode is not known (any more), or the object behind an open file was replaced or deleted.
    #[error("stale: {0}")]
    Stale(String),
    /// The mount allows no writes.
    #[error("read-only file system")]
    ReadOnly,
    /// An offset or a flag that this file system has no meaning for.
    #[error("invalid argument: {0}")]
    InvalidArgument(&'static str),
    /// The operation does not exist here.
    #[error("not supported: {0}")]
    Unsupported(&'static str),
    /// S3 denied access, or the object is archived.
    #[error("permission denied: {0}")]
    Denied(String),
    /// The application was interrupted by a signal.
    #[error("interrupted")]
    Interrupted,
    /// Any other failure of the store.
    #[error("{0}")]
    Client(ClientError),
}
