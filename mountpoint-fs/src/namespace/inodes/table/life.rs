//! Inodes that begin and end, and names that are taken from them.

use super::entries::Table;
use crate::namespace::inodes::inode::{Inode, LostName, Observed};
use crate::namespace::version::Found;
use crate::operation::InodeNo;

impl Table {
    pub(crate) fn create(
        &mut self,
        directory: InodeNo,
        name: &str,
        found: &Found,
        observed: Observed,
    ) -> InodeNo {
        let replaced = self.child(directory, name);
        if let Some(replaced) = replaced {
            self.unname(directory, name, replaced);
            self.lose_directory(replaced);
        }
        let lost = self.lost_directory(directory, name);
        if let Some(lost) = lost.filter(|_| *found == Found::Directory) {
            self.find_again(lost, found, observed);
            if let Some(replaced) = replaced {
                self.drop_unused(replaced);
            }
            return lost;
        }
        let ino = self.number_of_new(directory, name);
        let mut inode = Inode::new(ino, directory, name, found, observed);
        if let Some(time) = inode.time_mut() {
            *time = self.remembered_time(directory, name);
        }
        self.insert(inode);
        self.name(directory, name, ino);
        if let Some(replaced) = replaced {
            self.drop_unused(replaced);
        }
        ino
    }

    pub(crate) fn detach(&mut self, ino: InodeNo) {
        let Ok(inode) = self.inode(ino) else { return };
        let (parent, name) = (inode.parent, inode.name.clone());
        self.unkeep_all(ino);
        self.unname(parent, &name, ino);
        self.lose_directory(ino);
        self.drop_unused(ino);
        self.drop_unused(parent);
    }

    /// Drops `ino` if it is unused, and then its parents.
    pub(super) fn drop_unused(&mut self, mut ino: InodeNo) {
        while ino != InodeNo::ROOT {
            let Ok(inode) = self.inode(ino) else { return };
            if !inode.is_unused() || self.writing.contains_key(&ino) {
                return;
            }
            let (parent, name) = (inode.parent, inode.name.clone());
            self.remember_time(ino);
            // The name goes first, because a name needs its inode as long as it exists.
            self.unname(parent, &name, ino);
            let hash = self.hash_of(ino);
            if self.inodes.remove(hash, |inode| inode.ino == ino).is_some() {
                self.dropped += 1;
            }
            self.set_posix(ino, None);
            self.forget_lost(ino, parent, &name);
            self.shrink(hash, self.hash_of_name(parent, &name));
            ino = parent;
        }
    }

    /// Detaches `ino`, because its name was removed or given to another file through this mount.
    pub(crate) fn take_name(&mut self, ino: InodeNo) {
        if let Ok(inode) = self.inode_mut(ino) {
            inode.lost_name = LostName::Taken;
        }
        self.detach(ino);
    }

    /// Stops keeping `ino` and all directories below it.
    pub(super) fn unkeep_all(&mut self, ino: InodeNo) {
        if !self.is_kept(ino) {
            return;
        }
        self.unlink_kept(ino);
        let mut to_visit = vec![ino];
        while let Some(current) = to_visit.pop() {
            to_visit.extend(self.kept.below.remove(&current).into_iter().flatten());
            if let Ok(inode) = self.inode_mut(current)
                && std::mem::replace(&mut inode.is_kept, false)
            {
                self.kept.count -= 1;
                if current != ino {
                    self.drop_unused(current);
                }
            }
        }
    }
}
