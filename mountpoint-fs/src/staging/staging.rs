//! The staging of one mount.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use mountpoint_client::types::{ETag, Key, ObjectHeaders};

use super::context::{StagingContext, WriteBack};
use super::control::ControlServer;
use super::directory::{DataFileName, Holder, JournalBucket, StagingDirectory};
use super::file::{StagedBase, StagedFile, StagedObserver};
use super::journal::{AdaptivePolicy, Journal};
use super::kept::keep_version;
use super::record::{FoundRecord, RecoveredVersion, recover};
use super::upload::{FoundCheckpoint, checkpoint, find_checkpoint};
use super::uploads::{PendingUploads, UploadQueue};
use crate::clock::Clock;
use crate::config::StagingConfig;
use crate::operation::Progress;
use crate::read::ReadContext;
use crate::sync::Mutex;
use crate::write::{Stored, WriteContext, background};

/// Files that are written in place, on a local disk. Made once per mount.
#[derive(Debug)]
pub struct Staging {
    context: Arc<StagingContext>,
    /// Until somebody takes them.
    recovered: Mutex<Vec<RecoveredFile>>,
    unreadable: Vec<String>,
    /// Answers `mount-s3 staged`, as long as the journal is open.
    _control: Option<ControlServer>,
}

/// A file that an earlier process committed, and that the bucket lacks.
#[derive(Debug)]
pub struct RecoveredFile {
    /// The key under which it will be stored.
    pub key: Key,
    /// Bytes of the file.
    pub size: u64,
    /// Time of its last change.
    pub modified: SystemTime,
    /// The version that it is based on; `None` for a new file.
    pub base: Option<Stored>,
    /// The file. Its upload goes on by itself.
    pub file: Arc<StagedFile>,
}

