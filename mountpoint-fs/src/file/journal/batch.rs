//! Records that become durable together, and the writers that wait for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::format::{RECORD_ALIGN, RECORD_HEADER_LEN, RecordHeader, record_len};
use super::types::{AppendError, RecordId, RecordKey};
use crate::sync::Mutex;

/// Records as they will be in a segment, but for their headers, which need their place.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    records: Vec<BatchRecord>,
    outcome: Arc<BatchOutcome>,
}

/// A record of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchRecord {
    pub(super) header: RecordHeader,
    /// Where it begins in the batch.
    pub(super) start: usize,
    /// Whether it was durable elsewhere before.
    pub(super) is_copy: bool,
}

impl BatchRecord {
    pub(super) fn id(&self) -> RecordId {
        RecordId {
            key: RecordKey(self.header.key),
            version: self.header.version,
        }
    }
}

impl Batch {
    /// Copies a record's payload, which is `parts`, behind those before it.
    pub(super) fn push(&mut self, header: RecordHeader, parts: &[&[u8]], is_copy: bool) {
        let start = self.bytes.len();
        let len: usize = parts.iter().map(|part| part.len()).sum();
        assert_eq!(len, header.len as usize);
        self.bytes.reserve(record_len(len));
        self.bytes.resize(start + RECORD_HEADER_LEN, 0);
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        let end = self.bytes.len().next_multiple_of(RECORD_ALIGN);
        self.bytes.resize(end, 0);
        self.records.push(BatchRecord {
            header,
            start,
            is_copy,
        });
    }

    /// Writes all headers, for a batch that begins at `offset` of a segment, and returns the bytes.
    pub(super) fn seal(&mut self, salt: u32, offset: u64) -> &[u8] {
        for record in &self.records {
            let place = offset + record.start as u64;
            let header = record.header.encode(salt, place, offset);
            self.bytes[record.start..record.start + RECORD_HEADER_LEN].copy_from_slice(&header);
        }
        &self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn records(&self) -> &[BatchRecord] {
        &self.records
    }

    pub(super) fn outcome(&self) -> &Arc<BatchOutcome> {
        &self.outcome
    }

    /// Makes it ready for other records. Its memory stays.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
        self.outcome = Arc::default();
    }
}

/// The outcome of a batch.
#[derive(Debug, Default)]
pub(super) struct BatchOutcome {
    /// A leaf.
    state: Mutex<OutcomeState>,
}

#[derive(Debug, Default)]
struct OutcomeState {
    result: Option<Result<(), AppendError>>,
    /// One for each writer that waits.
    wakers: Vec<Waker>,
    /// Writers that waited at the end.
    waited: usize,
}

impl BatchOutcome {
    /// Tells the result. Returns what to wake, which the caller does without a lock.
    pub(super) fn finish(&self, result: Result<(), AppendError>) -> Vec<Waker> {
        let mut state = self.state.lock();
        assert!(state.result.is_none(), "a batch ends once");
        state.result = Some(result);
        state.waited = state.wakers.len();
        std::mem::take(&mut state.wakers)
    }
}

/// The moment at which a record is durable: a future of its id, or of the error that is final for
/// it. A writer that drops it does not take its record back.
#[derive(Debug)]
#[must_use = "a record is not durable before its commit is"]
pub(crate) struct Commit {
    id: RecordId,
    outcome: Arc<BatchOutcome>,
    /// Which waker of the batch is ours.
    waker: Option<usize>,
}

impl Commit {
    pub(super) fn new(id: RecordId, outcome: &Arc<BatchOutcome>) -> Self {
        Self {
            id,
            outcome: Arc::clone(outcome),
            waker: None,
        }
    }

    /// One that has failed.
    pub(super) fn failed(id: RecordId, error: AppendError) -> Self {
        let outcome = Arc::default();
        let commit = Self::new(id, &outcome);
        assert!(outcome.finish(Err(error)).is_empty(), "nobody waits yet");
        commit
    }

    /// Whether so few writers waited for the batch that each may go on at once on the journal's
    /// thread, which its waker was called on. Others hold up the next batch.
    #[must_use]
    pub(crate) fn may_go_on(&self) -> bool {
        self.outcome.state.lock().waited <= GO_ON_MAX
    }
}

impl Future for Commit {
    type Output = Result<RecordId, AppendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = Arc::clone(&self.outcome);
        let state = &mut *outcome.state.lock();
        if let Some(result) = &state.result {
            return Poll::Ready(result.clone().map(|()| self.id));
        }
        match self.waker {
            Some(ours) => state.wakers[ours].clone_from(context.waker()),
            None => {
                self.waker = Some(state.wakers.len());
                state.wakers.push(context.waker().clone());
            }
        }
        Poll::Pending
    }
}

/// Writers that go on at once on the journal's thread: a reply to the kernel takes less time than
/// another thread does until it runs, and two do not hold up the next batch for longer than that.
const GO_ON_MAX: usize = 2;
