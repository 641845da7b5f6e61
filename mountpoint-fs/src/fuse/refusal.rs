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
            Modification::Unlink => (Errno::EPERM, UNLINK),
            Modification::RemoveDirectory => (Errno::EPERM, REMOVE_DIRECTORY),
            Modification::MakeDirectory => (Errno::EPERM, MAKE_DIRECTORY),
            Modification::SetAttributes => (Errno::EPERM, SET_ATTRIBUTES),
            Modification::SymbolicLink | Modification::HardLink => (Errno::EPERM, LINK),
            Modification::Rename => (Errno::ENOSYS, RENAME),
            Modification::RenameSpecial => (Errno::EINVAL, RENAME),
            Modification::Allocate => (Errno::ENOSYS, ALLOCATE),
            Modification::SetExtendedAttribute | Modification::RemoveExtendedAttribute => {
                (Errno::ENOSYS, EXTENDED_ATTRIBUTE)
            }
        };
        Self { errno, reason }
    }
}

/// What the application is told of an operation that does not exist here; `None` where nobody waits.
pub(super) fn unsupported(operation: Unsupported) -> Option<Errno> {
    match operation {
        Unsupported::ReadLink => Some(Errno::EINVAL),
        Unsupported::Ioctl => Some(Errno::ENOTTY),
        Unsupported::Other => Some(Errno::ENOSYS),
        Unsupported::NotifyReply => None,
    }
}

const UNLINK: &str =
    "removing a file was refused: it will need --allow-delete, which a later version brings";
const REMOVE_DIRECTORY: &str =
    "removing a directory was refused: it will need --allow-delete, which a later version brings";
const MAKE_DIRECTORY: &str = "making a directory was refused: writing comes with a later version";
const SET_ATTRIBUTES: &str =
    "changing mode, owner, times or size was refused: writing comes with a later version";
const LINK: &str = "making a link was refused: S3 has no links";
const RENAME: &str = "renaming was refused: it comes with a later version";
const ALLOCATE: &str = "fallocate was refused: S3 cannot reserve space";
const EXTENDED_ATTRIBUTE: &str =
    "changing an extended attribute was refused: they are not supported";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals() {
        for (modification, errno) in [
            (Modification::Unlink, Errno::EPERM),
            (Modification::RemoveDirectory, Errno::EPERM),
            (Modification::MakeDirectory, Errno::EPERM),
            (Modification::SetAttributes, Errno::EPERM),
            (Modification::SymbolicLink, Errno::EPERM),
            (Modification::HardLink, Errno::EPERM),
            (Modification::Rename, Errno::ENOSYS),
            (Modification::RenameSpecial, Errno::EINVAL),
            (Modification::Allocate, Errno::ENOSYS),
            (Modification::SetExtendedAttribute, Errno::ENOSYS),
            (Modification::RemoveExtendedAttribute, Errno::ENOSYS),
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
    }
}
