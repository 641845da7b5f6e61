//! The reads of one version of an object, by one open file or by several that share what they
//! fetch.
//!
//! A read looks up what is held, lets its reader's planner say what to ask for, sends those GETs,
//! and waits for its own bytes only; the reply is slices of blocks. The lock is held for the
//! look-up and never while anything is sent or waited for, so any number of reads of one file run
//! at once.
//!
//! Invariant: every GET names the version that was seen at open; a block leaves the map when all
//! near readers have its last byte, and lives on in the replies made of it. Runs on whichever
//! thread polls the read.

use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use mountpoint_client::ErrorKind;

use super::gets::{ObjectGets, PreparedGets};
use super::read_start::{ReadStart, begin_read, retention};
use super::readers::{ReaderId, RetentionPolicy};
use super::registry::ObjectRegistry;
use super::state::{ObjectState, Piece, data_of};
use crate::cache::CachedObject;
use crate::config::limits::SMALL_FILE_MAX;
use crate::memory::Purpose;
use crate::operation::{FsError, ReadData};
use crate::read::block_memory::{HolderId, MemoryHolder};
use crate::read::fetch::{Fetch, Sources};
use crate::read::layout::KnownLayout;
use crate::read::object_version::{ObjectVersion, VersionId};
use crate::read::plan::Access;
use crate::read::prefetch_budget::PrefetchLoan;
use crate::read::resources::ReadResources;
use crate::sync::{Counted, Mutex};

/// One open of a version: a reader that leaves at its end.
#[derive(Debug)]
pub(in crate::read) struct Open {
    pub(in crate::read) object: Arc<OpenObject>,
    pub(in crate::read) reader: ReaderId,
    /// Reads that wait for their bytes.
    waiting: AtomicUsize,
    /// Whether a read has begun.
    has_begun: AtomicBool,
}

impl Open {
    /// Joins the readers of `object`, if there may be one more.
    pub(in crate::read) fn of(object: &Arc<OpenObject>) -> Option<Self> {
        let now = object.resources().clock.now();
        let reader = object.inner.lock().state.readers.join(now)?;
        Some(Self {
            object: Arc::clone(object),
            reader,
            waiting: AtomicUsize::new(0),
            has_begun: AtomicBool::new(false),
        })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.object.leave(self.reader);
    }
}

/// A version that is open, for as long as it has a reader.
#[derive(Debug)]
pub(in crate::read) struct OpenObject {
    pub(super) gets: ObjectGets,
    /// Where open files of the same version find it, if they may.
    shared: Option<(Arc<ObjectRegistry<Self>>, VersionId)>,
    /// When it was last read, in milliseconds of the clock.
    used_at_ms: AtomicU64,
    /// Lock "H": held for look-ups and planning, never while waiting, sending or giving memory
    /// back.
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    state: ObjectState,
    /// The loan for bytes that were asked for before the file was opened, until they are read.
    loan: Option<PrefetchLoan>,
    /// Its name in the list of open files that hold blocks.
    holder: Option<HolderId>,
    /// Streams it is counted with.
    streams: usize,
}

/// Whether fetched blocks stay for a later read.
#[derive(Clone, Copy)]
enum Keep {
    /// The caller has the bytes.
    Nothing,
    /// A later read takes the bytes.
    Blocks,
}

impl OpenObject {
    pub(in crate::read) fn new(
        resources: Arc<ReadResources>,
        version: ObjectVersion,
        shared: Option<(Arc<ObjectRegistry<Self>>, VersionId)>,
    ) -> Arc<Self> {
        Arc::new(Self {
            gets: ObjectGets {
                copies: resources.copies(&version),
                version: Arc::new(version),
                resources,
            },
            shared,
            used_at_ms: AtomicU64::new(0),
            inner: Mutex::default(),
        })
    }

    /// The version on the disk of the cache, if there is one.
    pub(in crate::read) fn cached(&self) -> Option<&CachedObject> {
        self.gets.copies.disk.as_ref()
    }

    pub(in crate::read) fn version(&self) -> &ObjectVersion {
        &self.gets.version
    }

    /// The reads of this reader will ask for pages.
    pub(in crate::read) fn expect_pages(&self, reader: ReaderId) {
        self.inner.lock().state.readers.expect_pages(reader);
    }

    /// Keeps the loan for bytes that are asked for before the file is opened.
    pub(in crate::read) fn set_loan(&self, loan: PrefetchLoan) {
        self.inner.lock().loan = Some(loan);
    }

    /// Whether bytes were asked for before the file was opened, and not read.
    pub(in crate::read) fn is_prefetched(&self) -> bool {
        self.inner.lock().loan.is_some()
    }

