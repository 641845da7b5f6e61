//! What the table of inodes knows of files that are being written: what
//! [`Namespace`](crate::namespace::Namespace) tells it.
//!
//! Of each such file, until S3 has all of it, what its writer says.

use std::sync::Arc;
use std::time::SystemTime;

use super::InodeTable;
use super::entries::{Admitted, Table};
use crate::namespace::inodes::inode::{Body, Inode, Observed};
use crate::namespace::inodes::packed_version::PackedVersion;
use crate::namespace::inodes::writing::version_of;
use crate::namespace::moment::Moment;
use crate::namespace::refusals::being_written;
use crate::namespace::version::{Found, Version};
use crate::operation::{FileKind, FsError, InodeNo, PosixAttributes, Progress};

impl InodeTable {
    /// The inode that `name` in `directory` means, if it is being written; its lookup count rises
    /// by one.
    pub(crate) fn admit_written(
        &self,
        directory: InodeNo,
        name: &str,
    ) -> Result<Option<Admitted>, FsError> {
        let mut table = self.table.lock();
        if table.writing.is_empty() {
            return Ok(None);
        }
        let Some(ino) = table
            .child(directory, name)
            .filter(|ino| table.is_written(*ino))
        else {
            return Ok(None);
        };
        table.inode_mut(ino)?.lookups += 1;
        table.admitted(ino).map(Some)
    }

    pub(crate) fn create_written(
        &self,
        directory: InodeNo,
        name: &str,
        progress: &Arc<Progress>,
        observed: Observed,
    ) -> Result<Admitted, FsError> {
        let mut table = self.table.lock();
        if table.inode(directory)?.kind() != FileKind::Directory {
            return Err(FsError::NotADirectory);
        }
        if let Some(known) = table.child(directory, name) {
            if table.is_written(known) {
                return Err(being_written(name));
            }
            table.detach(known);
        }
        let ino = table.create(directory, name, &version_of(progress), observed);
        table.inode_mut(ino)?.lookups += 1;
        table.begin_written(ino, progress);
        table.admitted(ino)
    }

    /// Makes the file `names` below the root one that is being written, with directories that are
    /// kept. The bucket has it as `version`, if at all. `None` if one of the names means something
    /// else.
    pub(crate) fn adopt_written(
        &self,
        names: &[&str],
        progress: &Arc<Progress>,
        version: Option<&Version>,
        observed: Observed,
    ) -> Option<InodeNo> {
        let (name, directories) = names.split_last()?;
        let mut table = self.table.lock();
        let directory = table.adopt_directories(directories, observed)?;
        if table.child(directory, name).is_some() {
            return None;
        }
        let found = version.map_or_else(|| version_of(progress), |it| Found::File(it.clone()));
        let ino = table.create(directory, name, &found, observed);
        table.begin_written(ino, progress);
        Some(ino)
    }

    /// The directory at the end of the way `names`. Those that are not known are kept ones from now
    /// on. `None` if one of the names means a file.
    pub(crate) fn adopt_directories(&self, names: &[&str], observed: Observed) -> Option<InodeNo> {
        self.table.lock().adopt_directories(names, observed)
    }

    pub(crate) fn begin_writing(
        &self,
        ino: InodeNo,
        progress: &Arc<Progress>,
    ) -> Result<(), FsError> {
        let mut table = self.table.lock();
        let inode = table.inode(ino)?;
        if table.is_written(ino) {
            return Err(being_written(&inode.name));
        }
        table.begin_written(ino, progress);
        Ok(())
    }

    /// The bucket has the staged file `ino` as `version`, whose object carries `mtime`. The
    /// kernel's pages have at least its bytes.
    pub(crate) fn stored_staged(
        &self,
        ino: InodeNo,
        progress: &Arc<Progress>,
        (version, mtime): (&Version, Option<SystemTime>),
        observed: Observed,
    ) {
        let mut table = self.table.lock();
        if !table.is_written_with(ino, progress) {
            return;
        }
        if let Ok(inode) = table.inode_mut(ino) {
            inode.body = Body::File(PackedVersion::pack(version));
            inode.observed = observed;
        }
        if let Some(posix) = table.posix(ino) {
            table.set_posix(ino, Some(PosixAttributes { mtime, ..posix }));
        }
    }

    /// The inode that `name` in `directory` means, and what the bucket has of it, for a change of
    /// the name: a version without an ETag if the bucket has no object of a staged file.
    pub(crate) fn changeable(
        &self,
        directory: InodeNo,
        name: &str,
    ) -> Result<Option<(InodeNo, Found)>, FsError> {
        // One lock for all of it: a staged file may end at any time.
        let table = self.table.lock();
        let Some(ino) = table.child(directory, name) else {
            return Ok(None);
        };
        Ok(Some((ino, table.inode(ino)?.found())))
    }

    /// Counts an open of the staged file `ino`. Returns whether it was opened before, so that the
    /// kernel's pages are its.
    pub(crate) fn opened_staged(&self, ino: InodeNo) -> bool {
        let mut table = self.table.lock();
        let inode = table.inode_mut(ino);
        inode.is_ok_and(|inode| std::mem::replace(&mut inode.was_opened, true))
    }

    /// The writer with `progress` has come to its end, if it is still the one.
    pub(crate) fn ends(&self, ino: InodeNo, progress: &Arc<Progress>) -> bool {
        self.table.lock().ends(ino, progress)
    }

    /// Ends the writer with `progress`; the name means another file, so the writer cannot go on.
    pub(crate) fn gives_way(&self, ino: InodeNo, progress: &Arc<Progress>) -> bool {
        let mut table = self.table.lock();
        let is_its = table.ends(ino, progress);
        if is_its {
            table.take_name(ino);
        }
        is_its
    }

