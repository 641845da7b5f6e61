//! Files that are being written: names that mean something before S3 has it.
//!
//! From `create` or `begin_writing` until it is stored, an inode is what its writer says ([`Progress`]), whatever S3
//! says of its name: answers about it change nothing. Then it is the version that was stored. Readers and a writer
//! exclude each other, so the kernel's pages of an inode are never of two versions; who follows a writer has no pages.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::SystemTime;

use mountpoint_client::types::{ETag, Key};

use super::inode::{Body, Inode, Moment, Observed};
use super::inode_table::{Admitted, InodeTable, Table};
use super::names;
use super::namespace::{Namespace, replaced};
use super::packed::PackedVersion;
use super::page::{Listed, Page};
use super::version::{Found, Version};
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
        let at_rest = self.motions.hold();
        let key = names::file_key(&self.table.directory_prefix(parent)?, name)?;
        at_rest.check(&key)?;
        let observed = self.seen_now();
        let made = self
            .table
            .create_written(parent, name, progress, observed)?;
        drop(at_rest);
        self.changes
            .record(parent, &Arc::from(name), self.clock.now());
        let entry = self.entry(made.ino, &made.found, self.config.ttl);
        Ok((entry, key))
    }

    /// The file `ino` is written from now on, opened by its writer. Returns its key and the version it had.
    ///
    /// [`FsError::NotPermitted`] if somebody reads or writes it, [`FsError::Stale`] if its name means something else,
    /// [`FsError::Busy`] if that is being taken away.
    pub fn begin_writing(
        &self,
        ino: InodeNo,
        progress: &Arc<Progress>,
        readers: Readers,
    ) -> Result<(Key, Version), FsError> {
        let at_rest = self.motions.hold();
        let view = self.table.view(ino)?;
        let Found::File(version) = view.found else {
            return Err(FsError::IsADirectory);
        };
        if !view.is_attached {
            return Err(replaced(&view.name));
        }
        let key = names::file_key(&self.table.directory_prefix(view.parent)?, &view.name)?;
        at_rest.check(&key)?;
        self.table.begin_writing(ino, progress, readers)?;
        self.table.count_writer(ino);
        Ok((key, version))
    }

    /// The file `ino`, which was stored, is written again by a writer that has it open. Who follows it does not hinder the
    /// writer, nor who reads it when it is empty: the kernel has no page of it.
    ///
    /// [`FsError::Stale`] if the file is not `key` any more: it was renamed, removed or replaced through this mount. Its
    /// writer would store it under a name that is not its own. [`FsError::Busy`] while that is being done.
    pub fn resume_writing(
        &self,
        (ino, key): (InodeNo, &Key),
        progress: &Arc<Progress>,
    ) -> Result<(), FsError> {
        let at_rest = self.motions.hold();
        let view = self.table.view(ino)?;
        let prefix = self.table.directory_prefix(view.parent)?;
        if self.table.is_gone(ino) || names::file_key(&prefix, &view.name)? != *key {
            return Err(FsError::Stale(format!(
                "{key} was renamed, removed or replaced since it was stored: what is written behind that is not stored; who \
                 opens the file again can go on"
            )));
        }
        at_rest.check(key)?;
        self.table.begin_writing(ino, progress, Readers::Followers)
    }

    /// A write of the file `ino`, which is only read, was refused. If it came from a mapping, the kernel keeps the page as it
    /// was written: whoever opens the file next is to see the object.
    pub fn write_refused(&self, ino: InodeNo) {
        self.table.drop_pages(ino);
    }

    /// Whether the file `ino` has bytes now, as its writer says it, or S3.
    #[must_use]
    pub fn has_bytes(&self, ino: InodeNo) -> bool {
        let view = self.table.view(ino);
        view.is_ok_and(|view| matches!(view.found, Found::File(version) if version.size > 0))
    }

    /// S3 has the file `ino`, as its writer with `progress` wrote it.
    pub fn stored(&self, ino: InodeNo, progress: &Arc<Progress>, size: u64, etag: ETag) {
        let observed = self.seen_now();
        self.table
            .stored(ino, progress, &written(progress, size, etag), observed);
        if let Ok(view) = self.table.view(ino)
            && let Ok(prefix) = self.table.directory_prefix(view.parent)
        {
            self.changes
                .record(view.parent, &view.name, self.clock.now());
            self.recent.changed(&prefix, &view.name);
            if let Ok(key) = names::file_key(&prefix, &view.name) {
                self.details.forget(&key);
            }
        }
    }

    /// S3 has the beginning of the file `ino`, which its writer with `progress` goes on with.
    pub fn grown(&self, ino: InodeNo, progress: &Arc<Progress>, size: u64, etag: ETag) {
        let observed = self.seen_now();
        self.table
            .grown(ino, progress, &written(progress, size, etag), observed);
    }

    /// What the writer with `progress` wrote to `ino` is lost: its name means again what S3 says, and the kernel is told.
    pub fn writing_failed(&self, ino: InodeNo, progress: &Arc<Progress>) {
        if self.table.ends(ino, progress) {
            self.is_replaced(ino);
        }
    }

    /// The writer with `progress` is done with `ino` and has changed nothing.
    pub fn unchanged(&self, ino: InodeNo, progress: &Arc<Progress>) {
        self.table.ends(ino, progress);
    }

    /// A handle that was open for writing was closed.
    pub fn close_writer(&self, ino: InodeNo) {
        self.table.close_writer(ino);
    }

    /// A handle was opened that follows what the writer of `ino` with `progress` stores. `false`, and then it was not, if
    /// the file is not open for writing any more.
    ///
    /// [`FsError::NotPermitted`] if another writer replaces the file, [`FsError::Stale`] if one has: what was opened is no
    /// beginning of what that stores.
    pub fn opened_following(
        &self,
        ino: InodeNo,
        progress: &Arc<Progress>,
    ) -> Result<bool, FsError> {
        let mut table = self.table.table.lock();
        let Some(writing) = table.writing.get(&ino) else {
            return Ok(false);
        };
        let name = &table.inode(ino)?.name;
        let is_its = |of: &Arc<Progress>| Arc::ptr_eq(of, progress);
        if !writing.progress.as_ref().is_none_or(is_its) {
            return Err(being_written(name));
        }
        if !writing.stored_by.as_ref().is_some_and(is_its) {
            return Err(replaced(name));
        }
        table.writing.entry(ino).or_default().followers += 1;
        table.inode_mut(ino)?.openers += 1;
        Ok(true)
    }

    /// A handle that followed a writer of `ino` was closed.
    pub fn close_following(&self, ino: InodeNo) {
        // The writer may have been closed before.
        if let Some(writing) = self.table.table.lock().writing.get_mut(&ino) {
            writing.followers = writing.followers.saturating_sub(1);
        }
        self.table.close(ino);
    }

    /// The version of the file `ino` that was stored last, whatever is being written to it.
    #[must_use]
    pub fn stored_version(&self, ino: InodeNo) -> Option<(Key, Version)> {
        let view = self.table.view(ino).ok()?;
        let prefix = self.table.directory_prefix(view.parent).ok()?;
        let key = names::file_key(&prefix, &view.name).ok()?;
        match self.table.table.lock().inode(ino).ok()?.found() {
            Found::File(version) => Some((key, version)),
            Found::Directory => None,
        }
    }

    /// Whether the file `ino` is being written, and S3 does not have it yet.
    #[must_use]
    pub fn is_being_written(&self, ino: InodeNo) -> bool {
        self.table.table.lock().is_written(ino)
    }

    /// What is being written of the file `ino`.
    #[must_use]
    pub fn progress(&self, ino: InodeNo) -> Option<Arc<Progress>> {
        self.table.table.lock().progress(ino).map(Arc::clone)
    }

    /// The file `name` in `directory`, if it is being written.
    #[must_use]
    pub fn written_child(&self, directory: InodeNo, name: &OsStr) -> Option<InodeNo> {
        let ino = self.table.child(directory, name.to_str()?)?;
        self.is_being_written(ino).then_some(ino)
    }

    /// The files below `directory` that are being written, with their names.
    #[must_use]
    pub fn written_below(&self, directory: InodeNo) -> Vec<(InodeNo, String)> {
        self.table.written_below(directory)
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
        let page = Page::some(entries.collect(), self.clock.now());
        (!page.entries.is_empty()).then_some(page)
    }

    /// An answer that was asked for now, that vouches for no open.
    fn seen_now(&self) -> Observed {
        let now = self.clock.now();
        Observed {
            asked: now.into(),
            valid_until: (now + self.config.ttl).into(),
            fresh_until: Moment::START,
        }
    }
}

