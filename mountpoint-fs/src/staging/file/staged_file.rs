//! One staged file, which all handles of an inode share.
//!
//! Writes and changes of the size hold the gate: a store begins between them, never within one, so
//! no change is lost that a store has not seen. Reads hold nothing.
//!
//! Locks: `storing` for the length of a store, then the gate, then `giving_back`, then the state,
//! which is a leaf.
//! Bytes are read and written by threads of the local disk.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use mountpoint_client::types::{ETag, Key, ObjectHeaders};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, RwLock as AsyncRwLock};

use super::state::{Base, FileState, NeverStored, StagedBase};
use crate::config::limits::{GAP_BYTES_MAX, WRITE_SIZE_MAX};
use crate::operation::{FileKind, FsError, PosixAttributes, Progress, ReadData};
use crate::staging::contents::{DataFileNo, Piece, Source};
use crate::staging::context::StagingContext;
use crate::staging::kept::{Kept, keep};
use crate::staging::local::{DataFiles, disk_error};
use crate::staging::sources::read;
use crate::staging::upload::{Resolved, is_conflict, resolve};
use crate::sync::{Mutex, RwLock};
use crate::write::background::{self, SharedOutcome};
use crate::write::{Adopts, Stored, WriteObserver};

/// A file that is written in place.
pub struct StagedFile {
    context: Arc<StagingContext>,
    files: Arc<DataFiles>,
    progress: Arc<Progress>,
    observer: Arc<dyn WriteObserver>,
    /// A leaf.
    state: Mutex<FileState>,
    /// Shared by writes, exclusive for what changes the file as a whole.
    gate: Arc<AsyncRwLock<()>>,
    /// Shared by each write to a data file until it is noted, exclusive while disk space is given
    /// back: what a write has just filled is never given back.
    giving_back: RwLock<()>,
    /// Held as long as a store runs.
    storing: Arc<AsyncMutex<()>>,
}

