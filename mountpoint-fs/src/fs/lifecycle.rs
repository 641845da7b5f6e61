//! The life of a mount's file system: what it takes up, what runs beside the operations, its
//! numbers, and its end.

use std::io;
use std::path::Path;
use std::sync::Arc;

use futures::future::join_all;
use mountpoint_crt_sys::block::trim_allocator;

use super::opening::{adopt, permit_writing};
use super::written::staged_files;
use super::{FileSystem, markers};
use crate::config::StagingConfig;
use crate::file::Staging;
use crate::namespace::WalkStats;
use crate::operation::{FsError, HandleNo, InodeNo, WriteOptions};
use crate::read::{ReadStats, SiblingPrefetch, SiblingPrefetchStats};
use crate::write::{PendingWrite, WriteContext};

/// The numbers of a file system at one time.
#[derive(Clone, Copy, Debug)]
pub struct FileSystemStats {
    /// GETs and memory.
    pub read: ReadStats,
    /// Bytes that readers have read so far.
    pub consumed: u64,
    /// Files that were fetched before they were opened.
    pub sibling_prefetch: SiblingPrefetchStats,
    /// LISTs ahead of walks.
    pub walks: WalkStats,
    /// How often a listing met a key that cannot be shown.
    pub hidden_keys: u64,
    /// Inodes besides the root.
    pub inodes: usize,
    /// Open handles of files.
    pub open_files: usize,
    /// Open handles of directories.
    pub open_directories: usize,
    /// Written bytes that S3 does not have yet.
    pub write_held: u64,
    /// Multipart uploads in progress.
    pub uploads: usize,
    /// Entries of the journal that are not done.
    pub journal_entries: usize,
}

impl FileSystem {
    /// Has written files keep their changes in the directory of `config`. Blocks.
    ///
    /// `is_inside` tells whether a path is in the mount itself. Before the mount is served.
    ///
    /// # Errors
    /// A text for the user.
    pub fn stage(
        &mut self,
        config: &StagingConfig,
        is_inside: &dyn Fn(&Path) -> bool,
    ) -> Result<(), String> {
        let parts = &mut self.parts;
        let (reading, writing) = (&parts.reading, &parts.writing);
        let staging = Staging::open(config, reading, writing, is_inside, parts.clock.clone())?;
        self.stage_by(staging);
        Ok(())
    }

    /// Has `staging` make written files, and adopts those that it has recovered.
    pub(super) fn stage_by(&mut self, staging: Arc<Staging>) {
        let parts = &mut self.parts;
        let recovered = staging.recovered();
        parts.staged = staged_files(staging, &parts.namespace);
        for file in recovered {
            match file.key.is_marker() {
                true => markers::adopt(&self.parts, file),
                false => adopt(&self.parts, file),
            }
        }
    }

    /// Gives back memory that was idle for a while. The caller repeats this every
    /// [`READER_IDLE`](crate::config::limits::READER_IDLE).
    pub fn give_back_idle(&self) {
        self.parts.namespace.give_back_idle();
        self.parts.reading.give_back_idle();
        if let Some(sibling_prefetch) = &self.files.sibling_prefetch {
            sibling_prefetch.give_back_idle();
        }
        let has_rested_many = self.parts.staged.staging().has_rested_many();
        if self.parts.namespace.has_dropped_many() || has_rested_many {
            trim_allocator();
        }
    }

    /// Most bytes of the memory for data that were ever held at once.
    #[must_use]
    pub fn memory_peak(&self) -> u64 {
        self.parts.reading.stats().budget_peak
    }

    /// Sends second GETs for late ones, for as long as the file system lives. A task of a tokio
    /// runtime.
    pub fn hedge(&self) -> impl Future<Output = ()> + Send + use<> {
        self.parts.reading.hedge()
    }

    /// Helps writers that wait for memory, for as long as the file system lives. A task of a tokio
    /// runtime.
    pub fn relieve_writers(&self) -> impl Future<Output = ()> + Send + use<> {
        WriteContext::relieve(Arc::downgrade(&self.parts.writing))
    }

    /// Whether there may be local files with the bytes of whole objects.
    #[must_use]
    pub fn has_local_files(&self) -> bool {
        self.parts.reading.has_local_files()
    }

    /// Begins or ends the use of local files. Returns whether that is a change.
    pub fn use_local_files(&self, is_used: bool) -> bool {
        self.parts.reading.use_local_files(is_used)
    }

