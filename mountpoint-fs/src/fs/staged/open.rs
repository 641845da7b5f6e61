//! Opening staged files.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use mountpoint_client::types::{Key, ObjectDetails, ObjectHeaders, StoredChecksum};

use super::names::VAIN;
use crate::config::StagingConfig;
use crate::fs::FileSystem;
use crate::fs::opening::permit_writing;
use crate::fs::staged_names::staged_files;
use crate::handle::{OpenFile, OpenStaged, Opener, StagedFiles, StagedHandle};
use crate::namespace::Version;
use crate::operation::{
    Entry, FileKind, FsError, InodeNo, OpenOptions, Opened, PosixAttributes, Progress, ReadData,
    WriteOptions,
};
use crate::staging::{ObservedFile, RecoveredFile, StagedBase, Staging};
use crate::write::{Adopts, Stored};

/// A handle that was counted and is not there yet.
pub(in crate::fs) struct Opening<'a> {
    fs: &'a FileSystem,
    open: Option<Arc<OpenStaged>>,
}

impl Opening<'_> {
    /// The file.
    pub(in crate::fs) fn open(&self) -> &Arc<OpenStaged> {
        self.open.as_ref().expect("it is taken by value")
    }

    pub(super) fn take(mut self) -> Arc<OpenStaged> {
        self.open.take().expect("it is taken once")
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        if let Some(open) = &self.open {
            self.fs.release_staged(open, false);
        }
    }
}

impl FileSystem {
    /// Lets files be written in place, with their changes in the directory of `config`. Blocks.
    ///
    /// `is_inside` tells whether a path is in the mount itself. Before the mount is served.
    ///
    /// # Errors
    /// A text for the user.
    pub fn stage(
        &mut self,
        config: &StagingConfig,
        is_inside: &dyn Fn(&Path) -> bool,
    ) -> Result<(), String> {
        let clock = self.clock.clone();
        let staging = Staging::open(config, &self.reading, &self.writing, is_inside, clock)?;
        let recovered = staging.recovered();
        let files = staged_files(staging, &self.namespace);
        self.staged = Arc::clone(&files);
        for file in recovered {
            match file.key.is_marker() {
                true => self.adopt_marker(file),
                false => self.adopt_staged(&files, file),
            }
        }
        Ok(())
    }

    /// Shows a file that an earlier process committed and the bucket lacks, as long as it does.
    fn adopt_staged(&self, files: &StagedFiles, found: RecoveredFile) {
        let RecoveredFile {
            key,
            modified,
            base,
            file,
            ..
        } = found;
        let version = base.map(|base| Version {
            size: base.size,
            etag: base.etag,
            mtime: modified,
            is_archived: false,
        });
        let adopted = self
            .namespace
            .adopt(&key, file.progress(), version.as_ref());
        let Some(ino) = adopted else {
            tracing::info!(%key, "a file of an earlier mount is uploaded, and not shown by this one");
            return;
        };
        if self.write.posix_metadata {
            let posix = PosixAttributes::of(&file.headers().metadata);
            self.namespace.set_posix(ino, posix);
        }
        files.adopt(Arc::new(OpenStaged::new(ino, file.clone(), false)));
        let observer = files.observer();
        file.observe(Arc::clone(&observer), ino);
        let progress = file.progress();
        let observed = ObservedFile { ino, progress };
        // Its upload may have ended before it was observed.
        if let Some(failure) = file.failure() {
            observer.failed(&observed, &failure);
        } else if let Some(stored) = file.base().filter(|_| !file.is_changed()) {
            observer.stored(&observed, &stored);
        }
    }

    /// The staged file that `file` reads, if there is one.
    pub(in crate::fs) fn staged_of(&self, file: &OpenFile) -> Option<Arc<OpenStaged>> {
        match file {
            OpenFile::Staged(handle) => Some(Arc::clone(&handle.open)),
            OpenFile::Reading { ino, .. } => self.staged_file(*ino),
        }
    }

    /// The staged file of `ino`.
    pub(in crate::fs) fn staged_file(&self, ino: InodeNo) -> Option<Arc<OpenStaged>> {
        self.staged.of(ino)
    }

    /// Reads the newest bytes.
    pub(in crate::fs) async fn read_staged(
        &self,
        open: &OpenStaged,
        (offset, size): (u64, u32),
        fills_cache: bool,
    ) -> Result<ReadData, FsError> {
        let outcome = open.file.read(offset, size, fills_cache).await;
        if matches!(outcome, Err(FsError::Stale(_))) && !open.file.is_changed() {
            self.namespace.is_replaced(open.ino);
        }
        outcome
    }

