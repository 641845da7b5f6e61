//! What is done when writers find no memory and nothing that is on its way will give any back.
//!
//! An application may write to many large files in turn, and each of them then holds a part that is not full. S3 takes a
//! part that is not the last from 5 MiB on: the file that was written to least lately sends what it has; where only files
//! have so much whose writers wait themselves, the one that has waited longest does. Where none has, and nothing at all is
//! written or sent, buffers shrink to what is in them, and memory is given out as it is needed, from wherever there is some
//! ([`WriteMemory::tighten`]). Where there is none left either, those who wait fail rather than wait for ever: soon, if all
//! of it is held by files that were last written to by the threads that wait, and after a while otherwise.
//!
//! [`WriteMemory::tighten`]: super::memory::WriteMemory::tighten
//!
//! Invariant: nothing is sent early while parts are on their way, whose memory comes back by itself. Looked at by one task
//! of the runtime, with no lock held.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::{Either, select};
use tokio::sync::Notify;

use super::context::WriteContext;
use super::front::Stage;
use super::memory::{Ask, Buffer, tight};
use super::writer::Writer;
use crate::config::limits::{
    READER_IDLE, SHORTAGE_CALM, SHORTAGE_MAX, SHORTAGE_TICK, SHORTAGE_VAIN, WRITE_SIZE_MAX,
    WRITE_SLACK_SHARE,
};
use crate::operation::FsError;
use crate::sync::Mutex;

/// Who waits for memory, and who might give some back.
#[derive(Debug, Default)]
pub(super) struct Shortage {
    waiting: AtomicUsize,
    /// Their threads. A leaf.
    threads: Mutex<Vec<u32>>,
    /// Counts what is written: tells which file was written to least lately, and whether anything moves.
    moves: AtomicU64,
    /// Those of them that hold enough for a part.
    holding: AtomicUsize,
    begun: Arc<Notify>,
    /// One of `holding` is to send what it holds.
    send_first: Notify,
    given_up: Notify,
    /// Memory is given out in another way than before.
    eased: Notify,
    /// What was seen last. A leaf.
    seen: Mutex<Option<Seen>>,
    /// Open files. A leaf.
    writers: Mutex<Writers>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    moves: u64,
    since: Duration,
}

#[derive(Debug, Default)]
struct Writers {
    known: Vec<Weak<Writer>>,
    /// Closed ones are taken out when there are so many.
    sweep_at: usize,
}

impl Shortage {
    /// A file was opened for writing.
    pub(super) fn register(&self, writer: &Arc<Writer>) {
        let mut writers = self.writers.lock();
        if writers.known.len() >= writers.sweep_at {
            writers.known.retain(|known| known.strong_count() > 0);
            writers.sweep_at = 2 * writers.known.len().max(SWEEP_MIN);
        }
        writers.known.push(Arc::downgrade(writer));
    }

    /// Something was written or sent. Returns how often that was so before.
    pub(super) fn moved(&self) -> u64 {
        self.moves.fetch_add(1, Ordering::Relaxed)
    }

    /// The file that can send a part and was written to least lately.
    fn idlest(&self) -> Option<Arc<Writer>> {
        let open = self.open().into_iter();
        let ready = open.filter_map(|writer| Some((writer.can_send_since()?, writer)));
        Some(ready.min_by_key(|(since, _)| *since)?.1)
    }

    /// Returns when a file whose writer waits is to send what it holds; never, unless it `has_part`.
    pub(super) async fn told_to_send(&self, has_part: bool) {
        if !has_part {
            std::future::pending::<()>().await;
        }
        let _counted = Counted::new(&self.holding);
        self.send_first.notified().await;
    }

    fn open(&self) -> Vec<Arc<Writer>> {
        let writers = self.writers.lock();
        writers.known.iter().filter_map(Weak::upgrade).collect()
    }

    /// `thread` waits.
    fn wait(&self, thread: u32) -> Waiting<'_> {
        self.threads.lock().push(thread);
        self.waiting.fetch_add(1, Ordering::AcqRel);
        self.begun.notify_one();
        Waiting {
            shortage: self,
            thread,
        }
    }
}

/// Counts one more, until it is dropped.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Somebody who waits.
struct Waiting<'a> {
    shortage: &'a Shortage,
    thread: u32,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        {
            let mut threads = self.shortage.threads.lock();
            let place = threads.iter().position(|thread| *thread == self.thread);
            threads.swap_remove(place.expect("it waits"));
        }
        self.shortage.waiting.fetch_sub(1, Ordering::AcqRel);
        self.shortage.moved();
    }
}

impl Writer {
    /// Where it could send a part although that is not full: when it was written to last, as [`Shortage::moved`] counts.
    pub(super) fn can_send_since(&self) -> Option<u64> {
        let front = self.front.try_lock().ok()?;
        (self.failure.get().is_none() && self.can_send(&front)).then_some(front.written_at)
    }

    /// Sends what it holds as a part of the upload, if that is long enough. Returns whether it did.
    pub(super) fn send_early(&self) -> bool {
        let Ok(mut front) = self.front.try_lock() else {
            return false;
        };
        self.failure.get().is_none() && self.send_held(&mut front)
    }

