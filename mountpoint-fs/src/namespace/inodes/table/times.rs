//! Times of directories: when a name was made or removed in them.

use std::hash::{BuildHasher as _, DefaultHasher, Hash as _, Hasher as _};
use std::time::SystemTime;

use super::InodeTable;
use super::entries::Table;
use crate::namespace::inodes::directory_time::{ChangeTime, DirectoryTime};
use crate::namespace::inodes::inode::Inode;
use crate::namespace::listing::Page;
use crate::namespace::moment::Moment;
use crate::operation::InodeNo;

impl InodeTable {
    /// When the names of the directory `ino` changed last, as far as that is known.
    pub(crate) fn changed_at(&self, ino: InodeNo) -> SystemTime {
        let table = self.table.lock();
        let known = table.inode(ino).ok().and_then(Inode::time);
        let known = known.map(DirectoryTime::changed).unwrap_or_default();
        // A time that the marker carries stands for what is not known.
        let is_carried = || {
            let posix = table.posix(ino);
            posix.is_some_and(|posix| posix.mtime.is_some())
        };
        match known == ChangeTime::default() && !is_carried() {
            true => table.forgotten.floor().shown(),
            false => known.shown(),
        }
    }

    /// This mount has changed a name in `directory`, at `wall` and at `now` of its clock.
    pub(crate) fn names_changed(&self, directory: InodeNo, wall: SystemTime, now: Moment) {
        let mut table = self.table.lock();
        if let Some(time) = table.inode_mut(directory).ok().and_then(Inode::time_mut) {
            time.change(wall, now);
        }
    }

    /// An application has set the time of `directory`: no earlier change is shown.
    pub(crate) fn set_time(&self, directory: InodeNo) {
        let mut table = self.table.lock();
        if let Some(time) = table.inode_mut(directory).ok().and_then(Inode::time_mut) {
            *time = DirectoryTime::new(ChangeTime::default());
        }
    }

    /// Whether a listing of `directory` that was requested at `asked` may tell of a change.
    pub(crate) fn is_news(&self, directory: InodeNo, asked: Moment) -> bool {
        let table = self.table.lock();
        let time = table.inode(directory).ok().and_then(Inode::time);
        time.is_some_and(|time| time.is_news(asked))
    }

    /// `page` has all names of `directory` but those that only this mount knows; `names` is their
    /// sum.
    pub(crate) fn listed(&self, directory: InodeNo, (page, names): (&Page, u64), wall: SystemTime) {
        let mut table = self.table.lock();
        let known = table.names_of_this_mount(directory);
        let more = known.iter().filter(|name| page.find(name).is_none());
        let names = more.fold(names, |sum, name| sum.wrapping_add(hash_of(name)));
        if let Some(time) = table.inode_mut(directory).ok().and_then(Inode::time_mut) {
            time.list(names, page.asked.into(), wall);
        }
    }
}

impl Table {
    /// Names in `directory` that S3 need not know: of kept directories, and of written files.
    fn names_of_this_mount(&self, directory: InodeNo) -> Vec<Box<str>> {
        let kept = self.kept.below.get(&directory).into_iter().flatten();
        let written = self.written_in.get(&directory).into_iter().flatten();
        let names = kept.chain(written).filter_map(|ino| self.inode(*ino).ok());
        let mut names: Vec<_> = names.map(|inode| inode.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The time of the directory `name` in `parent`, which gets an inode.
    pub(super) fn remembered_time(&self, parent: InodeNo, name: &str) -> DirectoryTime {
        let known = match self.forgotten.is_empty() {
            true => None,
            false => self.forgotten.of(self.path_of(parent, name)),
        };
        DirectoryTime::new(known.unwrap_or_default())
    }

    /// Keeps the time of the directory `ino`, which loses its inode but not its name.
    pub(super) fn remember_time(&mut self, ino: InodeNo) {
        let Ok(inode) = self.inode(ino) else { return };
        let Some(changed) = inode.time().map(DirectoryTime::changed) else {
            return;
        };
        let is_named = || self.child(inode.parent, &inode.name) == Some(ino);
        if changed != ChangeTime::default() && is_named() {
            let path = self.path_of(inode.parent, &inode.name);
            self.forgotten.keep(path, changed);
        }
    }

    /// The hash of a path.
    fn path_of(&self, parent: InodeNo, name: &str) -> u64 {
        let mut path = self.hasher.hash_one((0_u64, name));
        let mut current = parent;
        while current != InodeNo::ROOT
            && let Ok(inode) = self.inode(current)
        {
            path = self.hasher.hash_one((path, &*inode.name));
            current = inode.parent;
        }
        path
    }
}

/// The sum of the names on `page`.
pub(crate) fn sum_of(page: &Page) -> u64 {
    let hashes = page.entries.iter().map(|entry| hash_of(&entry.name));
    hashes.fold(0, u64::wrapping_add)
}

fn hash_of(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}
