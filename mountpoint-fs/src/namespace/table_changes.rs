//! What changes made through this mount do to the table of inodes.
//!
//! A directory may be *kept*: it was made here, or what was in it was removed through this mount. It is there although
//! no key says so, until it is removed or the mount ends.

use std::collections::HashMap;
use std::sync::Arc;

use super::inode::{Body, Inode, Moment, Observed};
use super::inode_table::{InodeTable, Table, View};
use super::version::{Found, Version};
use crate::config::limits::KEPT_DIRECTORIES_MAX;
use crate::operation::{FsError, InodeNo};

impl InodeTable {
    /// The directory `ino` is there whatever S3 says. `false` if there are too many of those.
    pub(super) fn keep(&self, ino: InodeNo) -> bool {
        self.table.lock().keep(ino)
    }

    /// S3 says by now that the directory is there.
    pub(super) fn unkeep(&self, ino: InodeNo) {
        let mut table = self.table.lock();
        table.unkeep(ino);
        table.drop_unused(ino);
    }

    /// Whether a directory is there whatever S3 says: it is kept, or one below it is.
    pub(super) fn is_kept(&self, ino: InodeNo) -> bool {
        self.table.lock().is_kept(ino)
    }

    /// The directories in `directory` that are there whatever S3 says, in order of name.
    pub(super) fn kept_children(&self, directory: InodeNo) -> Vec<Arc<str>> {
        let table = self.table.lock();
        if table.kept == 0 {
            return Vec::new();
        }
        let Ok(Inode {
            body: Body::Directory(children),
            ..
        }) = table.inode(directory)
        else {
            return Vec::new();
        };
        let kept = children.iter().filter(|(_, ino)| table.is_kept(**ino));
        let mut names: Vec<Arc<str>> = kept.map(|(name, _)| Arc::clone(name)).collect();
        names.sort_unstable();
        names
    }

    /// A kept directory for the kernel: raises its lookup count by one.
    pub(super) fn admit_kept(&self, ino: InodeNo) -> Result<View, FsError> {
        self.table.lock().inode_mut(ino)?.lookups += 1;
        self.view(ino)
    }

    /// Gives `ino` another name; what had that name is detached. `version` replaces a file's: the bytes are the same,
    /// their tag need not be.
    pub(super) fn rename(
        &self,
        ino: InodeNo,
        directory: InodeNo,
        name: &Arc<str>,
        version: Option<(Version, Observed)>,
    ) -> Result<(), FsError> {
        let mut table = self.table.lock();
        let (old_directory, old_name) = {
            let inode = table.inode(ino)?;
            (inode.parent, Arc::clone(&inode.name))
        };
        if let Some(replaced) = table.child(directory, name) {
            if replaced == ino {
                return Ok(());
            }
            table.detach(replaced);
        }
        table.unname(old_directory, &old_name, ino);
        let children = match &mut table.inode_mut(directory)?.body {
            Body::Directory(children) => children,
            Body::File(_) => return Err(FsError::NotADirectory),
        };
        children.insert(Arc::clone(name), ino);
        let inode = table.inode_mut(ino)?;
        inode.parent = directory;
        inode.name = Arc::clone(name);
        if let (Body::File(known), Some((version, observed))) = (&mut inode.body, version) {
            *known = version;
            inode.observed = observed;
        }
        table.drop_unused(old_directory);
        Ok(())
    }

    /// The file `ino` has another version, whose bytes are the same.
    pub(super) fn replace(
        &self,
        ino: InodeNo,
        version: Version,
        observed: Observed,
    ) -> Result<(), FsError> {
        let mut table = self.table.lock();
        let inode = table.inode_mut(ino)?;
        inode.observed = observed;
        match &mut inode.body {
            Body::File(known) => {
                *known = version;
                Ok(())
            }
            Body::Directory(_) => Err(FsError::IsADirectory),
        }
    }

    /// What is known of `ino` is not valid any longer than until then.
    pub(super) fn invalidate(&self, ino: InodeNo, valid_until: Moment) {
        if let Ok(inode) = self.table.lock().inode_mut(ino) {
            inode.observed.valid_until = valid_until;
            inode.observed.fresh_until = Moment::START;
        }
    }

    /// The inodes below `ino` are no longer known to be what their names mean; directories stay as they are.
    pub(super) fn distrust_below(&self, ino: InodeNo, now: Moment) {
        let mut table = self.table.lock();
        let mut to_visit = vec![ino];
        while let Some(current) = to_visit.pop() {
            let Ok(inode) = table.inode_mut(current) else {
                continue;
            };
            inode.observed.valid_until = now;
            inode.observed.fresh_until = Moment::START;
            if let Body::Directory(children) = &inode.body {
                to_visit.extend(children.values());
            }
        }
    }