/// The files that an earlier process has left in the journal.
#[derive(Default)]
struct Left {
    write_back: Option<WriteBack>,
    versions: Vec<RecoveredVersion>,
    /// Names of data files that a record needs.
    needed: BTreeSet<DataFileName>,
    unreadable: Vec<String>,
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
        let directory = StagingDirectory::open(&config.directory, &holder, is_inside)
            .map_err(|error| error.to_string())?;
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
        let left = Left::find(config, &directory, &clock)?;
        let needed = left.needed;
        let mut checkpoints = find_checkpoints(&directory)?;
        let is_needed = |name: DataFileName| needed.contains(&name);
        let removed = directory.remove_leftovers(&is_needed);
        removed.map_err(|error| error.to_string())?;
        let contexts = (reading, writing);
        let context = StagingContext::new(config, directory, left.write_back, contexts, clock)
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        let mut recovered = Vec::new();
        for found in left.versions {
            let left = checkpoints.remove(&found.files.name());
            let Some(key) = Key::parse(&found.version.key) else {
                continue;
            };
            let version = &found.version;
            let (size, modified, base) = (version.size, version.mtime(), version.base());
            recovered.push(RecoveredFile {
                file: StagedFile::recovered(&context, key.clone(), found, left),
                key,
                size,
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
            _control: answer(&context),
            context,
            recovered: Mutex::new(recovered),
            unreadable: left.unreadable,
        }))
    }

    /// A file at `key`. Nothing is sent or made before its first change.
    #[must_use]
    pub fn file(
        &self,
        key: Key,
        base: StagedBase,
        headers: ObjectHeaders,
        progress: Arc<Progress>,
        observer: Arc<dyn StagedObserver>,
    ) -> Arc<StagedFile> {
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

    /// Committed files of an earlier process that cannot be read: they stay in the directory.
    #[must_use]
    pub fn unreadable(&self) -> &[String] {
        &self.unreadable
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

/// The unfinished uploads that an earlier process has left, with their parts. Blocks.
fn find_checkpoints(
    directory: &StagingDirectory,
) -> Result<BTreeMap<DataFileName, FoundCheckpoint>, String> {
    let names = directory.checkpoints().map_err(|error| error.to_string())?;
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

/// Begins to answer `mount-s3 staged`. The mount works without it.
fn answer(context: &StagingContext) -> Option<ControlServer> {
    let queue = &context.write_back.as_ref()?.queue;
    let started = ControlServer::start(context.directory.folder(), Arc::clone(queue));
    if let Err(error) = &started {
        let place = context.directory.path().display();
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

impl Left {
    /// Leaves the newest version of each key. A kill between the record of a rename and that of the
    /// removal of the file that it replaces leaves both: the older one is released. Any other older
    /// version was acknowledged, and is kept.
    fn drop_replaced(
        &mut self,
        journal: &Journal,
        (directory, config, now): (&StagingDirectory, &StagingConfig, SystemTime),
    ) {
        let mut newest = BTreeMap::new();
        let mut renamed_over = BTreeSet::new();
        for found in &self.versions {
            let version = newest.entry(found.version.key.clone()).or_insert(0);
            *version = found.id.version.max(*version);
            renamed_over.extend(found.version.over);
        }
        self.versions.retain(|found| {
            let key = &found.version.key;
            let is_newest = newest.get(key) == Some(&found.id.version);
            if is_newest {
                return true;
            }
            if renamed_over.contains(&found.id.key.0) {
                tracing::info!(key, "a file that an earlier mount replaced is not uploaded");
            } else {
                let reason = "an earlier mount has committed a newer file of this name".to_owned();
                let files = &found.files;
                match keep_version(directory, config, files, &found.version, (reason, now)) {
                    Ok(id) => tracing::error!(
                        key,
                        "two files of this name wait for their upload: the older one is kept as {id}, see \
                         `mount-s3 staged list {}`",
                        config.directory.display()
                    ),
                    Err(error) => {
                        tracing::error!(
                            key,
                            "two files of this name wait for their upload: the older one stays in the journal: {error}"
                        );
                        return false;
                    }
                }
            }
            // Without it, the next start releases it.
            drop(journal.release(found.id));
            false
        });
    }

    /// Reads the journal, or begins one if the mount writes back. Blocks.
    fn find(
        config: &StagingConfig,
        directory: &Arc<StagingDirectory>,
        clock: &Clock,
    ) -> Result<Self, String> {
        let mut left = Self::default();
        let disk = directory.journal(config.write_back.is_some());
        let Some(disk) = disk.map_err(|error| error.to_string())? else {
            return Ok(left);
        };
        let policy = Box::new(AdaptivePolicy::new());
        let opened = Journal::open(disk, directory.journal_limits(), policy, clock.clone());
        let (journal, records) = opened.map_err(|error| {
            let place = directory.path().display();
            format!("cannot use the staging directory {place}: {error}")
        })?;
        if records.is_empty() && config.write_back.is_none() {
            return Ok(left);
        }
        let bucket = JournalBucket {
            name: config.bucket.clone(),
            endpoint: config.endpoint.clone(),
        };
        let other = directory.claim_for(&bucket, !records.is_empty());
        if let Some(other) = other.map_err(|error| error.to_string())? {
            let (place, count) = (config.directory.display(), records.len());
            return Err(format!(
                "{place} has {count} files that wait for their upload to {other}, and not to {bucket}: mount that bucket \
                 with it, or name another directory; `mount-s3 staged list {place}` shows them"
            ));
        }
        for record in &records {
            let name = DataFileName(record.id.key.0);
            directory.skip_names(name.0.saturating_add(1));
            match recover(directory, &journal, record)? {
                FoundRecord::Version(found) => left.versions.push(*found),
                FoundRecord::Removed => {
                    // Without it, the next start releases it.
                    drop(journal.release(record.id));
                    continue;
                }
                FoundRecord::Unreadable(reason) => {
                    let place = directory.path().display();
                    let text = format!("{reason}; it stays in {place}, and is not uploaded");
                    tracing::error!("{text}");
                    left.unreadable.push(text);
                }
            }
            left.needed.insert(name);
        }
        left.drop_replaced(&journal, (directory, config, clock.wall()));
        let delay = config.write_back.map_or(Duration::ZERO, |it| it.delay);
        let queue = UploadQueue::start(delay, clock);
        let queue = queue.map_err(|error| format!("cannot start a thread: {error}"))?;
        left.write_back = Some(WriteBack { journal, queue });
        Ok(left)
    }
}