    /// Creates a staged file and opens it.
    pub(in crate::fs) fn create_staged(
        &self,
        files: &StagedFiles,
        (parent, name): (InodeNo, &OsStr),
        options: WriteOptions,
        opener: Opener,
    ) -> Result<(Entry, Opened), FsError> {
        let posix = (FileKind::File, self.posix_of_new(parent, options));
        let (entry, opening) = self.begin_new(files, (parent, name), posix)?;
        opening.open().file.may_adopt(Adopts::of(options));
        let opened = self.insert_staged(opening.take(), Some(options), opener);
        Ok((entry, opened))
    }

    /// A new staged file or symbolic link with these attributes, if any, and one handle.
    pub(in crate::fs) fn begin_new(
        &self,
        files: &StagedFiles,
        (parent, name): (InodeNo, &OsStr),
        (kind, posix): (FileKind, Option<PosixAttributes>),
    ) -> Result<(Entry, Opening<'_>), FsError> {
        let progress = self.new_progress(0);
        let (mut entry, open) = files.add(|| {
            let created = self.namespace.create(parent, name, &progress)?;
            let ino = created.entry.attributes.ino;
            let base = match created.is_unasked {
                true => StagedBase::Unasked,
                false => StagedBase::None,
            };
            let mut headers = match kind {
                FileKind::File => files.staging().headers_of_new(&created.key),
                FileKind::Directory
                | FileKind::SymbolicLink
                | FileKind::Pipe
                | FileKind::Socket => ObjectHeaders::default(),
            };
            if let Some(posix) = posix {
                posix.store(kind, self.wall_now(), &mut headers.metadata);
            }
            let observer = (files.observer(), ino);
            let progress = Arc::clone(&progress);
            let file = files
                .staging()
                .file(created.key, base, headers, progress, observer);
            Ok::<_, FsError>((created.entry, OpenStaged::new(ino, file, true)))
        })?;
        if let Some(posix) = posix {
            self.namespace.set_posix(open.ino, posix);
            posix.show(&mut entry.attributes);
        }
        let opening = Opening {
            fs: self,
            open: Some(open),
        };
        Ok((entry, opening))
    }

    /// Takes the name of the staged file `ino` away, which was made and could not be stored, unless
    /// the bucket may have it. Its maker is told of a failure, and looks it up no more.
    pub(in crate::fs) async fn unmake_staged(
        &self,
        (parent, name): (InodeNo, &OsStr),
        ino: InodeNo,
    ) {
        if let Ok(change) = self.namespace.removal(parent, name)
            && change.known().is_some_and(|(known, _)| *known == ino)
            && let Some(file) = self.hold_staged(Some(ino), VAIN).await
            && !file.may_have_object()
        {
            // It has no record that a kill would bring back, or one that was refused.
            if let Err(error) = file.removed().await {
                tracing::debug!(?name, "a file that could not be made: {error}");
            }
            change.removed();
        }
        self.namespace.forget(ino, 1);
    }

    /// Opens an existing file to write it in place.
    pub(in crate::fs) async fn open_staged(
        &self,
        files: &StagedFiles,
        ino: InodeNo,
        options: WriteOptions,
        opener: Opener,
    ) -> Result<Opened, FsError> {
        let opening = match self.share_staged(files, ino).await? {
            Some(opening) => {
                // A file that was made by this mount a moment ago is not an existing one.
                if !opening.open().is_new {
                    permit_writing(&self.write, options)?;
                }
                opening
            }
            None => {
                permit_writing(&self.write, options)?;
                self.begin_staged(files, ino, options.truncate).await?
            }
        };
        if options.truncate {
            opening.open().file.empty().await?;
        }
        Ok(self.insert_staged(opening.take(), Some(options), opener))
    }

    /// Opens a file for reading: its newest bytes, wherever they are.
    pub(in crate::fs) async fn open_beside_staged(
        &self,
        files: &StagedFiles,
        ino: InodeNo,
        options: OpenOptions,
    ) -> Result<Opened, FsError> {
        let mut tries = OPENS_MAX;
        loop {
            if let Some(opening) = self.share_staged(files, ino).await? {
                return Ok(self.insert_staged(opening.take(), None, Opener::UNSEEN));
            }
            tries -= 1;
            match self.open_version(ino, options).await {
                // A file that is written in place may have come, and may be gone again.
                Err(FsError::NotPermitted(_)) if tries > 0 => {}
                Err(error) if self.staged_file(ino).is_none() || tries == 0 => return Err(error),
                Err(_) => {}
                opened => return opened,
            }
        }
    }

