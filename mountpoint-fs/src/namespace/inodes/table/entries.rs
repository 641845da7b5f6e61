//! Data that the lock of the inode table guards: inodes by number and by name.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use crate::namespace::inodes::directory_time::ForgottenTimes;
use crate::namespace::inodes::eviction::Eviction;
use crate::namespace::inodes::inode::{Body, Inode, Observed};
use crate::namespace::inodes::kept::Kept;
use crate::namespace::inodes::reserved::Reserved;
use crate::namespace::inodes::sharded_table::Shards;
use crate::namespace::inodes::writing::version_of;
use crate::namespace::moment::Moment;
use crate::namespace::version::Found;
use crate::operation::{FileKind, FsError, InodeNo, PosixAttributes, Progress};

/// Two hash tables with one word for each inode. The keys are in the inodes.
#[derive(Debug)]
pub(crate) struct Table {
    /// Inodes by number. Boxed, so that a half empty table is small.
    pub(crate) inodes: Shards<Box<Inode>>,
    /// Inode numbers by directory and name.
    pub(super) names: Shards<InodeNo>,
    pub(super) hasher: RandomState,
    pub(super) last: InodeNo,
    /// Numbers of names that were listed and have no inode yet.
    pub(super) reserved: Reserved,
    /// Directories that exist even without a key.
    pub(crate) kept: Kept,
    /// POSIX attributes in the metadata of objects, if the mount reads them.
    pub(super) posix: Shards<(InodeNo, PosixAttributes)>,
    /// Files that are open for writing: few, so not stored in each inode. Each with its progress
    /// while S3 does not have all of it.
    pub(crate) writing: HashMap<InodeNo, Option<Arc<Progress>>>,
    /// Files of `writing` that a writer has begun, by the directory of their names.
    pub(super) written_in: HashMap<InodeNo, BTreeSet<InodeNo>>,
    /// Times of directories that have no inode.
    pub(super) forgotten: ForgottenTimes,
    /// Directories whose names another client took away and that the kernel knows, by parent and
    /// name.
    pub(super) lost: HashMap<(InodeNo, Box<str>), InodeNo>,
    /// State of the search for files to forget.
    pub(crate) eviction: Eviction,
    /// Number of dropped inodes.
    pub(crate) dropped: u64,
    /// The value of `dropped` when memory was last released.
    pub(super) trimmed: u64,
}

/// A copy of the facts about an inode.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) parent: InodeNo,
    pub(crate) name: Arc<str>,
    pub(crate) found: Found,
    pub(crate) observed: Observed,
    pub(crate) openers: u32,
    /// Whether the file is being written. `found` is then the state of its writer.
    pub(crate) is_written: bool,
    /// Whether the name still has this inode.
    pub(crate) is_attached: bool,
    /// Whether the file was opened before, so that the kernel may have pages of it.
    pub(crate) was_opened: bool,
}

/// What a look-up has to know of the inode that has its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownInode {
    pub(crate) kind: FileKind,
    /// Time of the request whose answer it is of.
    pub(crate) asked: Duration,
    /// Whether it is the version that a page shows.
    pub(crate) is_listed: bool,
}

/// The inode that a name was given.
#[derive(Clone, Debug)]
pub(crate) struct Admitted {
    pub(crate) ino: InodeNo,
    pub(crate) found: Found,
}

impl Table {
    /// A table of the root.
    pub(super) fn new() -> Self {
        let forever = Observed::new(Moment::START, Moment::START);
        let mut table = Self {
            inodes: Shards::new(),
            names: Shards::new(),
            hasher: RandomState::new(),
            last: InodeNo::ROOT,
            reserved: Reserved::default(),
            kept: Kept::default(),
            posix: Shards::new(),
            writing: HashMap::new(),
            written_in: HashMap::new(),
            forgotten: ForgottenTimes::default(),
            lost: HashMap::new(),
            eviction: Eviction::default(),
            dropped: 0,
            trimmed: 0,
        };
        let (root, found) = (InodeNo::ROOT, Found::Directory);
        table.insert(Inode::new(root, root, "", &found, forever));
        table
    }

    /// Number of inodes besides the root.
    pub(crate) fn len(&self) -> usize {
        self.inodes.len() - 1
    }

    pub(crate) fn view(&self, ino: InodeNo) -> Result<View, FsError> {
        let inode = self.inode(ino)?;
        let Inode {
            parent,
            observed,
            openers,
            was_opened,
            ..
        } = *inode;
        Ok(View {
            parent,
            name: Arc::from(&*inode.name),
            found: self.found(inode),
            observed,
            openers,
            is_written: self.is_written(ino),
            is_attached: ino == InodeNo::ROOT || self.child(parent, &inode.name) == Some(ino),
            was_opened,
        })
    }

    pub(crate) fn admitted(&self, ino: InodeNo) -> Result<Admitted, FsError> {
        let found = self.found(self.inode(ino)?);
        Ok(Admitted { ino, found })
    }