    /// Gives back what its buffer is longer than what is in it, if that is worth it and can be done. Returns whether it
    /// was.
    pub(super) fn shrink(&self) -> bool {
        let Ok(mut front) = self.front.try_lock() else {
            return false;
        };
        self.look(&mut front);
        let (held, Some(buffer)) = (front.held(), front.buffer()) else {
            return false;
        };
        let len = tight(held);
        // What is being stored is held by its request.
        let is_sent = matches!(front.stage, Stage::Storing(_));
        let slack = buffer.0.saturating_sub(len);
        let is_worth_it = held > 0 && slack > buffer.0 / WRITE_SLACK_SHARE;
        if is_sent || !is_worth_it || self.failure.get().is_some() {
            return false;
        }
        let Ok(part_size) = self.part_size(&front) else {
            return false;
        };
        let memory = &self.context.memory;
        let shrunk = memory.try_shrink(len, buffer, part_size + WRITE_SIZE_MAX);
        shrunk.is_some_and(|shrunk| {
            self.install(&mut front, shrunk);
            true
        })
    }

    /// Whether it holds memory that others than `threads` may give back.
    pub(super) fn is_held_by_others(&self, threads: &[u32]) -> bool {
        let thread = self.thread();
        if thread != 0 && threads.contains(&thread) {
            return false;
        }
        match self.front.try_lock() {
            Ok(front) => front.buffer().is_some(),
            Err(_) => true,
        }
    }
}

impl WriteContext {
    /// Memory for a part of `writer`, when there is some; an error if there will be none.
    pub(super) async fn memory_for(&self, writer: &Writer, ask: Ask) -> Result<Buffer, FsError> {
        if let Some(fill) = self.memory.try_take(ask) {
            return Ok(fill);
        }
        let shortage = &self.shortage;
        let given_up = std::pin::pin!(shortage.given_up.notified());
        let waiting = shortage.wait(writer.thread());
        let taken = std::pin::pin!(async {
            let share = loop {
                let eased = std::pin::pin!(shortage.eased.notified());
                if let Some(share) = self.memory.try_share(ask) {
                    break share;
                }
                let share = std::pin::pin!(self.memory.share(ask));
                if let Either::Left((share, _)) = select(share, eased).await {
                    break share;
                }
            };
            self.memory.take(share).await
        });
        let outcome = match select(taken, given_up).await {
            Either::Left((fill, _)) => Ok(fill),
            Either::Right(_) => Err(FsError::NoSpace(format!(
                "{}: open files hold all memory for writing, {} MiB, in pieces of less than the 5 MiB that S3 takes before \
                 a file is closed, and nobody writes to them; close files before others are written, raise \
                 --memory-target, or leave out --write-part-size: parts of a fixed size are not sent before they are full",
                writer.key(),
                self.memory.used() >> 20
            ))),
        };
        drop(waiting);
        outcome
    }

    /// Helps writers that wait for memory, for as long as the context lives. A task of a tokio runtime.
    pub async fn relieve(context: Weak<Self>) {
        loop {
            let Some(this) = context.upgrade() else {
                return;
            };
            let begun = Arc::clone(&this.shortage.begun);
            let is_short = this.look();
            drop(this);
            if is_short {
                tokio::time::sleep(SHORTAGE_TICK).await;
            } else {
                // However it ends, it is time to look whether the context is still there.
                drop(tokio::time::timeout(READER_IDLE, begun.notified()).await);
            }
        }
    }

    /// Has a part sent early, or those who wait fail. Returns whether anybody waits. Called with no lock held.
    pub(super) fn look(&self) -> bool {
        let shortage = &self.shortage;
        if shortage.waiting.load(Ordering::Acquire) == 0 {
            *shortage.seen.lock() = None;
            return false;
        }
        let waited = self.quiet_for();
        if waited < SHORTAGE_CALM || self.ease() {
            return true;
        }
        if waited >= SHORTAGE_MAX || (waited >= SHORTAGE_VAIN && self.is_vain()) {
            *shortage.seen.lock() = None;
            shortage.given_up.notify_waiters();
        }
        true
    }

    /// How long nothing has been written or sent, not even now.
    fn quiet_for(&self) -> Duration {
        let shortage = &self.shortage;
        let now = self.clock.now();
        let moves = shortage.moves.load(Ordering::Relaxed);
        let is_moving = self.parts.count() > 0 || self.send_one_early();
        let mut seen = shortage.seen.lock();
        let start = Seen { moves, since: now };
        let last = seen.get_or_insert(start);
        if is_moving || last.moves != moves {
            *last = start;
        }
        now - last.since
    }

    /// Makes buffers as long as what is in them, and has those who wait look again. Returns whether anything has changed.
    fn ease(&self) -> bool {
        let open = self.shortage.open();
        let shrunk = open.iter().filter(|writer| writer.shrink()).count();
        let is_new = self.memory.tighten();
        if self.memory.is_held_by_reads() {
            self.memory.make_room();
        }
        // Lent memory has no queue: who waits looks again.
        self.shortage.eased.notify_waiters();
        is_new || shrunk > 0
    }

    /// Whether all memory is held by files that were last written to by threads that wait themselves.
    fn is_vain(&self) -> bool {
        if self.memory.is_held_by_reads() {
            return false;
        }
        let threads = self.shortage.threads.lock().clone();
        let open = self.shortage.open();
        !open.iter().any(|writer| writer.is_held_by_others(&threads))
    }

    fn send_one_early(&self) -> bool {
        let shortage = &self.shortage;
        let idlest = shortage.idlest();
        if idlest.is_some_and(|writer| writer.send_early()) {
            return true;
        }
        let is_held = shortage.holding.load(Ordering::Acquire) > 0;
        if is_held {
            shortage.send_first.notify_one();
        }
        is_held
    }
}

/// Files up to which closed ones are not looked for.
const SWEEP_MIN: usize = 64;
