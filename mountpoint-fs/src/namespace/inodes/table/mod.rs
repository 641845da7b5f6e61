//! Which inode a name is, and how often the kernel knows it.
//!
//! Knows nothing of requests, of time's passing or of permissions.
//!
//! Invariants: a name of a directory means at most one inode. An inode that a name no longer means
//! (its object was replaced or deleted) is *detached*: it serves its open handles and goes with the
//! last reference. An inode is there while the kernel knows it, a handle is open on it or a name in
//! it means an inode; so a parent is never dropped before its children. Numbers are never used
//! twice.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::namespace::change::being_written;
use crate::namespace::inodes::changes::Kept;
use crate::namespace::inodes::eviction::Eviction;
use crate::namespace::inodes::inode::{Body, Inode, Moment, Observed};
use crate::namespace::inodes::reserved::Reserved;
use crate::namespace::inodes::sharded_table::Shards;
use crate::namespace::inodes::writers::Writing;
use crate::namespace::namespace::replaced;
use crate::namespace::open::FileOpened;
use crate::namespace::version::{Found, Version};
use crate::operation::{FileKind, FsError, InodeNo, PosixAttributes};
use crate::sync::Mutex;

/// All inodes of a mount. The lock is T of the order H, I, T: it guards the whole table, is held
/// for a few hash look-ups (a path's length of them to build a key) and at most for
/// `limits::SURPLUS_LOOK` of them or for a shard of entries to be moved, and nothing foreign is
/// called under it.
#[derive(Debug)]
pub(in crate::namespace) struct InodeTable {
    pub(in crate::namespace) table: Mutex<Table>,
    /// The mounted prefix, the root's.
    prefix: String,
}

/// Two hash tables of one word an inode each; the keys are in the inodes.
#[derive(Debug)]
pub(in crate::namespace) struct Table {
    /// By number. Boxed: a half empty table of pointers is small.
    pub(in crate::namespace) inodes: Shards<Box<Inode>>,
    /// What the names of all directories mean now, by directory and name.
    names: Shards<InodeNo>,
    hasher: RandomState,
    last: InodeNo,
    /// Numbers of names that were listed and have no inode yet.
    reserved: Reserved,
    /// Directories that are there although no key says so; see `table_changes`.
    pub(in crate::namespace) kept: Kept,
    /// What objects say of themselves, where they are asked.
    posix: Shards<(InodeNo, PosixAttributes)>,
    /// Files that are open for writing. Few: beside the inodes, of which there are many.
    pub(in crate::namespace) writing: HashMap<InodeNo, Writing>,
    /// Where it is looked for files to forget.
    pub(in crate::namespace) eviction: Eviction,
    /// Inodes that were dropped.
    pub(in crate::namespace) dropped: u64,
    /// What `dropped` was when the memory of inodes was given back last.
    pub(in crate::namespace) trimmed: u64,
}

/// A copy of what an inode is.
#[derive(Clone, Debug)]
pub(in crate::namespace) struct View {
    pub(in crate::namespace) parent: InodeNo,
    pub(in crate::namespace) name: Arc<str>,
    pub(in crate::namespace) found: Found,
    pub(in crate::namespace) observed: Observed,
    pub(in crate::namespace) openers: u32,
    /// Whether it is being written: what was found is what its writer says.
    pub(in crate::namespace) is_written: bool,
    /// Whether its name still means this inode.
    pub(in crate::namespace) is_attached: bool,
    /// Whether it was opened before: the kernel may have pages of it.
    pub(in crate::namespace) was_opened: bool,
}

/// What a name was made to mean.
#[derive(Clone, Debug)]
pub(in crate::namespace) struct Admitted {
    pub(in crate::namespace) ino: InodeNo,
    pub(in crate::namespace) found: Found,
}

impl InodeTable {
    /// The root alone. It is never dropped.
    pub(in crate::namespace) fn new(prefix: String) -> Self {
        let forever = Observed {
            asked: Moment::START,
            valid_until: Moment::START,
            fresh_until: Moment::START,
        };
        let mut table = Table {
            inodes: Shards::new(),
            names: Shards::new(),
            hasher: RandomState::new(),
            last: InodeNo::ROOT,
            reserved: Reserved::default(),
            kept: Kept::default(),
            posix: Shards::new(),
            writing: HashMap::new(),
            eviction: Eviction::default(),
            dropped: 0,
            trimmed: 0,
        };
        table.insert(Inode::new(
            InodeNo::ROOT,
            InodeNo::ROOT,
            "",
            &Found::Directory,
            forever,
        ));
        Self {
            table: Mutex::new(table),
            prefix,
        }
    }

