//! One staged file, which all handles of an inode share.
//!
//! Writes and changes of the size hold the gate: a store begins between them, never within one, so
//! no change is lost that a store has not seen. Reads hold nothing.
//!
//! `parts` has the locks, `committing` and `storing` what is done with the file as a whole.
//! Bytes are read and written by threads of the local disk.

use std::fmt;
use std::io;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use futures::poll;
use mountpoint_client::types::{ETag, Key, ObjectHeaders};
use tokio::sync::OwnedMutexGuard;

use super::committing::{
    RoomWait, ask_others, commit_file, committed, seal, unseal, unseal_in_turn,
};
use super::ending::{keep_uncommitted, lose_name};
use super::naming::{self, commit_name, remove, settle};
use super::parts::{FileParts, Nobody, StagedObserver};
use super::releasing::{give_back, keep_stored};
use super::sending_ahead::send_ahead;
use super::state::{Base, FileState, NeverStored, StagedBase, UnstoredName};
use super::storing::store;
use crate::config::limits::{GAP_BYTES_MAX, WRITE_SIZE_MAX};
use crate::operation::{FsError, Progress, ReadData};
use crate::staging::contents::{DataFileNo, Piece, Source};
use crate::staging::context::StagingContext;
use crate::staging::local::{DataFiles, disk_error};
use crate::staging::record::RecoveredVersion;
use crate::staging::sources::read;
use crate::staging::upload::FoundCheckpoint;
use crate::write::{Adopts, Stored};

