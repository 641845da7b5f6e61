//! Files that are written: their names follow the stores, and end with the files.

use std::sync::{Arc, Weak};
use std::time::SystemTime;

use crate::file::{ObservedFile, StagedObserver, Staging};
use crate::handle::{OpenStaged, StagedFiles};
use crate::namespace::Namespace;
use crate::operation::{FsError, InodeNo, Progress, ReadData, Stop};
use crate::write::{Stored, background};

/// The files that `staging` makes, whose names are those of `namespace`.
pub(super) fn staged_files(staging: Arc<Staging>, namespace: &Arc<Namespace>) -> Arc<StagedFiles> {
    let namespace = Arc::clone(namespace);
    let names = |files: &Weak<StagedFiles>| {
        let files = Weak::clone(files);
        Arc::new(StagedNames { files, namespace }) as Arc<dyn StagedObserver>
    };
    StagedFiles::new(staging, names)
}

/// The names of staged files, which follow their stores, and end the files behind them.
struct StagedNames {
    files: Weak<StagedFiles>,
    namespace: Arc<Namespace>,
}

impl StagedNames {
    /// Ends a file if nobody needs it.
    fn end(&self, ino: InodeNo) {
        if let Some(files) = self.files.upgrade() {
            end_of(&files, &self.namespace, ino);
        }
    }
}

impl StagedObserver for StagedNames {
    fn stored(&self, file: &ObservedFile<'_>, stored: &Stored) {
        let version = (stored.size, stored.etag.clone());
        let files = self.files.upgrade();
        let mtime = files.and_then(|files| carried_time(&files, file.progress));
        self.namespace
            .stored_staged(file.ino, file.progress, version, mtime);
        self.end(file.ino);
    }

    fn adopted(&self, file: &ObservedFile<'_>) {
        self.namespace.gave_way(file.ino, file.progress);
        self.end(file.ino);
    }

    fn failed(&self, file: &ObservedFile<'_>, _: &FsError) {
        self.namespace.writing_failed(file.ino, file.progress);
        self.end(file.ino);
    }

    fn released(&self, file: &ObservedFile<'_>) {
        self.end(file.ino);
    }
}

/// The time that the object of a file carries: that of the last change, or one that was set.
pub(super) fn carried_time(files: &StagedFiles, progress: &Progress) -> Option<SystemTime> {
    match files.have_disk() {
        true => Some(progress.mtime()),
        false => progress.set_time(),
    }
}

/// Ends the staged file `open`, unless a handle of its inode is open, the bucket lacks changes, or
/// the journal has a version, which a kill would bring back.
pub(super) fn end(files: &StagedFiles, namespace: &Namespace, open: &OpenStaged) {
    let (ino, file) = (open.ino, &open.file);
    let is_needed = || file.is_changed() || file.is_recorded() || namespace.has_readers(ino);
    let mut has_ended = false;
    files.forget(open, is_needed, || {
        namespace.unchanged(ino, open.file.progress());
        namespace.close_writer(ino);
        has_ended = true;
    });
    if has_ended {
        file.keep_stored();
    }
}

/// Handles the last close of a handle of `open`, which `writes`. Behind the last of the file that
/// does, changes of a mapping are stored, or kept in the directory.
pub(super) fn release(
    (staged, namespace): (&Arc<StagedFiles>, &Arc<Namespace>),
    open: &Arc<OpenStaged>,
    writes: bool,
) {
    if !staged.released(open, writes) {
        return;
    }
    if !staged.have_disk() && !open.file.is_changed() {
        // The usual case: the close has stored it.
        return end(staged, namespace, open);
    }
    let (staged, namespace) = (Arc::clone(staged), Arc::clone(namespace));
    let (open, work) = (Arc::clone(open), staged.staging().begin_work());
    background::run(async move {
        // A failure that an application was told of is in the log already.
        let is_told = open.file.failure().is_some();
        if let Err(error) = open.file.release().await
            && !is_told
        {
            let key = open.file.key();
            tracing::error!(%key, "a file that was closed could not be stored: {error}");
        }
        end(&staged, &namespace, &open);
        drop(open);
        drop(work);
    });
}

/// Ends the staged file of `ino` if nothing needs it.
pub(super) fn end_of(staged: &StagedFiles, namespace: &Namespace, ino: InodeNo) {
    if let Some(open) = staged.of(ino) {
        end(staged, namespace, &open);
    }
}

/// Stores the newest bytes of the file `ino`, which is to be copied on the server.
pub(super) async fn store_newest(
    staged: &StagedFiles,
    ino: InodeNo,
    stop: &Stop,
) -> Result<(), FsError> {
    match staged.of(ino) {
        Some(open) => stop.unless_asked(open.file.settle()).await,
        None => Ok(()),
    }
}

/// Reads the newest bytes of a staged file.
pub(super) async fn read_newest(
    namespace: &Namespace,
    open: &OpenStaged,
    (offset, size): (u64, u32),
    fills_cache: bool,
) -> Result<ReadData, FsError> {
    let outcome = open.file.read(offset, size, fills_cache).await;
    if matches!(outcome, Err(FsError::Stale(_))) && !open.file.is_changed() {
        namespace.is_replaced(open.ino);
    }
    outcome
}
