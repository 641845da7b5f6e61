//! The batch that fills, and what is to do next.
//!
//! A batch goes as soon as the disk is idle: the writers that came while the last one was synced
//! share the next sync.
//! Known to appending threads and to the committing one, under one lock. Reads no clock.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::batch::{Batch, BatchOutcome, Commit};
use super::format::{NUMBER_MAX, RecordHeader, RecordKind};
use super::types::{JournalLimits, RecordId};
use crate::local_disk::checksum;

/// The batch that fills, with its writers.
#[derive(Debug)]
pub(super) struct Filling {
    batch: Batch,
    /// The other buffer, while no batch is written.
    spare: Option<Batch>,
    /// Version of the last record.
    version: u64,
    /// Whether a writer waits.
    is_awaited: bool,
    /// When the batch goes for records that nobody waits for.
    unawaited_until: Option<Duration>,
    /// Appends that found no room.
    room_wakers: Vec<Waker>,
    is_closing: bool,
}

/// The next step of the committing thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Writes the batch.
    Take,
    /// Sleeps until something happens.
    Sleep,
    /// Sleeps until then.
    SleepUntil(Duration),
    /// Ends.
    End,
}

impl Filling {
    pub(super) fn new(version: u64) -> Self {
        Self {
            batch: Batch::default(),
            spare: Some(Batch::default()),
            version,
            is_awaited: false,
            unawaited_until: None,
            room_wakers: Vec::new(),
            is_closing: false,
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Writes what is there and ends. Returns the appends that have to be told.
    pub(super) fn close(&mut self) -> Vec<Waker> {
        self.is_closing = true;
        std::mem::take(&mut self.room_wakers)
    }

    /// Whether a record finds room.
    pub(super) fn has_room(&self, header: RecordHeader, limits: &JournalLimits) -> bool {
        let len = self.batch.len() + header.record_len();
        len <= limits.batch_len_max() && self.batch.records().len() < BATCH_RECORDS_MAX
    }

    /// An append waits for room: the batch goes now.
    pub(super) fn wait_for_room(&mut self, waker: &Waker) {
        self.room_wakers.push(waker.clone());
    }

    /// Whether the next record of `key` would be read again: counters began behind what was found.
    pub(super) fn can_number(&self, key: u64) -> bool {
        key.max(self.version) < NUMBER_MAX
    }

    /// Adds a record whose writer waits, under the next version.
    pub(super) fn append(&mut self, header: RecordHeader, parts: &[&[u8]]) -> Commit {
        self.version += 1;
        let version = self.version;
        self.batch
            .push(RecordHeader { version, ..header }, parts, false);
        self.is_awaited = true;
        self.commit_of_last()
    }

    /// Adds the release of a record.
    pub(super) fn release(&mut self, id: RecordId, now: Duration) -> Commit {
        let header = RecordHeader {
            kind: RecordKind::Release,
            len: 0,
            key: id.key.0,
            version: id.version,
            payload_sum: checksum(&[]),
        };
        self.batch.push(header, &[], false);
        self.go_by(now + RELEASE_DELAY);
        self.commit_of_last()
    }

    /// Adds a record that is durable elsewhere.
    pub(super) fn append_copy(&mut self, header: RecordHeader, payload: &[u8], now: Duration) {
        self.batch.push(header, &[payload], true);
        self.go_by(now + COPY_DELAY);
    }

    fn commit_of_last(&self) -> Commit {
        let last = self.batch.records().last().expect("one was added");
        Commit::new(last.id(), self.batch.outcome())
    }

    fn go_by(&mut self, until: Duration) {
        let before = self.unawaited_until.unwrap_or(until);
        self.unawaited_until = Some(before.min(until));
    }

    /// The step to take now. The disk is idle.
    pub(super) fn step(&self, now: Duration) -> Step {
        if self.batch.records().is_empty() && self.is_closing {
            return Step::End;
        }
        if self.is_closing || self.is_awaited || !self.room_wakers.is_empty() {
            return Step::Take;
        }
        match self.unawaited_until {
            None => Step::Sleep,
            Some(until) if until > now => Step::SleepUntil(until),
            Some(_) => Step::Take,
        }
    }

    /// Takes the batch; the next one fills from now on.
    pub(super) fn take(&mut self) -> Batch {
        let spare = self.spare.take().unwrap_or_default();
        self.unawaited_until = None;
        self.is_awaited = false;
        std::mem::replace(&mut self.batch, spare)
    }

    /// Gives up the batch that fills. Returns its outcome, which the caller tells.
    pub(super) fn abandon(&mut self) -> Arc<BatchOutcome> {
        let outcome = Arc::clone(self.batch.outcome());
        self.batch.clear();
        outcome
    }

    /// A batch was written, and its buffer is free. Returns the appends that find room now.
    pub(super) fn finish(&mut self, mut records: Batch) -> Vec<Waker> {
        records.clear();
        self.spare = Some(records);
        std::mem::take(&mut self.room_wakers)
    }
}

/// Records of a batch: as many as requests that Linux has in flight on one mount, and releases.
const BATCH_RECORDS_MAX: usize = 8192;

/// How long a release waits for a batch that goes anyway. A crash in this time costs an upload.
const RELEASE_DELAY: Duration = Duration::from_secs(1);

/// How long a copy waits for a batch that goes anyway.
const COPY_DELAY: Duration = Duration::from_millis(10);
