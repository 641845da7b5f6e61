//! The state of a staged file, under its lock.

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use mountpoint_client::types::{ChecksumAlgorithm, ETag, Key, ObjectHeaders, WriteToken};
use mountpoint_client::{ClientError, ErrorKind};

use super::end::End;
use crate::config::limits::UPLOAD_PART_MIN;
use crate::file::commit::{
    CommitRequest, CommittedRecord, HeadersRecord, RecoveredVersion, VersionRecord,
};
use crate::file::contents::{Contents, DataFileNo, LastCommit, Snapshot};
use crate::file::directory::DataFileName;
use crate::file::life::ahead::{CORRECTED_MAX, SendAhead};
use crate::file::local::DataFiles;
use crate::file::sources::ByteSources;
use crate::file::store::{StoreIdentity, StoreRequest, StoreStop};
use crate::operation::{FsError, PosixAttributes};
use crate::read::{ReadContext, Reader};
use crate::write::{Adopts, Replaced, Stored, UploadCheckpoint, WriteContext};

/// The object that a staged file begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StagedBase {
    /// None.
    None,
    /// Probably none: S3 was not asked.
    Unasked,
    /// This version.
    Version(Stored),
}

/// The name of a file of which the bucket has nothing.
#[derive(Clone, Debug)]
pub(in crate::file::life) struct UnstoredName {
    pub(in crate::file::life) key: Key,
    /// The object that the file's store replaces there.
    pub(in crate::file::life) replaced: StagedBase,
    /// The file that it replaces there, which may have a record.
    pub(in crate::file::life) over: Option<DataFileName>,
}

/// The version that the file's changes are based on.
#[derive(Debug)]
pub(in crate::file::life) struct Base {
    pub(in crate::file::life) version: Stored,
    /// Made for the first read or store.
    reader: OnceCell<Reader>,
    /// Whether all of its bytes are those that a store of this file has sent under this name.
    pub(in crate::file::life) is_sent: bool,
    /// Whether it is about to be removed: bytes that are local as well stay.
    pub(in crate::file::life) is_leaving: bool,
    /// Whether the file was emptied by its open: its store replaces whatever is there.
    pub(in crate::file::life) is_emptied: bool,
    /// The algorithm of its checksum, if bytes may be put behind its end.
    pub(in crate::file::life) grows_with: Option<Option<ChecksumAlgorithm>>,
}

impl Base {
    /// Whether bytes of it were read.
    pub(super) fn is_read(&self) -> bool {
        self.reader.get().is_some()
    }

    pub(in crate::file::life) fn new(version: Stored) -> Self {
        Self {
            version,
            reader: OnceCell::new(),
            is_sent: false,
            is_leaving: false,
            is_emptied: false,
            grows_with: None,
        }
    }

    /// Its reader, which sends nothing yet.
    fn reader(&self, reading: &ReadContext, key: &Key) -> Reader {
        let Stored { etag, size } = &self.version;
        let made = || Reader::shared(reading, key, etag, *size);
        self.reader.get_or_init(made).clone()
    }
}

/// How much of a file is sent while it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::file::life) enum Haste {
    /// Whole parts, a little behind the last write.
    None,
    /// All whole parts.
    Parts,
    /// All that is enough for a part: memory is needed, and nothing else gives any back.
    Everything,
}

