//! A file that is open for writing and unchanged so far.
//!
//! An application that opens an existing file without `O_TRUNC` may close it unchanged. The first
//! change creates the [`OpenWriter`]. Knows no keys and no bytes: the caller begins the writer.
//! Invariant: after a refused write every later write, `fsync` and `close` returns its error,
//! unless the write may be retried.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::OnceCell;

use super::open_writer::{Closer, Closing, OpenWriter, Opener, OtherDescriptors};
use crate::operation::{FsError, InodeNo};
use crate::sync::Mutex;

/// One open of a file for writing, before its first change and after it.
pub struct DeferredWriter {
    /// The file.
    pub ino: InodeNo,
    /// The process that opened the file.
    pub opener: Opener,
    writer: OnceCell<Arc<OpenWriter>>,
    /// Whether the opener's process has closed its descriptor for good. A visible duplicate means
    /// that it has not. Shared with the file's writer.
    was_closed: Arc<AtomicBool>,
    /// The first write that was refused. The lock is a leaf.
    refused: Mutex<Option<FsError>>,
}

impl DeferredWriter {
    /// An open of `ino` by `opener`.
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

    /// The file's writer, since the first change.
    #[must_use]
    pub fn writer(&self) -> Option<&Arc<OpenWriter>> {
        self.writer.get()
    }

    /// The file's writer; `begin` makes a missing one.
    ///
    /// Only one `begin` runs at a time; one that fails or is dropped has changed nothing.
    pub async fn begin(
        &self,
        begin: impl Future<Output = Result<Arc<OpenWriter>, FsError>>,
    ) -> Result<&Arc<OpenWriter>, FsError> {
        if let Some(error) = self.refusal() {
            return Err(error);
        }
        self.writer.get_or_try_init(|| begin).await
    }

    /// Notes the close of a descriptor of the unchanged file `name`.
    ///
    /// After a close by the opener, a child that has inherited a descriptor may make the first
    /// change.
    pub fn closed_unchanged(&self, closing: &dyn Closing, name: &str) {
        let is_openers = closing.closer(self.opener) == Closer::Opener;
        if is_openers && closing.others(self.ino, name) != OtherDescriptors::Held {
            self.was_closed.store(true, Ordering::Release);
        }
    }

    /// Whether the opener has closed the file; shared with the file's writer.
    #[must_use]
    pub fn was_closed(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.was_closed)
    }

    /// Notes a refused write.
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

impl fmt::Debug for DeferredWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeferredWriter")
            .field("ino", &self.ino)
            .field("writer", &self.writer.get())
            .finish_non_exhaustive()
    }
}
