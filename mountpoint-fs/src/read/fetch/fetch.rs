//! One range in flight: its bytes as they come, and how it ends.
//!
//! A fetch asks for one range of one version; it knows no reader and no reason. One GET fills one
//! block with the range. If that GET is late, a second one, over another connection, fills a block
//! of its own with what is missing; readers get bytes of whichever block has them. What the other
//! GET still brings is dropped: to cancel it would cost its connection.
//!
//! Invariant: a waiter is woken when its bytes are valid or the fetch has ended, and no lock is
//! held then. A fetch fails when the last of its GETs has, and is done when the first is. Runs on
//! the thread of the client that delivers bytes, and on those of readers.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

use mountpoint_client::billing::Caller;
use mountpoint_client::types::{GetRequest, Priority};
use mountpoint_client::{ClientError, ErrorKind};
use mountpoint_crt_sys::block::Block;

use super::hedge_policy::Sight;
use super::metrics::GetMetrics;
use super::progress::FetchProgress;
use super::waiters::Waiters;
use crate::cache::{CachedCopies, CachedObject, SharedObject};
use crate::executor;
use crate::memory::Purpose;
use crate::metrics::is_measured;
use crate::metrics::programs::measured_caller;
use crate::metrics::trace::{Origin, WaitCause, current_origin};
use crate::operation::Slices;
use crate::read::object_version::ObjectVersion;
use crate::sync::Mutex;

/// A range, from before its GET is sent until it is forgotten.
#[derive(Debug)]
pub(in crate::read) struct Fetch {
    version: Arc<ObjectVersion>,
    range: Range<u64>,
    /// Where its bytes land.
    block: Block,
    purpose: Purpose,
    /// The request of the kernel that had it made.
    origin: Origin,
    pub(super) metrics: Arc<GetMetrics>,
    /// Where its bytes may be before they are asked for, and are kept afterwards.
    copies: CachedCopies,
    /// A [`Source`]: what fills its block now.
    source: AtomicU8,
    /// Whether its bytes were offered to the caches, or came from there.
    is_kept: AtomicBool,
    /// When it was made, by the clock of the metrics.
    pub(super) began: Duration,
    /// Whether its first byte has come.
    has_begun: AtomicBool,
    /// The network interface that its GET went over.
    pub(super) interface: AtomicUsize,
    /// Whether the hedger has it in its queue.
    is_watched: AtomicBool,
    /// The second GET's side, if there was one.
    second: OnceLock<SecondBlock>,
    /// `RUNNING`, `DONE` or `FAILED`.
    state: AtomicU8,
    pub(super) waiters: Waiters,
    /// A leaf: nothing else is locked or woken while it is held.
    failures: Mutex<Failures>,
    pub(super) progress: FetchProgress,
    /// Whether it is asked for late because memory was short.
    lacked_memory: AtomicBool,
}

/// The source of a fetch's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Source {
    /// A GET from S3.
    Store,
    /// The disk of the cache.
    Disk,
    /// The bucket that mounts share.
    Shared,
}

/// How one of the sources of a fetch ended.
#[derive(Debug)]
enum Ending {
    /// All bytes are there.
    Full,
    /// A GET from S3 failed.
    Failed(ClientError),
    /// A cache does not have the bytes.
    Missed,
}

/// The block that a second GET fills.
#[derive(Debug)]
struct SecondBlock {
    /// Bytes of the fetch that the first GET had brought before: the second asks for the rest.
    from: usize,
    block: Block,
}

#[derive(Debug, Default)]
struct Failures {
    /// GETs that have ended with an error.
    count: u8,
    /// The error of the last of them; set before `state` says that the fetch failed.
    error: Option<ClientError>,
}

impl Source {
    /// The first source of a block, of a version with `copies`.
    fn first(copies: &CachedCopies) -> Self {
        match copies {
            CachedCopies { disk: Some(_), .. } => Self::Disk,
            CachedCopies {
                shared: Some(_), ..
            } => Self::Shared,
            CachedCopies { .. } => Self::Store,
        }
    }

