//! A store that may begin before its file is whole: parts are sent while it is written, and those
//! that change are sent again.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mountpoint_client::types::{ChecksumAlgorithm, ObjectHeaders, WriteToken};
use rangemap::RangeSet;

use super::feed::{Feed, HEAD_LEN, Next};
use crate::config::limits::UPLOAD_PART_MIN;
use crate::file::contents::Snapshot;
use crate::file::context::StagingContext;
use crate::operation::FsError;
use crate::sync::Mutex;
use crate::write::{
    Adopts, CopiedRange, ObjectUpload, Outcome, PartOutcome, Stored, UploadCheckpoint, UploadTarget,
};

/// A store whose first bytes are sent, and the rest later.
#[derive(Debug)]
pub(in crate::file) struct EarlyStore {
    /// The object to make, but for its token.
    target: UploadTarget,
    upload: ObjectUpload,
    /// What the upload has, in order from the first byte on. A leaf.
    parts: Mutex<Vec<SentPart>>,
    /// Whether the server copies ranges of the base.
    has_copies: bool,
    /// A store goes on with it, or has ended.
    is_taken: AtomicBool,
    /// Its object was made.
    is_made: AtomicBool,
}

/// A range that the upload has.
#[derive(Clone, Debug)]
struct SentPart {
    range: Range<u64>,
    /// The number of its last part.
    number: u16,
    /// The server copied it, and it cannot be sent as bytes instead.
    is_fixed: bool,
}

/// A part of a file that is written.
#[derive(Debug)]
pub(in crate::file) enum NewPart {
    /// The server copies it.
    Copied,
    /// Its bytes are being sent.
    Sent(Range<u64>, PartOutcome),
}

/// What became of bytes behind their sending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::file) struct SentChanges {
    /// Ranges that were written over.
    pub(in crate::file) changed: RangeSet<u64>,
    /// The length to which the file was cut.
    pub(in crate::file) cut: Option<u64>,
}

impl SentChanges {
    fn is_none(&self) -> bool {
        self.changed.is_empty() && self.cut.is_none()
    }
}

impl EarlyStore {
    /// Begins a store whose object carries `token`, and continues the upload of `checkpoint`, if
    /// there is one. Sends nothing.
    pub(super) fn begin(
        context: &StagingContext,
        (target, token): (UploadTarget, WriteToken),
        adopts: Adopts,
        checkpoint: Option<&Arc<UploadCheckpoint>>,
        has_copies: bool,
    ) -> Arc<Self> {
        let object = UploadTarget {
            headers: ObjectHeaders {
                token: Some(token),
                ..target.headers.clone()
            },
            ..target.clone()
        };
        let upload = ObjectUpload::new(&context.writing, object, adopts, checkpoint, has_copies);
        Arc::new(Self {
            target,
            upload,
            parts: Mutex::default(),
            has_copies,
            is_taken: AtomicBool::new(false),
            is_made: AtomicBool::new(false),
        })
    }

    /// Whether a store of `snapshot` to `target` may go on with it, where what was sent has changed
    /// so: once. Bytes that nobody else has get an object with the headers of the beginning.
    pub(super) fn can_go_on(
        &self,
        target: &UploadTarget,
        snapshot: &Snapshot,
        changes: &SentChanges,
    ) -> bool {
        let has_place = self.target.key == target.key && self.target.replaced == target.replaced;
        let is_same = self.has_headers(target) || snapshot.has_sent();
        let may_go_on = self.upload.failure().is_none()
            && has_place
            && is_same
            && self.takes(changes, snapshot.size());
        may_go_on && !self.is_taken.swap(true, Ordering::AcqRel)
    }

    fn has_headers(&self, target: &UploadTarget) -> bool {
        self.target.headers == target.headers
    }

    /// Whether its object was made, with other headers than those of `target`.
    pub(super) fn has_old_headers(&self, target: &UploadTarget) -> bool {
        self.is_made.load(Ordering::Acquire) && !self.has_headers(target)
    }

    /// Whether the server copies ranges of the base.
    pub(in crate::file) fn has_copies(&self) -> bool {
        self.has_copies
    }

    /// Whether parts can be sent again and dropped so that the upload has a file of `size` bytes.
    fn takes(&self, changes: &SentChanges, size: u64) -> bool {
        let end = changes.cut.unwrap_or(u64::MAX).min(size);
        let parts = self.parts.lock();
        let kept = parts.iter().filter(|part| part.range.end <= end);
        let can_change = |part: &SentPart| !part.is_fixed || !changes.changed.overlaps(&part.range);
        let mut kept = kept.peekable();
        // An upload without parts cannot be completed.
        (parts.is_empty() || kept.peek().is_some()) && kept.all(can_change)
    }

    /// The parts with bytes of `range`; with each, whether it cannot be sent again, as the server
    /// copied it.
    pub(in crate::file) fn parts_in(&self, range: &Range<u64>) -> Vec<(Range<u64>, bool)> {
        let parts = self.parts.lock();
        let first = parts.partition_point(|part| part.range.end <= range.start);
        let hit = parts[first..].iter();
        let hit = hit.take_while(|part| part.range.start < range.end);
        hit.map(|part| (part.range.clone(), part.is_fixed))
            .collect()
    }

    /// The end of what was sent.
    pub(in crate::file) fn sent_until(&self) -> u64 {
        let parts = self.parts.lock();
        parts.last().map_or(0, |part| part.range.end)
    }

    /// Notes that the last parts have `range`. If it `is_fixed`, it cannot be sent again.
    fn sent(&self, range: Range<u64>, is_fixed: bool) {
        let number = self.upload.parts();
        self.parts.lock().push(SentPart {
            range,
            number,
            is_fixed,
        });
    }

