//! How operations are refused that would change the bucket, or that do not exist here.
//!
//! Pure. Some refusals are ENOSYS because the kernel then answers by itself, and better: a missing
//! `copy_file_range` becomes a read and a write, a missing `getxattr` is not asked for again.

use nix::errno::Errno;

use super::errno::Access;
use super::wire::{Modification, Unsupported};

/// Why and how an operation is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// What the application is told.
    pub(super) errno: Errno,
    /// A line for the log: what was asked for, and what would allow it.
    pub(super) reason: &'static str,
}

impl Refusal {
    /// How `modification` is refused.
    pub(super) fn of(modification: Modification, access: Access) -> Self {
        if access == Access::ReadOnly {
            let reason = "a change was refused: the mount is read-only (--read-only)";
            return Self {
                errno: Errno::EROFS,
                reason,
            };
        }
        let (errno, reason) = match modification {
            Modification::Create | Modification::MakeNode => (Errno::EPERM, CREATE),
            // Handles are open for reading only.
            Modification::Write => (Errno::EBADF, WRITE),
        };
        Self { errno, reason }
    }

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

    /// `fallocate`. The kernel remembers ENOSYS.
    pub(super) const ALLOCATE: Self = Self {
        errno: Errno::ENOSYS,
        reason: "fallocate was refused: S3 cannot reserve space",
    };

    /// A change of an extended attribute. The kernel remembers ENOSYS.
    pub(super) const EXTENDED_ATTRIBUTE: Self = Self {
        errno: Errno::ENOSYS,
        reason: "changing an extended attribute was refused: they are not supported",
    };

    /// How opening a file for writing is refused.
    pub(super) fn of_open_for_writing(access: Access) -> Self {
        match access {
            Access::ReadOnly => Self::of(Modification::Write, access),
            Access::ReadWrite => Self {
                errno: Errno::EPERM,
                reason: WRITE,
            },
        }
    }
}

/// What the application is told of an operation that does not exist here; `None` where nobody waits.
pub(super) fn unsupported(operation: Unsupported) -> Option<Errno> {
    match operation {
        Unsupported::Ioctl => Some(Errno::ENOTTY),
        Unsupported::Other => Some(Errno::ENOSYS),
        Unsupported::NotifyReply => None,
    }
}

const CREATE: &str = "creating a file was refused: writing comes with a later version";
const WRITE: &str = "writing to a file was refused: it comes with a later version \
                     (of an existing file with --allow-overwrite)";
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals() {
        for (modification, errno) in [
            (Modification::Create, Errno::EPERM),
            (Modification::MakeNode, Errno::EPERM),
            (Modification::Write, Errno::EBADF),
        ] {
            assert_eq!(
                Refusal::of(modification, Access::ReadWrite).errno,
                errno,
                "{modification:?}"
            );
            assert_eq!(
                Refusal::of(modification, Access::ReadOnly).errno,
                Errno::EROFS
            );
        }
        assert_eq!(
            Refusal::of_open_for_writing(Access::ReadWrite).errno,
            Errno::EPERM
        );
        assert_eq!(
            Refusal::of_open_for_writing(Access::ReadOnly).errno,
            Errno::EROFS
        );
    }
}