    /// The error of an open of `ino` that cannot go with those that read its local file.
    ///
    /// The kernel looks the name up again, finds another inode of the same object, and opens that.
    /// The local file is not used for a while, so that this open comes first there. The other opens
    /// keep theirs.
    pub fn open_afresh(&self, ino: InodeNo) -> FsError {
        if let Some((key, version)) = self.parts.namespace.stored_version(ino) {
            self.parts.reading.pause_local_file(key, version.etag);
        }
        self.parts.namespace.distrust(ino);
        FsError::Stale("it is read from a local file, and was opened in another way".to_owned())
    }

    /// Whether the file of `handle` is one that is written.
    #[must_use]
    pub fn is_of_written_file(&self, handle: HandleNo) -> bool {
        let file = self.files.handles.get(handle);
        file.is_ok_and(|file| file.staged().is_some())
    }

    /// Whether the mount's flags permit to open an existing file in this way.
    #[must_use]
    pub fn permits_writing(&self, options: WriteOptions) -> bool {
        permit_writing(&self.parts.config, options).is_ok()
    }

    /// Notes that `thread` has `len` bytes to write, to any file.
    pub fn thread_writes(&self, thread: u64, len: usize) {
        self.parts.writing.thread_writes(thread, len);
    }

    /// Keeps the bytes of a waiting WRITE, in memory that is counted.
    #[must_use]
    pub fn hold(&self, data: &[u8]) -> PendingWrite {
        self.parts.writing.hold(data)
    }

    /// Starts the journal's thread; it writes no journal in a directory that `is_unusable`.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start_journal(
        &self,
        is_unusable: impl Fn(&Path) -> bool + Send + Sync + 'static,
    ) -> io::Result<()> {
        self.parts.mutator.journal().start(is_unusable)
    }

    /// Limits the wait for lines of the journal. A task of a tokio runtime.
    pub fn watch_journal(&self) -> impl Future<Output = ()> + Send + use<> {
        self.parts.mutator.journal().watch()
    }

    /// Aborts uploads that killed mounts of this bucket left.
    pub async fn recover_uploads(&self) {
        self.parts.writing.recover().await;
    }

    /// Returns when every closed file is stored, or has failed. For the end of the mount.
    pub async fn drained(&self) {
        self.parts.writing.drained().await;
    }

    /// Whether a file has changes that are neither in the bucket nor durable on the local disk.
    pub fn is_writing(&self) -> bool {
        self.parts
            .staged
            .all()
            .iter()
            .any(|open| !open.file.is_committed())
    }

    /// Stores every staged file that has changes, or makes it durable with write-back. For the end
    /// of the mount.
    pub async fn commit_staged(&self) {
        let files = self.parts.staged.all();
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
        let staged = &self.parts.staged;
        staged.have_disk().then(|| Arc::clone(staged.staging()))
    }

    /// Keeps in the directory what could not be stored of staged files. For the end of the mount:
    /// waits for no store.
    pub async fn keep_staged(&self) {
        let files = self.parts.staged.all();
        let kept = files.iter().map(|open| {
            let reason = "the mount ended before the file was stored";
            open.file.keep_at_end(reason)
        });
        join_all(kept).await;
    }

    /// Gives up what was not stored. For the end of the mount, behind
    /// [`Self::keep_staged`].
    pub async fn abandon_uploads(&self) {
        self.parts.writing.end_waiting();
        self.parts.writing.abort_all().await;
        // Uploads that were begun meanwhile.
        self.parts.writing.abort_all().await;
    }

    /// The numbers now.
    #[must_use]
    pub fn statistics(&self) -> FileSystemStats {
        let prefetch = self.files.sibling_prefetch.as_ref();
        FileSystemStats {
            read: self.parts.reading.stats(),
            consumed: self.parts.reading.consumed(),
            sibling_prefetch: prefetch.map(SiblingPrefetch::stats).unwrap_or_default(),
            walks: self.parts.namespace.walk_stats(),
            hidden_keys: self.parts.namespace.hidden_keys(),
            inodes: self.parts.namespace.inode_count(),
            open_files: self.files.handles.len(),
            open_directories: self.directories.len(),
            write_held: self.parts.writing.bytes_held(),
            uploads: self.parts.writing.uploads(),
            journal_entries: self.parts.writing.journal_entries(),
        }
    }
}