    /// Has the server copy `source`, bytes of `range`, as the next parts.
    async fn copy(&self, source: &CopiedRange, range: Range<u64>) -> Result<(), FsError> {
        let parts_before = self.upload.parts();
        self.upload.copy(source).await?;
        let is_one_part = self.upload.parts() == parts_before + 1;
        let is_short = range.end - range.start <= COPY_SENT_AGAIN_MAX;
        self.sent(range, !(is_one_part && is_short));
        Ok(())
    }

    /// Sends the next part, or has it copied, if it ends before `limit`, while the file is written.
    /// Returns the part, if there is one. One call at a time.
    pub(in crate::file) async fn send_next(
        &self,
        context: &Arc<StagingContext>,
        feed: &Feed,
        limit: u64,
    ) -> Result<Option<NewPart>, FsError> {
        let at = self.sent_until();
        if at >= limit {
            return Ok(None);
        }
        match feed.next(context, &self.upload, at)? {
            Next::Bytes(range) if range.end > limit => Ok(None),
            Next::Copy(_, range) if range.end > limit => Ok(None),
            Next::Copy(source, range) => {
                let (source, range) = feed.head_of_copy(source, range);
                self.copy(&source, range).await?;
                Ok(Some(NewPart::Copied))
            }
            Next::Bytes(range) => {
                let (range, outcome) = self.send_part(context, feed, range).await?;
                Ok(Some(NewPart::Sent(range, outcome)))
            }
        }
    }

    /// Returns when S3 has all that was sent.
    ///
    /// # Errors
    /// S3 has refused a part.
    pub(in crate::file) async fn arrived(&self) -> Result<(), FsError> {
        self.upload.arrived().await;
        self.upload.failure().map_or(Ok(()), Err)
    }

    async fn send_part(
        &self,
        context: &Arc<StagingContext>,
        feed: &Feed,
        range: Range<u64>,
    ) -> Result<(Range<u64>, PartOutcome), FsError> {
        let body = feed.part(context, &self.upload, range.clone()).await?;
        let range = range.start..range.start + body.len();
        let outcome = self.upload.send_part(body);
        self.sent(range.clone(), false);
        Ok((range, outcome))
    }

    /// Drops the parts that end behind `len`.
    pub(in crate::file) async fn cut(&self, len: u64) {
        let has_more = |parts: &[SentPart]| parts.last().is_some_and(|it| it.range.end > len);
        if !has_more(&self.parts.lock()) {
            return;
        }
        self.upload.arrived().await;
        let kept = {
            let mut parts = self.parts.lock();
            parts.retain(|part| part.range.end <= len);
            parts.last().map_or(0, |part| part.number)
        };
        self.upload.cut(kept);
    }

    /// Sends all that was not sent, and what has changed since. Returns when S3 has all parts of a
    /// long object, or has refused one.
    pub(super) async fn send_rest(
        &self,
        context: &Arc<StagingContext>,
        feed: &Feed,
        changes: &SentChanges,
    ) -> Result<(), FsError> {
        let size = feed.snapshot.size();
        if !changes.is_none() || self.sent_until() > size {
            self.cut(changes.cut.unwrap_or(u64::MAX).min(size)).await;
            self.send_changed(context, feed, &changes.changed).await?;
        }
        loop {
            let at = self.sent_until();
            if at >= size {
                break;
            }
            match feed.next(context, &self.upload, at)? {
                Next::Copy(source, range) => self.copy(&source, range).await?,
                Next::Bytes(range) if range == (0..size) && feed.is_one_request(context) => {
                    let whole = feed.whole(context, &self.upload, range).await?;
                    self.upload.hold_whole(whole);
                    break;
                }
                Next::Bytes(range) => drop(self.send_part(context, feed, range).await?),
            }
        }
        self.upload.arrived().await;
        Ok(())
    }

    /// Sends the parts with bytes that have changed once more.
    async fn send_changed(
        &self,
        context: &Arc<StagingContext>,
        feed: &Feed,
        changed: &RangeSet<u64>,
    ) -> Result<(), FsError> {
        let parts = self.parts.lock().clone();
        let mut parts = parts.into_iter();
        let mut has_waited = false;
        while let Some(part) = parts.find(|part| changed.overlaps(&part.range)) {
            if !std::mem::replace(&mut has_waited, true) {
                // S3 keeps the part of a number that arrives last.
                self.upload.arrived().await;
            }
            self.upload.part_room().await?;
            let body = feed
                .whole(context, &self.upload, part.range.clone())
                .await?;
            self.upload.send_again(part.number, body);
        }
        Ok(())
    }

    /// Puts the bytes behind `before`, which the server has as the beginning of the file, behind
    /// its end.
    pub(super) async fn grow(
        &self,
        context: &Arc<StagingContext>,
        feed: &Feed,
        before: (Stored, Option<ChecksumAlgorithm>),
    ) -> Result<Outcome, FsError> {
        let range = before.0.size..feed.snapshot.size();
        let rest = feed.whole(context, &self.upload, range).await?;
        self.upload.append(before, rest).await
    }

    /// Makes the object, when all bytes were sent.
    pub(super) async fn finish(&self) -> Result<Outcome, FsError> {
        let outcome = self.upload.finish().await;
        self.is_made.store(outcome.is_ok(), Ordering::Release);
        outcome
    }

    /// Ends the attempt. Its upload is aborted, unless another attempt may continue it after
    /// `error`.
    pub(in crate::file) async fn give_up(&self, error: &FsError) {
        self.upload.give_up(error).await;
    }
}

/// Most bytes of a copy that are sent instead if some of them change: the beginning of a file, with
/// what is too short for a copy of its own behind it.
const COPY_SENT_AGAIN_MAX: u64 = HEAD_LEN + UPLOAD_PART_MIN;