/// The state of a staged file.
#[derive(Debug)]
pub(in crate::file::life) struct FileState {
    pub(in crate::file::life) key: Key,
    pub(in crate::file::life) base: Option<Base>,
    pub(in crate::file::life) contents: Contents,
    /// How often local bytes that the bucket has were given back to the disk.
    pub(in crate::file::life) given_back: u64,
    /// The changes, and those that the bucket had, when that was done last.
    pub(in crate::file::life) gave_back_at: Option<(u64, u64)>,
    pub(in crate::file::life) headers: ObjectHeaders,
    pub(in crate::file::life) end: End,
    pub(in crate::file::life) adopts: Adopts,
    /// The object that the first store of a file without a base replaces.
    pub(super) replaced: StagedBase,
    /// The file whose name it has got, and which the journal may have as well.
    pub(super) over: Option<DataFileName>,
    /// The bucket may have a version that was sent, whatever the answer was.
    pub(super) may_be_stored: bool,
    /// The token of all stores under this key. Their numbers are those of their changes.
    pub(super) series: WriteToken,
    /// The same, before the store in progress.
    pub(super) may_have_been_stored: bool,
    /// Changes of headers while the journal had the file, which a commit is to make durable
    /// whatever was uploaded meanwhile; 0 if there are none.
    pub(in crate::file::life) due_edits: u64,
    /// The headers may hold a time, which the next write makes void.
    pub(super) is_timed: bool,
    /// Counts changes of any kind; 0 if the bucket has the file as it is.
    pub(in crate::file::life) edits: u64,
    /// The first number of the changes of this process: the process before may have stored versions
    /// behind the record that this one has found.
    pub(super) edits_min: u64,
    /// The number of the version that was recovered; 0 without one.
    pub(super) recovered: u64,
    /// The record of the version that was committed last.
    pub(in crate::file::life) recorded: Option<Recorded>,
    /// The headers and the time of that version, if the contents have left it behind.
    pub(super) left_behind: Option<(ObjectHeaders, SystemTime)>,
    /// Changes that the store in progress sends.
    pub(in crate::file::life) sent_edits: u64,
    /// Changes whose store was refused.
    pub(in crate::file::life) refused_edits: u64,
    /// Changes that the bucket has.
    pub(in crate::file::life) stored_edits: u64,
    /// Uploads that were refused, one behind the other.
    pub(in crate::file::life) refusals: u32,
    /// Uploads that failed, one behind the other, for whatever reason.
    pub(in crate::file::life) failures: u32,
    /// The reason of the last one.
    pub(in crate::file::life) last_failure: Option<String>,
    /// The bytes that are sent while the file is written.
    pub(in crate::file::life) ahead: SendAhead,
}

/// The record of a version, and the changes in it.
#[derive(Clone, Copy, Debug)]
pub(in crate::file::life) struct Recorded {
    pub(in crate::file::life) record: CommittedRecord,
    pub(in crate::file::life) edits: u64,
}

impl FileState {
    pub(in crate::file::life) fn new(
        key: Key,
        headers: ObjectHeaders,
        base: Option<Base>,
        is_unasked: bool,
    ) -> Self {
        let size = base.as_ref().map(|base| base.version.size);
        Self {
            contents: size.map_or_else(Contents::new, Contents::over),
            replaced: match is_unasked {
                true => StagedBase::Unasked,
                false => StagedBase::None,
            },
            is_timed: base.is_some(),
            edits: u64::from(size.is_none()),
            ..Self::of(key, headers, base, WriteToken::random())
        }
    }

    /// A state without changes and without contents.
    pub(super) fn of(
        key: Key,
        headers: ObjectHeaders,
        base: Option<Base>,
        series: WriteToken,
    ) -> Self {
        Self {
            key,
            base,
            contents: Contents::over(0),
            given_back: 0,
            gave_back_at: None,
            headers,
            end: End::None,
            adopts: Adopts::Nothing,
            replaced: StagedBase::None,
            over: None,
            may_be_stored: false,
            series,
            may_have_been_stored: false,
            due_edits: 0,
            is_timed: false,
            edits: 0,
            edits_min: 0,
            recovered: 0,
            recorded: None,
            left_behind: None,
            sent_edits: 0,
            refused_edits: 0,
            stored_edits: 0,
            refusals: 0,
            failures: 0,
            last_failure: None,
            ahead: SendAhead::default(),
        }
    }

