//! Files that are being written: names that mean something before S3 has it.
//!
//! From `create` or `begin_writing` until it is stored, an inode is what its writer says
//! ([`Progress`]), whatever S3 says of its name: answers about it change nothing. Then it is the
//! version that was stored.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::sync::Arc;
use std::time::SystemTime;

use mountpoint_client::types::{ETag, Key};

use super::Namespace;
use crate::namespace::inodes::table::View;
use crate::namespace::inodes::{Observed, written};
use crate::namespace::listing::page::{Listed, Page};
use crate::namespace::names;
use crate::namespace::refusals::replaced;
use crate::namespace::version::{Found, Version};
use crate::operation::{Entry, FsError, InodeNo, Progress};

impl Namespace {
    /// Makes `name` in `parent` a file that is being written, opened by its writer; its lookup
    /// count is one.
    pub fn create(
        &self,
        parent: InodeNo,
        name: &OsStr,
        progress: &Arc<Progress>,
    ) -> Result<Created, FsError> {
        let name = names::parse(name)?;
        let at_rest = self.key_locks.hold();
        let prefix = self.table.directory_prefix(parent)?;
        let key = names::file_key(&prefix, name)?;
        at_rest.check(&key)?;
        self.hidden.check(&key)?;
        let observed = self.seen_now();
        let made = self
            .table
            .create_written(parent, name, progress, observed)?;
        drop(at_rest);
        self.known.changed(key.as_str());
        self.names_changed(parent);
        self.resolver.batching.made(&prefix, self.clock.now());
        Ok(Created {
            entry: self.entry(made.ino, &made.found, self.config.ttl),
            is_unasked: self.known.is_unasked(&key),
            key,
        })
    }

    /// The file `ino` is written from now on, opened by its writer. Returns its key and the version
    /// it had.
    ///
    /// [`FsError::NotPermitted`] if somebody writes it, [`FsError::Stale`] if its name
    /// means something else, [`FsError::InMotion`] if that is being taken away.
    pub fn begin_writing(
        &self,
        ino: InodeNo,
        progress: &Arc<Progress>,
    ) -> Result<(Key, Version), FsError> {
        let at_rest = self.key_locks.hold();
        let view = self.table.view(ino)?;
        let Found::File(version) = view.found else {
            return Err(FsError::IsADirectory);
        };
        if !view.is_attached {
            return Err(replaced(&view.name));
        }
        let key = names::file_key(&self.table.directory_prefix(view.parent)?, &view.name)?;
        at_rest.check(&key)?;
        self.table.begin_writing(ino, progress)?;
        Ok((key, version))
    }

    /// A write of the file `ino`, which is only read, was refused. If it came from a mapping, the
    /// kernel keeps the page as it was written: the next open is to see the object.
    pub fn write_refused(&self, ino: InodeNo) {
        let _ = self.table.drop_pages(ino);
    }

    /// Has the next open of `ino` drop the kernel's pages. Returns whether it may have some.
    #[must_use]
    pub fn drop_pages(&self, ino: InodeNo) -> bool {
        self.table.drop_pages(ino)
    }

    /// Whether the file `ino` has bytes now, as its writer says it, or S3.
    #[must_use]
    pub fn has_bytes(&self, ino: InodeNo) -> bool {
        let view = self.table.view(ino);
        view.is_ok_and(|view| matches!(view.found, Found::File(version) if version.size > 0))
    }

    /// S3 has the staged file `ino` as it was a moment ago; it stays open.
    pub fn stored_staged(
        &self,
        ino: InodeNo,
        progress: &Arc<Progress>,
        (size, etag): (u64, ETag),
        mtime: Option<SystemTime>,
    ) {
        let observed = self.seen_now();
        let version = written(progress, size, etag);
        self.table
            .stored_staged(ino, progress, (&version, mtime), observed);
        self.settle_stored(ino);
    }

    /// From now on older answers about the name of `ino` are not believed.
    fn settle_stored(&self, ino: InodeNo) {
        if let Ok(view) = self.table.view(ino)
            && let Ok(prefix) = self.table.directory_prefix(view.parent)
            && let Ok(key) = names::file_key(&prefix, &view.name)
        {
            self.known.changed(key.as_str());
            self.details.forget(&key);
        }
    }

