//! Staged files that are open: one for each inode, which all of its handles share.
//!
//! Knows no names and no bytes. Invariant: an inode has at most one staged file, from its first
//! open for writing until the last handle of the inode was released and its changes are stored or
//! kept, and the journal has released them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use super::closing::{Closer, Closing, Opener, OtherDescriptors};
use crate::file::{StagedFile, StagedObserver, Staging};
use crate::operation::InodeNo;
use crate::sync::Mutex;

/// A staged file that is open.
#[derive(Debug)]
pub struct OpenStaged {
    /// The inode, which lives at least as long as this value.
    pub ino: InodeNo,
    /// Takes and gives the bytes.
    pub file: StagedFile,
    /// Whether the open that began it has made the file.
    pub is_new: bool,
    /// Its handles, and those among them that may write. Changed under the lock of
    /// [`StagedFiles`].
    handles: AtomicU32,
    writers: AtomicU32,
    /// Whether an application changed the bytes since the open that made or emptied the file.
    was_written: AtomicBool,
}

/// One handle of a staged file.
#[derive(Debug)]
pub struct StagedHandle {
    /// The file.
    pub open: Arc<OpenStaged>,
    /// Whether the handle may write.
    pub writes: bool,
    /// `O_SYNC` or `O_DSYNC`: a write returns when it is stored.
    pub is_synchronous: bool,
    /// Whether its writes pass the kernel's page cache by.
    pub is_direct: bool,
    /// The process that opened it.
    pub opener: Opener,
    /// Whether that process has closed its descriptor for good. A visible duplicate means that it
    /// has not.
    was_closed: AtomicBool,
}

impl OpenStaged {
    /// An open `file`, which `is_new` if its open has made it.
    #[must_use]
    pub fn new(ino: InodeNo, file: StagedFile, is_new: bool) -> Self {
        Self {
            ino,
            file,
            is_new,
            handles: AtomicU32::new(0),
            writers: AtomicU32::new(0),
            was_written: AtomicBool::new(false),
        }
    }

    /// The file, for one handle more.
    fn shared(self: &Arc<Self>) -> Arc<Self> {
        self.handles.fetch_add(1, Ordering::Relaxed);
        Arc::clone(self)
    }

    /// Whether it has more than one handle.
    #[must_use]
    pub fn has_others(&self) -> bool {
        self.handles.load(Ordering::Relaxed) > 1
    }

    /// Whether it has a handle.
    fn is_shared(&self) -> bool {
        self.handles.load(Ordering::Relaxed) > 0
    }

    /// Notes that an application changed the bytes.
    pub fn written(&self) {
        self.was_written.store(true, Ordering::Release);
    }
}

impl StagedHandle {
    /// A handle of `open` of the process `opener`, for writing unless it is changed.
    #[must_use]
    pub fn new(open: Arc<OpenStaged>, opener: Opener) -> Self {
        Self {
            open,
            writes: true,
            is_synchronous: false,
            is_direct: false,
            opener,
            was_closed: AtomicBool::new(false),
        }
    }

    /// Whether a close by `closing` stores the file.
    ///
    /// Before the first write, a close stores nothing that another descriptor will close again: a
    /// shell duplicates its descriptor of `> file`, and children inherit it. The close of a child
    /// ends nothing as long as its opener goes on.
    pub fn close_stores(&self, closing: &dyn Closing) -> bool {
        if !self.writes {
            return false;
        }
        let closer = closing.closer(self.opener);
        let is_unwritten = !self.open.was_written.load(Ordering::Acquire);
        if is_unwritten && (closer == Closer::Child || self.is_held_otherwise(closing)) {
            return false;
        }
        if closer == Closer::Opener {
            self.was_closed.store(true, Ordering::Release);
        }
        closer != Closer::Child || self.was_closed.load(Ordering::Acquire)
    }

    /// Whether another descriptor of the process has the file.
    fn is_held_otherwise(&self, closing: &dyn Closing) -> bool {
        let key = self.open.file.key();
        let name = key.as_str();
        let name = name.rsplit_once('/').map_or(name, |(_, name)| name);
        closing.others(self.open.ino, name) == OtherDescriptors::Held
    }
}

/// The staged files of a mount that are open.
pub struct StagedFiles {
    staging: Arc<Staging>,
    observer: Arc<dyn StagedObserver>,
    /// The lock is taken before those of names.
    open: Mutex<HashMap<InodeNo, Arc<OpenStaged>>>,
}

