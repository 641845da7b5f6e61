//! Writing, closing and synchronising files, and the end of all writers with the mount.
//!
//! A future that is dropped while it waits has changed nothing visible to the application; work
//! that was begun continues by itself.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::{join, join_all};

use super::FileSystem;
use crate::handle::{Closing, OpenFile, OpenWriter};
use crate::namespace::being_written;
use crate::operation::{FsError, HandleNo, InodeNo, Stop};
use crate::write::{CopiedRange, PendingWrite, background};

impl FileSystem {
    /// Takes bytes if that needs no waiting; otherwise returns `None`, and nothing has changed.
    pub fn write_now(
        &self,
        handle: HandleNo,
        offset: u64,
        data: &[u8],
    ) -> Option<Result<(), FsError>> {
        let file = match self.files.get(handle) {
            Ok(file) => file,
            Err(error) => return Some(Err(error)),
        };
        if let Some(handle) = file.staged() {
            return self.write_staged_now(handle, offset, data);
        }
        match file.writing() {
            Ok(open) => {
                open.written();
                let written = open.writer.write_now(offset, data);
                // A rename above is waited for.
                written.filter(|taken| !matches!(taken, Err(FsError::InMotion(_))))
            }
            Err(error) => {
                self.refused(&file);
                Some(Err(error))
            }
        }
    }

    /// Notes that `thread` has `len` bytes to write, to any file.
    pub fn thread_writes(&self, thread: u64, len: usize) {
        self.writing.thread_writes(thread, len);
    }

    /// Keeps the bytes of a waiting WRITE, in memory that is counted.
    #[must_use]
    pub fn hold(&self, data: &[u8]) -> PendingWrite {
        self.writing.hold(data)
    }

    /// Takes bytes, when memory is free, from a program without other WRITEs in flight.
    pub async fn write(&self, handle: HandleNo, offset: u64, data: &[u8]) -> Result<(), FsError> {
        self.write_in_order(handle, offset, data, &|| false).await
    }

    /// Takes bytes, after earlier WRITEs in flight. What begins to write the file waits for a
    /// rename or a removal of a directory above it, like an open.
    ///
    /// Where bytes are missing, `goes_on` is asked whether the program may have sent further
    /// WRITEs.
    pub async fn write_in_order(
        &self,
        handle: HandleNo,
        offset: u64,
        data: &[u8],
        goes_on: &(dyn Fn() -> bool + Send + Sync),
    ) -> Result<(), FsError> {
        let file = self.files.get(handle)?;
        if let Some(handle) = file.staged() {
            // A copy of file data, of callers that keep theirs.
            let data = Bytes::copy_from_slice(data);
            return self.write_staged(handle, offset, data).await;
        }
        let write = || async {
            let open = file.writing().inspect_err(|_| self.refused(&file))?;
            open.written();
            open.writer.write_in_order(offset, data, goes_on).await
        };
        self.when_at_rest(&Stop::never(), write).await
    }

    /// Takes the bytes of a waiting WRITE, as [`Self::write_in_order`].
    pub async fn write_held(
        &self,
        handle: HandleNo,
        offset: u64,
        data: PendingWrite,
        goes_on: &(dyn Fn() -> bool + Send + Sync),
    ) -> Result<(), FsError> {
        let file = self.files.get(handle)?;
        if let Some(handle) = file.staged() {
            let data = Bytes::from_owner(data);
            return self.write_staged(handle, offset, data).await;
        }
        self.write_in_order(handle, offset, data.bytes(), goes_on)
            .await
    }

    /// `copy_file_range`: the server copies up to `len` bytes between two places, each a handle and
    /// an offset. Returns the number copied.
    ///
    /// The number is 0 only at the end of the source. [`FsError::Unsupported`] where reads and
    /// writes are better; the kernel then does these by itself.
    pub async fn copy_range(
        &self,
        from: (HandleNo, u64),
        to: (HandleNo, u64),
        len: u64,
    ) -> Result<u64, FsError> {
        let (source, target) = (self.files.get(from.0)?, self.files.get(to.0)?);
        let is_in_place = source.staged().is_some() || target.staged().is_some();
        if self.staged.have_disk() || is_in_place {
            return Err(FsError::Unsupported(
                "a file that is written in place is copied through this machine",
            ));
        }
        let (ino, (reader, _), _) = source.reading()?;
        let moved = self.moved(ino, reader).await;
        let reader = moved.as_deref().unwrap_or(reader);
        let (key, etag, size) = reader.version();
        let start = from.1.min(size);
        let end = start.saturating_add(len).min(size);
        if start == end {
            return Ok(0);
        }
        let copied = CopiedRange {
            key: key.clone(),
            etag: etag.clone(),
            object_size: size,
            range: start..end,
        };
        let open = target.writing()?;
        open.written();
        open.writer.copy(to.1, copied).await
    }