    /// The prefix that all keys in the directory `ino` begin with.
    pub(in crate::namespace) fn directory_prefix(&self, ino: InodeNo) -> Result<String, FsError> {
        let table = self.table.lock();
        if table.inode(ino)?.kind() != FileKind::Directory {
            return Err(FsError::NotADirectory);
        }
        let mut path = Vec::new();
        let mut len = self.prefix.len();
        let mut current = ino;
        while current != InodeNo::ROOT {
            let inode = table.inode(current)?;
            len += inode.name.len() + 1;
            path.push(inode);
            current = inode.parent;
        }
        let mut prefix = String::with_capacity(len);
        prefix.push_str(&self.prefix);
        for inode in path.iter().rev() {
            prefix.push_str(&inode.name);
            prefix.push('/');
        }
        Ok(prefix)
    }

    /// What `ino` is.
    pub(in crate::namespace) fn view(&self, ino: InodeNo) -> Result<View, FsError> {
        self.table.lock().view(ino)
    }

    /// The inode that `name` in `directory` was last known to be.
    pub(in crate::namespace) fn child(&self, directory: InodeNo, name: &str) -> Option<InodeNo> {
        self.table.lock().child(directory, name)
    }

    /// What `name` in `directory` was last known to be.
    pub(in crate::namespace) fn child_kind(
        &self,
        directory: InodeNo,
        name: &str,
    ) -> Option<FileKind> {
        let table = self.table.lock();
        let ino = table.child(directory, name)?;
        table.inode(ino).ok().map(Inode::kind)
    }

    /// Makes `name` in `directory` mean what was `found`, and raises that inode's lookup count by
    /// one.
    ///
    /// An inode that is something else is detached. An answer that was asked for before what is
    /// known changes nothing but how long that is valid, and that only if it says the same.
    pub(in crate::namespace) fn admit(
        &self,
        directory: InodeNo,
        name: &str,
        found: &Found,
        observed: Observed,
    ) -> Result<Admitted, FsError> {
        let mut table = self.table.lock();
        if table.inode(directory)?.kind() != FileKind::Directory {
            return Err(FsError::NotADirectory);
        }
        let known = table.child(directory, name);
        let kept = known.and_then(|ino| table.observe(ino, found, observed));
        let ino = match kept {
            Some(ino) => ino,
            None => table.create(directory, name, found, observed),
        };
        table.inode_mut(ino)?.lookups += 1;
        table.admitted(ino)
    }

    /// What a new look at the name of `ino` found. `None` if it is not this inode any more, which
    /// is then detached.
    pub(in crate::namespace) fn observe(
        &self,
        ino: InodeNo,
        found: &Found,
        observed: Observed,
    ) -> Option<View> {
        let mut table = self.table.lock();
        if table.observe(ino, found, observed).is_none() {
            table.detach(ino);
            return None;
        }
        drop(table);
        self.view(ino).ok()
    }

    /// What asking for the object of `ino` alone, at `asked`, found. That says which version it is,
    /// and nothing of a directory that hides it: what is known gets no younger. `None` as for
    /// [`InodeTable::observe`].
    pub(in crate::namespace) fn confirm(
        &self,
        ino: InodeNo,
        found: &Found,
        asked: Moment,
    ) -> Option<View> {
        let mut table = self.table.lock();
        let is_written = table.is_written(ino);
        let inode = table.inode_mut(ino).ok()?;
        if !is_written && asked >= inode.observed.asked {
            if !inode.is_same(found) {
                table.detach(ino);
                return None;
            }
            inode.observe(found, inode.observed);
        }
        table.view(ino).ok()
    }

    /// Whether something else than was `found` by asking at `asked` is known of `name` in
    /// `directory`, by asking later.
    pub(in crate::namespace) fn contradicts(
        &self,
        directory: InodeNo,
        name: &str,
        found: &Found,
        asked: Moment,
    ) -> bool {
        let table = self.table.lock();
        let known = table.child(directory, name);
        known.is_some_and(|ino| {
            let is_other = |inode: &Inode| inode.observed.asked > asked && !inode.is_same(found);
            !table.is_written(ino) && table.inode(ino).is_ok_and(is_other)
        })
    }

