//! The errno that an application sees, and the level of a failure in the log: one place for both.

use mountpoint_client::ErrorKind;
use nix::errno::Errno;
use tracing::Level;

use crate::operation::FsError;

/// The errno of a failed operation.
pub(super) fn errno(error: &FsError, access: Access) -> Errno {
    match error {
        FsError::NotFound => Errno::ENOENT,
        FsError::NotADirectory => Errno::ENOTDIR,
        FsError::IsADirectory => Errno::EISDIR,
        FsError::NameTooLong => Errno::ENAMETOOLONG,
        FsError::InvalidName(_) | FsError::InvalidArgument(_) | FsError::NotSequential(_) => {
            Errno::EINVAL
        }
        FsError::BadHandle | FsError::OneWay(_) => Errno::EBADF,
        FsError::Stale(_) => Errno::ESTALE,
        FsError::ReadOnly => access.refusal(),
        FsError::NotPermitted(_) => Errno::EPERM,
        FsError::NoAttribute => NO_ATTRIBUTE,
        FsError::Exists => Errno::EEXIST,
        FsError::NotEmpty => Errno::ENOTEMPTY,
        FsError::NoSpace(_) => Errno::ENOSPC,
        FsError::NeedsCopy(_) => Errno::EXDEV,
        FsError::Busy(_) | FsError::InMotion(_) => Errno::EBUSY,
        FsError::TooLarge(_) => Errno::EFBIG,
        FsError::Unsupported(_) => Errno::EOPNOTSUPP,
        FsError::Denied(_) => Errno::EACCES,
        FsError::Interrupted => Errno::EINTR,
        FsError::Local(_) => Errno::EIO,
        FsError::Client(error) => client_errno(&error.kind),
    }
}

/// The errno of a failed request without a meaning for the file system.
fn client_errno(kind: &ErrorKind) -> Errno {
    match kind {
        ErrorKind::NotFound => Errno::ENOENT,
        ErrorKind::PreconditionFailed => Errno::ESTALE,
        ErrorKind::Denied | ErrorKind::Credentials | ErrorKind::Archived => Errno::EACCES,
        ErrorKind::Unsupported => Errno::EOPNOTSUPP,
        ErrorKind::TooManyParts => Errno::EFBIG,
        ErrorKind::NoSuchBucket
        | ErrorKind::NoSuchUpload
        | ErrorKind::WrongRegion(_)
        | ErrorKind::InvalidRequest
        | ErrorKind::InvalidResponse
        | ErrorKind::Conflict
        | ErrorKind::Throttled
        | ErrorKind::Unreachable
        | ErrorKind::Transient
        | ErrorKind::Cancelled => Errno::EIO,
    }
}

/// No extended attributes of that kind exist. Unlike [`NO_ATTRIBUTE`], this errno stops `ls` from
/// asking for each file.
pub(super) const NO_SUCH_ATTRIBUTES: Errno = Errno::EOPNOTSUPP;

/// No extended attribute has that name.
pub(super) const NO_ATTRIBUTE: Errno = Errno::ENODATA;

/// The application has too little room for an extended attribute.
pub(super) const TOO_LITTLE_ROOM: Errno = Errno::ERANGE;

/// The operation that failed, as the log names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub(super) enum FuseOperation {
    Lookup,
    GetAttr,
    Open,
    /// `open` with `O_NONBLOCK`: the program continues without the file.
    #[strum(serialize = "open")]
    TryOpen,
    Create,
    Read,
    Write,
    Close,
    FSync,
    OpenDir,
    ReadDir,
    GetXAttr,
    Unlink,
    RmDir,
    MkDir,
    Rename,
    SetAttr,
    SymLink,
    Link,
    ReadLink,
    #[strum(serialize = "copy_file_range")]
    CopyFileRange,
    FAllocate,
    SetXAttr,
}

/// The level of a failure in the log. Everyday errors are for debugging; a failure that an operator
/// may have to act on is a warning.
pub(super) fn level(operation: FuseOperation, error: &FsError) -> Level {
    match error {
        // The file was replaced, or lost its name, during a read or write. For other operations
        // Linux looks the name up again, and no application notices.
        FsError::Stale(_)
            if matches!(
                operation,
                FuseOperation::Read
                    | FuseOperation::Write
                    | FuseOperation::Close
                    | FuseOperation::FSync
            ) =>
        {
            Level::WARN
        }
        FsError::NotPermitted(_) if operation == FuseOperation::TryOpen => Level::DEBUG,
        FsError::Unsupported(_) if operation == FuseOperation::SetXAttr => Level::WARN,
        FsError::NotFound
        | FsError::NotADirectory
        | FsError::IsADirectory
        | FsError::NameTooLong
        | FsError::InvalidName(_)
        | FsError::InvalidArgument(_)
        | FsError::BadHandle
        | FsError::Stale(_)
        | FsError::NoAttribute
        | FsError::Exists
        | FsError::NotEmpty
        | FsError::Unsupported(_)
        | FsError::Interrupted => Level::DEBUG,
        FsError::ReadOnly
        | FsError::OneWay(_)
        | FsError::NotPermitted(_)
        | FsError::NoSpace(_)
        | FsError::NeedsCopy(_)
        | FsError::Busy(_)
        | FsError::InMotion(_)
        | FsError::NotSequential(_)
        | FsError::TooLarge(_)
        | FsError::Denied(_)
        | FsError::Local(_)
        | FsError::Client(_) => Level::WARN,
    }
}

