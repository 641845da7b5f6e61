//! Memory pressure: writers find no memory, and no upload in flight will give any back.
//!
//! An application may write to many large files in turn; then each of them holds a partial part.
//! First, idle and failed files give memory back; then the least recently written file sends its
//! part early; at last waiting writers fail, one after the other. doc/internals/write-memory.md has
//! the steps.
//!
//! Invariant: no part is sent early and no writer fails while data is in flight to the bucket: its
//! memory comes back by itself. One task of the runtime checks, with no lock held.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mountpoint_client::types::Key;
use tokio::sync::Notify;

use super::buffers::{Grant, WriteMemory};
use crate::clock::Clock;
use crate::config::limits::READER_IDLE;
use crate::memory::{BufferRequest, WaitState};
use crate::operation::FsError;
use crate::sync::{Counted, Mutex};

/// An open file, which may give memory back.
pub trait Reclaim: Send + Sync {
    /// Gives back memory of bytes that S3 has and that may be needed again: all of it if memory
    /// `is_scarce`. Sends whole parts.
    fn give_back_sent(self: Arc<Self>, is_scarce: bool);

    /// Gives back memory that the file does not need, after a while without a write.
    fn give_back_idle(self: Arc<Self>, now: Duration, is_stuck: bool);

    /// The file's last write, as [`MemoryPressure::written`] counts; `None` if the file cannot send
    /// a partial part.
    fn can_send_since(self: Arc<Self>) -> Option<u64>;

    /// Sends the buffer as a part, if it is long enough for one. Returns whether it did.
    fn send_early(self: Arc<Self>) -> bool;
}

/// The writers that wait for memory, and the files that may give some back.
pub(in crate::write) struct MemoryPressure {
    memory: Arc<WriteMemory>,
    clock: Clock,
    waiting: AtomicUsize,
    /// Counts written bytes: the order of the files' last writes, and a sign of progress.
    moves: AtomicU64,
    /// Requests in flight or about to be sent. Their bodies give memory back at the end.
    sending: Arc<AtomicUsize>,
    begun: Notify,
    /// The progress at the last check. A leaf.
    seen: Mutex<Option<LastProgress>>,
    /// Open files. A leaf.
    writers: Mutex<Writers>,
}

#[derive(Clone, Copy, Debug)]
struct LastProgress {
    moves: u64,
    since: Duration,
}

#[derive(Default)]
struct Writers {
    known: Vec<Weak<dyn Reclaim>>,
    /// The number of files at which closed ones are taken out.
    sweep_at: usize,
}

impl MemoryPressure {
    /// The pressure on the writers of `memory`.
    pub(in crate::write) fn new(memory: Arc<WriteMemory>, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            memory,
            clock,
            waiting: AtomicUsize::new(0),
            moves: AtomicU64::new(0),
            sending: Arc::default(),
            begun: Notify::new(),
            seen: Mutex::default(),
            writers: Mutex::default(),
        })
    }

    /// Adds a file that was opened for writing.
    pub(in crate::write) fn register(&self, writer: Weak<dyn Reclaim>) {
        let mut writers = self.writers.lock();
        if writers.known.len() >= writers.sweep_at {
            writers.known.retain(|known| known.strong_count() > 0);
            writers.sweep_at = 2 * writers.known.len().max(SWEEP_MIN);
        }
        writers.known.push(writer);
    }

    /// Counts `bytes` that were written. Returns the count before.
    pub(in crate::write) fn written(&self, bytes: u64) -> u64 {
        self.moves.fetch_add(bytes, Ordering::Relaxed)
    }

    /// Notes progress without bytes: memory was granted, or the server has copied. Returns the
    /// count of [`Self::written`].
    pub(in crate::write) fn moved(&self) -> u64 {
        self.written(MEMORY_PROGRESS_MIN)
    }

    /// Counts a body of written bytes in flight, until the guard is dropped.
    pub(in crate::write) fn sending(&self) -> Sending {
        self.sending.fetch_add(1, Ordering::AcqRel);
        Sending(Arc::clone(&self.sending))
    }

    /// Files open for writing.
    fn open(&self) -> impl Iterator<Item = Arc<dyn Reclaim>> + use<> {
        let known: Vec<_> = self.writers.lock().known.clone();
        known.into_iter().filter_map(|known| known.upgrade())
    }

    /// Has the least recently written file send a part that can. Returns whether one does.
    fn send_one_early(&self) -> bool {
        let since = |file: Arc<dyn Reclaim>| Some((Arc::clone(&file).can_send_since()?, file));
        let mut ready: Vec<_> = self.open().filter_map(since).collect();
        ready.sort_by_key(|(since, _)| *since);
        // A file whose store is in progress sends nothing beside it.
        ready.into_iter().any(|(_, file)| file.send_early())
    }

    fn wait(&self) -> Counted<'_> {
        let waiting = Counted::new(&self.waiting);
        self.begun.notify_one();
        waiting
    }
}

