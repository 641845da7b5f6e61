//! One open file's reads.
//!
//! A read looks up what is held, lets the planner say what to ask for, sends those GETs, and waits for its own
//! bytes only; the reply is slices of blocks. The lock is held for the look-up and never while anything is sent
//! or waited for, so any number of reads of one file run at once.
//!
//! Invariant: every GET names the version that was seen at open; a block leaves the map when its last byte has been
//! handed out, and lives on in the replies made of it. Runs on whichever thread polls the read.

use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use mountpoint_client::types::{ETag, Key};
use mountpoint_client::{ClientError, ErrorKind};
use mountpoint_crt_sys::block::BlockFill;

use super::blocks::BlockMap;
use super::context::{ReadContext, ReaderNo};
use super::flight::Flight;
use super::next_files::Ahead;
use super::planner::{Access, Bounds, Plan, Planner};
use crate::config::limits::SLICES_MAX;
use crate::memory::{Purpose, Reservation};
use crate::operation::{FsError, ReadData, Slices};
use crate::sync::Mutex;

/// Reads one version of one object. Any number of reads may be in progress at once. A clone is the same reader.
#[derive(Clone, Debug)]
pub struct Reader {
    inner: Arc<Inner>,
}

/// What a reader is, for as long as it is open. Without blocks it takes about 200 bytes.
#[derive(Debug)]
pub(super) struct Inner {
    context: Arc<ReadContext>,
    key: Key,
    etag: ETag,
    size: u64,
    /// When it was last read, in milliseconds of the context's clock.
    used_at_ms: AtomicU64,
    /// Reads that wait for their bytes.
    waiting: AtomicUsize,
    /// Lock "H": held for look-ups and planning, never while waiting, sending or giving memory back.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    blocks: BlockMap<Arc<Flight>>,
    planner: Planner,
    /// What was lent for bytes that were asked for before the file was opened, until they are read.
    ahead: Option<Ahead>,
    /// Its name in the context's list of those that hold blocks.
    holder: Option<ReaderNo>,
    /// Streams it is counted with in the context.
    streams: usize,
}

/// Some bytes of a flight's block, wanted by a read.
struct Piece {
    flight: Arc<Flight>,
    bytes: Range<usize>,
}

/// A read that waits, counted for as long as it does.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the first look at a read's bytes has come to.
enum Step {
    /// All there.
    Ready(ReadData),
    /// All asked for.
    Pending(Vec<Piece>),
    /// No memory for what must be asked for.
    NoMemory,
}

/// What stays here of what was fetched.
#[derive(Clone, Copy)]
enum Keep {
    /// The caller has it.
    Nothing,
    /// A later read takes it.
    Blocks,
}

/// GETs that are planned and not yet sent.
type Launches = Vec<(Arc<Flight>, BlockFill)>;

impl Reader {
    /// A reader of the version `etag` of `key`, which is `size` bytes long. Sends no request yet.
    #[must_use]
    pub fn new(context: Arc<ReadContext>, key: Key, etag: ETag, size: u64) -> Self {
        let state = Mutex::default();
        Self {
            inner: Arc::new(Inner {
                context,
                key,
                etag,
                size,
                used_at_ms: AtomicU64::new(0),
                waiting: AtomicUsize::new(0),
                state,
            }),
        }
    }

