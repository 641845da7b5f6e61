//! The staging of one mount.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use mountpoint_client::types::{ETag, Key, ObjectHeaders};

use super::context::StagingContext;
use super::control::{ControlServer, DamagedFiles};
use super::directory::{DataFileName, Holder, StagingDirectory};
use super::left::Left;
use super::life::{StagedBase, StagedFile, StagedObserver};
use super::local::FileMemory;
use super::queue::PendingUploads;
use super::store::{FoundCheckpoint, checkpoint, find_checkpoint};
use crate::clock::Clock;
use crate::config::StagingConfig;
use crate::operation::{InodeNo, Progress};
use crate::read::ReadContext;
use crate::sync::Mutex;
use crate::write::{PendingWork, Stored, WriteContext, background};

/// Files that are written in place, on a local disk. Made once per mount.
#[derive(Debug)]
pub struct Staging {
    context: Arc<StagingContext>,
    /// Until somebody takes them.
    recovered: Mutex<Vec<RecoveredFile>>,
    #[cfg(test)]
    damaged: DamagedFiles,
    /// Answers `mount-s3 staged`, as long as the journal is open.
    _control: Option<ControlServer>,
}

/// A file that an earlier process committed, and that the bucket lacks.
#[derive(Debug)]
pub struct RecoveredFile {
    /// The key under which it will be stored.
    pub key: Key,
    /// Time of its last change.
    pub modified: SystemTime,
    /// The version that it is based on; `None` for a new file.
    pub base: Option<Stored>,
    /// The file. Its upload goes on by itself.
    pub file: StagedFile,
}

impl Staging {
    /// Opens the directory of `config`, which no other process may use, and goes on with the
    /// uploads that an earlier process has left there. `is_inside` tells whether a path is in the
    /// mount itself. Blocks.
    ///
    /// # Errors
    /// A text for the user.
    pub fn open(
        config: &StagingConfig,
        reading: &Arc<ReadContext>,
        writing: &Arc<WriteContext>,
        is_inside: &dyn Fn(&Path) -> bool,
        clock: Clock,
    ) -> Result<Arc<Self>, String> {
        let holder = Holder {
            pid: std::process::id(),
            bucket: config.bucket.clone(),
            mount_point: config.mount_point.clone(),
        };
        let directory = StagingDirectory::open(&config.directory, &holder, is_inside)?;
        Self::over(config, directory, reading, writing, clock)
    }

    /// Goes on with what is in `directory`. Blocks.
    pub(super) fn over(
        config: &StagingConfig,
        directory: StagingDirectory,
        reading: &Arc<ReadContext>,
        writing: &Arc<WriteContext>,
        clock: Clock,
    ) -> Result<Arc<Self>, String> {
        let directory = Arc::new(directory);
        let file_memory = FileMemory::new(&reading.memory().0);
        let left = Left::find(config, (&directory, &file_memory), &clock)?;
        let mut checkpoints = find_checkpoints(&directory)?;
        let key_of = |name| {
            let found: Option<&FoundCheckpoint> = checkpoints.get(&name);
            found.map(|found| &found.begun.upload.key)
        };
        left.clear(&directory, (config, clock.wall()), &key_of)?;
        let needed = left.needed;
        let contexts = (reading, writing);
        let local = (Some(Arc::clone(&directory)), file_memory);
        let context = StagingContext::new(config, local, left.write_back, contexts, clock);
        let mut recovered = Vec::new();
        for found in left.versions {
            let left = checkpoints.remove(&found.files.name());
            let Some(key) = Key::parse(&found.version.key) else {
                continue;
            };
            let version = &found.version;
            let (modified, base) = (version.mtime(), version.base());
            recovered.push(RecoveredFile {
                file: StagedFile::recovered(&context, key.clone(), found, left),
                key,
                modified,
                base,
            });
        }
        checkpoints.retain(|name, _| !needed.contains(name));
        abort(&context, checkpoints);
        if !recovered.is_empty() {
            let count = recovered.len();
            tracing::info!("{count} files of an earlier mount are uploaded now");
        }
        Ok(Arc::new(Self {
            _control: answer((&context, &directory), left.damaged.clone()),
            context,
            recovered: Mutex::new(recovered),
            #[cfg(test)]
            damaged: left.damaged,
        }))
    }

    /// Files that are in memory alone.
    #[must_use]
    pub fn in_memory(
        reading: &Arc<ReadContext>,
        writing: &Arc<WriteContext>,
        clock: Clock,
    ) -> Arc<Self> {
        let config = StagingConfig::in_memory();
        let local = (None, FileMemory::new(&reading.memory().0));
        let context = StagingContext::new(&config, local, None, (reading, writing), clock);
        Arc::new(Self {
            _control: None,
            context,
            recovered: Mutex::default(),
            #[cfg(test)]
            damaged: DamagedFiles::default(),
        })
    }

    /// A file at `key`. Nothing is sent or made before its first change. `observer` learns of it by
    /// that inode.
    #[must_use]
    pub fn file(
        &self,
        key: Key,
        base: StagedBase,
        headers: ObjectHeaders,
        progress: Arc<Progress>,
        observer: (Arc<dyn StagedObserver>, InodeNo),
    ) -> StagedFile {
        StagedFile::new(&self.context, (key, base), headers, progress, observer)
    }

