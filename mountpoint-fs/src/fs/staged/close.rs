//! Closing staged files, and the end of all with the mount.

use std::sync::Arc;

use futures::future::join_all;

use crate::fs::FileSystem;
use crate::fs::staged_names::end;
use crate::handle::{Closing, OpenStaged, StagedHandle};
use crate::operation::{FsError, InodeNo};
use crate::staging::Staging;
use crate::write::background;

impl FileSystem {
    /// Handles the close of a descriptor: stores changes, or makes them durable with write-back.
    /// Returns the error of that.
    pub(in crate::fs) async fn flush_staged(
        &self,
        handle: &StagedHandle,
        closing: &dyn Closing,
    ) -> Result<(), FsError> {
        match handle.close_stores(closing) {
            true => handle.open.file.commit().await,
            false => Ok(()),
        }
    }

    /// Handles the last close of a handle, which `writes`. Behind the last of the file that does,
    /// changes of a mapping are stored, or kept in the directory.
    pub(in crate::fs) fn release_staged(&self, open: &Arc<OpenStaged>, writes: bool) {
        if !self.staged.released(open, writes) {
            return;
        }
        if !self.staged.have_disk() && !open.file.is_changed() {
            // The usual case: the close has stored it.
            return end(&self.staged, &self.namespace, open);
        }
        let (files, namespace) = (Arc::clone(&self.staged), Arc::clone(&self.namespace));
        let open = Arc::clone(open);
        background::run(async move {
            // A failure that an application was told of is in the log already.
            let is_told = open.file.failure().is_some();
            if let Err(error) = open.file.release().await
                && !is_told
            {
                let key = open.file.key();
                tracing::error!(%key, "a file that was closed could not be stored: {error}");
            }
            end(&files, &namespace, &open);
        });
    }

    /// Ends the staged file of `ino` if nothing needs it.
    pub(in crate::fs) fn end_staged(&self, ino: InodeNo) {
        if let Some(open) = self.staged.of(ino) {
            end(&self.staged, &self.namespace, &open);
        }
    }

    /// Whether a staged file has changes that are neither in the bucket nor durable on the local
    /// disk.
    pub(in crate::fs) fn has_staged_changes(&self) -> bool {
        let files = self.staged.all();
        let mut files = files.iter();
        files.any(|open| !open.file.is_committed())
    }

    /// Stores every staged file that has changes, or makes it durable with write-back. For the end
    /// of the mount.
    pub async fn commit_staged(&self) {
        let files = self.staged.all();
        let stores = files.iter().map(async |open| {
            if let Err(error) = open.file.commit().await {
                let key = open.file.key();
                tracing::warn!(%key, "the mount ends, and the file could not be stored: {error}");
            }
        });
        join_all(stores).await;
    }

    /// The maker of files on a local disk, which uploads waiting ones, if the mount has one.
    #[must_use]
    pub fn staging(&self) -> Option<Arc<Staging>> {
        let files = self.staged.have_disk().then_some(&self.staged);
        files.map(|files| files.shared_staging())
    }

    /// Keeps in the directory what could not be stored of staged files. For the end of the mount:
    /// waits for no store.
    pub async fn keep_staged(&self) {
        let files = self.staged.all();
        let kept = files.iter().map(|open| {
            let reason = "the mount ended before the file was stored";
            open.file.keep_at_end(reason)
        });
        join_all(kept).await;
    }
}