    /// Bytes `range`, which lie within the object.
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
            None => self.fetch(&range, Keep::Nothing).await,
        };
        match self.gets.wait(&pieces).await {
            Ok(()) => Ok(data_of(pieces)),
            // No reader waited when this was asked for, so none was told: this one tries again.
            Err((error, Purpose::ReadAhead)) if error.kind != ErrorKind::PreconditionFailed => {
                drop(pieces);
                let pieces = self.fetch(&range, Keep::Nothing).await;
                self.wait(&pieces).await?;
                Ok(data_of(pieces))
            }
            Err((error, _)) => Err(self.gets.fs_error(error)),
        }
    }

    /// Fetches all bytes from the store, whose answer proves the version, and keeps them for the
    /// read that comes next.
    pub(in crate::read) async fn fetch_whole(self: &Arc<Self>) -> Result<(), FsError> {
        let pieces = self.fetch(&(0..self.version().size), Keep::Blocks).await;
        self.wait(&pieces).await
    }

    /// Keeps the first bytes of the object, which came from elsewhere, if there is memory.
    pub(in crate::read) fn hold_first_bytes(self: &Arc<Self>, bytes: &[u8]) {
        let end = bytes.len() as u64;
        if bytes.is_empty() || end > self.version().size {
            // Broken servers have one tag for several contents.
            return;
        }
        let budget = &self.resources().memory.budget;
        let Some(memory) = budget.try_reserve(end, Purpose::Demand) else {
            return;
        };
        self.touch();
        let inner = &mut *self.inner.lock();
        if !inner.state.blocks.is_empty() {
            // Some of the bytes were asked for before.
            return;
        }
        let blocks = &mut inner.state.blocks;
        let (_, mut fill) = self.gets.prepare(blocks, 0..end, memory, Purpose::Demand);
        fill.append(bytes);
        self.hold(inner);
    }

    /// Asks for all bytes, which no reader waits for yet, if there is memory for them.
    pub(in crate::read) fn fetch_ahead(self: &Arc<Self>) {
        let size = self.version().size;
        let budget = &self.resources().memory.budget;
        let memory = budget.try_reserve(size, Purpose::ReadAhead);
        let mut gets = PreparedGets::new();
        let unused = {
            let inner = &mut *self.inner.lock();
            match memory {
                // Opened and read already.
                _ if inner.loan.is_none() => None,
                None => inner.loan.take(),
                Some(memory) => {
                    let blocks = &mut inner.state.blocks;
                    let purpose = Purpose::ReadAhead;
                    gets.push(self.gets.prepare(blocks, 0..size, memory, purpose));
                    self.touch();
                    self.hold(inner);
                    None
                }
            }
        };
        if let Some(unused) = unused {
            unused.was_read();
        }
        self.gets.send(gets, Sources::All);
    }

    /// Plans a read and sends what it calls for.
    fn begin(self: &Arc<Self>, open: &Open, range: &Range<u64>, fills_cache: bool) -> ReadStart {
        let resources = self.resources();
        let consumed = resources.count_consumed(range.end - range.start);
        let access = Access {
            range: range.clone(),
            waits: false,
            is_alone: open.waiting.load(Ordering::Relaxed) == 0,
            now: self.touch(),
            consumed,
        };
        let now = access.now;
        let layout = self.known_layout(open);
        let mut removed = Vec::new();
        let mut gets = PreparedGets::new();
        let (start, loan) = {
            let inner = &mut *self.inner.lock();
            let loan = inner.loan.take();
            inner.state.forget_failed(range, &mut removed);
            let readers = &mut inner.state.readers;
            let asker = readers.reads(open.reader, range.start, fills_cache, now);
            if let Some(layout) = layout {
                readers.expect_layout(asker, layout);
            }
            let state = &mut inner.state;
            let (start, is_time_to_retire) =
                begin_read(&self.gets, state, asker, access, &mut gets, &mut removed);
            if is_time_to_retire {
                let retention = || retention(resources, now);
                inner.state.retire(retention, &mut removed);
                self.count_streams(inner);
            }
            self.hold(inner);
            (start, loan)
        };
        drop(removed);
        if let Some(loan) = loan {
            loan.was_read();
        }
        if !gets.is_empty() {
            self.gets.send(gets, Sources::All);
            resources.memory.make_room();
            resources.memory.sweep(now);
        }
        start
    }

    /// Asks for what is missing of `range` and for nothing else, when there is memory for it.
    async fn fetch(self: &Arc<Self>, range: &Range<u64>, keep: Keep) -> Vec<Piece> {
        let block_memory = &self.resources().memory;
        let turn = block_memory.budget.reserve(range.end - range.start);
        block_memory.make_room();
        let mut memory = block_memory.wait_for(turn).await;
        let mut removed = Vec::new();
        let mut gets = PreparedGets::new();
        let pieces = {
            let inner = &mut *self.inner.lock();
            inner.state.forget_failed(range, &mut removed);
            let blocks = &mut inner.state.blocks;
            for gap in blocks.gaps(range.clone()) {
                let share = memory.split(gap.end - gap.start);
                gets.push(self.gets.prepare(blocks, gap, share, Purpose::Demand));
            }
            let pieces = inner.state.pieces(range);
            match keep {
                Keep::Nothing if !inner.state.readers.is_shared() => {
                    inner.state.blocks.remove_inside(range, &mut removed);
                }
                // Others may be about to ask for the same bytes.
                Keep::Nothing => self.hold(inner),
                Keep::Blocks => {
                    self.touch();
                    self.hold(inner);
                }
            }
            pieces
        };
        drop((memory, removed));
        let sources = match keep {
            Keep::Nothing => Sources::All,
            Keep::Blocks => Sources::Store,
        };
        self.gets.send(gets, sources);
        // Others may wait for the memory of what stays here.
        block_memory.make_room();
        pieces
    }

    async fn wait(&self, pieces: &[Piece]) -> Result<(), FsError> {
        let outcome = self.gets.wait(pieces).await;
        outcome.map_err(|(error, _)| self.gets.fs_error(error))
    }

    /// A reader leaves; bytes that no other reader comes to go with it.
    fn leave(&self, reader: ReaderId) {
        let mut removed = Vec::new();
        let resources = self.resources();
        let layout = {
            let inner = &mut *self.inner.lock();
            let layout = inner.state.readers.leave(reader);
            // Also after the last: one that opens the version just now may find what was held.
            let retention = || retention(resources, resources.clock.now());
            inner.state.retire(retention, &mut removed);
            self.count_streams(inner);
            layout
        };
        if let Some(layout) = layout {
            let version = self.version();
            resources.layouts.keep(&version.key, version.size, layout);
        }
    }

    /// The layout of the file before of the same kind, for the first read of an open file that is
    /// not fetched whole. Called with no lock held.
    fn known_layout(&self, open: &Open) -> Option<KnownLayout> {
        let version = self.version();
        let has_begun = open.has_begun.load(Ordering::Relaxed);
        if has_begun || version.size <= SMALL_FILE_MAX {
            return None;
        }
        let is_first = !open.has_begun.swap(true, Ordering::Relaxed);
        let layouts = &self.resources().layouts;
        is_first.then(|| layouts.find(&version.key, version.size))?
    }

    fn resources(&self) -> &ReadResources {
        &self.gets.resources
    }

    fn touch(&self) -> Duration {
        let now = self.resources().clock.now();
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.used_at_ms.store(now_ms, Ordering::Relaxed);
        now
    }

    /// Lists the object among those that hold blocks, if it does.
    fn hold(self: &Arc<Self>, inner: &mut Inner) {
        if inner.holder.is_none() && !inner.state.blocks.is_empty() {
            let this: Arc<dyn MemoryHolder> = Arc::<Self>::clone(self);
            let holder = self.resources().memory.add_holder(Arc::downgrade(&this));
            inner.holder = Some(holder);
        }
    }

    fn count_streams(&self, inner: &mut Inner) {
        let now = inner.state.stream_count();
        if now != inner.streams {
            let before = mem::replace(&mut inner.streams, now);
            self.resources().count_streams(before, now);
        }
    }
}

