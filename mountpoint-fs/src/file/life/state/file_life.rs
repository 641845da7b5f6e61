//! A staged file whether or not it is in use.
//!
//! Thousands of small files may wait for their upload, which nobody reads or writes meanwhile. Such
//! a file rests: all that is left of it is what it cannot find again. It wakes when somebody uses
//! it, and rests again behind the last one.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::file_state::FileState;
use super::observer::{ObservedFile, StagedObserver};
use super::parts::FileParts;
use super::resting::Resting;
use crate::file::context::StagingContext;
use crate::file::directory::DataFileName;
use crate::file::local::DataFiles;
use crate::file::store::FoundCheckpoint;
use crate::operation::{InodeNo, Progress};
use crate::sync::Mutex;
use crate::write::Reclaim;

/// A staged file, in use or at rest.
pub(in crate::file::life) struct FileLife {
    context: Arc<StagingContext>,
    name: DataFileName,
    progress: Arc<Progress>,
    /// Taken before the locks of the parts.
    inner: Mutex<Inner>,
}

/// The changing part of a file.
struct Inner {
    observer: Arc<dyn StagedObserver>,
    /// The inode that the observer is told.
    ino: InodeNo,
    stage: Stage,
}

/// What there is of a file.
enum Stage {
    /// Its parts.
    Active(Arc<FileParts>),
    /// The file waits for its upload, and nobody has a part.
    Resting(Resting),
}

/// A file in use: it does not rest as long as a value of it lives, or a lock of its parts is held.
#[derive(Clone)]
pub(in crate::file::life) struct Awake {
    parts: Arc<FileParts>,
    /// Dropped behind the parts.
    life: RestBehind,
}

/// Has the file rest when the last user has gone.
#[derive(Clone)]
struct RestBehind(Arc<FileLife>);

impl FileLife {
    /// A file in use.
    pub(in crate::file::life) fn new(
        context: &Arc<StagingContext>,
        files: DataFiles,
        state: (FileState, Option<FoundCheckpoint>),
        progress: Arc<Progress>,
        (observer, ino): (Arc<dyn StagedObserver>, InodeNo),
    ) -> Arc<Self> {
        let name = files.name();
        let is_in_memory = files.have_no_disk();
        let parts = FileParts::new(context, files, state, Arc::clone(&progress));
        let life = Arc::new(Self {
            context: Arc::clone(context),
            name,
            progress,
            inner: Mutex::new(Inner {
                observer,
                ino,
                stage: Stage::Active(parts),
            }),
        });
        if is_in_memory {
            let file: Weak<dyn Reclaim> = Arc::downgrade(&(Arc::clone(&life) as _));
            context.writing.add_file(file);
        }
        life
    }

    /// The file, to be used.
    pub(in crate::file::life) fn wake(self: &Arc<Self>) -> Awake {
        let stage = &mut self.inner.lock().stage;
        let parts = match stage {
            Stage::Active(parts) => Arc::clone(parts),
            Stage::Resting(resting) => {
                let woken = std::mem::take(resting).wake(&self.context, self.name, &self.progress);
                *stage = Stage::Active(Arc::clone(&woken));
                woken
            }
        };
        Awake {
            parts,
            life: RestBehind(Arc::clone(self)),
        }
    }

    /// Has `look` see the state. Wakes nobody.
    pub(in crate::file::life) fn look<T>(&self, look: impl FnOnce(&FileState) -> T) -> T {
        match &self.inner.lock().stage {
            Stage::Active(parts) => look(&parts.state.lock()),
            Stage::Resting(resting) => look(&resting.state(self.name)),
        }
    }

    /// Whether the file waits for its upload as it was committed, and nobody uses it.
    pub(in crate::file::life) fn is_resting(&self) -> bool {
        matches!(self.inner.lock().stage, Stage::Resting(_))
    }

    /// Has the file rest, if nobody uses it and it can.
    fn rest(&self) {
        let mut inner = self.inner.lock();
        if let Stage::Active(parts) = &inner.stage
            && Arc::strong_count(parts) == 1
            && let Some(resting) = Resting::of(parts)
        {
            let parts = std::mem::replace(&mut inner.stage, Stage::Resting(resting));
            self.context.rested.fetch_add(1, Ordering::Relaxed);
            // What they give back wakes who waits for memory.
            drop(inner);
            drop(parts);
        }
    }

    /// The state that all files of the mount share.
    pub(in crate::file::life) fn context(&self) -> &Arc<StagingContext> {
        &self.context
    }

    /// The name of its data files, and of its records.
    pub(in crate::file::life) fn name(&self) -> DataFileName {
        self.name
    }

    /// The size and time that other processes see.
    pub(in crate::file::life) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Tells the observer of the file's outcome.
    fn tell(&self, tell: impl FnOnce(&dyn StagedObserver, &ObservedFile<'_>)) {
        let (observer, ino) = {
            let inner = self.inner.lock();
            (Arc::clone(&inner.observer), inner.ino)
        };
        let progress = &self.progress;
        tell(&*observer, &ObservedFile { ino, progress });
    }

    /// Has `observer` learn the file's outcome, as that of `ino`.
    pub(in crate::file::life) fn set_observer(
        &self,
        observer: Arc<dyn StagedObserver>,
        ino: InodeNo,
    ) {
        let mut inner = self.inner.lock();
        inner.ino = ino;
        inner.observer = observer;
    }

    /// Bytes of memory that a file at rest takes, besides its name's; `None` for one in use.
    #[cfg(test)]
    pub(in crate::file::life) fn resting_bytes(&self) -> Option<usize> {
        match &self.inner.lock().stage {
            Stage::Active(_) => None,
            Stage::Resting(resting) => Some(size_of::<Self>() + resting.heap_bytes()),
        }
    }
}

impl Awake {
    /// The file, in use or not.
    pub(in crate::file::life) fn life(&self) -> &Arc<FileLife> {
        &self.life.0
    }

    /// Tells the observer of the file's outcome. The caller holds no lock of the state.
    pub(in crate::file::life) fn tell(
        &self,
        tell: impl FnOnce(&dyn StagedObserver, &ObservedFile<'_>),
    ) {
        self.life.0.tell(tell);
    }
}

impl Deref for Awake {
    type Target = FileParts;

    fn deref(&self) -> &FileParts {
        &self.parts
    }
}

impl Drop for RestBehind {
    fn drop(&mut self) {
        self.0.rest();
    }
}

impl fmt::Debug for Awake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.fmt(f)
    }
}

impl fmt::Debug for FileLife {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.look(|state| state.fmt(f))
    }
}
