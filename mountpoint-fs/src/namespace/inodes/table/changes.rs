//! Changes of the inode table by operations through this mount.
//!
//! A *kept* directory exists even without a key: it was created here, or its entries were removed
//! through this mount. It and the directories above it exist until it is removed or the mount ends.

use std::sync::Arc;

use super::InodeTable;
use super::entries::{Admitted, IMPLICIT_DIRECTORIES_MAX};
use crate::namespace::inodes::inode::{Body, Observed};
use crate::namespace::inodes::packed_version::PackedVersion;
use crate::namespace::moment::Moment;
use crate::namespace::version::{Found, Version};
use crate::operation::{FileKind, FsError, InodeNo, PosixAttributes};

impl InodeTable {
    /// POSIX attributes in the metadata of `ino`. A file that is being written has none for its
    /// time, which its writer knows.
    pub(crate) fn posix(&self, ino: InodeNo) -> Option<PosixAttributes> {
        let table = self.table.lock();
        let mut posix = table.posix(ino)?;
        if table.is_written(ino) {
            posix.mtime = None;
        }
        Some(posix)
    }

    /// Sets the POSIX attributes in the metadata of `ino`. They are dropped with the inode.
    pub(crate) fn set_posix(&self, ino: InodeNo, posix: Option<PosixAttributes>) {
        let mut table = self.table.lock();
        let posix = posix.filter(|_| table.inode(ino).is_ok());
        table.set_posix(ino, posix);
    }

    /// Keeps the directory `ino`, unless there are too many kept directories.
    pub(crate) fn keep(&self, ino: InodeNo) {
        self.table.lock().keep(ino);
    }

    /// Stops keeping the directory `ino`, because S3 has a key for it now.
    pub(crate) fn unkeep(&self, ino: InodeNo) {
        let mut table = self.table.lock();
        table.unkeep(ino);
        table.drop_unused(ino);
    }

    /// Whether one more directory can be kept.
    pub(crate) fn may_keep(&self) -> bool {
        self.table.lock().kept.count < IMPLICIT_DIRECTORIES_MAX
    }

    /// Whether the directory is kept, or one below it is.
    pub(crate) fn is_kept(&self, ino: InodeNo) -> bool {
        self.table.lock().is_kept(ino)
    }

    /// Kept subdirectories of `directory`, and those above kept ones, in order of name.
    pub(crate) fn kept_children(&self, directory: InodeNo) -> Vec<Arc<str>> {
        let table = self.table.lock();
        let kept = table.kept.below.get(&directory).into_iter().flatten();
        let mut names: Vec<Arc<str>> = kept
            .filter_map(|ino| Some(Arc::from(&*table.inode(*ino).ok()?.name)))
            .collect();
        names.sort_unstable();
        names
    }

    /// Raises the lookup count of the kept directory `ino` by one.
    pub(crate) fn admit_kept(&self, ino: InodeNo) -> Result<Admitted, FsError> {
        let mut table = self.table.lock();
        let inode = table.inode_mut(ino)?;
        inode.lookups += 1;
        let found = inode.found();
        Ok(Admitted { ino, found })
    }

    /// The last known inode of `name` in `directory`, whatever S3 says now; its lookup count rises
    /// by one.
    pub(crate) fn admit_known(
        &self,
        directory: InodeNo,
        name: &str,
    ) -> Result<Option<Admitted>, FsError> {
        let mut table = self.table.lock();
        let Some(ino) = table.child(directory, name) else {
            return Ok(None);
        };
        table.inode_mut(ino)?.lookups += 1;
        table.admitted(ino).map(Some)
    }

    /// Gives `ino` another name; the inode that had that name is detached. `version` replaces that
    /// of a file: the bytes are the same, but the ETag may differ.
    pub(crate) fn rename(
        &self,
        ino: InodeNo,
        directory: InodeNo,
        name: &str,
        version: Option<(&Version, Observed)>,
    ) -> Result<(), FsError> {
        let mut table = self.table.lock();
        if table.inode(directory)?.kind() != FileKind::Directory {
            return Err(FsError::NotADirectory);
        }
        if let Some(replaced) = table.child(directory, name) {
            if replaced == ino {
                return Ok(());
            }
            table.take_name(replaced);
        }
        let inode = table.inode(ino)?;
        let (old_directory, old_name) = (inode.parent, inode.name.clone());
        if inode.kind() == FileKind::Directory {
            table.forgotten.moved();
        }
        table.unlink_kept(ino);
        table.unname(old_directory, &old_name, ino);
        let is_written = table.unlink_written(ino);
        let inode = table.inode_mut(ino)?;
        inode.parent = directory;
        inode.name = Box::from(name);
        if let (Body::File(known), Some((version, observed))) = (&mut inode.body, version) {
            *known = PackedVersion::pack(version);
            inode.observed = observed;
        }
        table.name(directory, name, ino);
        if is_written {
            table.link_written(ino);
        }
        if table.is_kept(ino) {
            table.link_kept(ino);
        }
        table.drop_unused(old_directory);
        Ok(())
    }

