//! How operations are refused that would change the bucket, or that do not exist here.
//!
//! Pure. Some refusals are ENOSYS because the kernel then answers by itself, and better: a missing
//! `copy_file_range` becomes a read and a write, a missing `getxattr` is not asked for again.

use nix::errno::Errno;

use crate::fuse::wire::Unsupported;

/// Why and how an operation is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// What the application is told.
    pub(super) errno: Errno,
    /// A line for the log: what was asked for, and what would allow it.
    pub(super) reason: &'static str,
}

impl Refusal {
    /// A rename with flags that S3 has no meaning for.
    pub(super) const RENAME_SPECIAL: Self = Self {
        errno: Errno::EINVAL,
        reason: "renaming was refused: two names cannot be exchanged (RENAME_EXCHANGE), and a name cannot leave a \
                 whiteout behind",
    };

    /// A hard link.
    pub(super) const LINK: Self = Self {
        errno: Errno::EPERM,
        reason: "making a hard link was refused: an object has one key",
    };

    /// `fallocate` with flags: to keep the size, to punch holes. Not ENOSYS: the kernel would not
    /// ask for the other kind.
    pub(super) const ALLOCATE: Self = Self {
        errno: Errno::EOPNOTSUPP,
        reason: "fallocate with flags was refused: S3 can neither reserve space nor make holes",
    };
}

/// What the application is told of an operation that does not exist here; `None` where nobody
/// waits.
pub(super) fn unsupported(operation: Unsupported) -> Option<Errno> {
    match operation {
        Unsupported::Ioctl => Some(Errno::ENOTTY),
        Unsupported::Other => Some(Errno::ENOSYS),
        Unsupported::NotifyReply => None,
    }
}