    /// A handle more of a file that is staged already.
    ///
    /// # Errors
    /// [`FsError::Stale`] if the name means another version than the file, which is unchanged here.
    pub(in crate::fs) async fn share_staged<'a>(
        &'a self,
        files: &StagedFiles,
        ino: InodeNo,
    ) -> Result<Option<Opening<'a>>, FsError> {
        let Some(open) = files.share(ino) else {
            return Ok(None);
        };
        let opening = Opening {
            fs: self,
            open: Some(open),
        };
        let file = &opening.open().file;
        if let Some(failure) = file.failure() {
            return Err(failure);
        }
        let unchanged = || {
            file.base()
                .filter(|_| !file.is_changed() && !file.is_removed())
        };
        if let Some(base) = unchanged() {
            let key = file.key();
            let newest = self.mutator.describe(&key).await;
            let is_same = match &newest {
                Ok(newest) => newest.info.etag.matches(&base.etag),
                Err(FsError::NotFound) => false,
                Err(error) => return Err(error.clone()),
            };
            // A store or a rename of this mount may have been faster than the answer.
            let is_known = file.key() == key && unchanged().as_ref() == Some(&base);
            if !is_same && is_known {
                self.namespace.is_replaced(ino);
                return Err(FsError::Stale(format!("{key} was replaced in the bucket")));
            }
        }
        Ok(Some(opening))
    }

    /// The staged file of the existing file `ino`, with one handle more. Sends a HEAD, for the
    /// headers that the next version is to have, unless all bytes are to be dropped.
    pub(super) async fn begin_staged<'a>(
        &'a self,
        files: &StagedFiles,
        ino: InodeNo,
        is_cut: bool,
    ) -> Result<Opening<'a>, FsError> {
        let gone = || FsError::Stale("the file is not there any more".to_owned());
        let (key, version) = self.namespace.stored_version(ino).ok_or_else(gone)?;
        let (headers, checksum) = match is_cut {
            true => (self.headers_of_replaced(ino).await?, StoredChecksum::Other),
            false => {
                let details = self.details_of_staged(&key, &version).await;
                let details = self.distrust_stale(ino, details)?;
                (Some(details.headers), details.checksum)
            }
        };
        let headers = headers.unwrap_or_else(|| files.staging().headers_of_new(&key));
        let mtime = self.namespace.known_mtime(ino).unwrap_or(version.mtime);
        let opening = self.begin_over(files, ino, (key, version), (headers, mtime), false)?;
        opening.open().file.set_checksum(checksum);
        Ok(opening)
    }

    /// The staged file of `ino`, which is `version` of `key` with these headers, with one handle
    /// more.
    pub(super) fn begin_over<'a>(
        &'a self,
        files: &StagedFiles,
        ino: InodeNo,
        (key, version): (Key, Version),
        (headers, mtime): (ObjectHeaders, SystemTime),
        is_new: bool,
    ) -> Result<Opening<'a>, FsError> {
        let open = files.share_or_make(ino, || {
            let progress = Arc::new(Progress::new(version.size, mtime));
            let begun = self.namespace.begin_writing(ino, &progress);
            let (its_key, known) = begun?;
            if its_key != key || !known.is_same(&version) {
                self.namespace.unchanged(ino, &progress);
                self.namespace.close_writer(ino);
                return Err(FsError::Stale(format!("{key} was replaced just now")));
            }
            let Version { etag, size, .. } = version;
            let base = StagedBase::Version(Stored { etag, size });
            let observer = (files.observer(), ino);
            let file = files.staging().file(key, base, headers, progress, observer);
            Ok(OpenStaged::new(ino, file, is_new))
        })?;
        Ok(Opening {
            fs: self,
            open: Some(open),
        })
    }

    /// The details of an object whose next version keeps its headers.
    async fn details_of_staged(
        &self,
        key: &Key,
        version: &Version,
    ) -> Result<ObjectDetails, FsError> {
        let details = self.describe_version(key, version).await?;
        if Version::from(&details.info).is_archived {
            return Err(FsError::Denied(format!(
                "{key} is archived; restore it to write it"
            )));
        }
        Ok(details)
    }

    /// A handle of a staged file, for writing with `options` or for reading alone.
    pub(super) fn insert_staged(
        &self,
        open: Arc<OpenStaged>,
        options: Option<WriteOptions>,
        opener: Opener,
    ) -> Opened {
        let writes = options.is_some();
        let is_synchronous = options.is_some_and(|options| options.synchronous);
        // In memory, bytes need no second copy in the page cache; a mapping does.
        let is_mapped = options.is_none_or(|options| options.both);
        let direct_io = !is_mapped && !self.staged.have_disk();
        let keep_cache = !direct_io && self.namespace.opened_staged(open.ino);
        let mut handle = StagedHandle::new(open, opener);
        handle.writes = writes;
        handle.is_synchronous = is_synchronous;
        handle.is_direct = direct_io;
        if writes {
            self.staged.add_writer(&handle.open);
        }
        let handle = self.files.insert(OpenFile::Staged(handle));
        Opened {
            handle,
            direct_io,
            keep_cache,
            flush: writes,
            grows: false,
            local: None,
        }
    }
}

/// How often a file is opened for reading that others begin and end to write meanwhile.
const OPENS_MAX: usize = 16;
