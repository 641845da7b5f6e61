//! Files that are being written: names that mean something before S3 has it.
//!
//! From `create` or `begin_writing` until it is stored, an inode is what its writer says ([`Progress`]), whatever S3
//! says of its name: answers about it change nothing. Then it is the version that was stored. Readers and a writer
//! exclude each other, so the kernel's pages of an inode are never of two versions.

use std::ffi::OsStr;
use std::sync::Arc;

use mountpoint_client::types::{ETag, Key};

use super::inode::{Body, Moment, Observed};
use super::inode_table::{InodeTable, Table};
use super::names;
use super::namespace::{Namespace, replaced};
use super::packed::PackedVersion;
use super::version::{Found, Version};
use crate::config::limits::FILE_TTL;
use crate::operation::{Entry, FileKind, FsError, InodeNo, Progress};

impl Namespace {
    /// Makes `name` in `parent` a file that is being written, opened by its writer; its lookup count is one.
    pub fn create(
        &self,
        parent: InodeNo,
        name: &OsStr,
        progress: &Arc<Progress>,
    ) -> Result<(Entry, Key), FsError> {
        let name = names::parse(name)?;
        let key = names::file_key(&self.table.directory_prefix(parent)?, name)?;
        let observed = self.seen_now();
        let ino = self
            .table
            .create_written(parent, name, progress, observed)?;
        self.changes
            .record(parent, &Arc::from(name), self.clock.now());
        Ok((self.written_entry(ino, progress), key))
    }

    /// The file `ino` is written from now on, opened by its writer. Returns its key and the version it had.
    ///
    /// [`FsError::NotPermitted`] if somebody reads or writes it, [`FsError::Stale`] if its name means something else.
    pub fn begin_writing(
        &self,
        ino: InodeNo,
        progress: &Arc<Progress>,
    ) -> Result<(Key, Version), FsError> {
        let view = self.table.view(ino)?;
        let Found::File(version) = view.found else {
            return Err(FsError::IsADirectory);
        };
        if !view.is_attached {
            return Err(replaced(&view.name));
        }
        let key = names::file_key(&self.table.directory_prefix(view.parent)?, &view.name)?;
        self.table.begin_writing(ino, progress)?;
        self.table.count_writer(ino)?;
        Ok((key, version))
    }

    /// The file `ino`, which was stored, is written again by a writer that has it open.
    pub fn resume_writing(&self, ino: InodeNo, progress: &Arc<Progress>) -> Result<(), FsError> {
        self.table.begin_writing(ino, progress)
    }

    /// S3 has the file `ino`, as its writer with `progress` wrote it.
    pub fn stored(&self, ino: InodeNo, progress: &Arc<Progress>, size: u64, etag: ETag) {
        let version = Version {
            size,
            etag,
            mtime: progress.mtime(),
            is_archived: false,
        };
        let observed = self.seen_now();
        self.table.stored(ino, progress, version, observed);
        if let Ok(view) = self.table.view(ino) {
            self.changes
                .record(view.parent, &view.name, self.clock.now());
            if let Ok(prefix) = self.table.directory_prefix(view.parent) {
                self.recent.distrust(&prefix, &view.name);
            }
        }
    }

    /// What the writer with `progress` wrote to `ino` is lost: its name means again what S3 says.
    pub fn writing_failed(&self, ino: InodeNo, progress: &Arc<Progress>) {
        self.table.writing_failed(ino, progress);
    }

    /// The writer with `progress` is done with `ino` and has changed nothing.
    pub fn unchanged(&self, ino: InodeNo, progress: &Arc<Progress>) {
        self.table.unchanged(ino, progress);
    }

    /// A handle that was open for writing was closed.
    pub fn close_writer(&self, ino: InodeNo) {
        self.table.close_writer(ino);
    }

    /// Whether the file `ino` is being written, and S3 does not have it yet.
    #[must_use]
    pub fn is_being_written(&self, ino: InodeNo) -> bool {
        self.table
            .view(ino)
            .is_ok_and(|view| view.written.is_some())
    }

    /// What is being written of the file `ino`.
    #[must_use]
    pub fn progress(&self, ino: InodeNo) -> Option<Arc<Progress>> {
        self.table.view(ino).ok()?.written
    }

    /// The file `name` in `directory`, if it is being written.
    #[must_use]
    pub fn written_child(&self, directory: InodeNo, name: &OsStr) -> Option<InodeNo> {
        let ino = self.table.child(directory, name.to_str()?)?;
        self.is_being_written(ino).then_some(ino)
    }

    /// The names in `directory` that are being written.
    #[must_use]
    pub fn written_names(&self, directory: InodeNo) -> Vec<Arc<str>> {
        self.table.written_names(directory)
    }