    /// The bytes that the writer with `progress` wrote to `ino` are lost: its name means S3's
    /// object, and the kernel is told.
    pub fn writing_failed(&self, ino: InodeNo, progress: &Arc<Progress>) {
        if self.table.ends(ino, progress) {
            if let Ok(view) = self.table.view(ino) {
                self.names_changed(view.parent);
            }
            self.is_replaced(ino);
        }
    }

    /// The name of `ino` means another host's object: its writer has written nothing.
    ///
    /// The writer with `progress` cannot go on, and the kernel is told to look the name up again.
    pub fn gave_way(&self, ino: InodeNo, progress: &Arc<Progress>) {
        if self.table.gives_way(ino, progress) {
            self.is_replaced(ino);
        }
    }

    /// The writer with `progress` is done with `ino` and has changed nothing.
    pub fn unchanged(&self, ino: InodeNo, progress: &Arc<Progress>) {
        self.table.ends(ino, progress);
    }

    /// A handle of the staged file `ino` was opened. Returns whether the kernel's pages of it are
    /// right.
    #[must_use]
    pub fn opened_staged(&self, ino: InodeNo) -> bool {
        self.table.opened_staged(ino)
    }

    /// Whether a handle of `ino` is open that is not its writer's.
    #[must_use]
    pub fn has_readers(&self, ino: InodeNo) -> bool {
        self.table.view(ino).is_ok_and(|view| view.openers > 0)
    }

    /// The time of the last change of `ino`, as last known.
    #[must_use]
    pub fn known_mtime(&self, ino: InodeNo) -> Option<SystemTime> {
        let known = self.table.posix(ino).and_then(|posix| posix.mtime);
        known.or_else(|| Some(self.table.stored_version(ino)?.mtime))
    }

    /// The inode that `name` in `directory` was last known to be.
    #[must_use]
    pub fn known_child(&self, directory: InodeNo, name: &OsStr) -> Option<InodeNo> {
        self.table.child(directory, name.to_str()?)
    }

    /// A handle that was open for writing was closed.
    pub fn close_writer(&self, ino: InodeNo) {
        self.table.close_writer(ino);
    }

    /// The version of the file `ino` that was stored last, whatever is being written to it.
    #[must_use]
    pub fn stored_version(&self, ino: InodeNo) -> Option<(Key, Version)> {
        let view = self.table.view(ino).ok()?;
        let prefix = self.table.directory_prefix(view.parent).ok()?;
        let key = names::file_key(&prefix, &view.name).ok()?;
        self.table.stored_version(ino).map(|version| (key, version))
    }

    /// Whether `ino` has an open handle.
    #[must_use]
    pub fn is_open(&self, ino: InodeNo) -> bool {
        let view = self.table.view(ino);
        view.is_ok_and(|view| view.openers > 0 || view.is_written)
    }

    /// Progress of the writer of the file `ino`.
    #[must_use]
    pub fn progress(&self, ino: InodeNo) -> Option<Arc<Progress>> {
        self.table.progress(ino)
    }

    /// The files below `directory` that are being written, with their names.
    #[must_use]
    pub fn written_below(&self, directory: InodeNo) -> Vec<(InodeNo, String)> {
        self.table.written_below(directory)
    }

    /// The files in `directory` that are being written, new or staged: a listing that is made from
    /// now on may lack them. The lookup count of each is raised, so that it stays known.
    #[must_use]
    pub fn hold_written(&self, directory: InodeNo) -> Vec<(InodeNo, Arc<str>)> {
        self.table.hold_written(directory)
    }

    /// The new files in `directory` that are being written, and those of `before` that are there
    /// still, as a page of a listing; `None` if there are none.
    #[must_use]
    pub fn written_page(&self, directory: InodeNo, before: &HashSet<Arc<str>>) -> Option<Page> {
        let mut names: BTreeSet<_> = before.iter().cloned().collect();
        names.extend(self.table.new_names(directory));
        let entries = names.into_iter().filter_map(|name| {
            let ino = self.table.child(directory, &name)?;
            let found = self.table.view(ino).ok()?.found;
            matches!(found, Found::File(_)).then_some(Listed {
                name,
                found,
                is_certain: false,
            })
        });
        let page = Page::some(entries.collect(), self.clock.now());
        (!page.entries.is_empty()).then_some(page)
    }