    /// Handles the close of a descriptor.
    ///
    /// Returns when the bucket holds the written bytes, unless another descriptor is still open.
    pub async fn flush(&self, handle: HandleNo, closing: &dyn Closing) -> Result<(), FsError> {
        let file = self.files.get(handle)?;
        if let Some(handle) = file.staged() {
            return self.flush_staged(handle, closing).await;
        }
        let Ok(open) = file.writing() else {
            return Ok(());
        };
        if let Some(error) = open.writer.failure() {
            return Err(error);
        }
        if open.close_stores(closing) {
            open.writer.finish().await?;
        }
        Ok(())
    }

    /// Returns when the bucket holds the written bytes, or the local disk with write-back.
    pub async fn sync(&self, handle: HandleNo) -> Result<(), FsError> {
        let file = self.files.get(handle)?;
        if let Some(handle) = file.staged() {
            return handle.open.file.commit().await;
        }
        let Some(open) = file.written() else {
            return Ok(());
        };
        open.synchronised();
        open.writer.store().await.map(drop)
    }

    /// Notes a refused write.
    fn refused(&self, file: &OpenFile) {
        if let OpenFile::Reading { ino, .. } = file {
            self.namespace.write_refused(*ino);
        }
    }

    /// Handles the last close of a handle.
    pub(super) fn release_writer(&self, open: Arc<OpenWriter>) {
        if !open.released() {
            return;
        }
        let namespace = Arc::clone(&self.namespace);
        let writers = Arc::clone(&self.writers);
        background::run(async move {
            if open.writer.is_open().await
                && let Err(error) = open.writer.finish().await
            {
                let (key, stays) = (open.writer.key(), open.writer.what_stays().await);
                tracing::error!(%key, "a file that was closed could not be stored, {stays}: {error}");
            }
            writers.lock().retain(|_, known| !Arc::ptr_eq(known, &open));
            namespace.unchanged(open.ino, open.writer.progress());
            namespace.close_writer(open.ino);
        });
    }

    /// Stores the file `ino` now if its writer has closed it.
    ///
    /// An open then need not wait until the kernel reports the last close. A failed writer was told
    /// so, and the name means the object in S3 again.
    pub(super) async fn finish_closed(&self, ino: InodeNo) -> Result<(), FsError> {
        if let Some(open) = self.writer(ino)
            && open.was_flushed()
            && self.namespace.is_being_written(ino)
        {
            let stored = match open.goes_on() {
                true => open.writer.store().await,
                false => open.writer.finish().await,
            };
            stored?;
        }
        Ok(())
    }

    /// Stores closed files below `directory`. An error if a file in it is being written.
    ///
    /// Its writer would store it under the old name.
    pub(super) async fn finish_closed_below(&self, directory: InodeNo) -> Result<(), FsError> {
        for (ino, _) in self.namespace.written_below(directory) {
            // A failed file is gone.
            self.finish_closed(ino).await.ok();
        }
        let written = self.namespace.written_below(directory).into_iter();
        let mut written = written.filter(|(ino, _)| self.staged_file(*ino).is_none());
        match written.next() {
            Some((_, name)) => Err(being_written(&name)),
            None => Ok(()),
        }
    }

    /// Starts the journal's thread; it writes no journal in a directory that `is_unusable`.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start_journal(
        &self,
        is_unusable: impl Fn(&Path) -> bool + Send + Sync + 'static,
    ) -> io::Result<()> {
        self.mutator.journal().start(is_unusable)
    }

    /// Limits the wait for lines of the journal. A task of a tokio runtime.
    pub fn watch_journal(&self) -> impl Future<Output = ()> + Send + use<> {
        self.mutator.journal().watch()
    }

    /// Aborts uploads that killed mounts of this bucket left.
    pub async fn recover_uploads(&self) {
        self.writing.recover().await;
    }

    /// Returns when every closed file is stored, or has failed. For the end of the mount.
    pub async fn drained(&self) {
        self.writing.drained().await;
    }

    /// Whether a file is open for writing.
    pub fn is_writing(&self) -> bool {
        self.has_staged_changes() || !self.writers.lock().is_empty()
    }

    /// Gives up every file that is not stored. For the end of the mount.
    pub async fn abandon_writers(&self) {
        let open: Vec<_> = self.writers.lock().values().map(Arc::clone).collect();
        let ended = FsError::ReadOnly;
        self.writing.end_waiting();
        let given_up = open.iter().map(async |open| {
            if open.writer.is_open().await {
                let (key, stays) = (open.writer.key(), open.writer.what_stays().await);
                tracing::warn!(%key, "the mount ends while the file is being written: it is given up, {stays}");
                open.writer.abandon(&ended).await;
            }
        });
        // A file whose lock is taken must not delay the abort of its upload.
        join(join_all(given_up), self.writing.abort_all()).await;
        // Uploads that were begun meanwhile.
        self.writing.abort_all().await;
    }
}