    /// An answer that was asked for now, that vouches for no open.
    fn seen_now(&self) -> Observed {
        let now = self.clock.now();
        Observed {
            asked: now.into(),
            valid_until: (now + FILE_TTL).into(),
            fresh_until: Moment::START,
        }
    }
}

impl InodeTable {
    /// The inode that `name` in `directory` means, if it is being written; its lookup count rises by one.
    pub(super) fn admit_written(
        &self,
        directory: InodeNo,
        name: &str,
    ) -> Result<Option<(InodeNo, Arc<Progress>)>, FsError> {
        let mut table = self.table.lock();
        let Some(ino) = table.child(directory, name) else {
            return Ok(None);
        };
        let Some(progress) = table.written.get(&ino).map(Arc::clone) else {
            return Ok(None);
        };
        table.inode_mut(ino)?.lookups += 1;
        Ok(Some((ino, progress)))
    }

    fn create_written(
        &self,
        directory: InodeNo,
        name: &str,
        progress: &Arc<Progress>,
        observed: Observed,
    ) -> Result<InodeNo, FsError> {
        let mut table = self.table.lock();
        if table.inode(directory)?.kind() != FileKind::Directory {
            return Err(FsError::NotADirectory);
        }
        if let Some(known) = table.child(directory, name) {
            if table.written.contains_key(&known) {
                return Err(being_written(name));
            }
            table.detach(known);
        }
        let empty = Found::File(Version {
            size: 0,
            etag: ETag::from_header(""),
            mtime: progress.mtime(),
            is_archived: false,
        });
        let ino = table.create(directory, name, &empty, observed);
        let inode = table.inode_mut(ino)?;
        inode.lookups += 1;
        inode.writers += 1;
        table.written.insert(ino, Arc::clone(progress));
        Ok(ino)
    }

    fn begin_writing(&self, ino: InodeNo, progress: &Arc<Progress>) -> Result<(), FsError> {
        let mut table = self.table.lock();
        if table.is_written_with(ino, progress) {
            return Ok(());
        }
        let inode = table.inode(ino)?;
        if table.written.contains_key(&ino) {
            return Err(being_written(&inode.name));
        }
        if inode.openers > 0 {
            return Err(FsError::NotPermitted(format!(
                "{} is open for reading: it can be written when it is closed",
                inode.name
            )));
        }
        table.written.insert(ino, Arc::clone(progress));
        Ok(())
    }

    fn count_writer(&self, ino: InodeNo) -> Result<(), FsError> {
        self.table.lock().inode_mut(ino)?.writers += 1;
        Ok(())
    }

    fn stored(&self, ino: InodeNo, progress: &Arc<Progress>, version: Version, observed: Observed) {
        let mut table = self.table.lock();
        if !table.is_written_with(ino, progress) {
            return;
        }
        table.written.remove(&ino);
        if let Ok(inode) = table.inode_mut(ino) {
            inode.body = Body::File(PackedVersion::pack(&version));
            inode.observed = observed;
        }
    }

    fn writing_failed(&self, ino: InodeNo, progress: &Arc<Progress>) {
        let mut table = self.table.lock();
        if table.is_written_with(ino, progress) {
            table.written.remove(&ino);
            table.detach(ino);
        }
    }

    fn unchanged(&self, ino: InodeNo, progress: &Arc<Progress>) {
        let mut table = self.table.lock();
        if table.is_written_with(ino, progress) {
            table.written.remove(&ino);
        }
    }

    fn close_writer(&self, ino: InodeNo) {
        let mut table = self.table.lock();
        if let Ok(inode) = table.inode_mut(ino) {
            assert!(
                inode.writers > 0,
                "{ino:?} is closed more often than it was opened"
            );
            inode.writers -= 1;
            table.drop_unused(ino);
        }
    }

    /// The name of `ino` is no longer known to mean it, unless it is being written.
    pub(super) fn detach_unless_written(&self, ino: InodeNo) {
        let mut table = self.table.lock();
        if !table.written.contains_key(&ino) {
            table.detach(ino);
        }
    }

    fn written_names(&self, directory: InodeNo) -> Vec<Arc<str>> {
        let table = self.table.lock();
        let written = table
            .written
            .keys()
            .filter_map(|ino| table.inode(*ino).ok());
        let mut names: Vec<Arc<str>> = written
            .filter(|inode| inode.parent == directory)
            .map(|inode| Arc::from(&*inode.name))
            .collect();
        names.sort();
        names
    }
}

impl Table {
    fn is_written_with(&self, ino: InodeNo, progress: &Arc<Progress>) -> bool {
        let written = self.written.get(&ino);
        written.is_some_and(|written| Arc::ptr_eq(written, progress))
    }
}

pub(super) fn being_written(name: &str) -> FsError {
    FsError::NotPermitted(format!(
        "{name} is being written: it can be opened, removed and renamed when its writer has closed it"
    ))
}
