//! Inodes whose names another client took away, while the kernel goes on with them: a working
//! directory, what is mounted elsewhere (`mount --bind`).
//!
//! Linux looks the name of such an inode up no more. If there is an object of the name again, the
//! inode is that. A directory is then found by its old number, whoever looks for it.

use super::InodeTable;
use super::entries::{Table, View};
use crate::namespace::inodes::inode::{Body, Inode, LostName, Observed};
use crate::namespace::inodes::packed_version::PackedVersion;
use crate::namespace::version::Found;
use crate::operation::{FileKind, InodeNo};

impl InodeTable {
    /// Whether another client took the name of `ino` away.
    pub(crate) fn is_lost(&self, ino: InodeNo) -> bool {
        let table = self.table.lock();
        !table.inode(ino).is_ok_and(Inode::is_taken)
            && table.view(ino).is_ok_and(|view| !view.is_attached)
    }

    /// Whether this mount removed the name of `ino`, or gave it to another file.
    pub(crate) fn is_removed(&self, ino: InodeNo) -> bool {
        self.table.lock().inode(ino).is_ok_and(Inode::is_taken)
    }

    /// Whether the kernel may have attributes of a version that `ino` no longer is: an answer from
    /// before the change that arrives after a newer one stays (Linux 6.18).
    pub(crate) fn was_found_again(&self, ino: InodeNo) -> bool {
        let table = self.table.lock();
        table
            .inode(ino)
            .is_ok_and(|inode| inode.lost_name == LostName::FoundAgain)
    }

    /// The name of the lost inode `ino` means `found` now. `None` if that is something else, if the
    /// name has another inode by now, or if the file is open in its old version.
    pub(crate) fn find_again(
        &self,
        ino: InodeNo,
        found: &Found,
        observed: Observed,
    ) -> Option<View> {
        let mut table = self.table.lock();
        let view = table.view(ino).ok()?;
        if view.is_attached {
            return view.found.is_same(found).then_some(view);
        }
        let is_in_use = view.openers > 0 && *found != Found::Directory;
        if table.inode(ino).ok()?.is_taken() || is_in_use || table.writing.contains_key(&ino) {
            return None;
        }
        table.find_again(ino, found, observed)?;
        table.view(ino).ok()
    }
}

impl Table {
    /// Gives the lost inode `ino` its name back, unless another inode has it.
    pub(super) fn find_again(
        &mut self,
        ino: InodeNo,
        found: &Found,
        observed: Observed,
    ) -> Option<()> {
        let inode = self.inode(ino).ok()?;
        let (parent, name) = (inode.parent, inode.name.clone());
        if self.child(parent, &name).is_some() || self.inode(parent).is_err() {
            return None;
        }
        let inode = self.inode_mut(ino).ok()?;
        match (&mut inode.body, found) {
            (Body::File(known), Found::File(version)) => {
                *known = PackedVersion::pack(version);
                // The kernel's pages are of the old version.
                inode.was_opened = false;
            }
            (Body::Directory { .. }, Found::Directory) => {}
            (Body::File(_), Found::Directory) | (Body::Directory { .. }, Found::File(_)) => {
                return None;
            }
        }
        inode.observed = observed;
        inode.lost_name = LostName::FoundAgain;
        self.forget_lost(ino, parent, &name);
        self.name(parent, &name, ino);
        Some(())
    }

    /// The directory that lost the name `name` in `parent`.
    pub(super) fn lost_directory(&self, parent: InodeNo, name: &str) -> Option<InodeNo> {
        if self.lost.is_empty() {
            return None;
        }
        self.lost.get(&(parent, Box::from(name))).copied()
    }

    /// Remembers `ino` by the name that it has lost, if it is a directory.
    pub(super) fn lose_directory(&mut self, ino: InodeNo) {
        if let Ok(inode) = self.inode(ino)
            && inode.kind() == FileKind::Directory
            && !inode.is_taken()
        {
            let name = (inode.parent, inode.name.clone());
            self.lost.insert(name, ino);
        }
    }

    /// Forgets that `ino` lost a name: it is dropped.
    pub(super) fn forget_lost(&mut self, ino: InodeNo, parent: InodeNo, name: &str) {
        if self.lost_directory(parent, name) == Some(ino) {
            self.lost.remove(&(parent, Box::from(name)));
        }
    }
}