impl StagedFiles {
    /// No files, which `staging` would make, and of which `observer` learns.
    #[must_use]
    pub fn new(
        staging: Arc<Staging>,
        observer: impl FnOnce(&Weak<Self>) -> Arc<dyn StagedObserver>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|files| Self {
            staging,
            observer: observer(files),
            open: Mutex::default(),
        })
    }

    /// The observer of the files.
    #[must_use]
    pub fn observer(&self) -> Arc<dyn StagedObserver> {
        Arc::clone(&self.observer)
    }

    /// The maker of staged files.
    #[must_use]
    pub fn staging(&self) -> &Arc<Staging> {
        &self.staging
    }

    /// Whether its files are on a local disk, not in memory alone.
    #[must_use]
    pub fn have_disk(&self) -> bool {
        self.staging.has_disk()
    }

    /// Whether staged files are durable on the local disk before the bucket has them.
    #[must_use]
    pub fn commits(&self) -> bool {
        self.staging.config().write_back.is_some()
    }

    /// Whether the bucket has each name that is made for its maker alone, before the call returns.
    #[must_use]
    pub fn are_exclusive(&self) -> bool {
        let write_back = self.staging.config().write_back;
        write_back.is_some_and(|it| it.is_exclusive)
    }

    /// Adds `open`, a file of an earlier process that no application has opened.
    pub fn adopt(&self, open: Arc<OpenStaged>) {
        self.open.lock().insert(open.ino, open);
    }

    /// The staged file of `ino`.
    #[must_use]
    pub fn of(&self, ino: InodeNo) -> Option<Arc<OpenStaged>> {
        self.open.lock().get(&ino).map(Arc::clone)
    }

    /// Counts one more handle of `ino`, if it has a staged file.
    #[must_use]
    pub fn share(&self, ino: InodeNo) -> Option<Arc<OpenStaged>> {
        let files = self.open.lock();
        files.get(&ino).map(OpenStaged::shared)
    }

    /// Counts one more handle of `ino`, whose staged file `make` makes if there is none.
    ///
    /// # Errors
    /// That of `make`.
    pub fn share_or_make<E>(
        &self,
        ino: InodeNo,
        make: impl FnOnce() -> Result<OpenStaged, E>,
    ) -> Result<Arc<OpenStaged>, E> {
        match self.open.lock().entry(ino) {
            Entry::Occupied(known) => Ok(known.get().shared()),
            Entry::Vacant(place) => Ok(place.insert(Arc::new(make()?)).shared()),
        }
    }

    /// Adds the new staged file that `make` makes, with one handle.
    ///
    /// # Errors
    /// That of `make`.
    pub fn add<T, E>(
        &self,
        make: impl FnOnce() -> Result<(T, OpenStaged), E>,
    ) -> Result<(T, Arc<OpenStaged>), E> {
        let mut files = self.open.lock();
        let (made, open) = make()?;
        let open = Arc::new(open);
        let shared = open.shared();
        files.insert(open.ino, open);
        Ok((made, shared))
    }

    /// Whether `open` has a handle.
    #[must_use]
    pub fn is_open(&self, open: &OpenStaged) -> bool {
        let files = self.open.lock();
        let known = files.get(&open.ino);
        known.is_some_and(|known| std::ptr::eq(&**known, open) && known.is_shared())
    }

    /// Counts a handle of `open` that may write.
    pub fn add_writer(&self, open: &OpenStaged) {
        let _files = self.open.lock();
        open.writers.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a handle that was released, and that `writes`. Returns whether none is left, or none
    /// that may write.
    #[must_use]
    pub fn released(&self, open: &OpenStaged, writes: bool) -> bool {
        let files = self.open.lock();
        let Some(known) = files.get(&open.ino) else {
            return false;
        };
        let one_less = |count: &AtomicU32| {
            let left = count.load(Ordering::Relaxed).saturating_sub(1);
            count.store(left, Ordering::Relaxed);
            left == 0
        };
        let was_last_writer = writes && one_less(&known.writers);
        one_less(&known.handles) || was_last_writer
    }

    /// Forgets `open` and calls `end`, unless a handle is open or `is_needed` says so.
    pub fn forget(&self, open: &OpenStaged, is_needed: impl FnOnce() -> bool, end: impl FnOnce()) {
        let mut files = self.open.lock();
        let is_idle = |known: &Arc<OpenStaged>| std::ptr::eq(&**known, open) && !known.is_shared();
        if files.get(&open.ino).is_some_and(is_idle) && !is_needed() {
            files.remove(&open.ino);
            end();
        }
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<OpenStaged>> {
        let files = self.open.lock();
        files.values().map(Arc::clone).collect()
    }
}

impl fmt::Debug for StagedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagedFiles")
            .field("open", &self.open.lock().len())
            .finish_non_exhaustive()
    }
}
