//! One staged file, which all handles of an inode share.
//!
//! Writes and changes of the size hold the gate: a store begins between them, never within one, so
//! no change is lost that a store has not seen. Reads hold nothing.
//!
//! `parts` has the locks, `committing` and `storing` what is done with the file as a whole.
//! Bytes are read and written by threads of the local disk.

use std::fmt;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use futures::poll;
use mountpoint_client::types::{ETag, Key, ObjectHeaders, StoredChecksum};
use tokio::sync::OwnedMutexGuard;

use super::bytes::{
    READS_MAX, Taken, are_sealed, changed, may_be_replaced_by_itself, places_of, places_to_write,
    read_base, write_in_memory, write_local,
};
use super::committing::{
    RoomWait, ask_others, commit_file, committed, seal, unseal, unseal_in_turn,
};
use super::ending::{keep_uncommitted, lose_name};
use super::memory::{is_in_doubt, is_throttled, memory_for, prove, unthrottled};
use super::naming::{self, commit_name, remove, settle};
use super::releasing::{give_back_cut, keep_stored};
use super::sending_ahead::send_copies;
use super::state::{
    Awake, Base, FileLife, FileState, Haste, Nobody, StagedBase, StagedObserver, UnstoredName,
};
use super::storing::{send_due, store};
use crate::config::limits::{GAP_BYTES_MAX, WRITE_SIZE_MAX};
use crate::file::commit::RecoveredVersion;
use crate::file::contents::{Piece, Source};
use crate::file::context::StagingContext;
use crate::file::store::FoundCheckpoint;
use crate::operation::{FsError, InodeNo, Progress, ReadData};
use crate::write::{Adopts, CopiedRange, Stored};

/// A file that is written in place, for each owner of it.
#[derive(Clone)]
pub struct StagedFile {
    life: Arc<FileLife>,
}

/// No store of the file runs while this lives.
#[derive(Debug)]
pub struct StoresHeld {
    /// Dropped before the file may rest.
    _turn: OwnedMutexGuard<()>,
    _file: Awake,
}

impl StagedFile {
    pub(in crate::file) fn new(
        context: &Arc<StagingContext>,
        (key, base): (Key, StagedBase),
        headers: ObjectHeaders,
        progress: Arc<Progress>,
        observer: (Arc<dyn StagedObserver>, InodeNo),
    ) -> Self {
        let is_unasked = base == StagedBase::Unasked;
        let base = match base {
            StagedBase::Version(version) => Some(Base::new(version)),
            StagedBase::None | StagedBase::Unasked => None,
        };
        let files = context.new_files();
        if let Some(base) = base.as_ref().filter(|base| base.version.size > 0) {
            files.begin_part(base.version.size);
        }
        let state = FileState::new(key, headers, base, is_unasked);
        let life = FileLife::new(context, files, (state, None), progress, observer);
        Self { life }
    }

    /// A version that an earlier process committed. Its upload is begun, or continued where an
    /// attempt has `left` it.
    pub(in crate::file) fn recovered(
        context: &Arc<StagingContext>,
        key: Key,
        found: RecoveredVersion,
        left: Option<FoundCheckpoint>,
    ) -> Self {
        let version = &found.version;
        let base = version.base().map(Base::new);
        let progress = Arc::new(Progress::new(version.size, version.mtime()));
        let state = FileState::recovered(key, base, &found);
        let state = (state, left);
        let nobody = (Arc::new(Nobody) as Arc<dyn StagedObserver>, InodeNo::ROOT);
        let life = FileLife::new(context, found.files, state, progress, nobody);
        committed(&life.wake());
        Self { life }
    }