    /// The state of a version that an earlier process committed.
    pub(in crate::file::life) fn recovered(
        key: Key,
        base: Option<Base>,
        found: &RecoveredVersion,
    ) -> Self {
        let version = &found.version;
        let headers: ObjectHeaders = version.headers.clone().into();
        let record = CommittedRecord {
            id: found.id,
            description: found.description,
            number: FIRST_RECORD,
        };
        let new = Self::new(key, headers, base, version.is_unasked);
        let mut contents = version.contents();
        contents.committed();
        // An older record has neither.
        let (series, edits) = (WriteToken::parse(&version.series), version.number.max(1));
        Self {
            contents,
            edits,
            edits_min: StoreIdentity::first_behind(edits),
            recovered: edits,
            stored_edits: version.known,
            recorded: Some(Recorded { record, edits }),
            may_be_stored: true,
            over: version.over.map(DataFileName),
            series: series.unwrap_or_else(|| new.series.clone()),
            ..new
        }
    }

    /// The version to commit, and the changes in it; `None` if the journal or the bucket has it.
    pub(in crate::file::life) fn to_commit(
        &self,
        files: &Arc<DataFiles>,
        mtime: SystemTime,
    ) -> Result<Option<(CommitRequest, u64)>, FsError> {
        match self.needs_commit()? {
            true => self.commit_request(files, mtime).map(Some),
            false => Ok(None),
        }
    }

    /// As [`Self::to_commit`], of a version that is committed without sums, behind the last close.
    pub(in crate::file::life) fn to_seal(
        &self,
        files: &Arc<DataFiles>,
        mtime: SystemTime,
    ) -> Result<Option<(CommitRequest, u64)>, FsError> {
        match files.end_rewriting() && self.needs_store()? && self.is_committed() {
            true => self.commit_request(files, mtime).map(Some),
            false => Ok(None),
        }
    }

    /// The request to commit the file as it is, and its changes.
    fn commit_request(
        &self,
        files: &Arc<DataFiles>,
        mtime: SystemTime,
    ) -> Result<(CommitRequest, u64), FsError> {
        self.headers.check().map_err(|what| {
            let what = format!("{} cannot be stored: {what}", self.key);
            FsError::Client(ClientError::new(ErrorKind::InvalidRequest, what))
        })?;
        let mut version = VersionRecord {
            key: self.key.to_string(),
            base: self
                .replaced_version()
                .map(|version| (version.etag.as_str().to_owned(), version.size)),
            is_unasked: self.replaced == StagedBase::Unasked,
            size: 0,
            base_len: 0,
            mtime: (0, 0),
            headers: HeadersRecord::from(self.headers.clone()),
            ranges: Vec::new(),
            is_inline: false,
            over: self.over.map(|name| name.0),
            series: self.series.as_str().to_owned(),
            number: self.edits,
            known: self.stored_edits,
            sums: Vec::new(),
        };
        version.set_mtime(mtime);
        let request = CommitRequest {
            version,
            contents: self.contents.now().clone(),
            files: Arc::clone(files),
            has_sums: !files.is_rewritten(),
            before: self.recorded.map(|it| it.record),
        };
        Ok((request, self.edits))
    }

    /// The version with the changes up to `edits` is durable in `record`.
    pub(in crate::file::life) fn committed(&mut self, record: CommittedRecord, edits: u64) {
        self.recorded = Some(Recorded { record, edits });
        self.due_edits = 0;
        self.contents.committed();
        self.left_behind = None;
    }

    /// The record of the file has ended.
    pub(in crate::file::life) fn record_ended(&mut self) {
        self.recorded = None;
        self.contents.forget_commit();
        self.left_behind = None;
    }

    /// The bytes are about to change, which have the time `mtime`: a version that waits for its
    /// upload stays as it is.
    pub(in crate::file::life) fn leave_commit(&mut self, files: &DataFiles, mtime: SystemTime) {
        let is_committed = self.is_committed();
        let was_newest =
            self.pending_record().is_some() && self.contents.leave_commit(files.is_rewritten());
        if !was_newest {
            return;
        }
        self.left_behind = Some((self.headers.clone(), mtime));
        if !is_committed {
            // Its name or headers have changed since, and the journal does not have that.
            self.contents.lose_commit();
        }
        if self.awaits_commit() {
            // Also behind a call that changes nothing, a commit has something to do.
            self.count_edit();
        }
    }

