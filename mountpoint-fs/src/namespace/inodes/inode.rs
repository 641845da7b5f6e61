//! One inode: what the kernel may know of a name, and until when.

use std::time::Duration;

use super::packed_version::PackedVersion;
use crate::namespace::version::Found;
use crate::operation::{FileKind, InodeNo};

/// A point of the mount's clock. Half of a `Duration`: there may be millions of inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::namespace) struct Moment(u64);

impl Moment {
    /// Before everything, also before the clock's zero.
    pub(in crate::namespace) const START: Self = Self(0);

    /// The time on the mount's clock.
    pub(in crate::namespace) fn since_start(self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(1))
    }

    /// What is left of the time until then.
    pub(in crate::namespace) fn left(self, now: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(now.0))
    }
}

impl From<Duration> for Moment {
    fn from(since_start: Duration) -> Self {
        Self(
            u64::try_from(since_start.as_nanos())
                .unwrap_or(u64::MAX)
                .saturating_add(1),
        )
    }
}

/// How old an answer of S3 is, and what it is good for.
#[derive(Clone, Copy, Debug)]
pub(in crate::namespace) struct Observed {
    /// When it was asked for. Answers may overtake each other: one that was asked for earlier never
    /// replaces one that was asked for later.
    pub(in crate::namespace) asked: Moment,
    /// Until when attributes are answered from it.
    pub(in crate::namespace) valid_until: Moment,
    /// Until when the next `open` need not ask again; at most one open uses it. [`Moment::START`]
    /// where no open may.
    pub(in crate::namespace) fresh_until: Moment,
}

/// An inode. Its key is not stored: it is the chain of its parents' names. See
/// `limits::INODE_BYTES_MAX` for how much it may take.
#[derive(Debug)]
pub(in crate::namespace) struct Inode {
    pub(in crate::namespace) ino: InodeNo,
    pub(in crate::namespace) parent: InodeNo,
    pub(in crate::namespace) name: Box<str>,
    /// References that the kernel holds.
    pub(in crate::namespace) lookups: u64,
    /// Open handles.
    pub(in crate::namespace) openers: u32,
    /// A directory that is there although no key need say so; see `table_changes`.
    pub(in crate::namespace) is_kept: bool,
    /// Whether it was opened before: the kernel may have pages of it.
    pub(in crate::namespace) was_opened: bool,
    pub(in crate::namespace) observed: Observed,
    pub(in crate::namespace) body: Body,
}

#[derive(Debug)]
pub(in crate::namespace) enum Body {
    File(PackedVersion),
    Directory {
        /// Names in it that mean an inode now.
        children: u32,
    },
}

impl Inode {
    pub(in crate::namespace) fn new(
        ino: InodeNo,
        parent: InodeNo,
        name: &str,
        found: &Found,
        observed: Observed,
    ) -> Self {
        let body = match found {
            Found::Directory => Body::Directory { children: 0 },
            Found::File(version) => Body::File(PackedVersion::pack(version)),
        };
        Self {
            ino,
            parent,
            name: Box::from(name),
            lookups: 0,
            openers: 0,
            is_kept: false,
            was_opened: false,
            observed,
            body,
        }
    }

    pub(in crate::namespace) fn kind(&self) -> FileKind {
        match self.body {
            Body::File(_) => FileKind::File,
            Body::Directory { .. } => FileKind::Directory,
        }
    }

    /// What it is, as lookups say it.
    pub(in crate::namespace) fn found(&self) -> Found {
        match &self.body {
            Body::File(version) => Found::File(version.unpack()),
            Body::Directory { .. } => Found::Directory,
        }
    }

    /// Whether `found` is this very inode: the same version of a file, or a directory.
    pub(in crate::namespace) fn is_same(&self, found: &Found) -> bool {
        match (&self.body, found) {
            (Body::File(known), Found::File(version)) => known.unpack().is_same(version),
            (Body::Directory { .. }, Found::Directory) => true,
            (Body::File(_), Found::Directory) | (Body::Directory { .. }, Found::File(_)) => false,
        }
    }

    /// Takes over what an answer says besides the inode's identity.
    pub(in crate::namespace) fn observe(&mut self, found: &Found, observed: Observed) {
        if let (Body::File(packed), Found::File(version)) = (&mut self.body, found) {
            let mut known = packed.unpack();
            known.mtime = version.mtime;
            known.is_archived = version.is_archived;
            // Some servers leave the quotes out of listings that `If-Match` needs.
            if !known.etag.as_str().starts_with('"') {
                known.etag = version.etag.clone();
            }
            *packed = PackedVersion::pack(&known);
        }
        self.observed = observed;
    }

    /// Whether nobody needs it any more.
    pub(in crate::namespace) fn is_unused(&self) -> bool {
        let has_children = matches!(&self.body, Body::Directory { children } if *children > 0);
        self.lookups == 0 && self.openers == 0 && !self.is_kept && !has_children
    }
}