    /// Sets another version of the file `ino`. The kernel's pages remain right as far as both
    /// versions reach.
    pub(crate) fn replace(
        &self,
        ino: InodeNo,
        version: &Version,
        observed: Observed,
    ) -> Result<(), FsError> {
        let mut table = self.table.lock();
        let inode = table.inode_mut(ino)?;
        inode.observed = observed;
        match &mut inode.body {
            Body::File(known) => {
                *known = PackedVersion::pack(version);
                Ok(())
            }
            Body::Directory { .. } => Err(FsError::IsADirectory),
        }
    }

    /// Detaches `ino`, because this mount gave its name to another file or removed it.
    pub(crate) fn take_name(&self, ino: InodeNo) {
        self.table.lock().take_name(ino);
    }

    /// Ends the validity of all facts about `ino`.
    pub(crate) fn invalidate(&self, ino: InodeNo) {
        if let Ok(inode) = self.table.lock().inode_mut(ino) {
            inode.observed.valid_until = Moment::START;
            inode.observed.call = None;
        }
    }

    /// Adds the directory `name`, which this mount has created, with a lookup count of one.
    pub(crate) fn make_directory(
        &self,
        directory: InodeNo,
        name: &str,
        observed: Observed,
        is_kept: bool,
    ) -> Result<InodeNo, FsError> {
        let mut table = self.table.lock();
        if table.inode(directory)?.kind() != FileKind::Directory {
            return Err(FsError::NotADirectory);
        }
        if table.child(directory, name).is_some() {
            return Err(FsError::Exists);
        }
        if is_kept && table.kept.count >= IMPLICIT_DIRECTORIES_MAX {
            return Err(FsError::NoSpace(format!(
                "{IMPLICIT_DIRECTORIES_MAX} empty directories are remembered already; --directory-markers stores them \
                 in the bucket"
            )));
        }
        let ino = table.create(directory, name, &Found::Directory, observed);
        table.inode_mut(ino)?.lookups = 1;
        if is_kept {
            table.keep(ino);
        }
        Ok(ino)
    }
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
        call: None,
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
        let view = table.admit(directory, name, &found, SEEN);
        view.unwrap().ino
    }

    fn directory(table: &InodeTable, parent: InodeNo, name: &str) -> InodeNo {
        table.make_directory(parent, name, SEEN, true).unwrap()
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
        assert!(table.table.lock().kept.below.is_empty());
        assert_eq!(table.table.lock().kept.count, 0);
    }

    #[test]
    fn a_renamed_inode_takes_what_is_below_it_along() {
        let table = InodeTable::new("p/".to_owned());
        let (a, z) = (directory(&table, ROOT, "a"), directory(&table, ROOT, "z"));
        let b = directory(&table, a, "b");
        let f = file(&table, b, "f");
        let replaced = file(&table, z, "c");
        let e = directory(&table, b, "e");
        table.rename(b, z, "c", None).unwrap();
        assert!(table.is_kept(z));
        assert_eq!(table.kept_children(z), [Arc::from("c")]);
        assert!(table.kept_children(a).is_empty());
        table.forget(e, 1);
        table.detach(e);
        assert_eq!(table.directory_prefix(b).unwrap(), "p/z/c/");
        assert_eq!(table.view(f).unwrap().parent, b);
        assert!(!table.view(replaced).unwrap().is_attached);
        assert_eq!(table.child(a, "b"), None);
        assert_eq!(table.child(z, "c"), Some(b));
        let other = version("other");
        let moved = Some((&other, SEEN));
        table.rename(f, a, "g", moved).unwrap();
        assert_eq!(table.view(f).unwrap().found, Found::File(version("other")));
        assert_eq!(table.child(a, "g"), Some(f));
        table.rename(f, a, "g", None).unwrap();
        assert!(table.view(f).unwrap().is_attached);
    }
}