    /// Whether the version has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.size == 0
    }

    /// What it reads: the object, its version and its size.
    #[must_use]
    pub fn version(&self) -> (&Key, &ETag, u64) {
        (&self.inner.key, &self.inner.etag, self.inner.size)
    }

    /// That what it reads is asked for before it is opened was lent `ahead`.
    pub(super) fn set_ahead(&self, ahead: Ahead) {
        self.inner.state.lock().ahead = Some(ahead);
    }

    /// Whether it has bytes, or is about to, that were asked for ahead and not read.
    pub(super) fn is_ahead(&self) -> bool {
        self.inner.state.lock().ahead.is_some()
    }

    /// Whether `etag` is that of its version.
    pub(super) fn is_of(&self, etag: &ETag) -> bool {
        self.inner.etag.matches(etag)
    }

    /// Asks for all bytes of a small object that nobody waits for yet, if there is memory for them.
    pub(super) fn fetch_ahead(&self) {
        self.inner.fetch_ahead();
    }

    /// Bytes `offset..offset + size`, cut at the end of the object.
    ///
    /// Ready at once if the bytes are here. Dropping the future is safe at any time; what was asked for arrives all
    /// the same.
    pub async fn read(&self, offset: u64, size: u32) -> Result<ReadData, FsError> {
        let end = offset.saturating_add(u64::from(size)).min(self.inner.size);
        if offset >= end {
            return Ok(ReadData::default());
        }
        self.inner.read(offset..end).await
    }

    /// Keeps the object's first bytes, which came from elsewhere, for the read that comes next; if there is memory.
    pub fn hold_front(&self, bytes: &[u8]) {
        self.inner.hold_front(bytes);
    }

    /// Fetches all bytes of a small object and keeps them for the read that comes next. Fails like that read would.
    pub async fn fetch_whole(&self) -> Result<(), FsError> {
        let range = 0..self.inner.size;
        let pieces = self.inner.fetch(&range, Keep::Blocks).await;
        wait(&pieces)
            .await
            .map_err(|(error, _)| self.inner.fs_error(error))
    }
}

