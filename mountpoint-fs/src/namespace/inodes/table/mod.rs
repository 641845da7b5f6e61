//! Which inode a name is, and how often the kernel knows it.
//!
//! Knows nothing of requests, of time's passing or of permissions.
//!
//! Invariants: a name of a directory means at most one inode. An inode that a name no longer means
//! (its object was replaced or deleted) is *detached*: it serves its open handles and goes with the
//! last reference. An inode is there while the kernel knows it, a handle is open on it or a name in
//! it means an inode; so a parent is never dropped before its children. Numbers are never used
//! twice.

use crate::namespace::inodes::inode::{Body, Inode, Moment, Observed};
use crate::namespace::open::FileOpened;
use crate::namespace::refusals::{being_written, replaced};
use crate::namespace::version::{Found, Version};
use crate::operation::{FileKind, FsError, InodeNo};
use crate::sync::Mutex;

mod changes;
mod entries;
mod evict;
mod writers;

use entries::Table;
pub(in crate::namespace) use entries::{Admitted, View};

/// All inodes of a mount. The lock is T of the order H, I, T: it guards the whole table, is held
/// for a few hash look-ups (a path's length of them to build a key) and at most for
/// `limits::EVICTION_LOOK` of them or for a shard of entries to be moved, and nothing foreign is
/// called under it.
#[derive(Debug)]
pub(in crate::namespace) struct InodeTable {
    pub(in crate::namespace) table: Mutex<Table>,
    /// The mounted prefix, the root's.
    prefix: String,
}

impl InodeTable {
    /// The root alone. It is never dropped.
    pub(in crate::namespace) fn new(prefix: String) -> Self {
        Self {
            table: Mutex::new(Table::new()),
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

#[cfg(test)]
mod tests;
