//! One inode: facts about a name, and how long they are valid.

use super::directory_time::{ChangeTime, DirectoryTime};
use super::packed_version::PackedVersion;
use crate::namespace::moment::Moment;
use crate::namespace::version::Found;
use crate::operation::{CallMark, FileKind, InodeNo};

/// Age and validity of an answer from S3.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed {
    /// Time of the request. Answers may overtake each other: an answer to an earlier request never
    /// replaces one to a later request.
    pub(crate) asked: Moment,
    /// Time until which attributes come from this answer.
    pub(crate) valid_until: Moment,
    /// The system call whose lookup asked: its `open` need not ask again.
    pub(crate) call: Option<CallMark>,
}

impl Observed {
    /// An answer that vouches for no `open`.
    pub(crate) fn new(asked: Moment, valid_until: Moment) -> Self {
        Self {
            asked,
            valid_until,
            call: None,
        }
    }
}

/// An inode. Its key is not stored: it is the chain of its parents' names.
/// `limits::INODE_BYTES_MAX` bounds its memory.
#[derive(Debug)]
pub(crate) struct Inode {
    pub(crate) ino: InodeNo,
    pub(crate) parent: InodeNo,
    pub(crate) name: Box<str>,
    /// The kernel's references.
    pub(crate) lookups: u64,
    /// Number of open handles.
    pub(crate) openers: u32,
    /// Whether this is a directory that exists even without a key; see `table::changes`.
    pub(crate) is_kept: bool,
    /// Whether the file was opened before, so that the kernel may have pages of it.
    pub(crate) was_opened: bool,
    pub(crate) lost_name: LostName,
    pub(crate) observed: Observed,
    pub(crate) body: Body,
}

/// Whether an inode lost its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LostName {
    Never,
    /// To another client, and has it back: a file in another version, of whose old one the kernel
    /// may have the size.
    FoundAgain,
    /// This mount removed the name, or gave it to another file.
    Taken,
}

#[derive(Debug)]
pub(crate) enum Body {
    File(PackedVersion),
    Directory {
        /// Number of names in the directory that have an inode.
        children: u32,
        time: DirectoryTime,
    },
}

impl Inode {
    pub(crate) fn new(
        ino: InodeNo,
        parent: InodeNo,
        name: &str,
        found: &Found,
        observed: Observed,
    ) -> Self {
        let body = match found {
            Found::Directory => Body::Directory {
                children: 0,
                time: DirectoryTime::new(ChangeTime::default()),
            },
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
            lost_name: LostName::Never,
            observed,
            body,
        }
    }

    pub(crate) fn kind(&self) -> FileKind {
        match self.body {
            Body::File(_) => FileKind::File,
            Body::Directory { .. } => FileKind::Directory,
        }
    }

    /// Whether this mount removed the name, or gave it to another file.
    pub(crate) fn is_taken(&self) -> bool {
        self.lost_name == LostName::Taken
    }

    /// The inode's kind and version.
    pub(crate) fn found(&self) -> Found {
        match &self.body {
            Body::File(version) => Found::File(version.unpack()),
            Body::Directory { .. } => Found::Directory,
        }
    }

    /// When the names of the directory changed.
    pub(crate) fn time(&self) -> Option<&DirectoryTime> {
        match &self.body {
            Body::Directory { time, .. } => Some(time),
            Body::File(_) => None,
        }
    }

    /// As [`Inode::time`], to be changed.
    pub(super) fn time_mut(&mut self) -> Option<&mut DirectoryTime> {
        match &mut self.body {
            Body::Directory { time, .. } => Some(time),
            Body::File(_) => None,
        }
    }

    /// Whether `found` is this inode: the same version of a file, or a directory.
    pub(crate) fn is_same(&self, found: &Found) -> bool {
        match (&self.body, found) {
            (Body::File(known), Found::File(version)) => known.unpack().is_same(version),
            (Body::Directory { .. }, Found::Directory) => true,
            (Body::File(_), Found::Directory) | (Body::Directory { .. }, Found::File(_)) => false,
        }
    }

    /// Takes those facts of an answer that may change without a new inode.
    pub(crate) fn observe(&mut self, found: &Found, observed: Observed) {
        if let (Body::File(packed), Found::File(version)) = (&mut self.body, found) {
            let mut known = packed.unpack();
            known.mtime = version.mtime;
            known.is_archived = version.is_archived;
            *packed = PackedVersion::pack(&known);
        }
        self.observed = observed;
    }

    /// Whether the inode can be dropped.
    pub(crate) fn is_unused(&self) -> bool {
        let has_children = matches!(&self.body, Body::Directory { children, .. } if *children > 0);
        self.lookups == 0 && self.openers == 0 && !self.is_kept && !has_children
    }
}