    /// Whether `name` in `directory` is known by asking later than at `asked`.
    pub(in crate::namespace) fn is_known_since(
        &self,
        directory: InodeNo,
        name: &str,
        asked: Moment,
    ) -> bool {
        let table = self.table.lock();
        let known = table.child(directory, name);
        let known = known.and_then(|ino| table.inode(ino).ok());
        known.is_some_and(|inode| inode.observed.asked > asked)
    }

    /// Gives back `count` lookups; more than there are count as all.
    pub(in crate::namespace) fn forget(&self, ino: InodeNo, count: u64) {
        let mut table = self.table.lock();
        if let Ok(inode) = table.inode_mut(ino) {
            inode.lookups = inode.lookups.saturating_sub(count);
            table.drop_unused(ino);
        }
    }

    /// The name of `ino` is no longer known to mean it.
    pub(in crate::namespace) fn detach(&self, ino: InodeNo) {
        self.table.lock().detach(ino);
    }

    /// Lets at most one caller after each lookup have the version that the lookup saw, while it is
    /// fresh.
    pub(in crate::namespace) fn take_fresh(&self, ino: InodeNo, now: Moment) -> Option<Version> {
        let mut table = self.table.lock();
        let inode = table.inode_mut(ino).ok()?;
        let fresh_until = std::mem::replace(&mut inode.observed.fresh_until, Moment::START);
        match &inode.body {
            Body::File(version) if fresh_until != Moment::START && now <= fresh_until => {
                Some(version.unpack())
            }
            Body::File(_) | Body::Directory { .. } => None,
        }
    }

    /// A handle was opened on a directory: the inode stays until it is closed.
    pub(in crate::namespace) fn open_directory(&self, ino: InodeNo) -> Result<(), FsError> {
        self.table.lock().inode_mut(ino)?.openers += 1;
        Ok(())
    }

    /// A handle was opened that reads `version` of a file: the inode stays until it is closed. If a
    /// writer may go on behind that version and the handle `may_follow`, it does: no page of the
    /// kernel's is of it.
    ///
    /// The file may have been written through this mount while S3 was asked. A handle that read on
    /// in the version before would fill the kernel's pages, which all handles share:
    /// [`FsError::Stale`] if the file has another version by now, [`FsError::NotPermitted`] if it
    /// is being written.
    pub(in crate::namespace) fn open_file(
        &self,
        ino: InodeNo,
        version: &Version,
        may_follow: bool,
    ) -> Result<FileOpened, FsError> {
        let mut table = self.table.lock();
        let is_written = table.is_written(ino);
        let inode = table.inode_mut(ino)?;
        if is_written {
            return Err(being_written(&inode.name));
        }
        match &inode.body {
            Body::File(known) if known.unpack().is_same(version) => inode.openers += 1,
            Body::File(_) => return Err(replaced(&inode.name)),
            Body::Directory { .. } => return Err(FsError::IsADirectory),
        }
        if may_follow && table.follows(ino) {
            return Ok(FileOpened::Following);
        }
        let was_opened = std::mem::replace(&mut table.inode_mut(ino)?.was_opened, true);
        Ok(if was_opened {
            FileOpened::Again
        } else {
            FileOpened::First
        })
    }

    /// The kernel may have pages of `ino` that are not of its version: it drops them when it opens
    /// the file next.
    pub(in crate::namespace) fn drop_pages(&self, ino: InodeNo) {
        if let Ok(inode) = self.table.lock().inode_mut(ino) {
            inode.was_opened = false;
        }
    }

    /// Whether an open of `name` in `directory` would open `version`, and would be the first.
    pub(in crate::namespace) fn is_unread(
        &self,
        directory: InodeNo,
        name: &str,
        version: &Version,
    ) -> bool {
        let table = self.table.lock();
        let known = table
            .child(directory, name)
            .and_then(|ino| table.inode(ino).ok());
        known.is_none_or(|inode| {
            let is_same =
                matches!(&inode.body, Body::File(known) if known.unpack().is_same(version));
            is_same && !inode.was_opened && !table.is_written(inode.ino)
        })
    }