    /// The cause of a wait for it, while it has not begun to answer.
    fn wait_cause(self) -> WaitCause {
        match self {
            Self::Store => WaitCause::Connection,
            Self::Disk => WaitCause::Disk,
            Self::Shared => WaitCause::SharedCache,
        }
    }
}

impl Fetch {
    /// A fetch that is about to fill `block` from `range` of a version.
    pub(super) fn new(
        version: &Arc<ObjectVersion>,
        range: Range<u64>,
        block: Block,
        purpose: Purpose,
        metrics: &Arc<GetMetrics>,
        copies: &CachedCopies,
    ) -> Arc<Self> {
        let (source, began) = (Source::first(copies), metrics.now());
        Arc::new(Self {
            version: Arc::clone(version),
            range,
            block,
            purpose,
            origin: current_origin(),
            metrics: Arc::clone(metrics),
            copies: copies.clone(),
            source: AtomicU8::new(source as u8),
            is_kept: AtomicBool::new(false),
            began,
            has_begun: AtomicBool::new(false),
            interface: AtomicUsize::new(UNKNOWN),
            is_watched: AtomicBool::new(false),
            second: OnceLock::new(),
            state: AtomicU8::new(RUNNING),
            waiters: Waiters::default(),
            failures: Mutex::default(),
            progress: FetchProgress::new(source.wait_cause()),
            lacked_memory: AtomicBool::new(false),
        })
    }

    /// A GET for what is behind its first `from` bytes.
    pub(super) fn request(&self, from: usize, priority: Priority) -> GetRequest {
        GetRequest {
            key: self.version.key.clone(),
            range: self.range.start + from as u64..self.range.end,
            if_match: Some(self.version.etag.clone()),
            object_size: Some(self.version.size),
            priority,
        }
    }

    /// The program, and its call, that had it made.
    pub(super) fn caller(&self) -> Option<Caller> {
        measured_caller(self.origin)
    }

    /// Its bytes of the object.
    pub(in crate::read) fn range(&self) -> &Range<u64> {
        &self.range
    }

    /// The length of its range.
    pub(in crate::read) fn len(&self) -> usize {
        self.block.capacity()
    }

    /// The purpose for which it was started.
    pub(in crate::read) fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// How many bytes from its front are valid.
    pub(super) fn valid(&self) -> usize {
        let first = self.block.valid();
        match self.second.get() {
            None => first,
            Some(second) => first.max(second.from + second.block.valid()),
        }
    }

    /// Whether its first `needs` bytes are valid.
    pub(in crate::read) fn has(&self, needs: usize) -> bool {
        self.valid() >= needs
    }

    /// Adds what holds `bytes`, which are valid, to `slices`.
    pub(in crate::read) fn add_slices(&self, bytes: Range<usize>, slices: &mut Slices) {
        let Some(second) = self.second.get().filter(|_| self.block.valid() < bytes.end) else {
            slices.push((self.block.clone(), bytes));
            return;
        };
        if bytes.start < second.from {
            slices.push((self.block.clone(), bytes.start..second.from));
        }
        let start = bytes.start.max(second.from) - second.from;
        slices.push((second.block.clone(), start..bytes.end - second.from));
    }

    /// Whether its first `needs` bytes will never be valid.
    pub(in crate::read) fn has_failed_before(&self, needs: usize) -> bool {
        self.state.load(Ordering::Acquire) == FAILED && !self.has(needs)
    }

    /// The end of a wait for its first `needs` bytes, if it has come.
    pub(super) fn outcome(&self, needs: usize) -> Option<Result<(), ClientError>> {
        if self.has(needs) {
            return Some(Ok(()));
        }
        if self.has_failed_before(needs) {
            let error = self.failures.lock().error.clone();
            return Some(Err(error.expect("set before the state")));
        }
        None
    }