/// No store of the file runs while this lives.
#[derive(Debug)]
pub struct StoresHeld(#[expect(dead_code, reason = "dropped")] OwnedMutexGuard<()>);

impl StagedFile {
    pub(in crate::staging) fn new(
        context: &Arc<StagingContext>,
        (key, base): (Key, StagedBase),
        headers: ObjectHeaders,
        progress: Arc<Progress>,
        observer: Arc<dyn WriteObserver>,
    ) -> Arc<Self> {
        let is_unasked = base == StagedBase::Unasked;
        let base = match base {
            StagedBase::Version(version) => Some(Base::new(&context.reading, &key, version)),
            StagedBase::None | StagedBase::Unasked => None,
        };
        Arc::new(Self {
            files: Arc::new(DataFiles::new(&context.directory)),
            context: Arc::clone(context),
            progress,
            observer,
            state: Mutex::new(FileState::new(key, headers, base, is_unasked)),
            gate: Arc::default(),
            giving_back: RwLock::new(()),
            storing: Arc::default(),
        })
    }

    /// The size and time that other processes see.
    #[must_use]
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// The key of its object.
    #[must_use]
    pub fn key(&self) -> Key {
        self.state.lock().key.clone()
    }

    /// Bytes of the file.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.state.lock().contents.size()
    }

    /// The version that the bucket has of it, as last known; `None` if it has none.
    #[must_use]
    pub fn base(&self) -> Option<Stored> {
        let state = self.state.lock();
        state.base.as_ref().map(|base| base.version.clone())
    }

    /// Whether its name was removed.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.state.lock().never_stored == Some(NeverStored::Removed)
    }

    /// Whether the bucket lacks changes.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        let state = self.state.lock();
        state.needs_store().unwrap_or(false)
    }

    /// The failure that ended the file, if there was one.
    #[must_use]
    pub fn failure(&self) -> Option<FsError> {
        self.state.lock().failure.clone()
    }

    /// Sets the objects of other hosts that may stand for the new file as long as nothing was
    /// written to it.
    pub fn may_adopt(&self, adopts: Adopts) {
        self.state.lock().adopts = adopts;
    }

    /// Bytes `offset..offset + size`, cut at the end of the file. `fills_cache` tells that the
    /// kernel asks for pages.
    ///
    /// [`FsError::Stale`] if bytes of the base are needed that another client has replaced.
    pub async fn read(
        &self,
        offset: u64,
        size: u32,
        fills_cache: bool,
    ) -> Result<ReadData, FsError> {
        let range = offset..offset.saturating_add(u64::from(size));
        for _ in 0..READS_MAX {
            let (pieces, sources, given_back) = {
                let state = self.state.lock();
                state.check()?;
                let pieces = state.contents.pieces(range.clone());
                (pieces, state.sources(&self.files), state.given_back)
            };
            let is_local = |piece: &Piece| matches!(piece.source, Source::Local(_));
            let has_local = pieces.iter().any(is_local);
            let data = read(&self.context, &sources, pieces, fills_cache).await?;
            if !has_local || self.state.lock().given_back == given_back {
                return Ok(data);
            }
        }
        Err(FsError::Busy(format!(
            "{}: the disk of --staging is full, and bytes were given back during each read",
            self.key()
        )))
    }

    /// Writes `data` at `offset`. A write that is given up while it waits may be done all the same,
    /// as a whole.
    pub async fn write(self: &Arc<Self>, offset: u64, data: Bytes) -> Result<(), FsError> {
        let end = offset.saturating_add(data.len() as u64);
        if data.is_empty() {
            return Ok(());
        }
        self.check_len(end)?;
        let turn = Arc::clone(&self.gate).read_owned().await;
        let this = Arc::clone(self);
        let job = move || {
            let written = this.write_local(offset, &data);
            drop(turn);
            written
        };
        self.context.on_disk(job).await
    }

    /// Writes to the data files. Blocks.
    fn write_local(&self, offset: u64, data: &[u8]) -> Result<(), FsError> {
        let range = offset..offset + data.len() as u64;
        let places = {
            let mut state = self.state.lock();
            state.check()?;
            if state.contents.range_count() >= RANGES_MAX {
                // Their bytes stay in the data files.
                drop(state.contents.drop_stored());
            }
            if state.contents.range_count() >= RANGES_MAX {
                return Err(FsError::NoSpace(format!(
                    "{} has {RANGES_MAX} changed ranges: an fsync stores them and makes room for others",
                    state.key
                )));
            }
            state.contents.places(&range)
        };
        let mut rest = data;
        for (range, file) in places {
            let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            let (piece, behind) = rest.split_at(len.min(rest.len()));
            rest = behind;
            let written = self.write_piece(&range, file, piece);
            let written = written.or_else(|error| match error.kind() {
                std::io::ErrorKind::StorageFull if self.make_room() => {
                    self.write_piece(&range, file, piece)
                }
                _ => Err(error),
            });
            written.map_err(|error| disk_error(&self.context.directory, &error))?;
        }
        Ok(())
    }

    /// Writes to one data file, and notes it.
    fn write_piece(
        &self,
        range: &Range<u64>,
        file: DataFileNo,
        data: &[u8],
    ) -> std::io::Result<()> {
        let _stays = self.giving_back.read();
        self.files.write(file, range.start, data)?;
        let mut state = self.state.lock();
        state.contents.wrote(range.clone(), file);
        self.changed(&mut state);
        Ok(())
    }

    /// Gives back the disk space of bytes that the bucket has as well. Returns whether there were
    /// any. Blocks.
    fn make_room(&self) -> bool {
        let _turn = self.giving_back.write();
        let dropped = {
            let mut state = self.state.lock();
            let dropped = state.contents.drop_stored();
            // Before the bytes go: a read that has found them local looks again.
            state.given_back += u64::from(!dropped.is_empty());
            dropped
        };
        for (range, file) in &dropped {
            self.files.discard(*file, range);
        }
        !dropped.is_empty()
    }

    /// Sets the size: bytes behind the old end are zeros.
    pub async fn set_len(&self, len: u64) -> Result<(), FsError> {
        self.check_len(len)?;
        let _turn = self.gate.write().await;
        let mut state = self.state.lock();
        state.check()?;
        self.check_gap(&state, len)?;
        state.contents.set_len(len);
        self.changed(&mut state);
        Ok(())
    }

    /// Makes the file long enough for `range`, unless it `keeps_size`. Reserves no room on the
    /// disk.
    pub async fn allocate(&self, range: Range<u64>, keeps_size: bool) -> Result<(), FsError> {
        if keeps_size || range.end <= self.size() {
            return self.state.lock().check();
        }
        self.check_len(range.end)?;
        let _turn = self.gate.write().await;
        let mut state = self.state.lock();
        state.check()?;
        self.check_gap(&state, range.end)?;
        if range.end > state.contents.size() {
            state.contents.set_len(range.end);
            self.changed(&mut state);
        }
        Ok(())
    }

    /// Makes `range` zeros. The file becomes long enough for it, unless it `keeps_size`.
    pub async fn zero(&self, range: Range<u64>, keeps_size: bool) -> Result<(), FsError> {
        if !keeps_size {
            self.allocate(range.clone(), false).await?;
        }
        let _turn = self.gate.write().await;
        let mut state = self.state.lock();
        state.check()?;
        state.contents.zero(&range);
        self.changed(&mut state);
        Ok(())
    }

    /// Publishes a change of the contents.
    fn changed(&self, state: &mut FileState) {
        state.changes();
        let now = self.context.clock.wall();
        self.progress.advance(state.contents.size(), now);
    }

    fn check_len(&self, len: u64) -> Result<(), FsError> {
        let most = self.context.writing.file_size_max();
        if len <= most {
            return Ok(());
        }
        let key = self.key();
        Err(FsError::TooLarge(format!(
            "{key}: {len} bytes, where a file can have {} GiB",
            most >> 30
        )))
    }

    /// Refuses a length with more zeros than a store should send: S3 has no holes.
    fn check_gap(&self, state: &FileState, len: u64) -> Result<(), FsError> {
        let gap = len.saturating_sub(state.contents.size());
        if gap <= GAP_BYTES_MAX {
            return Ok(());
        }
        Err(FsError::TooLarge(format!(
            "{}: {gap} bytes of zeros would be stored, and a file may have {} GiB of those at once",
            state.key,
            GAP_BYTES_MAX >> 30
        )))
    }

    /// Stores all changes. Returns when the bucket has them, or at once if it has.
    ///
    /// After a failure the changes stay, and the next store tries again; a conflict ends the file.
    /// A store that is given up while it waits continues.
    pub async fn store(self: &Arc<Self>) -> Result<(), FsError> {
        let turn = Arc::clone(&self.storing).lock_owned().await;
        if !self.state.lock().needs_store()? {
            return Ok(());
        }
        let outcome = SharedOutcome::new();
        let (this, settled) = (Arc::clone(self), outcome.clone());
        let work = self.context.writing.begin_work();
        background::run(async move {
            let stored = this.store_now().await;
            // A caller that drops the file next is the last one to have it.
            drop((this, turn));
            settled.settle(stored);
            drop(work);
        });
        outcome.wait().await
    }

    /// Stores the file as it is. The caller holds `storing`.
    async fn store_now(&self) -> Result<(), FsError> {
        // The snapshot of many ranges takes time that no thread of the kernel has.
        self.context.on_disk(|| Ok(())).await?;
        let mut request = {
            let _turn = self.gate.write().await;
            self.state.lock().begin_store(&self.files)
        };
        self.keep_time(&mut request.headers);
        match resolve(&self.context, &request).await {
            Ok(Resolved::Stored(stored)) => {
                let base = Base::new(&self.context.reading, &request.key, stored.clone());
                self.state.lock().stored(base);
                self.observer.stored(&stored);
                Ok(())
            }
            Ok(Resolved::Adopted) => {
                self.settle(FsError::Stale(format!(
                    "another host has made {} meanwhile",
                    request.key
                )));
                self.observer.adopted();
                Ok(())
            }
            Ok(Resolved::Beside(key)) => {
                self.settle(FsError::Stale(format!(
                    "another client changed {}, and this host's version is {key}",
                    request.key
                )));
                self.observer.adopted();
                Ok(())
            }
            Err(error) => {
                self.state.lock().contents.end_store(false);
                if is_conflict(&error) {
                    let reason = format!("another client changed the object: {error}");
                    return Err(self.keep_as(&reason).await);
                }
                Err(error)
            }
        }
    }

    /// Sends the time of the last change along, if objects carry times: programs that compare times
    /// see none change by a store.
    fn keep_time(&self, headers: &mut ObjectHeaders) {
        if self.context.writing.config().posix_metadata {
            let posix = PosixAttributes {
                mtime: Some(self.progress.mtime()),
                ..PosixAttributes::default()
            };
            let now = self.context.clock.wall();
            posix.store(FileKind::File, now, &mut headers.metadata);
        }
    }

    /// The file takes no more changes, and has none that are not stored: closing it is no failure.
    fn settle(&self, failure: FsError) {
        self.end(failure);
        self.state.lock().never_stored = Some(NeverStored::Settled);
    }

    /// The file takes no more changes.
    fn end(&self, failure: FsError) {
        let mut state = self.state.lock();
        state.contents.end_store(false);
        state.failure.get_or_insert(failure);
    }

    /// Keeps the local version in the directory, for the reason, and ends the file. No effect on a
    /// file whose changes are stored. For the end of the mount.
    pub async fn keep(&self, reason: &str) {
        let _turn = self.storing.lock().await;
        if self.is_changed() {
            self.keep_as(reason).await;
        }
    }

    /// Keeps the local version as [`Self::keep`] does, without a wait for a store in progress,
    /// which may succeed all the same.
    pub async fn keep_at_end(&self, reason: &str) {
        if self.is_changed() {
            self.keep_as(reason).await;
        }
    }

    /// Keeps the local version. Returns the failure that ends the file by that. The caller holds
    /// `storing`.
    async fn keep_as(&self, reason: &str) -> FsError {
        let _turn = self.gate.write().await;
        let (context, files) = (Arc::clone(&self.context), Arc::clone(&self.files));
        let (key, base, contents) = {
            let state = self.state.lock();
            let base = state.base.as_ref().map(|base| base.version.clone());
            (state.key.clone(), base, state.contents.now().clone())
        };
        let (named, reason) = (key.clone(), reason.to_owned());
        let kept = self.context.on_disk(move || {
            let kept = Kept {
                key: &named,
                base: base.as_ref(),
                contents: &contents,
                reason,
                time: context.clock.wall(),
            };
            let directory = &context.directory;
            keep(directory, &context.config, &files, &kept)
                .map_err(|error| disk_error(directory, &error))
        });
        let directory = self.context.config.directory.display();
        let text = match kept.await {
            Ok(id) => format!(
                "{key} was not stored: its local version is kept as {id}, see `mount-s3 staged list {directory}`"
            ),
            Err(error) => {
                format!("{key} was not stored, and its local version could not be kept: {error}")
            }
        };
        tracing::error!("{text}");
        let failure = FsError::Stale(text);
        self.end(failure.clone());
        self.observer.failed(&failure);
        failure
    }

    /// Handles the last close: stores changes, and keeps them in the directory if that fails.
    pub async fn release(self: &Arc<Self>) -> Result<(), FsError> {
        let stored = self.store().await;
        if let Err(error) = &stored {
            self.keep(&error.to_string()).await;
        }
        stored
    }

    /// Changes the headers of the object. `false` if the bucket has the file as it is: then the
    /// caller changes the object, and says so by [`Self::headers_replaced`].
    pub async fn change_headers(
        &self,
        change: impl FnOnce(&mut ObjectHeaders) -> Result<(), FsError> + Send,
    ) -> Result<bool, FsError> {
        let _turn = self.storing.lock().await;
        self.state.lock().change_headers(change)
    }

    /// The headers of the object.
    #[must_use]
    pub fn headers(&self) -> ObjectHeaders {
        self.state.lock().headers.clone()
    }

    /// Notes that the version `old` was replaced by one with equal bytes and other headers. No
    /// effect on a file with another base.
    pub fn headers_replaced(&self, old: &ETag, etag: &ETag) {
        let reading = &self.context.reading;
        self.state.lock().base_replaced(reading, old, etag);
    }

    /// Waits for the store in progress, and begins none while the guard lives: for a rename or a
    /// removal of the object.
    pub async fn hold_stores(&self) -> StoresHeld {
        StoresHeld(Arc::clone(&self.storing).lock_owned().await)
    }

    /// Notes that the file has another name now. `base` is its version there, of equal bytes;
    /// `None` if there is no object yet.
    pub fn renamed(&self, key: Key, base: Option<Stored>) {
        let base = base.map(|version| Base::new(&self.context.reading, &key, version));
        let mut state = self.state.lock();
        state.key = key;
        if base.is_some() {
            state.base = base;
        }
    }

    /// Brings the bytes of the base that show through to the disk, if there are `most` of them at
    /// most: the object is about to be removed.
    pub async fn fetch_base(self: &Arc<Self>, most: u64) -> Result<(), FsError> {
        let _turn = self.gate.write().await;
        let (pieces, mtime) = {
            let state = self.state.lock();
            let mut pieces = state.contents.pieces(0..state.contents.size());
            pieces.retain(|piece| piece.source == Source::Base);
            (pieces, self.progress.mtime())
        };
        if pieces.iter().map(Piece::len).sum::<u64>() > most {
            return Ok(());
        }
        for range in pieces.iter().map(|piece| piece.range.clone()) {
            let mut at = range.start;
            while at < range.end {
                let len = (range.end - at).min(WRITE_SIZE_MAX as u64);
                let size = u32::try_from(len).unwrap_or(u32::MAX);
                // A copy of file data: from the memory of reads to the disk.
                let data = self.read(at, size, false).await?.to_vec();
                if data.is_empty() {
                    break;
                }
                let (this, offset) = (Arc::clone(self), at);
                at += data.len() as u64;
                let job = move || this.write_local(offset, &data);
                self.context.on_disk(job).await?;
            }
        }
        if !pieces.is_empty() {
            self.progress.advance(self.size(), mtime);
        }
        Ok(())
    }

    /// Notes that the file has no name any more: it is never stored again.
    pub fn removed(&self) {
        self.state.lock().never_stored = Some(NeverStored::Removed);
    }
}

impl fmt::Debug for StagedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagedFile")
            .field("state", &*self.state.lock())
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

/// How often a read is tried whose local bytes were given back meanwhile.
const READS_MAX: usize = 8;

/// Most changed ranges of one file: 50 MB of memory.
const RANGES_MAX: usize = 1 << 20;