    /// A handle was closed.
    pub(in crate::namespace) fn close(&self, ino: InodeNo) {
        let mut table = self.table.lock();
        if let Ok(inode) = table.inode_mut(ino) {
            assert!(
                inode.openers > 0,
                "{ino:?} is closed more often than it was opened"
            );
            inode.openers -= 1;
            table.drop_unused(ino);
        }
    }

    /// The number that `name` in `directory` has, or gets when it is looked up.
    ///
    /// `found` is what a listing, asked for at `asked`, says of the name.
    pub(in crate::namespace) fn preview(
        &self,
        directory: InodeNo,
        name: &str,
        found: &Found,
        asked: Moment,
    ) -> InodeNo {
        let mut table = self.table.lock();
        let known = table.child(directory, name);
        if let Some(known) = known.filter(|ino| table.would_stay(*ino, found, asked)) {
            return known;
        }
        let hash = table.hash_of_name(directory, name);
        if let Some(reserved) = table.reserved.find(hash) {
            return reserved;
        }
        let ino = table.next_number();
        table.reserved.add(hash, ino);
        ino
    }

    /// Inodes besides the root.
    pub(in crate::namespace) fn len(&self) -> usize {
        self.table.lock().len()
    }
}

impl Table {
    /// Inodes besides the root.
    pub(in crate::namespace) fn len(&self) -> usize {
        self.inodes.len() - 1
    }