    /// The directory `name`, made by this mount, with a lookup count of one.
    pub(super) fn make_directory(
        &self,
        directory: InodeNo,
        name: &Arc<str>,
        observed: Observed,
        is_kept: bool,
    ) -> Result<View, FsError> {
        let mut table = self.table.lock();
        match table.inode(directory)?.body {
            Body::File(_) => return Err(FsError::NotADirectory),
            Body::Directory(_) if table.child(directory, name).is_some() => {
                return Err(FsError::Exists);
            }
            Body::Directory(_) => {}
        }
        if is_kept && table.kept >= KEPT_DIRECTORIES_MAX {
            return Err(FsError::NoSpace(format!(
                "{KEPT_DIRECTORIES_MAX} empty directories are remembered already; --directory-markers stores them \
                 in the bucket"
            )));
        }
        let ino = table.create(directory, name, &Found::Directory, observed);
        table.inode_mut(ino)?.lookups = 1;
        if is_kept {
            table.keep(ino);
        }
        drop(table);
        self.view(ino)
    }
}

impl Table {
    fn keep(&mut self, ino: InodeNo) -> bool {
        let is_full = self.kept >= KEPT_DIRECTORIES_MAX;
        match self.inode_mut(ino) {
            Ok(inode) if inode.is_kept => true,
            Ok(inode) if !is_full && ino != InodeNo::ROOT => {
                inode.is_kept = true;
                self.kept += 1;
                true
            }
            Ok(_) => ino == InodeNo::ROOT,
            Err(_) => false,
        }
    }

    pub(super) fn unkeep(&mut self, ino: InodeNo) {
        if let Ok(inode) = self.inode_mut(ino)
            && std::mem::replace(&mut inode.is_kept, false)
        {
            self.kept -= 1;
        }
    }

    fn is_kept(&self, ino: InodeNo) -> bool {
        if self.kept == 0 {
            return false;
        }
        let mut to_visit = vec![ino];
        while let Some(inode) = to_visit.pop().and_then(|ino| self.inodes.get(&ino)) {
            if inode.is_kept {
                return true;
            }
            if let Body::Directory(children) = &inode.body {
                to_visit.extend(directories(&self.inodes, children));
            }
        }
        false
    }
}

fn directories<'a>(
    inodes: &'a HashMap<InodeNo, Box<Inode>>,
    children: &'a HashMap<Arc<str>, InodeNo>,
) -> impl Iterator<Item = InodeNo> + 'a {
    children.values().copied().filter(|ino| {
        let body = inodes.get(ino).map(|inode| &inode.body);
        matches!(body, Some(Body::Directory(_)))
    })
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use mountpoint_client::types::ETag;

    use super::*;

    const ROOT: InodeNo = InodeNo::ROOT;
    const SEEN: Observed = Observed {
        asked: Moment::START,
        valid_until: Moment::START,
        fresh_until: Moment::START,
    };

    fn version(etag: &str) -> Version {
        Version {
            size: 1,
            etag: ETag::from_header(etag),
            mtime: SystemTime::UNIX_EPOCH,
            is_archived: false,
        }
    }

    fn file(table: &InodeTable, directory: InodeNo, name: &str) -> InodeNo {
        let found = Found::File(version(name));
        let view = table.admit(directory, &Arc::from(name), &found, SEEN);
        view.unwrap().ino
    }

    fn directory(table: &InodeTable, parent: InodeNo, name: &str) -> InodeNo {
        let view = table.make_directory(parent, &Arc::from(name), SEEN, true);
        view.unwrap().ino
    }

    #[test]
    fn kept_directories_stay_without_the_kernel_until_they_are_detached() {
        let table = InodeTable::new(String::new());
        let a = directory(&table, ROOT, "a");
        let b = directory(&table, a, "b");
        table.forget(a, 1);
        table.forget(b, 1);
        assert_eq!(table.len(), 2);
        table.unkeep(a);
        assert!(table.is_kept(a), "b is below it");
        assert_eq!(table.kept_children(ROOT), [Arc::from("a")]);
        assert_eq!(table.kept_children(a), [Arc::from("b")]);
        table.detach(b);
        assert_eq!(table.len(), 0);
        assert!(!table.is_kept(a));
    }

    #[test]
    fn a_renamed_inode_takes_what_is_below_it_along() {
        let table = InodeTable::new("p/".to_owned());
        let (a, z) = (directory(&table, ROOT, "a"), directory(&table, ROOT, "z"));
        let b = directory(&table, a, "b");
        let f = file(&table, b, "f");
        let replaced = file(&table, z, "c");
        table.rename(b, z, &Arc::from("c"), None).unwrap();
        assert_eq!(table.directory_prefix(b).unwrap(), "p/z/c/");
        assert_eq!(table.view(f).unwrap().parent, b);
        assert!(!table.view(replaced).unwrap().is_attached);
        assert_eq!(table.child(a, "b"), None);
        assert_eq!(table.child(z, "c"), Some(b));
        let moved = Some((version("other"), SEEN));
        table.rename(f, a, &Arc::from("g"), moved).unwrap();
        assert_eq!(table.view(f).unwrap().found, Found::File(version("other")));
        assert_eq!(table.child(a, "g"), Some(f));
        table.rename(f, a, &Arc::from("g"), None).unwrap();
        assert!(table.view(f).unwrap().is_attached);
    }
}
