//! The reads of one version of an object, by one open file or by several that share what they
//! fetch.
//!
//! A read looks up what is held, lets its reader's planner say what to ask for, sends those GETs,
//! and waits for its own bytes only; the reply is slices of blocks. The lock is held for the
//! look-up and never while anything is sent or waited for, so any number of reads of one file run
//! at once.
//!
//! Invariant: every GET names the version that was seen at open; a block leaves the map when its
//! last byte has been handed out to all who are near, and lives on in the replies made of it. Runs
//! on whichever thread polls the read.

use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use mountpoint_client::types::{ETag, Key};
use mountpoint_client::{ClientError, ErrorKind};
use mountpoint_crt_sys::block::BlockFill;

use super::readers::{ReaderId, RetentionPolicy};
use super::state::{ObjectState, Piece};
use super::version_id::VersionId;
use crate::memory::{Purpose, Reservation};
use crate::operation::{FsError, ReadData, Slices};
use crate::read::context::{HolderId, ReadContext};
use crate::read::fetch::Fetch;
use crate::read::plan::{Access, Bounds, ReadPlan};
use crate::read::prefetch_budget::PrefetchLoan;
use crate::sync::{Counted, Mutex};

/// One open of a version: a reader that leaves at its end.
#[derive(Debug)]
pub(in crate::read) struct Open {
    pub(in crate::read) object: Arc<OpenObject>,
    pub(in crate::read) reader: ReaderId,
    /// Reads that wait for their bytes.
    waiting: AtomicUsize,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.object.leave(self.reader);
    }
}

/// A version that is open, for as long as somebody reads it. Without blocks it takes about 300
/// bytes.
#[derive(Debug)]
pub(in crate::read) struct OpenObject {
    context: Arc<ReadContext>,
    pub(in crate::read) key: Key,
    pub(in crate::read) etag: ETag,
    pub(in crate::read) size: u64,
    /// Under what others find it, if they may.
    shared_as: Option<VersionId>,
    /// When it was last read, in milliseconds of the context's clock.
    used_at_ms: AtomicU64,
    /// Lock "H": held for look-ups and planning, never while waiting, sending or giving memory
    /// back.
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    state: ObjectState,
    /// What was lent for bytes that were asked for before the file was opened, until they are read.
    loan: Option<PrefetchLoan>,
    /// Its name in the context's list of those that hold blocks.
    holder: Option<HolderId>,
    /// Streams it is counted with in the context.
    streams: usize,
}

/// What the first look at a read's bytes has come to.
enum ReadStart {
    /// All there.
    Ready(ReadData),
    /// All asked for.
    Pending(Vec<Piece>),
    /// No memory for what must be asked for.
    NoMemory,
}

/// What stays here of what was fetched.
#[derive(Clone, Copy)]
pub(in crate::read) enum Keep {
    /// The caller has it.
    Nothing,
    /// A later read takes it.
    Blocks,
}

/// GETs that are planned and not yet sent.
type Launches = Vec<(Arc<Fetch>, BlockFill)>;

impl Open {
    /// Joins the readers of `object`, if there may be one more.
    pub(in crate::read) fn of(object: &Arc<OpenObject>) -> Option<Self> {
        let now = object.context.clock.now();
        let reader = object.inner.lock().state.readers.join(now)?;
        Some(Self {
            object: Arc::clone(object),
            reader,
            waiting: AtomicUsize::new(0),
        })
    }
}

impl OpenObject {
    pub(in crate::read) fn new(
        context: Arc<ReadContext>,
        key: Key,
        etag: ETag,
        size: u64,
        shared_as: Option<VersionId>,
    ) -> Arc<Self> {
        Arc::new(Self {
            context,
            key,
            etag,
            size,
            shared_as,
            used_at_ms: AtomicU64::new(0),
            inner: Mutex::default(),
        })
    }

    pub(in crate::read) fn is_version(&self, key: &Key, etag: &ETag, size: u64) -> bool {
        (&self.key, &self.etag, self.size) == (key, etag, size)
    }

    /// The reads of a reader will ask for pages.
    pub(in crate::read) fn expect_pages(&self, reader: ReaderId) {
        self.inner.lock().state.readers.expect_pages(reader);
    }

    /// That its bytes are asked for before it is opened was lent `ahead`.
    pub(in crate::read) fn set_loan(&self, ahead: PrefetchLoan) {
        self.inner.lock().loan = Some(ahead);
    }