    pub(in crate::namespace) fn view(&self, ino: InodeNo) -> Result<View, FsError> {
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

    pub(in crate::namespace) fn admitted(&self, ino: InodeNo) -> Result<Admitted, FsError> {
        let found = self.found(self.inode(ino)?);
        Ok(Admitted { ino, found })
    }

    fn hash_of(&self, ino: InodeNo) -> u64 {
        self.hasher.hash_one(ino)
    }

    fn hash_of_name(&self, directory: InodeNo, name: &str) -> u64 {
        self.hasher.hash_one((directory, name))
    }

    pub(in crate::namespace) fn inode(&self, ino: InodeNo) -> Result<&Inode, FsError> {
        self.inodes
            .find(self.hash_of(ino), |inode| inode.ino == ino)
            .map(Box::as_ref)
            .ok_or_else(|| unknown(ino))
    }

    pub(in crate::namespace) fn inode_mut(&mut self, ino: InodeNo) -> Result<&mut Inode, FsError> {
        self.inodes
            .find_mut(self.hasher.hash_one(ino), |inode| inode.ino == ino)
            .map(Box::as_mut)
            .ok_or_else(|| unknown(ino))
    }

    pub(in crate::namespace) fn child(&self, directory: InodeNo, name: &str) -> Option<InodeNo> {
        let hash = self.hash_of_name(directory, name);
        self.names
            .find(hash, |ino| self.is_named(*ino, directory, name))
            .copied()
    }

    fn is_named(&self, ino: InodeNo, directory: InodeNo, name: &str) -> bool {
        self.inode(ino)
            .is_ok_and(|inode| inode.parent == directory && *inode.name == *name)
    }

    fn insert(&mut self, inode: Inode) {
        let hash = self.hash_of(inode.ino);
        let hasher = &self.hasher;
        self.inodes
            .insert_unique(hash, Box::new(inode), |inode| hasher.hash_one(inode.ino));
    }

    /// `ino` if it may go on meaning its name after that name was `found` to be this.
    fn observe(&mut self, ino: InodeNo, found: &Found, observed: Observed) -> Option<InodeNo> {
        if self.is_written(ino) {
            // What S3 has is not what the file will be.
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

    /// Whether `ino` keeps its name if an answer, asked for at `asked`, says `found` of that name.
    fn would_stay(&self, ino: InodeNo, found: &Found, asked: Moment) -> bool {
        let stays = |inode: &Inode| asked < inode.observed.asked || inode.is_same(found);
        self.is_written(ino) || self.inode(ino).is_ok_and(stays)
    }

    /// The number of a new inode for `name` in `directory`: the listed one, if a listing told one.
    fn number_of_new(&mut self, directory: InodeNo, name: &str) -> InodeNo {
        let hash = self.hash_of_name(directory, name);
        let reserved = self.reserved.take(hash);
        reserved.unwrap_or_else(|| self.next_number())
    }

    /// A number that no inode had.
    fn next_number(&mut self) -> InodeNo {
        self.last = InodeNo(self.last.0 + 1);
        self.last
    }

    pub(in crate::namespace) fn create(
        &mut self,
        directory: InodeNo,
        name: &str,
        found: &Found,
        observed: Observed,
    ) -> InodeNo {
        let ino = self.number_of_new(directory, name);
        let replaced = self.child(directory, name);
        if let Some(replaced) = replaced {
            self.unname(directory, name, replaced);
        }
        self.insert(Inode::new(ino, directory, name, found, observed));
        self.name(directory, name, ino);
        if let Some(replaced) = replaced {
            self.drop_unused(replaced);
        }
        ino
    }

    pub(in crate::namespace) fn detach(&mut self, ino: InodeNo) {
        let Ok(inode) = self.inode(ino) else { return };
        let (parent, name) = (inode.parent, inode.name.clone());
        self.unkeep_all(ino);
        self.unname(parent, &name, ino);
        self.drop_unused(ino);
        self.drop_unused(parent);
    }

    /// Makes `name` in `directory`, which means nothing, mean `ino`, which is called so.
    pub(in crate::namespace) fn name(&mut self, directory: InodeNo, name: &str, ino: InodeNo) {
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

    /// Takes `name` out of `directory` if it means `ino`.
    pub(in crate::namespace) fn unname(&mut self, directory: InodeNo, name: &str, ino: InodeNo) {
        let hash = self.hash_of_name(directory, name);
        if self.names.remove(hash, |named| *named == ino).is_some() {
            self.count_children(directory, |children| children.saturating_sub(1));
        }
    }

    fn count_children(&mut self, directory: InodeNo, count: impl FnOnce(u32) -> u32) {
        if let Ok(Inode {
            body: Body::Directory { children },
            ..
        }) = self.inode_mut(directory)
        {
            *children = count(*children);
        }
    }

    /// Drops `ino` if nobody needs it, and then its parents.
    pub(in crate::namespace) fn drop_unused(&mut self, mut ino: InodeNo) {
        while ino != InodeNo::ROOT {
            let Ok(inode) = self.inode(ino) else { return };
            if !inode.is_unused() || self.writing.contains_key(&ino) {
                return;
            }
            let (parent, name) = (inode.parent, inode.name.clone());
            // First: what a name means must be there for as long as the name is.
            self.unname(parent, &name, ino);
            let hash = self.hash_of(ino);
            if self.inodes.remove(hash, |inode| inode.ino == ino).is_some() {
                self.dropped += 1;
            }
            self.set_posix(ino, None);
            self.shrink(hash, self.hash_of_name(parent, &name));
            ino = parent;
        }
    }

    /// Gives memory back if there were many more inodes once, where one of these hashes was found.
    fn shrink(&mut self, hash: u64, hash_of_name: u64) {
        let Self {
            inodes,
            names,
            hasher,
            ..
        } = self;
        names.shrink(hash_of_name, |ino| hash_of_named(inodes, hasher, *ino));
        inodes.shrink(hash, |inode| hasher.hash_one(inode.ino));
    }

    /// What the object of `ino` says of itself.
    pub(in crate::namespace) fn posix(&self, ino: InodeNo) -> Option<PosixAttributes> {
        let known = self.posix.find(self.hash_of(ino), |known| known.0 == ino);
        known.map(|(_, posix)| *posix)
    }

    /// The object of `ino` says this of itself.
    pub(in crate::namespace) fn set_posix(&mut self, ino: InodeNo, posix: Option<PosixAttributes>) {
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
}

/// The hash by which the name of `ino`, which has one, is found.
fn hash_of_named(inodes: &Shards<Box<Inode>>, hasher: &RandomState, ino: InodeNo) -> u64 {
    let inode = inodes.find(hasher.hash_one(ino), |inode| inode.ino == ino);
    let inode = inode.expect("a name goes before its inode");
    hasher.hash_one((inode.parent, &*inode.name))
}

fn unknown(ino: InodeNo) -> FsError {
    FsError::Stale(format!("inode {} is not known any more", ino.0))
}

#[cfg(test)]
mod tests;
