//! A file that is open for writing, and that nothing was changed of yet.
//!
//! Who opens an existing file without `O_TRUNC` has not said what is to become of it, and may close it again as it is.
//! The first change says it: then there is an [`OpenWriter`]. Knows no names and no bytes: the caller begins the writer.
//! Invariant: a write that was refused is the end of it, and every later write, `fsync` and `close` says so.

use std::fmt;
use std::sync::Arc;

use tokio::sync::OnceCell;

use super::open_writer::{OpenWriter, Opener};
use crate::operation::{FsError, InodeNo};
use crate::sync::Mutex;

/// One open of a file for writing, before its first change and after it.
pub struct LateWriter {
    /// The file.
    pub ino: InodeNo,
    /// Who opened it.
    pub opener: Opener,
    writer: OnceCell<Arc<OpenWriter>>,
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