impl Inner {
    async fn read(self: &Arc<Self>, range: Range<u64>) -> Result<ReadData, FsError> {
        let begun = match self.begin(&range) {
            Step::Ready(data) => return Ok(data),
            Step::Pending(pieces) => Some(pieces),
            Step::NoMemory => None,
        };
        let _waiting = Waiting::new(&self.waiting);
        let pieces = match begun {
            Some(pieces) => pieces,
            None => self.fetch_exactly(&range).await,
        };
        match wait(&pieces).await {
            Ok(()) => Ok(data_of(pieces)),
            // Nobody waited when it was asked for, so nobody was told: this reader tries for itself.
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
    fn begin(self: &Arc<Self>, range: &Range<u64>) -> Step {
        let now = self.touch();
        let consumed = self.context.count_consumed(range.end - range.start);
        let mut removed = Vec::new();
        let mut launches = Vec::new();
        let ahead;
        let step = {
            let state = &mut *self.state.lock();
            ahead = state.ahead.take();
            state.forget_failed(range, &mut removed);
            let is_ready = state.is_ready(range);
            let access = Access {
                range: range.clone(),
                waits: !is_ready,
                is_alone: self.waiting.load(Ordering::Relaxed) == 0,
                now,
                consumed,
            };
            let bounds = Bounds {
                size: self.size,
                part_max: self.context.config.part_size,
                window_max: self.context.window_max(),
                streams: self.context.stream_count(),
                least_delays: &self.context.least_delays,
                paid_windows: &self.context.paid_windows,
            };
            let plan = state.planner.plan(&access, &state.blocks, &bounds);
            let step = if self.start_demand(state, &plan, &mut launches) {
                let step = if is_ready {
                    Step::Ready(state.data(range))
                } else {
                    Step::Pending(state.pieces(range))
                };
                self.start_ahead(state, &plan, &mut launches);
                state.blocks.remove_inside(&plan.done, &mut removed);
                step
            } else {
                state.planner.refuse(&plan, range.end);
                Step::NoMemory
            };
            if plan.is_time_to_retire {
                state.retire(&mut removed);
                self.count_streams(state);
            }
            self.hold(state);
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

    fn hold_front(self: &Arc<Self>, bytes: &[u8]) {
        let end = bytes.len() as u64;
        if bytes.is_empty() || end > self.size {
            // Broken servers have one tag for several contents.
            return;
        }
        let Some(memory) = self.context.budget.try_reserve(end, Purpose::Demand) else {
            return;
        };
        self.touch();
        let state = &mut *self.state.lock();
        if !state.blocks.is_empty() {
            // Some of them were asked for before.
            return;
        }
        let (_, mut fill) = self.prepare(state, 0..end, memory, Purpose::Demand);
        fill.append(bytes);
        self.hold(state);
    }

    async fn fetch(self: &Arc<Self>, range: &Range<u64>, keep: Keep) -> Vec<Piece> {
        let len = range.end - range.start;
        let place = self.context.budget.reserve(len);
        self.context.make_room();
        let mut memory = place.await;
        let mut removed = Vec::new();
        let mut launches = Vec::new();
        let pieces = {
            let state = &mut *self.state.lock();
            state.forget_failed(range, &mut removed);
            for gap in state.blocks.gaps(range.clone()) {
                let share = memory.split(gap.end - gap.start);
                launches.push(self.prepare(state, gap, share, Purpose::Demand));
            }
            let pieces = state.pieces(range);
            match keep {
                Keep::Nothing => state.blocks.remove_inside(range, &mut removed),
                Keep::Blocks => {
                    self.touch();
                    self.hold(state);
                }
            }
            pieces
        };
        drop((memory, removed));
        launch(launches);
        pieces
    }

    fn fetch_ahead(self: &Arc<Self>) {
        let memory = self
            .context
            .budget
            .try_reserve(self.size, Purpose::ReadAhead);
        let mut launches = Launches::new();
        let unused = {
            let state = &mut *self.state.lock();
            match memory {
                // Opened and read already.
                _ if state.ahead.is_none() => None,
                None => state.ahead.take(),
                Some(memory) => {
                    let all = 0..self.size;
                    launches.push(self.prepare(state, all, memory, Purpose::ReadAhead));
                    self.touch();
                    self.hold(state);
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
    fn start_demand(&self, state: &mut State, plan: &Plan, launches: &mut Launches) -> bool {
        let total = plan.demand.iter().map(|get| get.end - get.start).sum();
        if total == 0 {
            return true;
        }
        let Some(mut memory) = self.context.budget.try_reserve(total, Purpose::Demand) else {
            return false;
        };
        for get in &plan.demand {
            let share = memory.split(get.end - get.start);
            launches.push(self.prepare(state, get.clone(), share, Purpose::Demand));
        }
        true
    }

    /// Prepares what is to be read ahead, as far as memory goes.
    fn start_ahead(&self, state: &mut State, plan: &Plan, launches: &mut Launches) {
        for get in &plan.ahead {
            let Some(memory) = self
                .context
                .budget
                .try_reserve(get.end - get.start, Purpose::ReadAhead)
            else {
                state.planner.refuse(plan, get.start);
                return;
            };
            launches.push(self.prepare(state, get.clone(), memory, Purpose::ReadAhead));
        }
    }

    fn prepare(
        &self,
        state: &mut State,
        range: Range<u64>,
        memory: Reservation,
        purpose: Purpose,
    ) -> (Arc<Flight>, BlockFill) {
        let fill = self.context.block(memory);
        let flight = Flight::new(
            &self.context,
            (&self.key, &self.etag, self.size),
            range.clone(),
            fill.block(),
            purpose,
        );
        state.blocks.insert(range, Arc::clone(&flight));
        (flight, fill)
    }

    /// Gives back blocks, the demanded ones only or all; the latter forgets the streams too. Replies made of them
    /// and GETs in the air keep theirs until they end. Returns how many bytes that is.
    pub(super) fn give_back(&self, keep_ahead: bool) -> u64 {
        let mut removed = Vec::new();
        let mut unread = None;
        {
            let state = &mut *self.state.lock();
            state.blocks.remove_if(
                |_, flight| !keep_ahead || flight.purpose() == Purpose::Demand,
                &mut removed,
            );
            if !keep_ahead {
                state.planner.forget();
                self.count_streams(state);
            }
            if state.blocks.is_empty() {
                unread = state.ahead.take();
                if let Some(holder) = state.holder.take() {
                    self.context.remove_holder(holder);
                }
            }
        }
        drop(unread);
        removed.iter().map(|flight| flight.len() as u64).sum()
    }

    /// When it was last read.
    pub(super) fn used_at(&self) -> Duration {
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
    fn hold(self: &Arc<Self>, state: &mut State) {
        if state.holder.is_none() && !state.blocks.is_empty() {
            let holder = self.context.name_reader();
            state.holder = Some(holder);
            self.context.add_holder(holder, Arc::downgrade(self));
        }
    }

    fn count_streams(&self, state: &mut State) {
        let now = state.planner.stream_count();
        if now != state.streams {
            self.context
                .count_streams(mem::replace(&mut state.streams, now), now);
        }
    }

    fn fs_error(&self, error: ClientError) -> FsError {
        match error.kind {
            ErrorKind::PreconditionFailed | ErrorKind::NotFound => FsError::Stale(format!(
                "{} was replaced or deleted since it was opened: {error}",
                self.key
            )),
            _ => FsError::from(error),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        self.context.count_streams(state.streams, 0);
        if let Some(holder) = state.holder {
            self.context.remove_holder(holder);
        }
    }
}

impl State {
    /// Forgets blocks that will never hold what a read of `range` needs. If the reply would be made of too many
    /// blocks, all of them: they are fetched again as one.
    fn forget_failed(&mut self, range: &Range<u64>, removed: &mut Vec<Arc<Flight>>) {
        let is_failed = |flight: &Flight| flight.has_failed_before(share_of(flight, range).end);
        let mut count = 0;
        let mut any_failed = false;
        for (_, flight) in self.blocks.overlapping(range.clone()) {
            count += 1;
            any_failed |= is_failed(flight);
        }
        if any_failed || count > SLICES_MAX {
            let overlaps = |held: &Range<u64>| held.start < range.end && range.start < held.end;
            let is_unwanted = |held: &Range<u64>, flight: &Arc<Flight>| {
                overlaps(held) && (count > SLICES_MAX || is_failed(flight))
            };
            self.blocks.remove_if(is_unwanted, removed);
        }
    }

    /// Whether every byte of `range` is here.
    fn is_ready(&self, range: &Range<u64>) -> bool {
        let mut end = range.start;
        for (held, flight) in self.blocks.overlapping(range.clone()) {
            if held.start > end || !flight.has(share_of(flight, range).end) {
                return false;
            }
            end = held.end;
        }
        end >= range.end
    }

    /// `range`, which is all here.
    fn data(&self, range: &Range<u64>) -> ReadData {
        let mut slices = Slices::new();
        for (_, flight) in self.blocks.overlapping(range.clone()) {
            flight.add_slices(share_of(flight, range), &mut slices);
        }
        ReadData { slices }
    }

    /// The blocks that `range` is in or will be.
    fn pieces(&self, range: &Range<u64>) -> Vec<Piece> {
        let flights = self.blocks.overlapping(range.clone());
        flights
            .map(|(_, flight)| Piece {
                flight: Arc::clone(flight),
                bytes: share_of(flight, range),
            })
            .collect()
    }

    /// Drops what no stream will come to.
    fn retire(&mut self, removed: &mut Vec<Arc<Flight>>) {
        let planner = &self.planner;
        self.blocks
            .remove_if(|held, _| !planner.wants(held), removed);
    }
}

/// Sends GETs. Called with no lock held: a client may tell the observer before it returns.
fn launch(launches: Launches) {
    for (flight, fill) in launches {
        flight.launch(fill);
    }
}

/// The part of a flight's block that belongs to `range`.
fn share_of(flight: &Flight, range: &Range<u64>) -> Range<usize> {
    let held = flight.range();
    let within =
        |offset: u64| usize::try_from(offset - held.start).expect("a block fits into memory");
    within(range.start.max(held.start))..within(range.end.min(held.end))
}

/// Waits for all pieces. The first error comes with what its GET was for.
async fn wait(pieces: &[Piece]) -> Result<(), (ClientError, Purpose)> {
    for Piece { flight, bytes } in pieces {
        flight
            .arrival(bytes.end)
            .await
            .map_err(|error| (error, flight.purpose()))?;
    }
    Ok(())
}

fn data_of(pieces: Vec<Piece>) -> ReadData {
    let mut slices = Slices::new();
    for Piece { flight, bytes } in pieces {
        flight.add_slices(bytes, &mut slices);
    }
    ReadData { slices }
}
