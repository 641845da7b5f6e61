//! Files that are being written: names that mean something before S3 has it.
//!
//! From `create` or `begin_writing` until it is stored, an inode is what its writer says ([`Progress`]), whatever S3
//! says of its name: answers about it change nothing. Then it is the version that was stored. Readers and a writer
//! exclude each other, so the kernel's pages of an inode are never of two versions.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::SystemTime;

use mountpoint_client::types::{ETag, Key};

use super::inode::{Body, Moment, Observed};
use super::inode_table::{InodeTable, Table, View};
use super::names;
use super::namespace::{Namespace, replaced};
use super::page::{Listed, Page};
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
        let view = self
            .table
            .create_written(parent, &Arc::from(name), progress, observed)?;
        Ok((self.entry(&view, FILE_TTL), key))
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
            self.recent.distrust(view.parent, &view.name);
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

    /// The new files in `directory` that are being written, as a page of a listing; `None` if there are none.
    #[must_use]
    pub fn written_page(&self, directory: InodeNo) -> Option<Page> {
        let names = self.table.written_names(directory);
        let entries = names.into_iter().map(|name| Listed {
            name,
            found: Found::File(Version {
                size: 0,
                etag: ETag::from_header(""),
                mtime: SystemTime::UNIX_EPOCH,
                is_archived: false,
            }),
            is_certain: false,
        });
        let page = Page {
            entries: entries.collect(),
            asked: self.clock.now(),
        };
        (!page.entries.is_empty()).then_some(page)
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
    ) -> Result<Option<View>, FsError> {
        let mut table = self.table.lock();
        let Some(ino) = table.child(directory, name) else {
            return Ok(None);
        };
        if !table.written.contains_key(&ino) {
            return Ok(None);
        }
        table.inode_mut(ino)?.lookups += 1;
        table.view(ino).map(Some)
    }

    fn create_written(
        &self,
        directory: InodeNo,
        name: &Arc<str>,
        progress: &Arc<Progress>,
        observed: Observed,
    ) -> Result<View, FsError> {
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
        table.view(ino)
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
            inode.body = Body::File(version);
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

    /// The name of `directory` is gone, said an answer that was asked for at `asked`.
    pub(super) fn detach_unless_newer(&self, directory: InodeNo, name: &str, asked: Moment) {
        let mut table = self.table.lock();
        let Some(ino) = table.child(directory, name) else {
            return;
        };
        let is_newer = table.written.contains_key(&ino)
            || table
                .inode(ino)
                .is_ok_and(|inode| inode.observed.asked > asked);
        if !is_newer {
            table.detach(ino);
        }
    }

    fn written_names(&self, directory: InodeNo) -> Vec<Arc<str>> {
        let table = self.table.lock();
        let Ok(Body::Directory(children)) = table.inode(directory).map(|inode| &inode.body) else {
            return Vec::new();
        };
        let is_new = |ino: &InodeNo| match table.inode(*ino).map(|inode| &inode.body) {
            Ok(Body::File(version)) => version.etag.as_str().is_empty(),
            Ok(Body::Directory(_)) | Err(_) => false,
        };
        let mut names: Vec<_> = children
            .iter()
            .filter(|(_, ino)| table.written.contains_key(ino) && is_new(ino))
            .map(|(name, _)| Arc::clone(name))
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
