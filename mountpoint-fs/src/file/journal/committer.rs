//! The thread that makes batches durable, and the state that it shares with appending threads.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tracing::{error, warn};

use super::batch::{Batch, BatchOutcome, Commit};
use super::filling::{Filling, Step};
use super::format::{RecordHeader, RecordKind};
use super::index::Place;
use super::log::{Log, LogIndex, RecordCopy};
use super::types::{AppendError, JournalLimits, RecordId};
use crate::clock::Clock;
use crate::executor::panic_message;
use crate::local_disk::DiskFile;
use crate::sync::{Condvar, Mutex, MutexGuard};

/// State of the appending threads and the committing one. Lock order: `state` before `index`.
#[derive(Debug)]
pub(super) struct Shared {
    clock: Clock,
    limits: JournalLimits,
    index: Arc<Mutex<LogIndex>>,
    state: Mutex<State>,
    /// Told when the committing thread has to look.
    work: Condvar,
}

#[derive(Debug)]
struct State {
    filling: Filling,
    /// Bytes of live records after the last batch.
    live_bytes: u64,
    /// Until when the committing thread sleeps; `None` while it works.
    asleep_until: Option<Duration>,
    /// The batch that is written.
    in_hand: Option<Arc<BatchOutcome>>,
    /// Why the committing thread has ended before its time.
    failure: Option<AppendError>,
}

impl Shared {
    pub(super) fn new(log: &Log, limits: JournalLimits, clock: Clock, version: u64) -> Self {
        let index = Arc::clone(log.index());
        let live_bytes = index.lock().live_bytes();
        Self {
            clock,
            limits,
            index,
            state: Mutex::new(State {
                filling: Filling::new(version),
                live_bytes,
                asleep_until: None,
                in_hand: None,
                failure: None,
            }),
            work: Condvar::new(),
        }
    }

    pub(super) fn limits(&self) -> &JournalLimits {
        &self.limits
    }

    /// The file and place of a live record.
    pub(super) fn find(&self, id: RecordId) -> Option<(Arc<dyn DiskFile>, Place)> {
        self.index.lock().find(id)
    }

    /// Adds a record as soon as there is room.
    pub(super) fn append(
        &self,
        header: RecordHeader,
        parts: &[&[u8]],
        context: &Context<'_>,
    ) -> Poll<Result<Commit, AppendError>> {
        let mut state = self.state.lock();
        if let Some(error) = state.refusal() {
            return Poll::Ready(Err(error));
        }
        let bytes_max = self.limits.bytes_max;
        if state.live_bytes > bytes_max / 2 {
            return Poll::Ready(Err(AppendError::Full { bytes_max }));
        }
        if !state.filling.can_number(header.key) {
            let error = io::Error::other("the journal has the last number that there is");
            return Poll::Ready(Err(AppendError::Disk(Arc::new(error))));
        }
        if !state.filling.has_room(header, &self.limits) {
            state.filling.wait_for_room(context.waker());
            self.tell(&state);
            return Poll::Pending;
        }
        let commit = state.filling.append(header, parts);
        self.tell(&state);
        Poll::Ready(Ok(commit))
    }

    /// Adds the release of a record.
    pub(super) fn release(&self, id: RecordId) -> Commit {
        let mut state = self.state.lock();
        if let Some(error) = state.refusal() {
            return Commit::failed(id, error);
        }
        let commit = state.filling.release(id, self.clock.now());
        self.tell(&state);
        commit
    }

    /// Has the committing thread write the batch in hand, and end.
    pub(super) fn close(&self) {
        let wakers = self.state.lock().filling.close();
        self.work.notify_all();
        wake(wakers);
    }

    /// Wakes the committing thread if it has to do something before it wakes by itself.
    fn tell(&self, state: &MutexGuard<'_, State>) {
        let Some(asleep_until) = state.asleep_until else {
            return;
        };
        let is_early = match state.filling.step(self.clock.now()) {
            Step::Take | Step::End => true,
            Step::Sleep => false,
            Step::SleepUntil(until) => until < asleep_until,
        };
        if is_early {
            self.work.notify_one();
        }
    }