    pub(super) fn hash_of(&self, ino: InodeNo) -> u64 {
        self.hasher.hash_one(ino)
    }

    pub(super) fn hash_of_name(&self, directory: InodeNo, name: &str) -> u64 {
        self.hasher.hash_one((directory, name))
    }

    pub(crate) fn inode(&self, ino: InodeNo) -> Result<&Inode, FsError> {
        self.inodes
            .find(self.hash_of(ino), |inode| inode.ino == ino)
            .map(Box::as_ref)
            .ok_or_else(|| unknown(ino))
    }

    pub(super) fn inode_mut(&mut self, ino: InodeNo) -> Result<&mut Inode, FsError> {
        self.inodes
            .find_mut(self.hasher.hash_one(ino), |inode| inode.ino == ino)
            .map(Box::as_mut)
            .ok_or_else(|| unknown(ino))
    }

    pub(crate) fn child(&self, directory: InodeNo, name: &str) -> Option<InodeNo> {
        let hash = self.hash_of_name(directory, name);
        self.names
            .find(hash, |ino| self.is_named(*ino, directory, name))
            .copied()
    }

    pub(super) fn is_named(&self, ino: InodeNo, directory: InodeNo, name: &str) -> bool {
        self.inode(ino)
            .is_ok_and(|inode| inode.parent == directory && *inode.name == *name)
    }

    pub(super) fn insert(&mut self, inode: Inode) {
        let hash = self.hash_of(inode.ino);
        let hasher = &self.hasher;
        self.inodes
            .insert_unique(hash, Box::new(inode), |inode| hasher.hash_one(inode.ino));
    }

    /// Updates `ino` by the answer `found` about its name. `None` if the name needs another inode.
    pub(super) fn observe(
        &mut self,
        ino: InodeNo,
        found: &Found,
        observed: Observed,
    ) -> Option<InodeNo> {
        if self.is_written(ino) {
            // The bucket still has the previous version of the file.
            return Some(ino);
        }
        let inode = self.inode_mut(ino).ok()?;
        if observed.asked < inode.observed.asked {
            if inode.is_same(found) {
                inode.observed.valid_until = inode.observed.valid_until.max(observed.valid_until);
            }
            return Some(ino);
        }
        inode
            .is_same(found)
            .then(|| inode.observe(found, observed))?;
        Some(ino)
    }

    /// Whether `ino` keeps its name after the answer `found`, which was requested at `asked`.
    pub(super) fn would_stay(&self, ino: InodeNo, found: &Found, asked: Moment) -> bool {
        let stays = |inode: &Inode| asked < inode.observed.asked || inode.is_same(found);
        self.is_written(ino) || self.inode(ino).is_ok_and(stays)
    }

    /// The number of a new inode for `name` in `directory`: the reserved one, if there is one.
    pub(super) fn number_of_new(&mut self, directory: InodeNo, name: &str) -> InodeNo {
        let hash = self.hash_of_name(directory, name);
        let reserved = self.reserved.take(hash);
        reserved.unwrap_or_else(|| self.next_number())
    }

    /// A number that no inode ever had.
    pub(super) fn next_number(&mut self) -> InodeNo {
        self.last = InodeNo(self.last.0 + 1);
        self.last
    }

    /// Adds `name` to `directory` for `ino`, which has that name. The name must be free.
    pub(crate) fn name(&mut self, directory: InodeNo, name: &str, ino: InodeNo) {
        let hash = self.hash_of_name(directory, name);
        let Self {
            inodes,
            names,
            hasher,
            ..
        } = self;
        names.insert_unique(hash, ino, |ino| hash_of_named(inodes, hasher, *ino));
        self.count_children(directory, |children| children.saturating_add(1));
    }

    /// Removes `name` from `directory` if it belongs to `ino`.
    pub(super) fn unname(&mut self, directory: InodeNo, name: &str, ino: InodeNo) {
        let hash = self.hash_of_name(directory, name);
        if self.names.remove(hash, |named| *named == ino).is_some() {
            self.count_children(directory, |children| children.saturating_sub(1));
        }
    }

    pub(super) fn count_children(&mut self, directory: InodeNo, count: impl FnOnce(u32) -> u32) {
        if let Ok(Inode {
            body: Body::Directory { children, .. },
            ..
        }) = self.inode_mut(directory)
        {
            *children = count(*children);
        }
    }

    /// Releases memory if the shards of these hashes once had many more entries.
    pub(super) fn shrink(&mut self, hash: u64, hash_of_name: u64) {
        let Self {
            inodes,
            names,
            hasher,
            ..
        } = self;
        names.shrink(hash_of_name, |ino| hash_of_named(inodes, hasher, *ino));
        inodes.shrink(hash, |inode| hasher.hash_one(inode.ino));
    }

    /// POSIX attributes in the metadata of `ino`.
    pub(crate) fn posix(&self, ino: InodeNo) -> Option<PosixAttributes> {
        let known = self.posix.find(self.hash_of(ino), |known| known.0 == ino);
        known.map(|(_, posix)| *posix)
    }