    /// The bytes at the `places` are about to be written: where that is over those of a version
    /// that waits for its upload, the next commit is uploaded.
    pub(in crate::file::life) fn write_over(&mut self, places: &[(Range<u64>, DataFileNo)]) {
        if self.contents.write_over(places) {
            // Also behind a write that fails, a commit has something to do.
            self.count_edit();
        }
    }

    /// The version that the next store replaces: the base, or another file's.
    fn replaced_version(&self) -> Option<&Stored> {
        match (&self.base, &self.replaced) {
            (Some(base), _) => Some(&base.version),
            (None, StagedBase::Version(version)) => Some(version),
            (None, StagedBase::None | StagedBase::Unasked) => None,
        }
    }

    /// Whether the bucket may have a version that was sent, and is not known to have it.
    pub(in crate::file::life) fn may_be_stored(&self) -> bool {
        self.may_be_stored
    }

    /// Whether the bucket has an object of the key, or may have one that it was sent.
    pub(in crate::file::life) fn may_have_object(&self) -> bool {
        self.may_be_stored || self.replaced_version().is_some()
    }

    /// Whether the bucket has no object of the key that is known, and none of an earlier store.
    pub(in crate::file::life) fn is_unsent(&self) -> bool {
        let may_be_stored = match self.contents.sending() {
            Some(_) => self.may_have_been_stored,
            None => self.may_be_stored,
        };
        !may_be_stored && self.replaced_version().is_none()
    }

    /// The store in progress has ended early, and has made nothing.
    pub(in crate::file::life) fn stopped(&mut self) {
        self.contents.end_store(false);
        self.may_be_stored = self.may_have_been_stored;
    }

    /// Gives a file without a base another name. Returns that of before.
    pub(in crate::file::life) fn rename_unstored(&mut self, name: UnstoredName) -> UnstoredName {
        self.count_edit();
        self.contents.lose_commit();
        // It was made under another name.
        self.adopts = Adopts::Nothing;
        self.series = WriteToken::random();
        UnstoredName {
            key: std::mem::replace(&mut self.key, name.key),
            replaced: std::mem::replace(&mut self.replaced, name.replaced),
            over: std::mem::replace(&mut self.over, name.over),
        }
    }

    /// Whether the journal has a record, and the bucket all of it.
    pub(in crate::file::life) fn is_recorded_in_vain(&self) -> bool {
        self.recorded
            .is_some_and(|it| it.edits <= self.stored_edits)
    }

    /// The record of a version that the bucket lacks, if the journal has one.
    pub(in crate::file::life) fn pending_record(&self) -> Option<CommittedRecord> {
        let pending = self.recorded.filter(|it| it.edits > self.stored_edits);
        pending.map(|it| it.record)
    }

    /// Whether an upload has something to do.
    pub(in crate::file::life) fn has_pending_commit(&self) -> bool {
        self.needs_store().unwrap_or(false) && self.pending_record().is_some()
    }

    /// Whether the bytes of the version that waits for its upload were written over.
    pub(in crate::file::life) fn awaits_commit(&self) -> bool {
        self.pending_record().is_some() && matches!(self.contents.last_commit(), LastCommit::Lost)
    }

    /// Whether the contents have left a version behind that waits for its upload, and that has all
    /// its bytes.
    pub(in crate::file::life) fn has_left_commit(&self) -> bool {
        let last = self.contents.last_commit();
        self.pending_record().is_some()
            && matches!(last, LastCommit::Apart(_) | LastCommit::Sending)
    }

    /// Whether a commit has something to do.
    pub(in crate::file::life) fn needs_commit(&self) -> Result<bool, FsError> {
        Ok(self.needs_store()? && !self.is_committed())
    }

    /// Whether a record has all changes.
    pub(in crate::file::life) fn is_committed(&self) -> bool {
        self.recorded.is_some_and(|it| it.edits == self.edits)
    }

    /// The failure that ended the file, if there was one.
    pub(in crate::file::life) fn check(&self) -> Result<(), FsError> {
        self.end.failure().cloned().map_or(Ok(()), Err)
    }