    /// The version on the disk, if the disk may have the bytes.
    pub(super) fn on_disk(&self) -> Option<&CachedObject> {
        let cached = self.copies.disk.as_ref();
        cached.filter(|cached| cached.may_have(&self.range))
    }

    /// The version in the shared bucket, if that may have the bytes.
    pub(super) fn in_shared(&self) -> Option<&SharedObject> {
        let shared = self.copies.shared.as_ref();
        shared.filter(|shared| shared.may_have(&self.range))
    }

    /// The source that fills its block now.
    pub(super) fn source(&self) -> Source {
        match self.source.load(Ordering::Relaxed) {
            source if source == Source::Disk as u8 => Source::Disk,
            source if source == Source::Shared as u8 => Source::Shared,
            _ => Source::Store,
        }
    }

    /// Something begins to fill its block.
    pub(super) fn set_source(&self, source: Source) {
        let before = self.source.swap(source as u8, Ordering::Relaxed);
        if before != source as u8 {
            self.enters(source.wait_cause());
        }
    }

    /// From now on it waits for `cause`.
    pub(super) fn enters(&self, cause: WaitCause) {
        if is_measured() {
            self.enters_at(cause, self.metrics.now());
        }
    }

    fn enters_at(&self, cause: WaitCause, now: Duration) {
        let has_begun = !matches!(cause, WaitCause::Connection | WaitCause::FirstByte);
        let cause = match has_begun || !self.lacked_memory.load(Ordering::Relaxed) {
            true => cause,
            false => WaitCause::Memory,
        };
        self.progress.enters(cause, now);
    }

    /// A cache has filled its block. What the shared bucket had is kept on the disk.
    pub(super) fn ended_from(&self, source: Source) {
        if source == Source::Shared {
            self.metrics.last_shared_byte(self.len() as u64, self.began);
        }
        if !self.is_kept.swap(true, Ordering::Relaxed) && source == Source::Shared {
            self.keep_on_disk();
        }
        self.ended(Ok(()));
    }

    /// The shared bucket did not fill its block, and a second GET, whose error would be that of
    /// the fetch, was sent to S3 already.
    pub(super) fn leaves_to_second(&self) {
        assert!(self.has_second());
        self.end(Ending::Missed);
    }

    /// The shared bucket is late, so that S3 is asked too.
    pub(super) fn shared_was_late(&self) {
        if let Some(shared) = &self.copies.shared {
            shared.was_late();
        }
    }

    /// Offers the bytes, which are all there, to the caches.
    fn keep(&self) {
        if self.is_kept.swap(true, Ordering::Relaxed) {
            return;
        }
        self.keep_on_disk();
        if let Some(shared) = &self.copies.shared {
            shared.store(&self.range, self.slices());
        }
    }

    fn keep_on_disk(&self) {
        if let Some(cached) = &self.copies.disk {
            cached.store(&self.range, self.slices());
        }
    }

    /// All bytes, which are there.
    fn slices(&self) -> Slices {
        let mut slices = Slices::new();
        self.add_slices(0..self.len(), &mut slices);
        slices
    }

    /// Whether a GET may still bring bytes.
    pub(super) fn is_running(&self) -> bool {
        self.state.load(Ordering::Acquire) == RUNNING
    }

    /// More bytes are valid than before.
    pub(super) fn advanced(&self) {
        // Against the fence in `Arrival::poll`: either that sees the bytes, or this sees the
        // waiter.
        fence(Ordering::SeqCst);
        if self.has(self.waiters.fewest_needed()) {
            wake(self.waiters.take_served(|needs| self.has(needs)));
        }
    }

    /// The first byte of the first GET has come, or was seen with others.
    pub(super) fn count_first_byte(&self) {
        if !self.has_begun.load(Ordering::Relaxed)
            && self.block.valid() > 0
            && !self.has_begun.swap(true, Ordering::Relaxed)
        {
            let now = self.metrics.now();
            if is_measured() {
                self.enters_at(WaitCause::Body, now);
            }
            self.metrics.first_byte(self.len() as u64, self.began, now);
        }
    }