/// A file that is written in place.
pub struct StagedFile {
    parts: Arc<FileParts>,
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
        observer: Arc<dyn StagedObserver>,
    ) -> Arc<Self> {
        let is_unasked = base == StagedBase::Unasked;
        let base = match base {
            StagedBase::Version(version) => Some(Base::new(&context.reading, &key, version)),
            StagedBase::None | StagedBase::Unasked => None,
        };
        let state = FileState::new(key, headers, base, is_unasked);
        let are_summed = context.committing().is_some();
        let files = DataFiles::new(&context.directory, &context.file_memory, are_summed);
        let parts = FileParts::new(context, files, (state, None), progress, observer);
        Arc::new(Self { parts })
    }

    /// A version that an earlier process committed. Its upload is begun, or continued where an
    /// attempt has `left` it.
    pub(in crate::staging) fn recovered(
        context: &Arc<StagingContext>,
        key: Key,
        found: RecoveredVersion,
        left: Option<FoundCheckpoint>,
    ) -> Arc<Self> {
        let version = &found.version;
        let base = version
            .base()
            .map(|base| Base::new(&context.reading, &key, base));
        let progress = Arc::new(Progress::new(version.size, version.mtime()));
        let state = FileState::recovered(key, base, &found);
        let state = (state, left);
        let parts = FileParts::new(context, found.files, state, progress, Arc::new(Nobody));
        committed(&parts);
        Arc::new(Self { parts })
    }

    /// The size and time that other processes see.
    #[must_use]
    pub fn progress(&self) -> &Arc<Progress> {
        &self.parts.progress
    }

    /// The key of its object.
    #[must_use]
    pub fn key(&self) -> Key {
        self.parts.state.lock().key.clone()
    }

    /// Bytes of the file.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.parts.state.lock().contents.size()
    }

    /// The version that the bucket has of it, as last known; `None` if it has none.
    #[must_use]
    pub fn base(&self) -> Option<Stored> {
        let state = self.parts.state.lock();
        state.base.as_ref().map(|base| base.version.clone())
    }

    /// Whether its name was removed.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.parts.state.lock().never_stored == Some(NeverStored::Removed)
    }

    /// Whether the bucket lacks changes.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        let state = self.parts.state.lock();
        state.needs_store().unwrap_or(false)
    }

    /// The failure that ended the file, if there was one.
    #[must_use]
    pub fn failure(&self) -> Option<FsError> {
        self.parts.state.lock().failure.clone()
    }

    /// Sets the objects of other hosts that may stand for the new file as long as nothing was
    /// written to it.
    pub fn may_adopt(&self, adopts: Adopts) {
        self.parts.state.lock().adopts = adopts;
    }

    /// Bytes `offset..offset + size`, cut at the end of the file. `fills_cache` tells that the
    /// kernel asks for pages. Waits for the stores, if an upload has to be recognised, or if the
    /// object was replaced.
    ///
    /// [`FsError::Stale`] if bytes of the base are needed that another client has replaced.
    pub async fn read(
        &self,
        offset: u64,
        size: u32,
        fills_cache: bool,
    ) -> Result<ReadData, FsError> {
        let range = offset..offset.saturating_add(u64::from(size));
        let mut tries = READS_MAX;
        loop {
            let places = self.places(&range);
            let gone = match self.read_base(offset, size, fills_cache).await {
                Err(error @ (FsError::Stale(_) | FsError::NotFound)) => error,
                data => return data,
            };
            tries -= 1;
            if self.may_be_replaced_by_itself() {
                // The store recognises the object in the bucket, and the file is based on that.
                store(&self.parts).await?;
            } else {
                // A store, a rename or a removal of this mount may have replaced the object.
                drop(self.parts.storing.lock().await);
                if self.places(&range) == places {
                    return Err(gone);
                }
            }
            if tries == 0 {
                return Err(gone);
            }
        }
    }

    /// Where the bytes of `range` are: the object, and what of them is not in it.
    fn places(&self, range: &Range<u64>) -> (Key, Option<Stored>, Vec<Piece>) {
        let state = self.parts.state.lock();
        let base = state.base.as_ref().map(|base| base.version.clone());
        let pieces = state.contents.pieces(range.clone());
        (state.key.clone(), base, pieces)
    }

    /// As [`Self::read`], of the base as it is known.
    async fn read_base(
        &self,
        offset: u64,
        size: u32,
        fills_cache: bool,
    ) -> Result<ReadData, FsError> {
        let range = offset..offset.saturating_add(u64::from(size));
        for _ in 0..READS_MAX {
            let (pieces, sources, given_back) = {
                let state = self.parts.state.lock();
                state.check()?;
                let pieces = state.contents.pieces(range.clone());
                (pieces, state.sources(&self.parts.files), state.given_back)
            };
            let is_local = |piece: &Piece| matches!(piece.source, Source::Local(_));
            let has_local = pieces.iter().any(is_local);
            let data = read(&self.parts.context, &sources, pieces, fills_cache).await?;
            if !has_local || self.parts.state.lock().given_back == given_back {
                return Ok(data);
            }
        }
        Err(FsError::Busy(format!(
            "{}: the disk of --staging is full, and bytes were given back during each read",
            self.key()
        )))
    }

    /// Whether the object that has replaced the base may be an upload of this file, whose end was
    /// never noted: of a process that was killed, or behind an answer that was lost.
    fn may_be_replaced_by_itself(&self) -> bool {
        let state = self.parts.state.lock();
        state.may_be_stored() && state.needs_store().unwrap_or(false)
    }

    /// Writes `data` at `offset`. A write that is given up while it waits may be done all the same,
    /// as a whole.
    pub async fn write(self: &Arc<Self>, offset: u64, data: Bytes) -> Result<(), FsError> {
        let end = offset.saturating_add(data.len() as u64);
        if data.is_empty() {
            return Ok(());
        }
        self.check_len(end)?;
        let mut room = RoomWait::new(&self.parts.context);
        loop {
            let turn = Arc::clone(&self.parts.gate).read_owned().await;
            if self.parts.files.is_sealed(offset) {
                drop(turn);
                match unseal(&self.parts).await {
                    Err(FsError::NoSpace(_)) if room.wait(&self.parts.context, false).await => {}
                    unsealed => unsealed?,
                }
                continue;
            }
            if self.write_in_memory(offset, &data)? {
                return Ok(());
            }
            let (this, data) = (Arc::clone(self), data.clone());
            let job = move || {
                let written = this.write_local(offset, &data);
                drop(turn);
                written
            };
            match self.parts.context.on_disk(job).await? {
                None => {
                    send_ahead(&self.parts);
                    return Ok(());
                }
                Some(full) => {
                    if !room.wait(&self.parts.context, true).await {
                        return Err(disk_error(&self.parts.context.directory, &full));
                    }
                }
            }
        }
    }

    /// Writes to data files in memory. `false` if the disk has to take the bytes, all of them
    /// again.
    fn write_in_memory(&self, offset: u64, data: &[u8]) -> Result<bool, FsError> {
        let files = &self.parts.files;
        if !files.are_in_memory() {
            return Ok(false);
        }
        let range = offset..offset + data.len() as u64;
        let mut rest = data;
        for (range, file) in self.places_to_write(&range)? {
            let (piece, behind) = split(rest, &range);
            rest = behind;
            let _stays = self.parts.giving_back.read();
            if !files.write_memory(file, range.start, piece) {
                return Ok(false);
            }
            self.wrote(range, file);
        }
        Ok(true)
    }

    /// The data files for the bytes of a write to `range`.
    fn places_to_write(
        &self,
        range: &Range<u64>,
    ) -> Result<Vec<(Range<u64>, DataFileNo)>, FsError> {
        let mut state = self.parts.state.lock();
        state.check()?;
        if state.contents.range_count() >= RANGES_MAX && state.recorded.is_none() {
            // Their bytes stay in the data files.
            state.drop_stored();
        }
        if state.contents.range_count() >= RANGES_MAX {
            return Err(FsError::NoSpace(format!(
                "{} has {RANGES_MAX} changed ranges: an fsync stores them and makes room for others",
                state.key
            )));
        }
        Ok(state.contents.places(range))
    }

    /// Writes to the data files. Returns the error of a full disk, which may have room later.
    /// Blocks.
    fn write_local(&self, offset: u64, data: &[u8]) -> Result<Option<io::Error>, FsError> {
        let range = offset..offset + data.len() as u64;
        let mut rest = data;
        for (range, file) in self.places_to_write(&range)? {
            let (piece, behind) = split(rest, &range);
            rest = behind;
            let written = self.write_piece(&range, file, piece);
            let written = written.or_else(|error| match error.kind() {
                io::ErrorKind::StorageFull if give_back(&self.parts) => {
                    self.write_piece(&range, file, piece)
                }
                _ => Err(error),
            });
            match written {
                Err(error) if error.kind() == io::ErrorKind::StorageFull => return Ok(Some(error)),
                written => {
                    written.map_err(|error| disk_error(&self.parts.context.directory, &error))?;
                }
            }
        }
        Ok(None)
    }

    /// Writes to one data file, and notes it.
    fn write_piece(&self, range: &Range<u64>, file: DataFileNo, data: &[u8]) -> io::Result<()> {
        let _stays = self.parts.giving_back.read();
        self.parts.files.write(file, range.start, data)?;
        self.wrote(range.clone(), file);
        Ok(())
    }

    /// Notes what was written to a data file.
    fn wrote(&self, range: Range<u64>, file: DataFileNo) {
        let mut state = self.parts.state.lock();
        state.ahead.changed(range.start);
        state.contents.wrote(range, file);
        self.changed(&mut state);
    }

    /// Sets the size: bytes behind the old end are zeros.
    pub async fn set_len(&self, len: u64) -> Result<(), FsError> {
        self.check_len(len)?;
        let _turn = self.parts.gate.write().await;
        let mut state = self.parts.state.lock();
        state.check()?;
        self.check_gap(&state, len)?;
        state.contents.set_len(len);
        state.ahead.changed(len);
        self.changed(&mut state);
        Ok(())
    }

    /// Makes the file long enough for `range`, unless it `keeps_size`. Reserves no room on the
    /// disk.
    pub async fn allocate(&self, range: Range<u64>, keeps_size: bool) -> Result<(), FsError> {
        if keeps_size || range.end <= self.size() {
            return self.parts.state.lock().check();
        }
        self.check_len(range.end)?;
        let _turn = self.parts.gate.write().await;
        let mut state = self.parts.state.lock();
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
        let _turn = self.parts.gate.write().await;
        let mut state = self.parts.state.lock();
        state.check()?;
        state.contents.zero(&range);
        state.ahead.changed(range.start);
        self.changed(&mut state);
        Ok(())
    }

    /// Publishes a change of the contents.
    fn changed(&self, state: &mut FileState) {
        state.changes();
        let now = self.parts.context.clock.wall();
        self.parts.progress.advance(state.contents.size(), now);
    }

    fn check_len(&self, len: u64) -> Result<(), FsError> {
        let most = self.parts.context.writing.file_size_max();
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
        store(&self.parts).await
    }

    /// Makes all changes durable: with write-back on the local disk, and the upload follows; else
    /// in the bucket. For `close` and `fsync`.
    ///
    /// After a failure the changes stay, and the next commit tries again, unless the local disk
    /// could not sync them, which ends the file. A commit that is given up while it waits
    /// continues.
    pub async fn commit(self: &Arc<Self>) -> Result<(), FsError> {
        match self.parts.context.committing() {
            Some(write_back) => commit_file(&self.parts, write_back).await,
            None => self.store().await,
        }
    }

    /// Whether all changes are durable on the local disk, or in the bucket.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        !self.is_changed() || self.parts.state.lock().is_committed()
    }

    /// Has `observer` learn what becomes of the file from now on: for a file of an earlier process.
    pub fn observe(&self, observer: Arc<dyn StagedObserver>) {
        self.parts.set_observer(observer);
    }

    /// Keeps the local version in the directory, for the reason, and ends the file. No effect on a
    /// file whose changes are stored or committed. For the end of the mount.
    pub async fn keep(&self, reason: &str) {
        let _turn = self.parts.storing.lock().await;
        keep_uncommitted(&self.parts, reason).await;
    }

    /// Keeps the local version as [`Self::keep`] does, without a wait for a store in progress,
    /// which may succeed all the same.
    pub async fn keep_at_end(&self, reason: &str) {
        keep_uncommitted(&self.parts, reason).await;
    }

    /// Ends a file whose name means something else, for the reason. Changes are kept in the
    /// directory, whether or not they wait for their upload, and each later close tells of that.
    /// The caller holds the stores.
    pub async fn lose_name(&self, reason: &str) {
        lose_name(&self.parts, reason).await;
    }

    /// Handles the last close: commits changes. If that fails it stores them, and keeps them in the
    /// directory if that fails, too.
    pub async fn release(self: &Arc<Self>) -> Result<(), FsError> {
        if self.parts.context.committing().is_some() && self.commit().await.is_ok() {
            seal(&self.parts).await;
            return Ok(());
        }
        let stored = self.store().await;
        if let Err(error) = &stored {
            self.keep(&error.to_string()).await;
        }
        stored
    }

    /// Changes the headers of the object. `false` if the bucket has the file as it is: then the
    /// caller changes the object, and says so by [`Self::headers_replaced`].
    ///
    /// With write-back a store in progress sends the headers of before, and a later one these.
    pub async fn change_headers(
        &self,
        change: impl FnOnce(&mut ObjectHeaders) -> Result<(), FsError> + Send,
    ) -> Result<bool, FsError> {
        let _turn = match self.parts.context.committing() {
            Some(_) => None,
            None => Some(self.parts.storing.lock().await),
        };
        self.parts.state.lock().change_headers(change)
    }

    /// Changes the headers of a file that the bucket lacks, whose stores the caller holds.
    pub fn change_unstored_headers(
        &self,
        change: impl FnOnce(&mut ObjectHeaders) -> Result<(), FsError>,
    ) -> Result<(), FsError> {
        self.parts.state.lock().change_headers(change).map(drop)
    }

    /// The headers of the object.
    #[must_use]
    pub fn headers(&self) -> ObjectHeaders {
        self.parts.state.lock().headers.clone()
    }

    /// Notes that the version `old` was replaced by one with equal bytes and other headers. No
    /// effect on a file with another base.
    pub fn headers_replaced(&self, old: &ETag, etag: &ETag) {
        let reading = &self.parts.context.reading;
        self.parts.state.lock().base_replaced(reading, old, etag);
    }

    /// Waits for the store in progress, and begins none while the guard lives: for a rename or a
    /// removal of the object.
    pub async fn hold_stores(&self) -> StoresHeld {
        StoresHeld(Arc::clone(&self.parts.storing).lock_owned().await)
    }

    /// As [`Self::hold_stores`], for a change of the name that makes the store in progress vain: it
    /// ends unless its object is being made.
    pub async fn stop_stores(&self) -> StoresHeld {
        let mut held = pin!(self.hold_stores());
        // The wish may resume the store on this thread: this caller is the next one by then.
        if let Poll::Ready(held) = poll!(held.as_mut()) {
            return held;
        }
        let _asked = self.parts.stop.ask();
        held.await
    }

    /// Whether nothing of the file was sent, but for what the store in progress sends.
    #[must_use]
    pub fn is_unsent(&self) -> bool {
        self.parts.state.lock().is_unsent()
    }

    /// Whether the bucket has an object of the file's key as far as this mount knows, or may have
    /// one: the base, one that the file replaces, or one that was sent and not acknowledged.
    #[must_use]
    pub fn may_have_object(&self) -> bool {
        self.parts.state.lock().may_have_object()
    }

    /// Whether the journal has a version of the file: one that waits for its upload, or that was
    /// uploaded a moment ago.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.parts.state.lock().recorded.is_some()
    }

    /// Has the bucket alone have the file: stores it, and makes it durable that the journal does
    /// not have it. A commit meanwhile brings it there again.
    pub async fn settle(&self) -> Result<(), FsError> {
        settle(&self.parts).await
    }

    /// Notes that the file, which the bucket has as `version` now, is called `key`. With write-back
    /// the name is durable when this returns, if a version waits for its upload.
    pub async fn renamed(&self, key: Key, version: Stored) -> Result<(), FsError> {
        naming::renamed(&self.parts, key, version).await
    }

    /// Calls a file of which the bucket has nothing `key`, where its store will replace `replaced`,
    /// and where it takes the place of the file `over`, if there is one. Durable as
    /// [`Self::renamed`] is; a failure leaves the name.
    pub async fn rename_unstored(
        &self,
        key: Key,
        replaced: StagedBase,
        over: Option<&Self>,
    ) -> Result<(), FsError> {
        let name = UnstoredName {
            key,
            replaced,
            over: over.map(|file| file.parts.files.name()),
        };
        naming::rename_unstored(&self.parts, name).await
    }

    /// Makes changes of the headers durable, if a version of the file waits for its upload.
    pub async fn commit_headers(&self) -> Result<(), FsError> {
        commit_name(&self.parts).await
    }

    /// Brings the bytes of the base that show through to the disk, if there are `most` of them at
    /// most: the object is about to be removed.
    pub async fn fetch_base(self: &Arc<Self>, most: u64) -> Result<(), FsError> {
        let _turn = self.parts.gate.write().await;
        let (pieces, mtime) = {
            let mut state = self.parts.state.lock();
            if let Some(base) = &mut state.base {
                base.is_leaving = true;
            }
            let mut pieces = state.contents.pieces(0..state.contents.size());
            pieces.retain(|piece| piece.source == Source::Base);
            (pieces, self.parts.progress.mtime())
        };
        if pieces.iter().map(Piece::len).sum::<u64>() > most {
            return Ok(());
        }
        if !pieces.is_empty() {
            unseal_in_turn(&self.parts).await?;
        }
        let mut has_asked = false;
        for range in pieces.iter().map(|piece| piece.range.clone()) {
            let mut at = range.start;
            while at < range.end {
                let len = (range.end - at).min(WRITE_SIZE_MAX as u64);
                let size = u32::try_from(len).unwrap_or(u32::MAX);
                // A copy of file data: from the memory of reads to the disk.
                let data = Bytes::from(self.read_base(at, size, false).await?.to_vec());
                if data.is_empty() {
                    break;
                }
                let offset = at;
                at += data.len() as u64;
                loop {
                    let (this, data) = (Arc::clone(self), data.clone());
                    let job = move || this.write_local(offset, &data);
                    let Some(full) = self.parts.context.on_disk(job).await? else {
                        break;
                    };
                    // No wait for an upload, which may be that of this file.
                    if std::mem::replace(&mut has_asked, true)
                        || !ask_others(&self.parts.context).await
                    {
                        return Err(disk_error(&self.parts.context.directory, &full));
                    }
                }
            }
        }
        if !pieces.is_empty() {
            self.parts.progress.advance(self.size(), mtime);
        }
        Ok(())
    }

    /// Keeps the bytes of a small file for the read that may follow, if the bucket has all of them.
    /// For the end of the file.
    pub fn keep_stored(&self) {
        keep_stored(&self.parts);
    }

    /// Notes that the file has lost its name: it is never stored again.
    pub fn removed(&self) {
        self.parts.state.lock().removed();
    }

    /// Notes that the file has lost its name, and makes that durable: a version of it that waits
    /// is never uploaded, not after a kill either. A failure leaves the name, unless
    /// [`Self::removed`] said before that it is gone.
    pub async fn remove(&self) -> Result<(), FsError> {
        remove(&self.parts).await
    }
}

impl fmt::Debug for StagedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagedFile")
            .field("state", &*self.parts.state.lock())
            .field("files", &self.parts.files)
            .finish_non_exhaustive()
    }
}

/// The bytes for `range`, and those behind.
fn split<'a>(bytes: &'a [u8], range: &Range<u64>) -> (&'a [u8], &'a [u8]) {
    let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    bytes.split_at(len.min(bytes.len()))
}

/// How often a read is tried whose local bytes were given back, or whose object was replaced,
/// meanwhile.
const READS_MAX: usize = 8;

/// Most changed ranges of one file: 50 MB of memory.
const RANGES_MAX: usize = 1 << 20;