    /// The end of the bytes that are sent while the file is written, if some are due.
    ///
    /// With a disk, only a new file has some that is written from its first byte on.
    pub(in crate::file::life) fn next_ahead(
        &self,
        (files, writing): (&DataFiles, &WriteContext),
        haste: Haste,
    ) -> Option<u64> {
        // Bytes that the bucket has may be in memory as well.
        if self.end.is_over()
            || !self.contents.is_changed()
            || files.have_no_disk() && self.is_growing(writing)
        {
            return None;
        }
        let least = match (files.have_no_disk(), &self.base) {
            (true, _) if haste != Haste::None => 0,
            (true, None) => AHEAD_IN_MEMORY_MIN,
            (true, Some(_)) if files.chunk_bytes() >= RETAINED_MAX => 0,
            (false, None) => AHEAD_MIN,
            (true | false, Some(_)) => return None,
        };
        // Cheaper than the look at the ranges, for files that are not so long.
        if self.contents.size() < least {
            return None;
        }
        let at = self.ahead.next()?;
        let limit = match haste {
            Haste::None => self
                .contents
                .written_until()
                .saturating_sub(self.ahead.distance()),
            Haste::Parts | Haste::Everything => self.contents.last_written(),
        };
        let part_end = match files.have_no_disk() {
            true => files.part_end(at)?,
            false => writing.part_at(at)?.end,
        };
        let is_whole = limit >= part_end;
        let is_due = is_whole || haste == Haste::Everything && files.can_cut(at);
        is_due.then_some(limit)
    }

    /// Refuses a change of `range` where an unfinished upload has bytes of its parts that nobody
    /// else has: such a part cannot be sent again.
    pub(in crate::file::life) fn check_change(&self, range: &Range<u64>) -> Result<(), FsError> {
        let contents = self.contents.now();
        let parts = self.ahead.parts_in(range);
        let is_lost = |(part, is_fixed): &(Range<u64>, bool)| match is_fixed {
            true => contents.has_sent(),
            false => contents.has_sent_in(part.clone()),
        };
        if !parts.iter().any(is_lost) {
            return Ok(());
        }
        Err(FsError::NotSequential(format!(
            "{}: a change at {} is in a part that was sent, whose other bytes are in no memory any more: the first {} MiB \
             and the newest bytes of a long file can be changed; --staging DIR keeps all of them",
            self.key,
            range.start,
            CORRECTED_MAX >> 20
        )))
    }

    /// As [`Self::check_change`], for a cut to `len` bytes.
    pub(in crate::file::life) fn check_cut(&self, len: u64) -> Result<(), FsError> {
        let parts = self.ahead.parts_in(&(len..u64::MAX));
        let contents = self.contents.now();
        let is_lost = |(part, _): &(Range<u64>, bool)| {
            part.start < len && contents.has_sent_in(part.start..len)
        };
        match parts.first().is_some_and(is_lost) {
            true => self.check_change(&(len..len + 1)),
            false => Ok(()),
        }
    }

    fn count_edit(&mut self) {
        self.edits = (self.edits + 1).max(self.edits_min);
    }

    /// The bytes change now: an object of another host does not stand for them, and a time that was
    /// set is void.
    pub(in crate::file::life) fn changes(&mut self) {
        self.adopts = Adopts::Nothing;
        self.count_edit();
        if std::mem::take(&mut self.is_timed) {
            PosixAttributes::forget_time(&mut self.headers.metadata);
        }
    }

    /// Changes the headers. Returns whether a store is to come, which sends them.
    pub(in crate::file::life) fn change_headers(
        &mut self,
        change: impl FnOnce(&mut ObjectHeaders) -> Result<(), FsError>,
    ) -> Result<bool, FsError> {
        self.check()?;
        let before = self.headers.metadata.clone();
        change(&mut self.headers)?;
        if PosixAttributes::says_more(&self.headers.metadata, &before) {
            // The other host's object does not have the attributes.
            self.adopts = Adopts::Nothing;
        }
        self.is_timed = true;
        if let Some(base) = &mut self.base {
            // Appended bytes bring no headers.
            base.grows_with = None;
        }
        let is_changed = self.contents.is_changed();
        if is_changed {
            self.contents.touch();
            self.count_edit();
            if self.recorded.is_some() {
                self.due_edits = self.edits;
            }
        }
        Ok(is_changed)
    }