    /// Writes batches until the journal is closed. A panic ends the journal: all that waits for it
    /// and comes later fails, as with a disk that is gone.
    pub(super) fn run(&self, log: Log) {
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.write_batches(log))) else {
            return;
        };
        let message = panic_message(panic.as_ref());
        error!(
            message,
            "the journal's thread panicked: nothing more is kept on this disk until the next mount"
        );
        let what = format!("its thread has panicked: {message}");
        let error = AppendError::Disk(Arc::new(io::Error::other(what)));
        let (mut wakers, outcomes) = {
            let mut state = self.state.lock();
            state.failure = Some(error.clone());
            let outcomes = [state.in_hand.take(), Some(state.filling.abandon())];
            (state.filling.close(), outcomes)
        };
        for outcome in outcomes.into_iter().flatten() {
            wakers.extend(outcome.finish(Err(error.clone())));
        }
        wake(wakers);
    }

    fn write_batches(&self, mut log: Log) {
        // One behind the other.
        let mut failures = 0_u64;
        while let Some(mut records) = self.next_batch() {
            let result = log.commit(&mut records);
            let bytes = records.len();
            match &result {
                Ok(_) => failures = 0,
                Err(error) => {
                    failures += 1;
                    if failures.is_power_of_two() {
                        warn!(failures, "cannot write the journal: {error}");
                    }
                }
            }
            let result = result
                .map(drop)
                .map_err(|error| AppendError::Disk(Arc::new(error)));
            let outcome = Arc::clone(records.outcome());
            let mut wakers = {
                let live_bytes = self.index.lock().live_bytes();
                let mut state = self.state.lock();
                state.live_bytes = live_bytes;
                state.in_hand = None;
                state.filling.finish(records)
            };
            wakers.extend(outcome.finish(result));
            wake(wakers);
            log.remove_dead();
            let copied_max = (bytes as u64 * COPIED_PER_WRITTEN).max(COPIED_MIN);
            let copied_max = copied_max.min(self.limits.batch_len_max() as u64);
            self.append_copies(&log.next_copies(copied_max));
        }
    }

    /// Sleeps until a batch is to be written; `None` at the end.
    fn next_batch(&self) -> Option<Batch> {
        let mut state = self.state.lock();
        loop {
            let now = self.clock.now();
            match state.filling.step(now) {
                Step::Take => {
                    let taken = state.filling.take();
                    state.in_hand = Some(Arc::clone(taken.outcome()));
                    return Some(taken);
                }
                Step::End => return None,
                Step::Sleep => {
                    state.asleep_until = Some(Duration::MAX);
                    self.work.wait(&mut state);
                }
                Step::SleepUntil(until) => {
                    state.asleep_until = Some(until);
                    self.work.wait_for(&mut state, until - now);
                }
            }
            state.asleep_until = None;
        }
    }

    /// Appends records that are durable elsewhere, those that still live.
    fn append_copies(&self, copies: &[RecordCopy]) {
        let mut state = self.state.lock();
        for copy in copies {
            // Under the lock of the batch: a release that comes later stands behind the copy.
            if self.index.lock().is_live(copy.id) {
                let header = RecordHeader {
                    kind: RecordKind::Data,
                    len: u32::try_from(copy.payload.len()).expect("it was a record before"),
                    key: copy.id.key.0,
                    version: copy.id.version,
                    payload_sum: copy.sum,
                };
                let now = self.clock.now();
                state.filling.append_copy(header, &copy.payload, now);
            }
        }
    }
}

impl State {
    /// The reason why the journal takes no further record.
    fn refusal(&self) -> Option<AppendError> {
        let closed = self.filling.is_closing().then_some(AppendError::Closed);
        self.failure.clone().or(closed)
    }
}

/// Has the waiting tasks go on elsewhere: this thread belongs to the next batch.
fn wake(wakers: Vec<Waker>) {
    for waker in wakers {
        waker.wake();
    }
}

/// Bytes that are copied for each byte written while there is too much garbage: garbage is then
/// removed sooner than it comes, as an old segment has more of it than half.
const COPIED_PER_WRITTEN: u64 = 2;

/// Bytes that are copied after a batch at least.
const COPIED_MIN: u64 = 256 << 10;