    pub(crate) fn close_writer(&self, ino: InodeNo) {
        let mut table = self.table.lock();
        if table.writing.remove(&ino).is_some() {
            table.unlink_written(ino);
            table.drop_unused(ino);
        }
    }

    /// The version of the file `ino` that was stored last, whatever is being written to it.
    pub(crate) fn stored_version(&self, ino: InodeNo) -> Option<Version> {
        match self.table.lock().inode(ino).ok()?.found() {
            Found::File(version) => Some(version),
            Found::Directory => None,
        }
    }

    /// Progress of the writer of the file `ino`.
    pub(crate) fn progress(&self, ino: InodeNo) -> Option<Arc<Progress>> {
        self.table.lock().progress(ino).map(Arc::clone)
    }

    /// The name of `directory` is gone, said an answer that was asked for at `asked`.
    pub(crate) fn detach_unless_newer(&self, directory: InodeNo, name: &str, asked: Moment) {
        let mut table = self.table.lock();
        let Some(ino) = table.child(directory, name) else {
            return;
        };
        let is_newer = |inode: &Inode| inode.observed.asked > asked;
        if !table.is_written(ino) && !table.inode(ino).is_ok_and(is_newer) {
            table.detach(ino);
        }
    }

    pub(crate) fn written_below(&self, directory: InodeNo) -> Vec<(InodeNo, String)> {
        let table = self.table.lock();
        let is_below = |mut ino: InodeNo| {
            while let Ok(inode) = table.inode(ino) {
                if inode.parent == directory {
                    return true;
                }
                if inode.parent == InodeNo::ROOT {
                    return false;
                }
                ino = inode.parent;
            }
            false
        };
        let files = table.written_in.iter();
        let files = files.filter(|(above, _)| **above == directory || is_below(**above));
        let named = |ino: &InodeNo| {
            table.progress(*ino)?;
            let inode = table.inode(*ino).ok()?;
            let is_there = table.child(inode.parent, &inode.name) == Some(*ino);
            is_there.then(|| (*ino, inode.name.to_string()))
        };
        files
            .flat_map(|(_, files)| files)
            .filter_map(named)
            .collect()
    }

    /// Whether a file below `directory` is being written, so that the directory is there whatever
    /// the bucket says.
    pub(crate) fn has_written_below(&self, directory: InodeNo) -> bool {
        let is_idle = self.table.lock().written_in.is_empty();
        !is_idle && !self.written_below(directory).is_empty()
    }

    /// The new files in `directory` that are being written.
    pub(crate) fn new_names(&self, directory: InodeNo) -> Vec<Arc<str>> {
        let table = self.table.lock();
        let is_new = |ino: &InodeNo| match table.inode(*ino).map(Inode::found) {
            Ok(Found::File(version)) => version.etag.as_str().is_empty(),
            _ => false,
        };
        let files = table.written_names(directory).into_iter();
        files
            .filter(|(ino, _)| is_new(ino))
            .map(|(_, name)| name)
            .collect()
    }

    /// The files in `directory` that are being written, also those that S3 has in an older version.
    /// Raises the lookup count of each.
    pub(crate) fn hold_written(&self, directory: InodeNo) -> Vec<(InodeNo, Arc<str>)> {
        let mut table = self.table.lock();
        let files = table.written_names(directory);
        for (ino, _) in &files {
            if let Ok(inode) = table.inode_mut(*ino) {
                inode.lookups += 1;
            }
        }
        files
    }
}

impl Table {
    /// The files in `directory` that are being written, with their names.
    fn written_names(&self, directory: InodeNo) -> Vec<(InodeNo, Arc<str>)> {
        let name_of = |ino: &InodeNo| {
            self.progress(*ino)?;
            let inode = self.inode(*ino).ok()?;
            let is_there = self.child(directory, &inode.name) == Some(*ino);
            is_there.then(|| (*ino, Arc::from(&*inode.name)))
        };
        let files = self.written_in.get(&directory);
        files.into_iter().flatten().filter_map(name_of).collect()
    }

    fn adopt_directories(&mut self, names: &[&str], observed: Observed) -> Option<InodeNo> {
        let mut directory = InodeNo::ROOT;
        for name in names {
            directory = match self.child(directory, name) {
                Some(known) => known,
                None => {
                    let made = self.create(directory, name, &Found::Directory, observed);
                    self.keep(made);
                    made
                }
            };
            if self.inode(directory).ok()?.kind() != FileKind::Directory {
                return None;
            }
        }
        Some(directory)
    }

    fn begin_written(&mut self, ino: InodeNo, progress: &Arc<Progress>) {
        self.writing.insert(ino, Some(Arc::clone(progress)));
        self.link_written(ino);
    }

    /// Records `ino` in its directory as a file that is being written.
    pub(super) fn link_written(&mut self, ino: InodeNo) {
        if let Ok(&Inode { parent, .. }) = self.inode(ino) {
            self.written_in.entry(parent).or_default().insert(ino);
        }
    }

    /// Removes that record. Returns whether there was one.
    pub(super) fn unlink_written(&mut self, ino: InodeNo) -> bool {
        let Ok(&Inode { parent, .. }) = self.inode(ino) else {
            return false;
        };
        let Some(files) = self.written_in.get_mut(&parent) else {
            return false;
        };
        let was_there = files.remove(&ino);
        if files.is_empty() {
            self.written_in.remove(&parent);
        }
        was_there
    }
}