    /// Forgets local bytes that the base has as well, if it is there to stay.
    pub(in crate::file::life) fn drop_stored(&mut self) {
        let is_leaving = self.base.as_ref().is_some_and(|base| base.is_leaving);
        if self.end.has_name() && !is_leaving {
            drop(self.contents.drop_stored());
        }
    }

    /// The places of the file's bytes.
    pub(in crate::file::life) fn sources(
        &self,
        (files, reading): (&Arc<DataFiles>, &ReadContext),
    ) -> ByteSources {
        ByteSources {
            files: Arc::clone(files),
            base: self
                .base
                .as_ref()
                .map(|base| base.reader(reading, &self.key)),
            copied: Arc::clone(self.contents.now().copied()),
        }
    }

    /// Whether the bucket lacks something.
    pub(in crate::file::life) fn needs_store(&self) -> Result<bool, FsError> {
        match &self.end {
            End::None => Ok(self.contents.is_changed()),
            End::Removed | End::Settled(_) => Ok(false),
            // What was kept is not what the application believes to have closed.
            End::Failed(failure) | End::FailedAndRemoved(failure) => Err(failure.clone()),
        }
    }

    /// The version whose object grows by the next store, if the server puts bytes behind its end.
    fn grows(&self, writing: &WriteContext) -> Option<(Stored, Option<ChecksumAlgorithm>)> {
        let base = self.base.as_ref().filter(|_| writing.appends())?;
        let algorithm = base.grows_with?;
        let now = self.contents.now();
        let size = base.version.size;
        let is_whole = now.base_len() == size && now.in_base_until(0) == size;
        let has_bytes_in_upload = now.has_sent() || !now.copied().is_empty();
        (is_whole && !has_bytes_in_upload && now.size() > size)
            .then(|| (base.version.clone(), algorithm))
    }

    /// Whether the server can copy another object behind the end. Nothing was sent that has no
    /// copies, and what comes before is a part or nothing.
    pub(in crate::file::life) fn may_copy(&self) -> bool {
        let unsent = self.ahead.next().map(|at| self.contents.size() - at);
        let follows_a_part = unsent.is_some_and(|unsent| unsent == 0 || unsent >= UPLOAD_PART_MIN);
        follows_a_part && self.ahead.takes_copies() && self.contents.sending().is_none()
    }

    /// Whether the object grows by parts, without an upload.
    fn is_growing(&self, writing: &WriteContext) -> bool {
        match self.base {
            Some(_) => self.grows(writing).is_some(),
            None => writing.begins_by_part() && self.contents.now().copied().is_empty(),
        }
    }

    /// The end of the bytes that the next store sends, where the object grows by parts. A store
    /// ahead of the close has a `haste`, and sends whole parts alone unless memory is needed.
    /// `None` for any other file, and if nothing is due.
    pub(in crate::file::life) fn next_growth(
        &self,
        (files, writing): (&DataFiles, &WriteContext),
        haste: Option<Haste>,
    ) -> Option<u64> {
        let size = self.contents.size();
        if !files.have_no_disk() || self.end.is_over() {
            return None;
        }
        // Behind a failure, the close tells.
        let has_ended = haste.is_some() && self.ahead.next().is_none();
        if has_ended || !self.is_growing(writing) {
            return None;
        }
        let at = self.base.as_ref().map_or(0, |base| base.version.size);
        let end = files.part_end(at)?;
        let written = match haste {
            None => return Some(end.min(size)),
            Some(Haste::None | Haste::Parts) => end,
            Some(Haste::Everything) if at + UPLOAD_PART_MIN <= size => end.min(size),
            Some(Haste::Everything) => return None,
        };
        (written <= self.contents.written_until()).then_some(written)
    }