    /// Whether `other` is an owner of the same file.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.life, &other.life)
    }

    /// The size and time that other processes see.
    #[must_use]
    pub fn progress(&self) -> &Arc<Progress> {
        self.life.progress()
    }

    /// The key of its object.
    #[must_use]
    pub fn key(&self) -> Key {
        self.life.look(|state| state.key.clone())
    }

    /// Bytes of the file.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.life.look(|state| state.contents.size())
    }

    /// The version that the bucket has of it, as last known; `None` if it has none.
    #[must_use]
    pub fn base(&self) -> Option<Stored> {
        let version = |base: &Base| base.version.clone();
        self.life.look(|state| state.base.as_ref().map(version))
    }

    /// Whether its name was removed.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.life.look(|state| state.end.is_removed())
    }

    /// Whether the bucket lacks changes.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.life.look(|state| state.needs_store().unwrap_or(false))
    }

    /// The failure that ended the file, if there was one.
    #[must_use]
    pub fn failure(&self) -> Option<FsError> {
        self.life.look(|state| state.end.failure().cloned())
    }

    /// Sets the objects of other hosts that may stand for the new file as long as nothing was
    /// written to it.
    pub fn may_adopt(&self, adopts: Adopts) {
        self.life.wake().state.lock().adopts = adopts;
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
        let parts = self.life.wake();
        let range = offset..offset.saturating_add(u64::from(size));
        let mut tries = READS_MAX;
        loop {
            let places = places_of(&parts, &range);
            let gone = match read_base(&parts, offset, size, fills_cache).await {
                Err(error @ (FsError::Stale(_) | FsError::NotFound)) => error,
                data => return data,
            };
            tries -= 1;
            if may_be_replaced_by_itself(&parts) {
                // The store recognises the object in the bucket, and the file is based on that.
                store(&parts).await?;
            } else {
                // A store, a rename or a removal of this mount may have replaced the object.
                drop(parts.storing.lock().await);
                if places_of(&parts, &range) == places {
                    return Err(gone);
                }
            }
            if tries == 0 {
                return Err(gone);
            }
        }
    }

    /// Writes `data` at `offset`. A write that is given up while it waits may be done all the same,
    /// as a whole.
    pub async fn write(&self, offset: u64, data: Bytes) -> Result<(), FsError> {
        let end = offset.saturating_add(data.len() as u64);
        if data.is_empty() {
            return Ok(());
        }
        self.check_len(end)?;
        let parts = self.life.wake();
        prove(&parts).await?;
        let mut room = RoomWait::new(&parts.context);
        let mut grant = None;
        loop {
            let turn = Arc::clone(&parts.gate).read_owned().await;
            if is_throttled(&parts) {
                drop(turn);
                unthrottled(&parts).await;
                continue;
            }
            check_gap(&parts.state.lock(), offset)?;
            let places = places_to_write(&parts, &(offset..end))?;
            if are_sealed(&parts, &places) {
                drop(turn);
                match unseal(&parts).await {
                    Err(FsError::NoSpace(_)) if room.wait(&parts.context, false).await => {}
                    unsealed => unsealed?,
                }
                continue;
            }
            match write_in_memory(&parts, (&places, &data), &mut grant)? {
                Taken::Whole => {
                    drop(turn);
                    send_due(&parts, Haste::None);
                    return Ok(());
                }
                Taken::Needs(request) => {
                    drop((turn, grant.take()));
                    grant = Some(memory_for(&parts, request).await?);
                    continue;
                }
                Taken::NotInMemory => {}
            }
            let (this, data) = (parts.clone(), data.clone());
            let job = move || {
                let written = write_local(&this, places, &data);
                drop(turn);
                written
            };
            match parts.context.on_disk(job).await? {
                None => {
                    send_due(&parts, Haste::None);
                    return Ok(());
                }
                // Bytes in place may need no room.
                Some(_) if parts.state.lock().contents.end_sparing() => {}
                Some(full) => {
                    if !room.wait(&parts.context, true).await {
                        return Err(parts.files.error(&full));
                    }
                }
            }
        }
    }

    /// Writes `data` at `offset` if that needs no waiting; `None` otherwise, and then nothing has
    /// changed.
    #[must_use]
    pub fn write_now(&self, offset: u64, data: &[u8]) -> Option<Result<(), FsError>> {
        let parts = self.life.wake();
        let end = offset.saturating_add(data.len() as u64);
        if !parts.files.have_no_disk() || is_in_doubt(&parts) || is_throttled(&parts) {
            return None;
        }
        let _turn = parts.gate.try_read().ok()?;
        let checked = self.check_len(end);
        let checked = checked.and_then(|()| check_gap(&parts.state.lock(), offset));
        let places = checked.and_then(|()| places_to_write(&parts, &(offset..end)));
        let places = match places {
            Ok(places) => places,
            Err(error) => return Some(Err(error)),
        };
        match write_in_memory(&parts, (&places, data), &mut None) {
            Ok(Taken::Whole) => {
                send_due(&parts, Haste::None);
                Some(Ok(()))
            }
            Ok(Taken::Needs(_) | Taken::NotInMemory) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Has the server copy `source` to the end of the file, which is at `offset`. Returns the
    /// number of copied bytes, at least one, when it has them.
    ///
    /// # Errors
    /// [`FsError::Unsupported`] if reads and writes are cheaper, or the server copies nothing; then
    /// nothing has changed.
    pub async fn copy(&self, offset: u64, source: CopiedRange) -> Result<u64, FsError> {
        let parts = self.life.wake();
        let source = source.for_one_call();
        let writing = &parts.context.writing;
        let is_possible = parts.files.have_no_disk()
            && source.is_a_part()
            && writing.copies_parts() != Some(false);
        if !is_possible {
            return Err(AS_BYTES);
        }
        let len = source.range.end - source.range.start;
        self.check_len(offset + len)?;
        let turn = parts.gate.write().await;
        {
            let mut state = parts.state.lock();
            state.check()?;
            let may_copy = offset == state.contents.size() && state.may_copy();
            if !may_copy || !state.contents.copy(offset, &source) {
                return Err(AS_BYTES);
            }
            changed(&parts, &mut state);
        }
        drop(turn);
        match send_copies(&parts, offset + len).await {
            Ok(()) => Ok(len),
            Err(error) => {
                let is_refused = writing.copies_parts() == Some(false);
                self.take_back_copy(&parts, offset).await;
                Err(if is_refused { AS_BYTES } else { error })
            }
        }
    }

    /// Cuts off a copy that was refused.
    async fn take_back_copy(&self, parts: &Awake, offset: u64) {
        let _turn = parts.gate.write().await;
        let mut state = parts.state.lock();
        if state.end.failure().is_none() {
            state.contents.set_len(offset);
            state.ahead.cut(offset);
            changed(parts, &mut state);
        }
    }

    /// Empties the file as its open asks: what it replaces in the bucket does not matter.
    pub async fn empty(&self) -> Result<(), FsError> {
        self.set_len(0).await?;
        let parts = self.life.wake();
        let mut state = parts.state.lock();
        if let Some(base) = state.base.as_mut().filter(|_| parts.files.have_no_disk()) {
            base.is_emptied = true;
        }
        // An object without bytes is made anew, too, and has the time of this open.
        state.contents.touch();
        changed(&parts, &mut state);
        Ok(())
    }

    /// Notes the checksum of the object that the file begins with.
    pub fn set_checksum(&self, checksum: StoredChecksum) {
        let parts = self.life.wake();
        let mut state = parts.state.lock();
        if let Some(base) = &mut state.base {
            base.grows_with = match checksum {
                StoredChecksum::None => Some(None),
                StoredChecksum::Of(algorithm) => Some(Some(algorithm)),
                // Appended bytes would need a checksum that is not computed here.
                StoredChecksum::Other => None,
            };
        }
    }

    /// Whether an unfinished upload alone has some of its bytes.
    #[must_use]
    pub fn has_sent(&self) -> bool {
        self.life.look(|state| state.contents.now().has_sent())
    }

    /// Sets the size: bytes behind the old end are zeros.
    pub async fn set_len(&self, len: u64) -> Result<(), FsError> {
        self.check_len(len)?;
        let parts = self.life.wake();
        let _turn = parts.gate.write().await;
        let mut state = parts.state.lock();
        state.check()?;
        check_gap(&state, len)?;
        state.check_cut(len)?;
        state.leave_commit(&parts.files, parts.progress.mtime());
        if !state.contents.set_len(len) {
            return Ok(());
        }
        state.ahead.cut(len);
        changed(&parts, &mut state);
        drop(state);
        parts.files.cut(len);
        give_back_cut(&parts);
        Ok(())
    }

    /// Makes the file long enough for `range`, unless it `keeps_size`. Reserves no room on the
    /// disk.
    pub async fn allocate(&self, range: Range<u64>, keeps_size: bool) -> Result<(), FsError> {
        if keeps_size || range.end <= self.size() {
            return self.life.look(FileState::check);
        }
        self.check_len(range.end)?;
        let parts = self.life.wake();
        let _turn = parts.gate.write().await;
        let mut state = parts.state.lock();
        state.check()?;
        check_gap(&state, range.end)?;
        if range.end > state.contents.size() {
            state.leave_commit(&parts.files, parts.progress.mtime());
            state.contents.set_len(range.end);
            changed(&parts, &mut state);
        }
        Ok(())
    }

    /// Makes `range` zeros. The file becomes long enough for it, unless it `keeps_size`.
    pub async fn zero(&self, range: Range<u64>, keeps_size: bool) -> Result<(), FsError> {
        if !keeps_size {
            self.allocate(range.clone(), false).await?;
        }
        let parts = self.life.wake();
        let _turn = parts.gate.write().await;
        let mut state = parts.state.lock();
        state.check()?;
        state.check_change(&range)?;
        state.leave_commit(&parts.files, parts.progress.mtime());
        if state.contents.zero(&range) {
            state.ahead.changed(&range, false);
            changed(&parts, &mut state);
        }
        Ok(())
    }

    fn check_len(&self, len: u64) -> Result<(), FsError> {
        let most = self.life.context().writing.file_size_max();
        if len <= most {
            return Ok(());
        }
        let key = self.key();
        Err(FsError::TooLarge(format!(
            "{key}: {len} bytes, where a file can have {} GiB",
            most >> 30
        )))
    }

    /// Stores all changes. Returns when the bucket has them, or at once if it has.
    ///
    /// After a failure the changes stay, and the next store tries again; a conflict ends the file.
    /// A store that is given up while it waits continues.
    pub async fn store(&self) -> Result<(), FsError> {
        store(&self.life.wake()).await
    }

    /// Makes all changes durable: with write-back on the local disk, and the upload follows; else
    /// in the bucket. For `close` and `fsync`.
    ///
    /// After a failure the changes stay, and the next commit tries again, unless the local disk
    /// could not sync them, which ends the file. A commit that is given up while it waits
    /// continues.
    pub async fn commit(&self) -> Result<(), FsError> {
        match self.life.context().committing() {
            Some(_) if self.life.is_resting() => Ok(()),
            Some(write_back) => commit_file(&self.life.wake(), write_back).await,
            None => self.store().await,
        }
    }

    /// Whether all changes are durable on the local disk, or in the bucket.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        !self.is_changed() || self.life.look(FileState::is_committed)
    }

    /// Has `observer` learn what becomes of the file from now on, as that of `ino`: for a file of
    /// an earlier process.
    pub fn observe(&self, observer: Arc<dyn StagedObserver>, ino: InodeNo) {
        self.life.set_observer(observer, ino);
    }

    /// Keeps the local version in the directory, for the reason, and ends the file. No effect on a
    /// file whose changes are stored or committed. For the end of the mount.
    pub async fn keep(&self, reason: &str) {
        if self.life.is_resting() {
            return;
        }
        let parts = self.life.wake();
        let _turn = parts.storing.lock().await;
        keep_uncommitted(&parts, reason).await;
    }

    /// Keeps the local version as [`Self::keep`] does, without a wait for a store in progress,
    /// which may succeed all the same.
    pub async fn keep_at_end(&self, reason: &str) {
        if !self.life.is_resting() {
            keep_uncommitted(&self.life.wake(), reason).await;
        }
    }

    /// Ends a file whose name means something else, for the reason. Changes are kept in the
    /// directory, whether or not they wait for their upload, and each later close tells of that.
    /// The caller holds the stores.
    pub async fn lose_name(&self, reason: &str) {
        lose_name(&self.life.wake(), reason).await;
    }

    /// Handles the last close: commits changes. If that fails it stores them, and keeps them in the
    /// directory if that fails, too.
    pub async fn release(&self) -> Result<(), FsError> {
        if self.life.context().committing().is_some() && self.commit().await.is_ok() {
            if !self.life.is_resting() {
                seal(&self.life.wake()).await;
            }
            return Ok(());
        }
        if self.is_refused() {
            self.keep("its last close or fsync has failed").await;
        }
        let stored = self.store().await;
        if let Err(error) = &stored {
            self.keep(&error.to_string()).await;
        }
        stored
    }

    /// Whether the bytes are in memory alone, and an application was told that they are not stored.
    fn is_refused(&self) -> bool {
        let is_refused = |state: &FileState| state.edits > 0 && state.refused_edits == state.edits;
        !self.life.is_resting()
            && self.life.wake().files.have_no_disk()
            && self.life.look(is_refused)
    }

    /// Changes the headers of the object. `false` if the bucket has the file as it is: then the
    /// caller changes the object, and says so by [`Self::headers_replaced`].
    ///
    /// With write-back a store in progress sends the headers of before, and a later one these.
    pub async fn change_headers(
        &self,
        change: impl FnOnce(&mut ObjectHeaders) -> Result<(), FsError> + Send,
    ) -> Result<bool, FsError> {
        let parts = self.life.wake();
        let _turn = match parts.context.committing() {
            Some(_) => None,
            None => Some(parts.storing.lock().await),
        };
        let mut state = parts.state.lock();
        state.change_headers(change)
    }

    /// Changes the headers of a file that the bucket lacks, whose stores the caller holds.
    pub fn change_unstored_headers(
        &self,
        change: impl FnOnce(&mut ObjectHeaders) -> Result<(), FsError>,
    ) -> Result<(), FsError> {
        let parts = self.life.wake();
        let mut state = parts.state.lock();
        state.change_headers(change).map(drop)
    }

    /// The headers of the object.
    #[must_use]
    pub fn headers(&self) -> ObjectHeaders {
        self.life.look(|state| state.headers.clone())
    }

    /// Notes that the version `old` was replaced by one with equal bytes and other headers. No
    /// effect on a file with another base.
    pub fn headers_replaced(&self, old: &ETag, etag: &ETag) {
        let parts = self.life.wake();
        parts.state.lock().base_replaced(old, etag);
    }

    /// Waits for the store in progress, and begins none while the guard lives: for a rename or a
    /// removal of the object.
    pub async fn hold_stores(&self) -> StoresHeld {
        let file = self.life.wake();
        StoresHeld {
            _turn: Arc::clone(&file.storing).lock_owned().await,
            _file: file,
        }
    }

    /// As [`Self::hold_stores`], for a change of the name that makes the store in progress vain: it
    /// ends unless its object is being made.
    pub async fn stop_stores(&self) -> StoresHeld {
        let mut held = pin!(self.hold_stores());
        // The wish may resume the store on this thread: this caller is the next one by then.
        if let Poll::Ready(held) = poll!(held.as_mut()) {
            return held;
        }
        let _asked = self.life.wake().stop.ask();
        held.await
    }

    /// Whether nothing of the file was sent, but for what the store in progress sends.
    #[must_use]
    pub fn is_unsent(&self) -> bool {
        self.life
            .look(|state| state.is_unsent() && !state.contents.now().has_sent())
    }

    /// Whether the bucket has an object of the file's key as far as this mount knows, or may have
    /// one: the base, one that the file replaces, or one that was sent and not acknowledged.
    #[must_use]
    pub fn may_have_object(&self) -> bool {
        self.life.look(FileState::may_have_object)
    }

    /// Whether the journal has a version of the file: one that waits for its upload, or that was
    /// uploaded a moment ago.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.life.look(|state| state.recorded.is_some())
    }

    /// Has the bucket alone have the file: stores it, and makes it durable that the journal does
    /// not have it. A commit meanwhile brings it there again.
    pub async fn settle(&self) -> Result<(), FsError> {
        settle(&self.life.wake()).await
    }

    /// Notes that the file, which the bucket has as `version` now, is called `key`. With write-back
    /// the name is durable when this returns, if a version waits for its upload.
    pub async fn renamed(&self, key: Key, version: Stored) -> Result<(), FsError> {
        naming::renamed(&self.life.wake(), key, version).await
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
            over: over.map(|file| file.life.name()),
        };
        naming::rename_unstored(&self.life.wake(), name).await
    }

    /// Makes changes of the headers durable, if a version of the file waits for its upload.
    pub async fn commit_headers(&self) -> Result<(), FsError> {
        commit_name(&self.life.wake()).await
    }

    /// Brings the bytes of the base that show through to the disk, if there are `most` of them at
    /// most: the object is about to be removed.
    pub async fn fetch_base(&self, most: u64) -> Result<(), FsError> {
        let parts = self.life.wake();
        let _turn = parts.gate.write().await;
        let (pieces, mtime) = {
            let mut state = parts.state.lock();
            if let Some(base) = &mut state.base {
                base.is_leaving = true;
            }
            let mut pieces = state.contents.pieces(0..state.contents.size());
            pieces.retain(|piece| piece.source == Source::Base);
            (pieces, parts.progress.mtime())
        };
        if pieces.iter().map(Piece::len).sum::<u64>() > most {
            return Ok(());
        }
        if !pieces.is_empty() {
            unseal_in_turn(&parts).await?;
        }
        let mut has_asked = false;
        for range in pieces.iter().map(|piece| piece.range.clone()) {
            let mut at = range.start;
            while at < range.end {
                let len = (range.end - at).min(WRITE_SIZE_MAX as u64);
                let size = u32::try_from(len).unwrap_or(u32::MAX);
                // A copy of file data: from the memory of reads to the disk.
                let data = Bytes::from(read_base(&parts, at, size, false).await?.to_vec());
                if data.is_empty() {
                    break;
                }
                let range = at..at + data.len() as u64;
                at = range.end;
                // The bytes stay those of the last commit.
                let places = parts.state.lock().contents.places(&range);
                if parts.files.have_no_disk() {
                    let mut grant = None;
                    while let Taken::Needs(request) =
                        write_in_memory(&parts, (&places, &data), &mut grant)?
                    {
                        drop(grant.take());
                        grant = Some(memory_for(&parts, request).await?);
                    }
                    continue;
                }
                loop {
                    let (this, data, places) = (parts.clone(), data.clone(), places.clone());
                    let job = move || write_local(&this, places, &data);
                    let Some(full) = parts.context.on_disk(job).await? else {
                        break;
                    };
                    // No wait for an upload, which may be that of this file.
                    if std::mem::replace(&mut has_asked, true) || !ask_others(&parts.context).await
                    {
                        return Err(parts.files.error(&full));
                    }
                }
            }
        }
        if !pieces.is_empty() {
            parts.progress.advance(self.size(), mtime);
        }
        Ok(())
    }

    /// Bytes of memory that the file takes at rest; `None` if it is in use.
    #[cfg(test)]
    pub(in crate::file) fn resting_bytes(&self) -> Option<usize> {
        self.life.resting_bytes()
    }

    /// Keeps the bytes of a small file for the read that may follow, if the bucket has all of them.
    /// For the end of the file.
    pub fn keep_stored(&self) {
        keep_stored(&self.life.wake());
    }

    /// Notes that the file has lost its name: it is never stored again.
    pub fn removed(&self) {
        self.life.wake().state.lock().removed();
    }

    /// Notes that the file has lost its name, and makes that durable: a version of it that waits
    /// is never uploaded, not after a kill either. A failure leaves the name, unless
    /// [`Self::removed`] said before that it is gone.
    pub async fn remove(&self) -> Result<(), FsError> {
        remove(&self.life.wake()).await
    }
}

impl fmt::Debug for StagedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagedFile")
            .field("life", &self.life)
            .finish()
    }
}

/// The error that makes the application, or the kernel, read and write instead.
const AS_BYTES: FsError = FsError::Unsupported("this range is not copied on the server");

/// Zeros that deserve a warning: they take time and money.
const GAP_NOTED: u64 = 64 << 20;

/// Refuses a length with more zeros than a store should send: S3 has no holes.
fn check_gap(state: &FileState, len: u64) -> Result<(), FsError> {
    let gap = len.saturating_sub(state.contents.size());
    if gap <= GAP_BYTES_MAX {
        if gap > GAP_NOTED {
            tracing::warn!(key = %state.key, "a gap of {gap} bytes is filled with zeros, which are stored as any bytes: S3 has no holes");
        }
        return Ok(());
    }
    Err(FsError::TooLarge(format!(
        "{}: {gap} bytes of zeros would be stored, and a file may have {} GiB of those at once",
        state.key,
        GAP_BYTES_MAX >> 30
    )))
}