    /// Whether it has bytes, or is about to, that were asked for ahead and not read.
    pub(in crate::read) fn is_prefetched(&self) -> bool {
        self.inner.lock().loan.is_some()
    }

    pub(in crate::read) async fn read(
        self: &Arc<Self>,
        open: &Open,
        range: Range<u64>,
        fills_cache: bool,
    ) -> Result<ReadData, FsError> {
        let begun = match self.begin(open, &range, fills_cache) {
            ReadStart::Ready(data) => return Ok(data),
            ReadStart::Pending(pieces) => Some(pieces),
            ReadStart::NoMemory => None,
        };
        let _waiting = Counted::new(&open.waiting);
        let pieces = match begun {
            Some(pieces) => pieces,
            None => self.fetch_exactly(&range).await,
        };
        match wait(&pieces).await {
            Ok(()) => Ok(data_of(pieces)),
            // Nobody waited when it was asked for, so nobody was told: this reader tries for
            // itself.
            Err((error, Purpose::ReadAhead)) if error.kind != ErrorKind::PreconditionFailed => {
                drop(pieces);
                let pieces = self.fetch_exactly(&range).await;
                wait(&pieces)
                    .await
                    .map_err(|(error, _)| self.fs_error(error))?;
                Ok(data_of(pieces))
            }
            Err((error, _)) => Err(self.fs_error(error)),
        }
    }

    /// Plans a read and sends what it calls for.
    fn begin(self: &Arc<Self>, open: &Open, range: &Range<u64>, fills_cache: bool) -> ReadStart {
        let now = self.touch();
        let consumed = self.context.count_consumed(range.end - range.start);
        let mut removed = Vec::new();
        let mut launches = Vec::new();
        let ahead;
        let step = {
            let inner = &mut *self.inner.lock();
            ahead = inner.loan.take();
            inner.state.forget_failed(range, &mut removed);
            let is_ready = inner.state.is_ready(range);
            let access = Access {
                range: range.clone(),
                waits: !is_ready,
                is_alone: open.waiting.load(Ordering::Relaxed) == 0,
                now,
                consumed,
            };
            let bounds = Bounds {
                size: self.size,
                part_max: self.context.config.part_size,
                window_max: self.context.window_max(),
                streams: self.context.stream_count(),
                min_latencies: &self.context.min_latencies,
                proven_window: &self.context.proven_window,
                layouts: Some(self.context.layouts.lookup(&self.key)),
            };
            let asker = inner
                .state
                .readers
                .reads(open.reader, range.start, fills_cache, now);
            let plan = inner.state.plan(asker, &access, &bounds);
            let retention = || self.retention(now);
            let step = if self.start_demand(inner, &plan, &mut launches) {
                let step = if is_ready {
                    ReadStart::Ready(inner.state.data(range))
                } else {
                    ReadStart::Pending(inner.state.pieces(range))
                };
                self.start_ahead(inner, asker, &plan, &mut launches);
                inner
                    .state
                    .remove_read(asker, range, &plan.done, retention, &mut removed);
                step
            } else {
                inner.state.readers.planner(asker).refuse(&plan, range.end);
                ReadStart::NoMemory
            };
            if plan.is_time_to_retire {
                inner.state.retire(retention, &mut removed);
                self.count_streams(inner);
            }
            self.hold(inner);
            step
        };
        drop(removed);
        if let Some(ahead) = ahead {
            ahead.was_read();
        }
        if !launches.is_empty() {
            launch(launches);
            self.context.make_room();
            self.context.sweep(now);
        }
        step
    }

    /// Asks for what is missing of `range` and for nothing else, when there is memory for it.
    async fn fetch_exactly(self: &Arc<Self>, range: &Range<u64>) -> Vec<Piece> {
        self.fetch(range, Keep::Nothing).await
    }

    pub(in crate::read) fn hold_front(self: &Arc<Self>, bytes: &[u8]) {
        let end = bytes.len() as u64;
        if bytes.is_empty() || end > self.size {
            // Broken servers have one tag for several contents.
            return;
        }
        let Some(memory) = self.context.budget.try_reserve(end, Purpose::Demand) else {
            return;
        };
        self.touch();
        let inner = &mut *self.inner.lock();
        if !inner.state.blocks.is_empty() {
            // Some of them were asked for before.
            return;
        }
        let (_, mut fill) = self.prepare(inner, 0..end, memory, Purpose::Demand);
        fill.append(bytes);
        self.hold(inner);
    }