    /// Sets the POSIX attributes in the metadata of `ino`.
    pub(crate) fn set_posix(&mut self, ino: InodeNo, posix: Option<PosixAttributes>) {
        if self.posix.len() == 0 && posix.is_none() {
            return;
        }
        let hash = self.hash_of(ino);
        let hasher = &self.hasher;
        self.posix.remove(hash, |known| known.0 == ino);
        match posix {
            Some(posix) => {
                let hash_of = |known: &(InodeNo, PosixAttributes)| hasher.hash_one(known.0);
                self.posix.insert_unique(hash, (ino, posix), hash_of);
            }
            None => self.posix.shrink(hash, |known| hasher.hash_one(known.0)),
        }
    }

    /// Whether `ino` is being written and S3 does not have all of it.
    pub(crate) fn is_written(&self, ino: InodeNo) -> bool {
        self.progress(ino).is_some()
    }

    pub(super) fn progress(&self, ino: InodeNo) -> Option<&Arc<Progress>> {
        self.writing.get(&ino)?.as_ref()
    }

    /// The kind and version of `inode`: that of its writer if there is one, otherwise S3's.
    pub(crate) fn found(&self, inode: &Inode) -> Found {
        match self.progress(inode.ino) {
            Some(progress) => version_of(progress),
            None => inode.found(),
        }
    }

    pub(super) fn is_written_with(&self, ino: InodeNo, progress: &Arc<Progress>) -> bool {
        self.progress(ino)
            .is_some_and(|written| Arc::ptr_eq(written, progress))
    }

    /// Ends the writer with `progress`. `false` if another one writes the file now.
    pub(super) fn ends(&mut self, ino: InodeNo, progress: &Arc<Progress>) -> bool {
        let is_its = self.is_written_with(ino, progress);
        if is_its && let Some(writing) = self.writing.get_mut(&ino) {
            *writing = None;
        }
        is_its
    }

    pub(super) fn keep(&mut self, ino: InodeNo) {
        let is_full = self.kept.count >= IMPLICIT_DIRECTORIES_MAX;
        match self.inode_mut(ino) {
            Ok(inode) if !inode.is_kept && !is_full && ino != InodeNo::ROOT => {
                inode.is_kept = true;
                self.kept.count += 1;
                self.link_kept(ino);
            }
            Ok(_) | Err(_) => {}
        }
    }

    pub(super) fn unkeep(&mut self, ino: InodeNo) {
        if let Ok(inode) = self.inode_mut(ino)
            && std::mem::replace(&mut inode.is_kept, false)
        {
            self.kept.count -= 1;
            if !self.is_kept(ino) {
                self.unlink_kept(ino);
            }
        }
    }

    pub(super) fn is_kept(&self, ino: InodeNo) -> bool {
        self.kept.below.contains_key(&ino) || self.inode(ino).is_ok_and(|inode| inode.is_kept)
    }

    /// Records the way to `ino` in all directories above it.
    pub(super) fn link_kept(&mut self, mut ino: InodeNo) {
        while ino != InodeNo::ROOT {
            let Ok(&Inode { parent, .. }) = self.inode(ino) else {
                return;
            };
            if !self.kept.below.entry(parent).or_default().insert(ino) {
                return;
            }
            ino = parent;
        }
    }

    /// Removes the way to `ino` from the directories above it. Stops where another kept directory
    /// needs it.
    pub(super) fn unlink_kept(&mut self, mut ino: InodeNo) {
        while ino != InodeNo::ROOT {
            let Ok(&Inode { parent, .. }) = self.inode(ino) else {
                return;
            };
            let Some(leading) = self.kept.below.get_mut(&parent) else {
                return;
            };
            leading.remove(&ino);
            if !leading.is_empty() {
                return;
            }
            self.kept.below.remove(&parent);
            if self.is_kept(parent) {
                return;
            }
            ino = parent;
        }
    }

    /// Whether `inode` is a file that the kernel knows and no handle uses.
    pub(super) fn is_idle(&self, inode: &Inode) -> bool {
        inode.openers == 0
            && inode.lookups > 0
            && inode.kind() == FileKind::File
            && !self.writing.contains_key(&inode.ino)
    }
}

/// The hash of the name of `ino`, which must have one.
fn hash_of_named(inodes: &Shards<Box<Inode>>, hasher: &RandomState, ino: InodeNo) -> u64 {
    let inode = inodes.find(hasher.hash_one(ino), |inode| inode.ino == ino);
    let inode = inode.expect("a name goes before its inode");
    hasher.hash_one((inode.parent, &*inode.name))
}

fn unknown(ino: InodeNo) -> FsError {
    FsError::Stale(format!("inode {} is not known any more", ino.0))
}

/// Directories that exist although no key shows them: created or emptied here. About 250 bytes
/// each.
pub(super) const IMPLICIT_DIRECTORIES_MAX: usize = 1 << 18;