    /// Begins a store of the file as it is, or of its bytes before `limit`.
    pub(in crate::file::life) fn begin_store(
        &mut self,
        places: (&Arc<DataFiles>, &ReadContext),
        ways: (&Arc<UploadCheckpoint>, &Arc<StoreStop>),
        (writing, limit): (&WriteContext, Option<u64>),
    ) -> StoreRequest {
        self.sent_edits = self.edits;
        let grows = limit.and_then(|_| self.grows(writing));
        let snapshot = match limit.filter(|limit| *limit < self.contents.size()) {
            Some(limit) => {
                let snapshot = self.contents.begin_store_until(limit);
                self.count_edit();
                snapshot
            }
            None => {
                let is_committed = self.is_committed();
                self.contents.begin_store(is_committed)
            }
        };
        let early = self.ahead.end();
        let request = StoreRequest {
            grows,
            ..self.request(places, ways, snapshot)
        };
        self.may_have_been_stored = std::mem::replace(&mut self.may_be_stored, true);
        StoreRequest { early, ..request }
    }

    /// Begins a store of the last commit, with its time, if the file was changed since. `None` if
    /// it was not.
    ///
    /// # Errors
    /// [`FsError::Busy`] if bytes of it were written over: the next commit is to be stored.
    pub(in crate::file::life) fn begin_store_of_commit(
        &mut self,
        places: (&Arc<DataFiles>, &ReadContext),
        ways: (&Arc<UploadCheckpoint>, &Arc<StoreStop>),
    ) -> Result<Option<(StoreRequest, SystemTime)>, FsError> {
        if self.awaits_commit() {
            self.contents.await_commit();
            return Err(FsError::Busy(format!(
                "{} is written over: its next close or fsync is uploaded",
                self.key
            )));
        }
        let (Some(recorded), Some((headers, mtime))) = (self.recorded, &self.left_behind) else {
            return Ok(None);
        };
        let (headers, mtime) = (headers.clone(), *mtime);
        let Some(snapshot) = self.contents.begin_store_of_commit() else {
            return Ok(None);
        };
        self.sent_edits = recorded.edits;
        let mut request = self.request(places, ways, snapshot);
        request.headers = headers;
        request.identity.number = recorded.edits;
        self.may_have_been_stored = std::mem::replace(&mut self.may_be_stored, true);
        Ok(Some((request, mtime)))
    }

    /// The request to store `snapshot`, contents of the file.
    pub(in crate::file::life) fn request(
        &self,
        places: (&Arc<DataFiles>, &ReadContext),
        (checkpoint, stop): (&Arc<UploadCheckpoint>, &Arc<StoreStop>),
        snapshot: Arc<Snapshot>,
    ) -> StoreRequest {
        let replaced = match self.replaced_version() {
            Some(_) if self.base.as_ref().is_some_and(|base| base.is_emptied) => Replaced::Any,
            Some(version) => Replaced::Version(version.etag.clone()),
            None if self.replaced == StagedBase::Unasked => Replaced::NothingUnasked,
            None => Replaced::Nothing,
        };
        StoreRequest {
            key: self.key.clone(),
            snapshot,
            sources: self.sources(places),
            replaced,
            headers: self.headers.clone(),
            adopts: self.adopts,
            beside: None,
            checkpoint: Arc::clone(checkpoint),
            early: None,
            grows: None,
            stop: Arc::clone(stop),
            identity: StoreIdentity {
                series: self.series.clone(),
                number: self.edits,
                recovered: self.recovered,
                known: self.stored_edits,
                may_be_sent: self.may_be_stored,
            },
        }
    }

    /// The bucket has the version of the store in progress: `base`. `is_sent` tells that the store
    /// has sent it, and has not found it there. The `algorithm` is that of its checksum, if that is
    /// known.
    /// With `has_old_headers` the object's are those of an earlier change.
    pub(in crate::file::life) fn stored(
        &mut self,
        base: Base,
        (is_sent, algorithm): (bool, Option<Option<ChecksumAlgorithm>>),
        has_old_headers: bool,
    ) {
        self.contents.end_store(true);
        if has_old_headers {
            self.contents.touch();
            self.count_edit();
        }
        let grows_with = algorithm.filter(|_| is_sent);
        self.base = Some(Base {
            is_sent,
            grows_with,
            ..base
        });
        self.replaced = StagedBase::None;
        self.may_be_stored = false;
        self.adopts = Adopts::Nothing;
        self.stored_edits = self.sent_edits;
        self.refusals = 0;
        self.failures = 0;
        self.last_failure = None;
    }

