//! Refusals of operations that S3 cannot do, or that do not exist here.
//!
//! Pure. Some refusals are ENOSYS because the kernel then answers by itself, and better: a missing
//! `copy_file_range` becomes a read and a write, a missing `getxattr` is not asked for again.

use nix::errno::Errno;

use crate::fuse::wire::Unsupported;

/// The reason and the error of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The error of the application.
    pub(super) errno: Errno,
    /// A line for the log: the refused operation, and its remedy.
    pub(super) reason: &'static str,
}

impl Refusal {
    /// A rename with flags without a meaning for S3.
    pub(super) const RENAME_SPECIAL: Self = Self {
        errno: Errno::EINVAL,
        reason: "renaming was refused: two names cannot be exchanged (RENAME_EXCHANGE), and a name cannot leave a \
                 whiteout behind",
    };

    /// `fallocate` with flags: to keep the size, to punch holes. Not ENOSYS: the kernel would not
    /// ask for the other kind.
    pub(super) const ALLOCATE: Self = Self {
        errno: Errno::EOPNOTSUPP,
        reason: "fallocate with these flags was refused: a file takes zeros, and none reserves space",
    };
}

/// The error of an operation that does not exist here; `None` if no application waits.
pub(super) fn unsupported(operation: Unsupported) -> Option<Errno> {
    match operation {
        Unsupported::Ioctl => Some(Errno::ENOTTY),
        Unsupported::Other => Some(Errno::ENOSYS),
        Unsupported::NotifyReply => None,
    }
}
