//! The table of inodes: their names and their lookup counts.
//!
//! Knows nothing of requests, clocks or permissions.
//!
//! Invariants: a name in a directory has at most one inode. An inode whose object was replaced or
//! deleted is *detached*: it has no name, serves its open handles and is dropped with the last
//! reference. The table has an inode while the kernel knows it, a handle is open on it or a name in
//! it has an inode; so a parent is never dropped before its children. Numbers are never used twice.

use crate::namespace::inodes::inode::{Body, Inode, Observed};
use crate::namespace::moment::Moment;
use crate::namespace::refusals::{being_written, replaced};
use crate::namespace::version::{Found, Version};
use crate::operation::{CallMark, FileKind, FsError, InodeNo};
use crate::sync::Mutex;

mod changes;
mod entries;
mod evict;
mod life;
mod lost;
mod times;
mod writers;

use entries::Table;
pub(crate) use entries::{Admitted, KnownInode, View};
pub(crate) use times::sum_of;

/// All inodes of a mount.
///
/// The lock is T in the order H, I, T; it guards the whole table and is held for a few hash
/// lookups: one for each directory of a key, at most `EVICTION_LOOK`, or while the entries
/// of a shard move. No other lock is taken and no callback runs under it.
#[derive(Debug)]
pub(crate) struct InodeTable {
    pub(crate) table: Mutex<Table>,
    /// The mounted prefix, which is that of the root.
    prefix: String,
}

impl InodeTable {
    /// A table of the root, which is never dropped.
    pub(crate) fn new(prefix: String) -> Self {
        Self {
            table: Mutex::new(Table::new()),
            prefix,
        }
    }

    /// The common prefix of all keys in the directory `ino`.
    pub(crate) fn directory_prefix(&self, ino: InodeNo) -> Result<String, FsError> {
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

    /// The facts about `ino`.
    pub(crate) fn view(&self, ino: InodeNo) -> Result<View, FsError> {
        self.table.lock().view(ino)
    }

    /// The last known inode of `name` in `directory`.
    pub(crate) fn child(&self, directory: InodeNo, name: &str) -> Option<InodeNo> {
        self.table.lock().child(directory, name)
    }

    /// The last known kind of `name` in `directory`.
    pub(crate) fn child_kind(&self, directory: InodeNo, name: &str) -> Option<FileKind> {
        let table = self.table.lock();
        let ino = table.child(directory, name)?;
        table.inode(ino).ok().map(Inode::kind)
    }

    /// Gives `name` in `directory` the inode of the answer `found` and raises its lookup count by
    /// one.
    ///
    /// A different inode of that name is detached. If a later request has answered already, `found`
    /// only extends the validity, and only if both answers are equal.
    pub(crate) fn admit(
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

    /// Updates `ino` by a new answer about its name. Detaches the inode and returns `None` if the
    /// answer is a different file or directory.
    pub(crate) fn observe(&self, ino: InodeNo, found: &Found, observed: Observed) -> Option<View> {
        let mut table = self.table.lock();
        if table.observe(ino, found, observed).is_none() {
            table.detach(ino);
            return None;
        }
        drop(table);
        self.view(ino).ok()
    }

    /// Updates `ino` by an answer about its object alone, requested at `asked`. A directory may
    /// shadow the object, so the validity is unchanged. `None` as for [`InodeTable::observe`].
    pub(crate) fn confirm(&self, ino: InodeNo, found: &Found, asked: Moment) -> Option<View> {
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

    /// Whether a later request had a different answer about `name` in `directory`.
    ///
    /// The answer `found` was requested at `asked`.
    pub(crate) fn contradicts(
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

    /// The inode of `name` in `directory` for a look-up, compared with the entry `listed` of a
    /// page.
    pub(crate) fn known(
        &self,
        directory: InodeNo,
        name: &str,
        listed: Option<&Found>,
    ) -> Option<KnownInode> {
        let table = self.table.lock();
        let inode = table.inode(table.child(directory, name)?).ok()?;
        Some(KnownInode {
            kind: inode.kind(),
            asked: inode.observed.asked.since_start(),
            is_listed: listed.is_some_and(|found| inode.is_same(found)),
        })
    }

    /// Lowers the lookup count by `count`, but not below zero.
    pub(crate) fn forget(&self, ino: InodeNo, count: u64) {
        let mut table = self.table.lock();
        if let Ok(inode) = table.inode_mut(ino) {
            inode.lookups = inode.lookups.saturating_sub(count);
            table.drop_unused(ino);
        }
    }

    /// Takes the name of `ino` from it.
    pub(crate) fn detach(&self, ino: InodeNo) {
        self.table.lock().detach(ino);
    }

    /// Returns the system call whose lookup asked last about `ino`, to one caller.
    pub(crate) fn take_call(&self, ino: InodeNo) -> Option<CallMark> {
        let mut table = self.table.lock();
        table.inode_mut(ino).ok()?.observed.call.take()
    }

    /// Counts a handle opened on a directory: the inode stays until it is closed.
    pub(crate) fn open_directory(&self, ino: InodeNo) -> Result<(), FsError> {
        self.table.lock().inode_mut(ino)?.openers += 1;
        Ok(())
    }

    /// Counts a handle opened to read `version` of a file: the inode stays until it is closed.
    /// Returns whether the version was opened before, so that the kernel may have pages of it.
    ///
    /// The file may have been written through this mount during the request to S3. A handle on the
    /// previous version would then fill the kernel's pages, which all handles share. Returns
    /// [`FsError::Stale`] if the file has another version now, [`FsError::NotPermitted`] if it is
    /// being written.
    pub(crate) fn open_file(&self, ino: InodeNo, version: &Version) -> Result<bool, FsError> {
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
        // A file that could not be stored has pages that S3 has not.
        let is_ending = table.writing.contains_key(&ino);
        let was_opened = std::mem::replace(&mut table.inode_mut(ino)?.was_opened, true);
        Ok(was_opened && !is_ending)
    }

    /// Lets the next `open` of `ino` drop the kernel's pages, which may be of another version.
    /// Returns whether there may be some.
    pub(crate) fn drop_pages(&self, ino: InodeNo) -> bool {
        let mut table = self.table.lock();
        let inode = table.inode_mut(ino);
        inode.is_ok_and(|inode| std::mem::take(&mut inode.was_opened))
    }

    /// Whether an `open` of `name` in `directory` would be the first one of `version`.
    pub(crate) fn is_unread(&self, directory: InodeNo, name: &str, version: &Version) -> bool {
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

    /// Counts a closed handle.
    pub(crate) fn close(&self, ino: InodeNo) {
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

    /// The number that `name` in `directory` has, or will have after its lookup.
    ///
    /// `found` is the answer of a listing that was requested at `asked`.
    pub(crate) fn preview(
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

    /// Number of inodes besides the root.
    pub(crate) fn len(&self) -> usize {
        self.table.lock().len()
    }
}

#[cfg(test)]
mod tests;