/// A body in flight; dropped after it.
#[derive(Debug)]
pub(in crate::write) struct Sending(Arc<AtomicUsize>);

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl MemoryPressure {
    /// Waits for memory for a part of `key`, of which `written` bytes were taken. An error if there
    /// will be none.
    pub(in crate::write) async fn memory_for(
        &self,
        key: &Key,
        request: BufferRequest,
        written: u64,
    ) -> Result<Grant, FsError> {
        if let Some(grant) = self.memory.try_take(request) {
            return Ok(grant);
        }
        for is_scarce in [false, true] {
            self.open().for_each(|file| file.give_back_sent(is_scarce));
            if let Some(grant) = self.memory.try_take(request) {
                return Ok(grant);
            }
        }
        let _waiting = self.wait();
        let Some(grant) = self.memory.take(request, written).await else {
            return Err(FsError::NoSpace(format!(
                "{key}: files that are open hold all memory for writing, and for {} s nothing was written or sent; close \
                 files before others are written, raise --memory-target, or leave out --write-part-size: parts of a \
                 fixed size are not sent before they are full",
                MEMORY_WAIT_MAX.as_secs()
            )));
        };
        self.moved();
        Ok(grant)
    }

    /// Helps writers that wait for memory, once. Returns when the next check is due.
    pub(in crate::write) async fn relieve(&self) {
        if self.look() {
            tokio::time::sleep(PRESSURE_TICK).await;
        } else {
            // After each check the caller looks whether the mount still exists.
            drop(tokio::time::timeout(READER_IDLE, self.begun.notified()).await);
        }
    }

    /// Helps writers that wait for memory: makes a file send a part early, or fails one writer.
    /// Returns whether any writer waits. Called with no lock held.
    pub(in crate::write) fn look(&self) -> bool {
        if self.waiting.load(Ordering::Acquire) == 0 {
            *self.seen.lock() = None;
            return false;
        }
        // Completions and copies on the server give no memory back, and may take hours.
        let is_busy = self.sending.load(Ordering::Acquire) > 0;
        let now = self.clock.now();
        self.open()
            .for_each(|file| file.give_back_idle(now, !is_busy));
        let wait = if is_busy {
            WaitState::Waited
        } else {
            WaitState::Stuck
        };
        self.memory.serve(wait);
        self.memory.make_room();
        let is_moving = is_busy || self.send_one_early();
        let moves = self.moves.load(Ordering::Relaxed);
        let waited = {
            let mut seen = self.seen.lock();
            let start = LastProgress { moves, since: now };
            let last = seen.get_or_insert(start);
            if is_moving || moves - last.moves >= MEMORY_PROGRESS_MIN {
                *last = start;
            }
            let waited = now - last.since;
            if waited >= MEMORY_WAIT_MAX {
                last.since = now - (MEMORY_WAIT_MAX - MEMORY_FAILURE_GAP);
            }
            waited
        };
        if waited >= MEMORY_WAIT_MAX {
            self.memory.fail_one();
        }
        true
    }
}

impl fmt::Debug for MemoryPressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryPressure")
            .field("waiting", &self.waiting)
            .field("sending", &self.sending)
            .finish_non_exhaustive()
    }
}

/// Number of files below which closed ones are not searched.
const SWEEP_MIN: usize = 64;

/// How often the mount checks whether it can serve writers that wait for memory.
const PRESSURE_TICK: Duration = Duration::from_millis(20);

/// Progress below so many bytes in [`MEMORY_WAIT_MAX`] counts as none. An occasional line of a log
/// frees no memory.
const MEMORY_PROGRESS_MIN: u64 = 64 << 10;

/// How long writers wait for memory of a failed one before the next one fails.
const MEMORY_FAILURE_GAP: Duration = Duration::from_secs(1);

/// How long a writer waits for memory without any progress of writes and uploads.
///
/// By then the application that holds the memory has stopped: it wrote to many files in turn, and
/// now waits for the next.
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(60);