    /// Makes the file `key`, which an earlier process wrote and the bucket lacks, one that is being
    /// written, with its directories. The bucket has it as `version`, if at all.
    ///
    /// `None` if the mount cannot show the key, or one of its names means something else.
    #[must_use]
    pub fn adopt(
        &self,
        key: &Key,
        progress: &Arc<Progress>,
        version: Option<&Version>,
    ) -> Option<InodeNo> {
        let prefix = self.table.directory_prefix(InodeNo::ROOT).ok()?;
        let names: Vec<_> = key.as_str().strip_prefix(&prefix)?.split('/').collect();
        if !names.iter().all(|name| names::is_visible(name)) {
            return None;
        }
        let observed = self.seen_now();
        self.table
            .adopt_written(&names, progress, version, observed)
    }

    /// The object `key` is a copy with equal bytes of the version `before`, which the mount knew
    /// under the key's old name: it has the version `now`.
    pub fn renamed_version(&self, key: &Key, before: &ETag, now: &ETag) {
        let Some((ino, view)) = self.file_of(key) else {
            return;
        };
        if let Found::File(known) = view.found
            && known.etag.matches(before)
        {
            let etag = now.clone();
            let version = Version { etag, ..known };
            // It may have been dropped since.
            self.table.replace(ino, &version, view.observed).ok();
        }
    }

    /// The inode that has the name of `key`.
    fn file_of(&self, key: &Key) -> Option<(InodeNo, View)> {
        let prefix = self.table.directory_prefix(InodeNo::ROOT).ok()?;
        let mut ino = InodeNo::ROOT;
        for name in key.as_str().strip_prefix(&prefix)?.split('/') {
            ino = self.table.child(ino, name)?;
        }
        self.table.view(ino).ok().map(|view| (ino, view))
    }

    /// Makes the directory `key` a kept one, which an earlier process made and the bucket lacks,
    /// with those above.
    ///
    /// `None` if the mount cannot show the key, or one of its names means a file.
    #[must_use]
    pub fn adopt_directory(&self, key: &Key) -> Option<InodeNo> {
        let prefix = self.table.directory_prefix(InodeNo::ROOT).ok()?;
        let names = key.as_str().strip_prefix(&prefix)?.strip_suffix('/')?;
        let names: Vec<_> = names.split('/').collect();
        if !names.iter().all(|name| names::is_visible(name)) {
            return None;
        }
        self.table.adopt_directories(&names, self.seen_now())
    }

    /// The directory `prefix`, if it has an inode.
    #[must_use]
    pub fn known_directory(&self, prefix: &str) -> Option<InodeNo> {
        let root = self.table.directory_prefix(InodeNo::ROOT).ok()?;
        let mut names = prefix.strip_prefix(&root)?.strip_suffix('/')?.split('/');
        names.try_fold(InodeNo::ROOT, |directory, name| {
            self.table.child(directory, name)
        })
    }

    /// Keeps the directory `ino`: the bucket lacks the marker that says it is there.
    pub fn keep_directory(&self, ino: InodeNo) {
        self.table.keep(ino);
    }

    /// The bucket has a marker of the directory `ino`, which need not be kept. No answer from
    /// before that is believed.
    pub fn marked(&self, ino: InodeNo) {
        self.settle_stored(ino);
        self.table.unkeep(ino);
    }

    /// Whether one more directory can be kept.
    #[must_use]
    pub fn may_keep(&self) -> bool {
        self.table.may_keep()
    }

    /// An answer that was asked for now.
    fn seen_now(&self) -> Observed {
        let now = self.clock.now();
        self.observed(now, now)
    }
}

/// A file that was made and is to be written.
#[derive(Debug)]
pub struct Created {
    /// Its inode.
    pub entry: Entry,
    /// Its object.
    pub key: Key,
    /// Whether S3 was not asked about the name just before: it is to be asked before the file is
    /// stored, unless it refuses by itself to replace an object.
    pub is_unasked: bool,
}