    pub(in crate::read) async fn fetch(
        self: &Arc<Self>,
        range: &Range<u64>,
        keep: Keep,
    ) -> Vec<Piece> {
        let len = range.end - range.start;
        let place = self.context.budget.reserve(len);
        self.context.make_room();
        let mut memory = place.await;
        let mut removed = Vec::new();
        let mut launches = Vec::new();
        let pieces = {
            let inner = &mut *self.inner.lock();
            inner.state.forget_failed(range, &mut removed);
            for gap in inner.state.blocks.gaps(range.clone()) {
                let share = memory.split(gap.end - gap.start);
                launches.push(self.prepare(inner, gap, share, Purpose::Demand));
            }
            let pieces = inner.state.pieces(range);
            match keep {
                Keep::Nothing if !inner.state.readers.is_shared() => {
                    inner.state.blocks.remove_inside(range, &mut removed);
                }
                // Others may be about to ask for the same.
                Keep::Nothing => self.hold(inner),
                Keep::Blocks => {
                    self.touch();
                    self.hold(inner);
                }
            }
            pieces
        };
        drop((memory, removed));
        launch(launches);
        // Others may wait for what stays here.
        self.context.make_room();
        pieces
    }

    pub(in crate::read) fn fetch_ahead(self: &Arc<Self>) {
        let memory = self
            .context
            .budget
            .try_reserve(self.size, Purpose::ReadAhead);
        let mut launches = Launches::new();
        let unused = {
            let inner = &mut *self.inner.lock();
            match memory {
                // Opened and read already.
                _ if inner.loan.is_none() => None,
                None => inner.loan.take(),
                Some(memory) => {
                    let all = 0..self.size;
                    launches.push(self.prepare(inner, all, memory, Purpose::ReadAhead));
                    self.touch();
                    self.hold(inner);
                    None
                }
            }
        };
        if let Some(unused) = unused {
            unused.was_read();
        }
        launch(launches);
    }

    /// Prepares what a read waits for: all of it, or nothing and `false` if memory is short.
    fn start_demand(&self, inner: &mut Inner, plan: &ReadPlan, launches: &mut Launches) -> bool {
        let total = plan.demand.iter().map(|get| get.end - get.start).sum();
        if total == 0 {
            return true;
        }
        let Some(mut memory) = self.context.budget.try_reserve(total, Purpose::Demand) else {
            return false;
        };
        for get in &plan.demand {
            let share = memory.split(get.end - get.start);
            launches.push(self.prepare(inner, get.clone(), share, Purpose::Demand));
        }
        true
    }

    /// Prepares what is to be read ahead, as far as memory goes.
    fn start_ahead(
        &self,
        inner: &mut Inner,
        asker: usize,
        plan: &ReadPlan,
        launches: &mut Launches,
    ) {
        for (number, get) in plan.ahead.iter().chain(&plan.elsewhere).enumerate() {
            let Some(memory) = self
                .context
                .budget
                .try_reserve(get.end - get.start, Purpose::ReadAhead)
            else {
                let planner = inner.state.readers.planner(asker);
                planner.refuse_elsewhere();
                if number < plan.ahead.len() {
                    planner.refuse(plan, get.start);
                }
                return;
            };
            launches.push(self.prepare(inner, get.clone(), memory, Purpose::ReadAhead));
        }
    }

    fn prepare(
        &self,
        inner: &mut Inner,
        range: Range<u64>,
        memory: Reservation,
        purpose: Purpose,
    ) -> (Arc<Fetch>, BlockFill) {
        let fill = self.context.block(memory);
        let fetch = Fetch::new(
            &self.context,
            (&self.key, &self.etag, self.size),
            range.clone(),
            fill.block(),
            purpose,
        );
        inner.state.blocks.insert(range, Arc::clone(&fetch));
        (fetch, fill)
    }