    /// The `size` bytes of the version `etag` of the small file `key`, if this mount has just
    /// stored it. They are given once.
    #[must_use]
    pub fn take_stored(&self, key: &Key, etag: &ETag, size: u64) -> Option<Bytes> {
        self.context.stored_files.take(key, etag, size)
    }

    /// The files that an earlier process committed, once. Their uploads go on whether or not
    /// somebody asks.
    #[must_use]
    pub fn recovered(&self) -> Vec<RecoveredFile> {
        std::mem::take(&mut self.recovered.lock())
    }

    /// Why committed files of an earlier process cannot be uploaded: they stay in the directory.
    #[cfg(test)]
    pub(super) fn damaged(&self) -> Vec<String> {
        let files = self.damaged.files.iter();
        files.filter_map(|file| file.error.clone()).collect()
    }

    /// Whether many files came to rest since this was last true: the memory of their parts is worth
    /// a trim.
    #[must_use]
    pub fn has_rested_many(&self) -> bool {
        let rested = &self.context.rested;
        let are_many = rested.load(Ordering::Relaxed) >= RESTED_MANY;
        if are_many {
            rested.store(0, Ordering::Relaxed);
        }
        are_many
    }

    /// The files that wait for their upload.
    #[must_use]
    pub fn pending(&self) -> PendingUploads {
        let queue = self.context.write_back.as_ref();
        queue.map_or_else(PendingUploads::default, |it| it.queue.pending())
    }

    /// Has all pending files uploaded as soon as possible, without waiting for it.
    pub fn flush(&self) {
        if let Some(write_back) = &self.context.write_back {
            write_back.queue.flush();
        }
    }

    /// Uploads all pending files, for at most `time`. Returns the rest, which the next mount
    /// uploads.
    pub async fn drain(&self, time: Duration) -> PendingUploads {
        if let Some(write_back) = &self.context.write_back {
            write_back.queue.flush();
            write_back.queue.drained(time).await;
        }
        self.pending()
    }

    /// Counts work on a file, for which the end of the mount waits until the guard is dropped.
    #[must_use]
    pub fn begin_work(&self) -> PendingWork {
        self.context.writing.begin_work()
    }

    /// Whether its files are on a local disk.
    #[must_use]
    pub fn has_disk(&self) -> bool {
        self.context.directory.is_some()
    }

    /// Its settings.
    #[must_use]
    pub fn config(&self) -> &StagingConfig {
        &self.context.config
    }

    /// Begins no more uploads: waiting files stay in the journal.
    pub fn stop_uploads(&self) {
        if let Some(write_back) = &self.context.write_back {
            write_back.queue.close();
        }
    }

    /// Takes no more commits, and returns when the disk knows which files the bucket has: the next
    /// mount does not upload them again.
    pub async fn end_journal(&self) {
        if let Some(write_back) = &self.context.write_back {
            write_back.journal.begin_close();
            write_back.queue.released().await;
        }
    }

    /// The shared state of its files.
    #[cfg(test)]
    pub(super) fn context(&self) -> &Arc<StagingContext> {
        &self.context
    }

    /// The headers of a new object at `key`.
    #[must_use]
    pub fn headers_of_new(&self, key: &Key) -> ObjectHeaders {
        self.context.writing.headers(key)
    }
}

/// Files at rest before the allocator releases memory: 2 MB.
const RESTED_MANY: u64 = 1024;

/// The unfinished uploads that an earlier process has left, with their parts. Blocks.
fn find_checkpoints(
    directory: &StagingDirectory,
) -> Result<BTreeMap<DataFileName, FoundCheckpoint>, String> {
    let names = directory.checkpoints()?;
    let mut found = BTreeMap::new();
    for name in names {
        match find_checkpoint(&**directory.disk(), name) {
            Some(checkpoint) => drop(found.insert(name, checkpoint)),
            // The upload was not noted, and so it has no part.
            None => directory.remove_data_file(&name.checkpoint()),
        }
    }
    Ok(found)
}

/// Aborts uploads of files without a version.
fn abort(context: &Arc<StagingContext>, found: BTreeMap<DataFileName, FoundCheckpoint>) {
    for (name, found) in found {
        let key = found.begun.upload.key.clone();
        let checkpoint = checkpoint(context, name, Some(found));
        let writing = Arc::clone(&context.writing);
        let work = writing.begin_work();
        background::run(async move {
            if let Err(error) = writing.abort(&checkpoint).await {
                tracing::warn!(%key, "an unfinished upload stays until the next mount: {error}");
            }
            drop(work);
        });
    }
}

/// Begins to answer `mount-s3 staged`: all that an earlier process has left is queued, or
/// `damaged`. The mount works without it.
fn answer(
    (context, directory): (&StagingContext, &StagingDirectory),
    damaged: DamagedFiles,
) -> Option<ControlServer> {
    let queue = context.write_back.as_ref().map(|it| Arc::clone(&it.queue));
    let started = ControlServer::start(directory.folder(), queue, damaged);
    if let Err(error) = &started {
        let place = directory.path().display();
        tracing::warn!("`mount-s3 staged` cannot ask this mount about {place}: {error}");
    }
    started.ok()
}

impl Drop for Staging {
    /// Begins no more uploads: waiting files stay in the journal, which gets every appended record.
    fn drop(&mut self) {
        if let Some(write_back) = &self.context.write_back {
            write_back.queue.close();
            write_back.journal.begin_close();
        }
    }
}