/// Whether the mount may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Mounted with `--read-only`.
    ReadOnly,
    /// Mounted for writing, as far as the flags allow it.
    ReadWrite,
}

impl Access {
    /// The errno of a change that is not allowed.
    pub(super) fn refusal(self) -> Errno {
        match self {
            Self::ReadOnly => Errno::EROFS,
            Self::ReadWrite => Errno::EPERM,
        }
    }
}

#[cfg(test)]
mod tests {
    use mountpoint_client::ClientError;

    use super::*;

    #[track_caller]
    fn check(error: &FsError, expected: Errno, expected_level: Level) {
        assert_eq!(errno(error, Access::ReadOnly), expected);
        assert_eq!(level(FuseOperation::Read, error), expected_level);
    }

    #[test]
    fn failures_of_operations() {
        check(&FsError::NotFound, Errno::ENOENT, Level::DEBUG);
        check(&FsError::NotADirectory, Errno::ENOTDIR, Level::DEBUG);
        check(&FsError::IsADirectory, Errno::EISDIR, Level::DEBUG);
        check(&FsError::NameTooLong, Errno::ENAMETOOLONG, Level::DEBUG);
        check(&FsError::InvalidName("NUL"), Errno::EINVAL, Level::DEBUG);
        check(
            &FsError::InvalidArgument("offset"),
            Errno::EINVAL,
            Level::DEBUG,
        );
        check(&FsError::BadHandle, Errno::EBADF, Level::DEBUG);
        check(&FsError::OneWay("x"), Errno::EBADF, Level::WARN);
        check(&FsError::Unsupported("x"), Errno::EOPNOTSUPP, Level::DEBUG);
        check(&FsError::Interrupted, Errno::EINTR, Level::DEBUG);
        check(&FsError::ReadOnly, Errno::EROFS, Level::WARN);
        check(
            &FsError::NotPermitted("--allow-overwrite".into()),
            Errno::EPERM,
            Level::WARN,
        );
        check(
            &FsError::NotSequential("k".into()),
            Errno::EINVAL,
            Level::WARN,
        );
        check(&FsError::Exists, Errno::EEXIST, Level::DEBUG);
        check(&FsError::NoAttribute, Errno::ENODATA, Level::DEBUG);
        check(&FsError::NotEmpty, Errno::ENOTEMPTY, Level::DEBUG);
        check(&FsError::NoSpace("k".into()), Errno::ENOSPC, Level::WARN);
        check(&FsError::Local("k".into()), Errno::EIO, Level::WARN);
        check(&FsError::NeedsCopy("k".into()), Errno::EXDEV, Level::WARN);
        check(&FsError::Busy("k".into()), Errno::EBUSY, Level::WARN);
        check(&FsError::TooLarge("k".into()), Errno::EFBIG, Level::WARN);
        check(&FsError::Stale("k".into()), Errno::ESTALE, Level::WARN);
        check(&FsError::Denied("k".into()), Errno::EACCES, Level::WARN);
        assert_eq!(errno(&FsError::ReadOnly, Access::ReadWrite), Errno::EPERM);
        assert_eq!(
            level(FuseOperation::Open, &FsError::Stale("k".into())),
            Level::DEBUG
        );
        assert_eq!(
            level(FuseOperation::Write, &FsError::Stale("k".into())),
            Level::WARN
        );
    }

    #[test]
    fn failures_of_the_store() {
        for (kind, expected) in [
            (ErrorKind::NotFound, Errno::ENOENT),
            (ErrorKind::PreconditionFailed, Errno::ESTALE),
            (ErrorKind::Denied, Errno::EACCES),
            (ErrorKind::Archived, Errno::EACCES),
            (ErrorKind::Credentials, Errno::EACCES),
            (ErrorKind::Unsupported, Errno::EOPNOTSUPP),
            (ErrorKind::NoSuchBucket, Errno::EIO),
            (ErrorKind::Throttled, Errno::EIO),
            (ErrorKind::Transient, Errno::EIO),
        ] {
            check(
                &FsError::Client(ClientError::new(kind, "k")),
                expected,
                Level::WARN,
            );
        }
    }
}
