//! The names of files that are written in place: they follow the stores, and end with the files.

use std::sync::{Arc, Weak};
use std::time::SystemTime;

use crate::handle::{OpenStaged, StagedFiles};
use crate::namespace::Namespace;
use crate::operation::{FsError, InodeNo, Progress};
use crate::staging::{ObservedFile, StagedObserver, Staging};
use crate::write::Stored;

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
        if let Some(files) = self.files.upgrade()
            && let Some(open) = files.of(ino)
        {
            end(&files, &self.namespace, &open);
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
