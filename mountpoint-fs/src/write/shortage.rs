//! What is done when writers find no memory and nothing that is on its way will give any back.
//!
//! An application may write to many large files in turn, and each of them then holds a part that is not full. S3 takes a
//! part that is not the last from 5 MiB on: the file that was written to least lately sends what it has; where only files
//! have so much whose writers wait themselves, the one that has waited longest does. Where none has, and for a while nothing
//! at all is written or sent, those who wait fail rather than wait for ever.
//!
//! Invariant: nothing is sent early while parts are on their way, whose memory comes back by itself. Looked at by one task
//! of the runtime, with no lock held.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::{Either, select};
use mountpoint_client::types::Key;
use mountpoint_crt_sys::block::BlockFill;
use tokio::sync::Notify;

use super::context::WriteContext;
use super::memory::Ask;
use super::writer::Writer;
use crate::config::limits::{READER_IDLE, SHORTAGE_MAX, SHORTAGE_TICK};
use crate::operation::FsError;
use crate::sync::Mutex;

/// Who waits for memory, and who might give some back.
#[derive(Debug, Default)]
pub(super) struct Shortage {
    waiting: AtomicUsize,
    /// Counts what is written: tells which file was written to least lately, and whether anything moves.
    moves: AtomicU64,
    /// Those of them that hold enough for a part.
    holding: AtomicUsize,
    begun: Arc<Notify>,
    /// One of `holding` is to send what it holds.
    send_first: Notify,
    given_up: Notify,
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
        let known: Vec<_> = self.writers.lock().known.clone();
        let open = known.iter().filter_map(Weak::upgrade);
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

    fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        self.begun.notify_one();
        Waiting(self)
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
struct Waiting<'a>(&'a Shortage);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
        self.0.moved();
    }
}

impl WriteContext {
    /// Memory for a part of `key`, when there is some; an error if there will be none.
    pub(super) async fn memory_for(&self, key: &Key, ask: Ask) -> Result<BlockFill, FsError> {
        if let Some(fill) = self.memory.try_take(ask) {
            return Ok(fill);
        }
        let given_up = std::pin::pin!(self.shortage.given_up.notified());
        let waiting = self.shortage.wait();
        let taken = std::pin::pin!(self.memory.take(ask));
        let outcome = match select(taken, given_up).await {
            Either::Left((fill, _)) => Ok(fill),
            Either::Right(_) => Err(FsError::NoSpace(format!(
                "{key}: files that are open and not written to hold all memory for writing, and for {} s nothing was \
                 written or sent; close files before others are written, raise --memory-target, or leave out \
                 --write-part-size: parts of a fixed size are not sent before they are full",
                SHORTAGE_MAX.as_secs()
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
        let now = self.clock.now();
        let moves = shortage.moves.load(Ordering::Relaxed);
        let is_moving = self.parts.count() > 0 || self.send_one_early();
        let waited = {
            let mut seen = shortage.seen.lock();
            let start = Seen { moves, since: now };
            let last = seen.get_or_insert(start);
            if is_moving || last.moves != moves {
                *last = start;
            }
            now - last.since
        };
        if waited >= SHORTAGE_MAX {
            *shortage.seen.lock() = None;
            shortage.given_up.notify_waiters();
        }
        true
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