    /// Gives back blocks, the demanded ones only or all; the latter forgets the streams too.
    /// Replies made of them and GETs in flight keep theirs until they end. Returns how many bytes
    /// that is.
    pub(in crate::read) fn give_back(&self, keep_ahead: bool) -> u64 {
        let mut removed = Vec::new();
        let mut unread = None;
        {
            let inner = &mut *self.inner.lock();
            inner.state.blocks.remove_if(
                |_, fetch| !keep_ahead || fetch.purpose() == Purpose::Demand,
                &mut removed,
            );
            if !keep_ahead {
                inner.state.readers.forget();
                self.count_streams(inner);
            }
            if inner.state.blocks.is_empty() {
                unread = inner.loan.take();
                if let Some(holder) = inner.holder.take() {
                    self.context.remove_holder(holder);
                }
            }
        }
        drop(unread);
        removed.iter().map(|fetch| fetch.len() as u64).sum()
    }

    /// Gives back what only those wait for who are more than `behind_max` behind others, or have
    /// come to rest: the first to go when memory is short. Returns how many bytes that is.
    pub(in crate::read) fn give_back_shared(&self, behind_max: u64) -> u64 {
        let mut removed = Vec::new();
        {
            let inner = &mut *self.inner.lock();
            if inner.state.readers.is_shared() {
                let now = self.context.clock.now();
                let retention = || RetentionPolicy { behind_max, now };
                inner.state.retire(retention, &mut removed);
                self.count_streams(inner);
            }
        }
        removed.iter().map(|fetch| fetch.len() as u64).sum()
    }

    /// A reader leaves; bytes that no other reader comes to go with it.
    fn leave(&self, reader: ReaderId) {
        let mut removed = Vec::new();
        let inner = &mut *self.inner.lock();
        if let Some(read) = inner.state.readers.leave(reader) {
            self.context.layouts.keep(&self.key, self.size, read);
        }
        // Also after the last: one that opens the version just now may find what was held.
        let retention = || self.retention(self.context.clock.now());
        inner.state.retire(retention, &mut removed);
        self.count_streams(inner);
    }

    /// For how long what was read stays for those who come to it later: not at all where memory is
    /// short.
    fn retention(&self, now: Duration) -> RetentionPolicy {
        let behind_max = self.context.behind_max();
        RetentionPolicy { behind_max, now }
    }

    /// When it was last read.
    pub(in crate::read) fn used_at(&self) -> Duration {
        Duration::from_millis(self.used_at_ms.load(Ordering::Relaxed))
    }

    fn touch(&self) -> Duration {
        let now = self.context.clock.now();
        self.used_at_ms.store(
            u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
        now
    }

    /// Sees to it that the context knows of a reader with blocks.
    fn hold(self: &Arc<Self>, inner: &mut Inner) {
        if inner.holder.is_none() && !inner.state.blocks.is_empty() {
            let holder = self.context.new_holder();
            inner.holder = Some(holder);
            self.context.add_holder(holder, Arc::downgrade(self));
        }
    }

    fn count_streams(&self, inner: &mut Inner) {
        let now = inner.state.stream_count();
        if now != inner.streams {
            self.context
                .count_streams(mem::replace(&mut inner.streams, now), now);
        }
    }

    pub(in crate::read) fn fs_error(&self, error: ClientError) -> FsError {
        match error.kind {
            ErrorKind::PreconditionFailed | ErrorKind::NotFound => FsError::Stale(format!(
                "{} was replaced or deleted since it was opened: {error}",
                self.key
            )),
            _ => FsError::from(error),
        }
    }
}

impl Drop for OpenObject {
    fn drop(&mut self) {
        let inner = self.inner.get_mut();
        self.context.count_streams(inner.streams, 0);
        if let Some(holder) = inner.holder {
            self.context.remove_holder(holder);
        }
        if let Some(id) = self.shared_as {
            self.context.registry.close(id, self);
        }
    }
}

/// Sends GETs. Called with no lock held: a client may tell the observer before it returns.
fn launch(launches: Launches) {
    for (fetch, fill) in launches {
        fetch.launch(fill);
    }
}

/// Waits for all pieces. The first error comes with what its GET was for.
pub(in crate::read) async fn wait(pieces: &[Piece]) -> Result<(), (ClientError, Purpose)> {
    for Piece { fetch, bytes } in pieces {
        fetch
            .arrival(bytes.end)
            .await
            .map_err(|error| (error, fetch.purpose()))?;
    }
    Ok(())
}

fn data_of(pieces: Vec<Piece>) -> ReadData {
    let mut slices = Slices::new();
    for Piece { fetch, bytes } in pieces {
        fetch.add_slices(bytes, &mut slices);
    }
    ReadData { slices }
}