    /// Bytes of the shared bucket have come.
    pub(super) fn count_first_shared_byte(&self) {
        if !self.has_begun.swap(true, Ordering::Relaxed) {
            self.metrics.first_shared_byte(self.began);
        }
    }

    /// A GET has ended. The fetch has ended too if this was the GET that mattered.
    pub(super) fn ended(&self, outcome: Result<(), ClientError>) {
        self.end(match outcome {
            Ok(()) if self.has(self.len()) => Ending::Full,
            Ok(()) => Ending::Failed(ClientError::new(
                ErrorKind::InvalidResponse,
                "a GET ended before its range did",
            )),
            Err(error) => Ending::Failed(error),
        });
    }

    fn end(&self, ending: Ending) {
        let is_over = {
            let mut failures = self.failures.lock();
            let gets = 1 + u8::from(self.has_second());
            failures.count += u8::from(!matches!(ending, Ending::Full));
            if let Ending::Failed(error) = &ending {
                failures.error = Some(error.clone());
            }
            let state = match ending {
                Ending::Full => Some(DONE),
                Ending::Failed(_) | Ending::Missed => (failures.count == gets).then_some(FAILED),
            };
            if let Some(state) = state {
                self.state.store(state, Ordering::Release);
            }
            state.is_some()
        };
        if is_over {
            wake(self.waiters.take_served(|_| true));
            if self.has(self.len()) {
                self.keep();
            }
        }
    }

    /// Whether a second GET was sent.
    pub(super) fn has_second(&self) -> bool {
        self.second.get().is_some()
    }

    /// A second GET fills `block` with what is behind the first `from` bytes; `false` if the fetch
    /// has ended already.
    pub(super) fn begin_second(&self, from: usize, block: Block) -> bool {
        // The lock is held so that the first GET's end counts the second, or is seen here.
        let _failures = self.failures.lock();
        self.is_running() && self.second.set(SecondBlock { from, block }).is_ok()
    }

    /// The network interface that its first GET went over.
    pub(super) fn interface(&self) -> Option<usize> {
        let interface = self.interface.load(Ordering::Relaxed);
        (interface != UNKNOWN).then_some(interface)
    }

    /// With more memory it would have been asked for earlier: readers wait for memory while its
    /// answer has not begun. Called before it is asked for.
    pub(in crate::read) fn is_late_for_memory(&self) {
        self.lacked_memory.store(true, Ordering::Relaxed);
        if self.source() == Source::Store {
            self.enters(WaitCause::Connection);
        }
    }

    /// Whether it runs and a reader waits for it.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_running() && self.waiters.fewest_needed() != usize::MAX
    }

    /// Has the fetch watched from now on; `false` if it was already.
    pub(super) fn begin_watch(&self) -> bool {
        !self.is_watched.swap(true, Ordering::SeqCst)
    }

    /// Ends the watch of the fetch.
    pub(super) fn end_watch(&self) {
        self.is_watched.store(false, Ordering::SeqCst);
    }

    /// Its state for the policy; `seen` bytes of it were valid at `seen_at`.
    pub(super) fn sight(&self, seen_at: Duration, seen: usize, now: Duration) -> Sight {
        let valid = self.valid();
        Sight {
            len: self.len() as u64,
            valid: valid as u64,
            age: now.saturating_sub(self.began),
            watched: now.saturating_sub(seen_at),
            gained: (valid - seen) as u64,
        }
    }
}

fn wake(wakers: Vec<Waker>) {
    if !wakers.is_empty() {
        executor::deliver(wakers);
    }
}

const RUNNING: u8 = 0;
const DONE: u8 = 1;
const FAILED: u8 = 2;
/// Of an interface: the GET was not sent yet.
const UNKNOWN: usize = usize::MAX;
