//! The users that a mount serves.
//!
//! The kernel admits either the user that mounted, or all users (`allow_other`). If it admits more
//! users than the flags, each request's user is checked here. Where the kernel answers by itself,
//! the root directory's permission bits keep other users from walking into the mount. Requests for
//! open handles are let through, because processes pass descriptors on. Pure.

use super::wire::{Mutation, Operation};
use crate::operation::{Attributes, InodeNo};

/// The users that a flag admits besides the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherUsers {
    /// Neither flag.
    Nobody,
    /// `--allow-root`
    Root,
    /// `--allow-other`
    Everybody,
}

impl OtherUsers {
    /// The meaning of the two flags.
    #[must_use]
    pub fn new(allow_root: bool, allow_other: bool) -> Self {
        match (allow_root, allow_other) {
            (_, true) => Self::Everybody,
            (true, false) => Self::Root,
            (false, false) => Self::Nobody,
        }
    }
}

/// The users that a mount serves, as far as this process checks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AllowedUsers {
    /// All users that the kernel lets in.
    All,
    OwnerAndRoot(u32),
    Owner(u32),
}

impl AllowedUsers {
    /// Whether a request of the user `uid` is refused.
    pub(super) fn refuses(self, uid: u32, operation: &Operation<'_>) -> bool {
        !self.include(uid) && !is_of_open_handle(operation)
    }

    fn include(self, uid: u32) -> bool {
        match self {
            Self::All => true,
            Self::OwnerAndRoot(owner) => uid == owner || uid == 0,
            Self::Owner(owner) => uid == owner,
        }
    }

    /// The attributes as the kernel gets them.
    ///
    /// The root directory is the owner's alone: the kernel checks that before it answers from its
    /// caches.
    pub(super) fn shown(self, attributes: Attributes) -> Attributes {
        let (Self::OwnerAndRoot(owner) | Self::Owner(owner)) = self else {
            return attributes;
        };
        if attributes.ino != InodeNo::ROOT {
            return attributes;
        }
        // The owner's permissions, from any of the bits.
        let bits = if attributes.uid == owner {
            attributes.mode >> 6
        } else {
            attributes.mode >> 3 | attributes.mode
        };
        Attributes {
            uid: owner,
            mode: (bits & 0o7) << 6,
            ..attributes
        }
    }
}

/// Whether the operation names an open handle, which may have been handed over, or is the kernel's
/// own.
fn is_of_open_handle(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Init(_)
        | Operation::Destroy
        | Operation::Interrupt { .. }
        | Operation::Forget { .. }
        | Operation::BatchForget(_)
        | Operation::Read { .. }
        | Operation::Write { .. }
        | Operation::Flush { .. }
        | Operation::Sync { .. }
        | Operation::SyncDirectory
        | Operation::Release { .. }
        | Operation::ReadDirectory { .. }
        | Operation::ReleaseDirectory { .. }
        | Operation::Unsupported(_)
        | Operation::Mutate(Mutation::Allocate(_) | Mutation::CopyRange(_)) => true,
        Operation::Mutate(Mutation::SetAttributes(change)) => change.handle.is_some(),
        Operation::Lookup { .. }
        | Operation::GetAttributes
        | Operation::Open { .. }
        | Operation::Create { .. }
        | Operation::MakeNode { .. }
        | Operation::OpenDirectory
        | Operation::StatFs
        | Operation::ExtendedAttribute { .. }
        | Operation::ExtendedAttributes { .. }
        | Operation::ReadLink
        | Operation::Mutate(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::operation::FileKind;

    #[test]
    fn who_is_included() {
        for (allowed_users, root, owner, other) in [
            (AllowedUsers::All, true, true, true),
            (AllowedUsers::Owner(7), false, true, false),
            (AllowedUsers::OwnerAndRoot(7), true, true, false),
        ] {
            let found = [0, 7, 8].map(|user| !allowed_users.refuses(user, &Operation::ReadLink));
            assert_eq!(found, [root, owner, other], "{allowed_users:?}");
            let open = Operation::Flush { handle: 1 };
            assert!(!allowed_users.refuses(8, &open), "{allowed_users:?}");
        }
    }

    #[test]
    fn the_root_is_the_owners() {
        let of = |ino, uid, mode| Attributes {
            ino,
            kind: FileKind::Directory,
            size: 0,
            mtime: SystemTime::UNIX_EPOCH,
            mode,
            nlink: 2,
            uid,
            gid: 1,
            ttl: Duration::ZERO,
        };
        let other = InodeNo(2);
        for (allowed_users, ino, (uid, mode), expected) in [
            (AllowedUsers::All, InodeNo::ROOT, (7, 0o755), (7, 0o755)),
            (AllowedUsers::Owner(7), other, (7, 0o755), (7, 0o755)),
            (
                AllowedUsers::Owner(7),
                InodeNo::ROOT,
                (7, 0o755),
                (7, 0o700),
            ),
            (
                AllowedUsers::OwnerAndRoot(7),
                InodeNo::ROOT,
                (7, 0o550),
                (7, 0o500),
            ),
            // `--uid` names another user.
            (
                AllowedUsers::OwnerAndRoot(7),
                InodeNo::ROOT,
                (9, 0o755),
                (7, 0o500),
            ),
            (
                AllowedUsers::OwnerAndRoot(7),
                InodeNo::ROOT,
                (9, 0o777),
                (7, 0o700),
            ),
        ] {
            let shown = allowed_users.shown(of(ino, uid, mode));
            assert_eq!(
                (shown.uid, shown.mode),
                expected,
                "{allowed_users:?} {mode:o}"
            );
        }
    }
}