/// A file that is open for writing.
#[derive(Debug, Default)]
pub(super) struct Writing {
    /// Handles open for writing.
    handles: u32,
    /// Handles open for reading that follow what is stored of it.
    followers: u32,
    /// While S3 does not have all of it.
    progress: Option<Arc<Progress>>,
    /// What the version was that S3 has, as its writer said it; `None` if none of these handles stored it.
    stored_by: Option<Arc<Progress>>,
    /// Its name was taken from it through this mount.
    is_gone: bool,
}

/// Who may have a file open for reading when it begins to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Nobody.
    None,
    /// Only the handle that begins to write. Its opener is to be given back when that has succeeded.
    Itself,
    /// Those that follow what its writer stores, and those of an empty file.
    Followers,
}

impl InodeTable {
    /// The inode that `name` in `directory` means, if it is being written; its lookup count rises by one.
    pub(super) fn admit_written(
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

    fn create_written(
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
        let progress = Some(Arc::clone(progress));
        table.writing.insert(
            ino,
            Writing {
                handles: 1,
                progress,
                ..Writing::default()
            },
        );
        table.admitted(ino)
    }

    fn begin_writing(
        &self,
        ino: InodeNo,
        progress: &Arc<Progress>,
        readers: Readers,
    ) -> Result<(), FsError> {
        let mut table = self.table.lock();
        if table.is_written_with(ino, progress) {
            return Ok(());
        }
        let inode = table.inode(ino)?;
        if table.is_written(ino) {
            return Err(being_written(&inode.name));
        }
        let is_empty = || matches!(inode.found(), Found::File(version) if version.size == 0);
        let may_be_read = match readers {
            Readers::None => inode.openers == 0,
            Readers::Itself => inode.openers <= 1,
            Readers::Followers => {
                let writing = table.writing.get(&ino);
                let followers = writing.map_or(0, |writing| writing.followers);
                inode.openers <= followers || is_empty()
            }
        };
        if !may_be_read {
            return Err(FsError::NotPermitted(format!(
                "{} is open for reading: it can be written when it is closed",
                inode.name
            )));
        }
        table.writing.entry(ino).or_default().progress = Some(Arc::clone(progress));
        Ok(())
    }

    fn is_gone(&self, ino: InodeNo) -> bool {
        let table = self.table.lock();
        table.writing.get(&ino).is_some_and(|it| it.is_gone)
    }

    fn count_writer(&self, ino: InodeNo) {
        let mut table = self.table.lock();
        table.writing.entry(ino).or_default().handles += 1;
    }

    fn stored(
        &self,
        ino: InodeNo,
        progress: &Arc<Progress>,
        version: &Version,
        observed: Observed,
    ) {
        let mut table = self.table.lock();
        if table.ends(ino, progress) {
            table.set_version(ino, progress, version, observed);
        }
    }

    fn grown(&self, ino: InodeNo, progress: &Arc<Progress>, version: &Version, observed: Observed) {
        let mut table = self.table.lock();
        if table.is_written_with(ino, progress) {
            table.set_version(ino, progress, version, observed);
        }
    }

    /// The writer with `progress` has come to its end, if it is still the one.
    fn ends(&self, ino: InodeNo, progress: &Arc<Progress>) -> bool {
        self.table.lock().ends(ino, progress)
    }

    fn close_writer(&self, ino: InodeNo) {
        let mut table = self.table.lock();
        let Some(writing) = table.writing.get_mut(&ino) else {
            return;
        };
        assert!(
            writing.handles > 0,
            "{ino:?} is closed more often than it was opened"
        );
        writing.handles -= 1;
        if writing.handles == 0 {
            table.writing.remove(&ino);
            table.drop_unused(ino);
        }
    }

    /// The name of `directory` is gone, said an answer that was asked for at `asked`.
    pub(super) fn detach_unless_newer(&self, directory: InodeNo, name: &str, asked: Moment) {
        let mut table = self.table.lock();
        let Some(ino) = table.child(directory, name) else {
            return;
        };
        let is_newer = |inode: &Inode| inode.observed.asked > asked;
        if !table.is_written(ino) && !table.inode(ino).is_ok_and(is_newer) {
            table.detach(ino);
        }
    }

    fn written_below(&self, directory: InodeNo) -> Vec<(InodeNo, String)> {
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
        let named = |(ino, writing): (&InodeNo, &Writing)| {
            writing.progress.as_ref()?;
            let inode = table.inode(*ino).ok()?;
            let is_there = table.child(inode.parent, &inode.name) == Some(*ino);
            (is_there && is_below(*ino)).then(|| (*ino, inode.name.to_string()))
        };
        table.writing.iter().filter_map(named).collect()
    }

    fn written_names(&self, directory: InodeNo) -> Vec<Arc<str>> {
        let table = self.table.lock();
        let name_of = |(ino, writing): (&InodeNo, &Writing)| {
            writing.progress.as_ref()?;
            let inode = table.inode(*ino).ok()?;
            let is_new = match inode.found() {
                Found::File(version) => version.etag.as_str().is_empty(),
                Found::Directory => false,
            };
            let is_there = table.child(directory, &inode.name) == Some(*ino);
            (is_new && is_there).then(|| Arc::from(&*inode.name))
        };
        let mut names: Vec<_> = table.writing.iter().filter_map(name_of).collect();
        names.sort();
        names
    }
}

impl Table {
    /// Whether `ino` is being written, and S3 does not have all of it.
    pub(super) fn is_written(&self, ino: InodeNo) -> bool {
        self.progress(ino).is_some()
    }

