//! A file that is open for writing, and that nothing was changed of yet.
//!
//! Who opens an existing file without `O_TRUNC` has not said what is to become of it, and may close it again as it is.
//! The first change says it: then there is an [`OpenWriter`]. Knows no keys and no bytes: the caller begins the writer.
//! Invariant: a write that was refused is the end of it, and every later write, `fsync` and `close` says so; but for one
//! that may be tried again.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::OnceCell;

use super::open_writer::{Closer, Closing, OpenWriter, Opener, Others};
use crate::operation::{FsError, InodeNo};
use crate::sync::Mutex;

/// One open of a file for writing, before its first change and after it.
pub struct LateWriter {
    /// The file.
    pub ino: InodeNo,
    /// Who opened it.
    pub opener: Opener,
    writer: OnceCell<Arc<OpenWriter>>,
    /// The opener's process has closed one of its descriptors, and was not seen to have moved it. What writes the file knows
    /// it as well.
    was_closed: Arc<AtomicBool>,
    /// The first write that was refused. The lock is a leaf.
    refused: Mutex<Option<FsError>>,
}

impl LateWriter {
    /// `opener` has opened `ino`.
    #[must_use]
    pub fn new(ino: InodeNo, opener: Opener) -> Self {
        Self {
            ino,
            opener,
            writer: OnceCell::new(),
            was_closed: Arc::default(),
            refused: Mutex::default(),
        }
    }

    /// What writes it, since its first change.
    #[must_use]
    pub fn writer(&self) -> Option<&Arc<OpenWriter>> {
        self.writer.get()
    }

    /// What writes it: what `begin` makes, unless there is one already. Only one `begin` runs at a time; one that fails
    /// or is dropped has changed nothing.
    pub async fn begin(
        &self,
        begin: impl Future<Output = Result<Arc<OpenWriter>, FsError>>,
    ) -> Result<&Arc<OpenWriter>, FsError> {
        if let Some(error) = self.refusal() {
            return Err(error);
        }
        self.writer.get_or_try_init(|| begin).await
    }

    /// A descriptor of the file, which is called `name`, is closed and nothing was changed yet. If it is the opener's, a child
    /// that has inherited one may make the first change.
    pub fn closed_unchanged(&self, closing: &dyn Closing, name: &str) {
        let is_openers = closing.closer(self.opener) == Closer::Opener;
        if is_openers && closing.others(self.ino, name) != Others::Held {
            self.was_closed.store(true, Ordering::Release);
        }
    }

    /// Whether the opener has closed it, for what writes it.
    #[must_use]
    pub fn was_closed(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.was_closed)
    }

    /// A write was refused.
    pub fn refuse(&self, error: &FsError) {
        let mut refused = self.refused.lock();
        refused.get_or_insert_with(|| error.clone());
    }

    /// The first write that was refused.
    #[must_use]
    pub fn refusal(&self) -> Option<FsError> {
        self.refused.lock().clone()
    }
}

impl fmt::Debug for LateWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LateWriter")
            .field("ino", &self.ino)
            .field("writer", &self.writer.get())
            .finish_non_exhaustive()
    }
}