impl MemoryHolder for OpenObject {
    fn used_at(&self) -> Duration {
        Duration::from_millis(self.used_at_ms.load(Ordering::Relaxed))
    }

    /// Replies made of the blocks and GETs in flight keep theirs until they end. Where nothing is
    /// kept, the streams are forgotten too.
    fn give_back(&self, keep_ahead: bool) -> u64 {
        let mut removed = Vec::new();
        let mut unread = None;
        {
            let inner = &mut *self.inner.lock();
            let goes = |fetch: &Fetch| !keep_ahead || fetch.purpose() == Purpose::Demand;
            let blocks = &mut inner.state.blocks;
            blocks.remove_if(|_, fetch| goes(fetch), &mut removed);
            if !keep_ahead {
                inner.state.readers.forget();
                self.count_streams(inner);
            }
            if inner.state.blocks.is_empty() {
                unread = inner.loan.take();
                if let Some(holder) = inner.holder.take() {
                    self.resources().memory.remove_holder(holder);
                }
            }
        }
        drop(unread);
        bytes_of(&removed)
    }

    fn give_back_shared(&self, behind_max: u64) -> u64 {
        let mut removed = Vec::new();
        {
            let inner = &mut *self.inner.lock();
            if inner.state.readers.is_shared() {
                let now = self.resources().clock.now();
                let retention = || RetentionPolicy { behind_max, now };
                inner.state.retire(retention, &mut removed);
                self.count_streams(inner);
            }
        }
        bytes_of(&removed)
    }
}

impl Drop for OpenObject {
    fn drop(&mut self) {
        let inner = self.inner.get_mut();
        let resources = &self.gets.resources;
        resources.count_streams(inner.streams, 0);
        if let Some(holder) = inner.holder {
            resources.memory.remove_holder(holder);
        }
        if let Some((registry, id)) = &self.shared {
            registry.close(*id, self);
        }
    }
}

fn bytes_of(fetches: &[Arc<Fetch>]) -> u64 {
    fetches.iter().map(|fetch| fetch.len() as u64).sum()
}
