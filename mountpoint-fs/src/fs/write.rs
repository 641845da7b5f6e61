//! Writing, closing and synchronising files, and the end of all writers with the mount.
//!
//! A future that is dropped while it waits has changed nothing visible to the application; work
//! that was begun continues by itself.

use std::io;
use std::path::Path;

use bytes::Bytes;

use super::FileSystem;
use crate::handle::{Closing, OpenFile};
use crate::operation::{FsError, HandleNo};
use crate::write::{CopiedRange, PendingWrite};

impl FileSystem {
    /// Takes bytes if that needs no waiting; otherwise returns `None`, and nothing has changed.
    pub fn write_now(
        &self,
        handle: HandleNo,
        offset: u64,
        data: &[u8],
    ) -> Option<Result<(), FsError>> {
        match self.files.get(handle) {
            Ok(file) => match file.writing() {
                Ok(handle) => self.write_staged_now(handle, offset, data),
                Err(error) => {
                    self.refused(&file);
                    Some(Err(error))
                }
            },
            Err(error) => Some(Err(error)),
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

    /// Whether the kernel may have pages that a write by `handle`, which passes them by, makes old.
    #[must_use]
    pub fn overtakes_pages(&self, handle: HandleNo) -> bool {
        let file = self.files.get(handle);
        let Some(open) = file.as_deref().ok().and_then(|file| {
            let handle = file.staged().filter(|handle| handle.is_direct)?;
            Some(&handle.open)
        }) else {
            return false;
        };
        let were_there = self.namespace.drop_pages(open.ino);
        were_there || open.has_others() || self.namespace.has_readers(open.ino)
    }

    /// Takes bytes, when there is memory for them.
    pub async fn write(&self, handle: HandleNo, offset: u64, data: &[u8]) -> Result<(), FsError> {
        // A copy of file data, of callers that keep theirs.
        self.write_bytes(handle, offset, Bytes::copy_from_slice(data))
            .await
    }

    /// Takes the bytes of a waiting WRITE, as [`Self::write`].
    pub async fn write_held(
        &self,
        handle: HandleNo,
        offset: u64,
        data: PendingWrite,
    ) -> Result<(), FsError> {
        self.write_bytes(handle, offset, Bytes::from_owner(data))
            .await
    }

    async fn write_bytes(&self, handle: HandleNo, offset: u64, data: Bytes) -> Result<(), FsError> {
        let file = self.files.get(handle)?;
        let handle = file.writing().inspect_err(|_| self.refused(&file))?;
        self.write_staged(handle, offset, data).await
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
        if self.staged_of(&source).is_some() {
            return Err(FsError::Unsupported(
                "a file that is being written is copied through this machine",
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
        self.copy_staged(target.writing()?, to.1, copied).await
    }

    /// Handles the close of a descriptor.
    ///
    /// Returns when the bucket holds the written bytes, unless another descriptor is still open.
    pub async fn flush(&self, handle: HandleNo, closing: &dyn Closing) -> Result<(), FsError> {
        let file = self.files.get(handle)?;
        match file.staged() {
            Some(handle) => self.flush_staged(handle, closing).await,
            None => Ok(()),
        }
    }

    /// Returns when the bucket holds the written bytes, or the local disk with write-back.
    pub async fn sync(&self, handle: HandleNo) -> Result<(), FsError> {
        let file = self.files.get(handle)?;
        match file.staged() {
            Some(handle) => handle.open.file.commit().await,
            None => Ok(()),
        }
    }

    /// Notes a refused write.
    fn refused(&self, file: &OpenFile) {
        if let OpenFile::Reading { ino, .. } = file {
            self.namespace.write_refused(*ino);
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

    /// Whether a file has changes that are neither in the bucket nor durable on the local disk.
    pub fn is_writing(&self) -> bool {
        self.has_staged_changes()
    }

    /// Gives up what was not stored. For the end of the mount, behind
    /// [`Self::keep_staged`].
    pub async fn abandon_uploads(&self) {
        self.writing.end_waiting();
        self.writing.abort_all().await;
        // Uploads that were begun meanwhile.
        self.writing.abort_all().await;
    }
}