    /// The bucket has a later version, `base`, which a process before has stored and not committed.
    /// `false` if the file was changed since it was recovered.
    pub(in crate::file::life) fn superseded(&mut self, base: Base) -> bool {
        if self.edits > self.sent_edits {
            self.contents.end_store(false);
            return false;
        }
        let size = base.version.size;
        self.stored(base, (false, None), false);
        self.contents = Contents::over(size);
        true
    }

    /// The file is called `key` now, and the bucket has it as `base`.
    pub(in crate::file::life) fn renamed(&mut self, key: Key, base: Base) {
        self.key = key;
        self.base = Some(base);
        self.series = WriteToken::random();
        self.contents.lose_commit();
        self.count_edit();
    }

    /// Notes the failure of an upload, for people.
    pub(in crate::file::life) fn upload_failed(&mut self, error: &FsError) {
        self.failures += 1;
        self.last_failure = Some(error.to_string());
    }

    /// The store in progress ended, and something else is in the file's place: the file ends by
    /// that, and a close of it is no failure. `false` if it has changed since the store had begun:
    /// then it goes on, and the bucket lacks all of it.
    pub(in crate::file::life) fn give_way(&mut self, failure: FsError) -> bool {
        self.contents.end_store(false);
        if self.edits > self.sent_edits {
            return false;
        }
        self.stored_edits = self.sent_edits;
        self.end.settle(failure);
        true
    }

    /// The name means something else, and the file ends by that if it has no changes. Returns
    /// whether it has some, which are to be kept.
    pub(in crate::file::life) fn lose_name(&mut self, reason: &str) -> bool {
        let is_changed = self.needs_store().ok();
        if is_changed == Some(false) && !self.end.is_over() {
            self.end.settle(FsError::Stale(reason.to_owned()));
        }
        is_changed == Some(true)
    }

    /// The file has lost its name. One that has ended with all of its bytes stays so.
    pub(in crate::file::life) fn removed(&mut self) {
        self.end.remove();
    }

    /// The file ends by the failure. Without another end, each commit returns it.
    pub(in crate::file::life) fn fail(&mut self, failure: FsError) {
        self.contents.end_store(false);
        self.end.fail(failure);
    }

    /// The bucket has the version of this number, whose store was not known to be done: `base`. The
    /// store is to be tried again.
    pub(in crate::file::life) fn rebased(&mut self, base: Base, number: u64) {
        self.contents.end_store(false);
        self.base = Some(base);
        self.replaced = StagedBase::None;
        self.stored_edits = number;
        // The record has the base of before.
        self.count_edit();
    }

    /// The version `old` was replaced by one with equal bytes.
    pub(in crate::file::life) fn base_replaced(&mut self, old: &ETag, etag: &ETag) {
        let base = self.base.as_ref();
        let Some(base) = base.filter(|base| base.version.etag.matches(old)) else {
            return;
        };
        let version = Stored {
            etag: etag.clone(),
            size: base.version.size,
        };
        let is_leaving = base.is_leaving;
        self.base = Some(Base {
            is_leaving,
            ..Base::new(version)
        });
    }
}

/// The number of the record with which an earlier process's file begins.
const FIRST_RECORD: u64 = 1;

/// Least bytes of a file on the disk of which something is sent ahead. Smaller ones are stored
/// quickly, and many are removed before their close.
const AHEAD_MIN: u64 = 64 << 20;

/// Least bytes of a file in memory of which something is sent ahead: more than one part has.
const AHEAD_IN_MEMORY_MIN: u64 = (8 << 20) + 1;

/// Bytes of a file that stay in memory behind their sending. Of a longer file the first part stays,
/// and the newest bytes.
pub(in crate::file::life) const RETAINED_MAX: u64 = 64 << 20;