    fn progress(&self, ino: InodeNo) -> Option<&Arc<Progress>> {
        self.writing.get(&ino)?.progress.as_ref()
    }

    /// What `inode` is, as its writer says it, or S3.
    pub(super) fn found(&self, inode: &Inode) -> Found {
        match self.progress(inode.ino) {
            Some(progress) => version_of(progress),
            None => inode.found(),
        }
    }

    /// The bucket holds `version` of the file `ino`, as its writer with `progress` knows.
    fn set_version(
        &mut self,
        ino: InodeNo,
        progress: &Arc<Progress>,
        version: &Version,
        observed: Observed,
    ) {
        if let Some(writing) = self.writing.get_mut(&ino) {
            writing.stored_by = Some(Arc::clone(progress));
        }
        if let Ok(inode) = self.inode_mut(ino) {
            inode.body = Body::File(PackedVersion::pack(version));
            inode.observed = observed;
            // What the kernel has of it is another version, and not as long.
            inode.was_opened = false;
        }
    }

    /// The name of `ino` means something else, or nothing, through this mount: who has the file open for writing cannot go on.
    pub(super) fn take_name(&mut self, ino: InodeNo) {
        if let Some(writing) = self.writing.get_mut(&ino) {
            writing.is_gone = true;
        }
        self.detach(ino);
    }

    fn is_written_with(&self, ino: InodeNo, progress: &Arc<Progress>) -> bool {
        self.progress(ino)
            .is_some_and(|written| Arc::ptr_eq(written, progress))
    }

    /// The writer with `progress` has come to its end, if it is still the one.
    fn ends(&mut self, ino: InodeNo, progress: &Arc<Progress>) -> bool {
        let is_its = self.is_written_with(ino, progress);
        if is_its && let Some(writing) = self.writing.get_mut(&ino) {
            writing.progress = None;
        }
        is_its
    }
}

/// A file as its writer says it: S3 has no version of it.
fn version_of(progress: &Progress) -> Found {
    Found::File(written(progress, progress.size(), ETag::from_header("")))
}

/// The version of a file that its writer has written, as far as `size`.
fn written(progress: &Progress, size: u64, etag: ETag) -> Version {
    Version {
        size,
        etag,
        mtime: progress.mtime(),
        is_archived: false,
    }
}

/// Why a file that is being written cannot be had.
#[must_use]
pub fn being_written(name: &str) -> FsError {
    FsError::NotPermitted(format!(
        "{name} is being written: it can be opened, removed and renamed when its writer has closed it"
    ))
}
