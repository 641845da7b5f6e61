//! Memory for what was written and not sent yet.
//!
//! A file's buffer begins small and grows, so that hundreds of small files fit; [`Admission`] says
//! which file may take how much. A buffer that grows is counted once: its pages stay, and only what
//! is new is taken. Writers that find no memory wait, in the order in which they came; there is no
//! other limit of how many files may be open.
//!
//! What is held here is held of the mount's one budget as well. First comes the share, then the
//! budget, whose rest reads hold, who give theirs back when they are asked. Nothing waits with a
//! lock held, and who gives up leaves nothing behind.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use mountpoint_crt_sys::block::{BlockFill, BlockPool};
use tokio::sync::oneshot;

use super::admission::{self, Admission, BufferKind, BufferRequest, WaitState};
use super::recent_writers::RecentWriters;
use crate::clock::Clock;
use crate::config::limits::{WRITE_PART_MAX_SHARE, WRITE_SIZE_MAX, WRITE_STAGES};
use crate::memory::{Budget, Purpose, Reservation};
use crate::sync::Mutex;

/// Where a mount's memory comes from.
#[derive(Clone)]
pub struct MemorySource {
    /// The bound on all of it.
    pub budget: Arc<Budget>,
    /// The memory itself.
    pub pool: BlockPool,
    /// Makes others give back what they can spare. Called with no lock held.
    pub make_room: Arc<dyn Fn() + Send + Sync>,
}

impl MemorySource {
    /// Largest part that parts grow to, in bytes.
    pub(in crate::write) fn part_max(&self) -> u64 {
        (self.budget.limit() / WRITE_PART_MAX_SHARE).saturating_sub(WRITE_SIZE_MAX as u64)
    }

    /// Largest part that there is memory for, in bytes.
    pub(in crate::write) fn fixed_part_max(&self) -> u64 {
        admission::part_max(self.budget.limit()).saturating_sub(WRITE_SIZE_MAX as u64)
    }
}

impl fmt::Debug for MemorySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemorySource")
            .field("budget", &self.budget)
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

/// The share of writers.
#[derive(Debug)]
pub(in crate::write) struct WriteMemory {
    source: MemorySource,
    clock: Clock,
    threads: RecentWriters,
    /// A leaf: nothing else is locked or woken while it is held.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    admission: Admission,
    /// Those who wait, in order of their ticket.
    queue: VecDeque<Waiter>,
    next_ticket: u64,
    /// The mount ends: nobody waits any more.
    is_ended: bool,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    request: BufferRequest,
    /// Bytes of its file, which are lost if it fails.
    written: u64,
    told: oneshot::Sender<Share>,
}

/// Memory that was given for a [`BufferRequest`]: of the share, and of the mount's.
#[derive(Debug)]
pub(in crate::write) struct Grant {
    main: Reservation,
    share: Share,
}

/// What was taken of the shares; given back on drop, unless it is used.
#[derive(Debug)]
struct Share {
    memory: Arc<WriteMemory>,
    /// What it and the beginning that it is added to are held for from then on.
    kind: BufferKind,
    /// Bytes of that.
    held: u64,
    more: u64,
    is_used: bool,
}

/// What is counted of a WRITE that waits, given back on drop.
#[derive(Debug)]
pub(in crate::write) struct Counted {
    memory: Arc<WriteMemory>,
    main: Reservation,
}

/// Memory that a buffer holds, given back on drop: with the buffer's memory, or when the writer
/// lets go of it, whichever comes last.
#[derive(Debug)]
pub(in crate::write) struct Lease {
    memory: Arc<WriteMemory>,
    /// Locked before `WriteMemory::state`, which is a leaf.
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    kind: BufferKind,
    main: Reservation,
}

impl WriteMemory {
    /// Where the first parts need `part` bytes.
    pub(in crate::write) fn new(source: MemorySource, part: u64, clock: Clock) -> Arc<Self> {
        let admission = Admission::new(source.budget.limit(), part);
        Arc::new(Self {
            source,
            clock,
            threads: RecentWriters::new(),
            state: Mutex::new(State {
                admission,
                queue: VecDeque::new(),
                next_ticket: 0,
                is_ended: false,
            }),
        })
    }

    /// `thread` has `len` bytes to write.
    pub(in crate::write) fn writes(&self, thread: u64, len: usize) {
        self.threads.wrote(thread, len, self.clock.now());
    }

    /// A WRITE of `bytes` waits. Returns what is counted of it.
    pub(in crate::write) fn wait(self: &Arc<Self>, bytes: u64) -> Counted {
        let counted = self.state.lock().admission.wait(bytes);
        Counted {
            memory: Arc::clone(self),
            main: self.source.budget.reserve_held(counted),
        }
    }

    /// Memory at once, or `None`.
    pub(in crate::write) fn try_take(self: &Arc<Self>, request: BufferRequest) -> Option<Grant> {
        let share = {
            let expected = self.expected();
            let mut state = self.state.lock();
            if !state.queue.is_empty() {
                return None;
            }
            state.admission.expect(expected);
            let taken = state.admission.choose(request, WaitState::First)?;
            self.share(&mut state.admission, request, taken)
        };
        let budget = &self.source.budget;
        let main = budget.try_reserve(share.more, Purpose::Demand)?;
        Some(Grant { share, main })
    }

    /// Memory for a file of which `written` bytes were taken, when there is some; `None` if there
    /// will be none. Dropping the future gives the place in the queue up.
    pub(in crate::write) async fn take(
        self: &Arc<Self>,
        request: BufferRequest,
        written: u64,
    ) -> Option<Grant> {
        let (told, granted) = oneshot::channel();
        let place = self.enter(request, written, told);
        let share = granted.await.ok()?;
        drop(place);
        let main = self.source.budget.reserve(share.more);
        (self.source.make_room)();
        let main = main.await;
        Some(Grant { share, main })
    }

    fn enter(
        self: &Arc<Self>,
        request: BufferRequest,
        written: u64,
        told: oneshot::Sender<Share>,
    ) -> Place {
        let (ticket, wait) = {
            let mut state = self.state.lock();
            let ticket = state.next_ticket;
            state.next_ticket += 1;
            // Who waits only for what reads hold gets no more of the share than who waits for
            // nothing.
            let is_first = state.queue.is_empty();
            let wait = if is_first {
                WaitState::First
            } else {
                WaitState::Waited
            };
            if !state.is_ended {
                state.queue.push_back(Waiter {
                    ticket,
                    request,
                    written,
                    told,
                });
            }
            (ticket, wait)
        };
        let place = Place {
            memory: Arc::clone(self),
            ticket,
        };
        self.serve(wait);
        place
    }

    /// Gives those who wait what there is, the first first. Where nothing is on its way that would
    /// give memory back, one of them is [`WaitState::Stuck`]: the first for whom there is
    /// something.
    pub(in crate::write) fn serve(self: &Arc<Self>, mut wait: WaitState) {
        let mut served = Vec::new();
        {
            let mut state = self.state.lock();
            if !state.queue.is_empty() {
                state.admission.expect(self.expected());
            }
            loop {
                let tried = match wait {
                    WaitState::Stuck => state.queue.len(),
                    WaitState::First | WaitState::Waited => 1,
                };
                let mut requests = state.queue.iter().map(|waiter| waiter.request).take(tried);
                let admission = &state.admission;
                let found = requests.by_ref().enumerate().find_map(|(index, request)| {
                    Some((index, request, admission.choose(request, wait)?))
                });
                let Some((index, request, taken)) = found else {
                    break;
                };
                let share = self.share(&mut state.admission, request, taken);
                let waiter = state.queue.remove(index).expect("it was looked at");
                served.push((waiter.told, share));
                wait = WaitState::Waited;
            }
        }
        for (told, share) in served {
            // Who has given up meanwhile leaves it to the next.
            drop(told.send(share));
        }
    }

    /// Makes one of those who wait fail: one that holds memory, if one does, of whose file least is
    /// lost, and the youngest of several.
    pub(in crate::write) fn fail_one(self: &Arc<Self>) {
        let failed = {
            let mut state = self.state.lock();
            let waiters = state.queue.iter().enumerate();
            let least = waiters
                .min_by_key(|(index, it)| (it.request.held == 0, it.written, Reverse(*index)));
            let index = least.map(|(index, _)| index);
            index.and_then(|index| state.queue.remove(index))
        };
        drop(failed);
        self.serve(WaitState::Waited);
    }

    /// Makes all fail that wait, now or later. For the end of the mount.
    pub(in crate::write) fn fail_all(&self) {
        let failed = {
            let mut state = self.state.lock();
            state.is_ended = true;
            std::mem::take(&mut state.queue)
        };
        drop(failed);
    }

    /// Asks reads for what was given and is still theirs.
    pub(in crate::write) fn make_room(&self) {
        (self.source.make_room)();
    }

    /// Whether somebody waits, or would for `bytes` more.
    pub(in crate::write) fn is_short(&self, bytes: usize) -> bool {
        let expected = self.expected();
        let mut state = self.state.lock();
        state.admission.expect(expected);
        !state.queue.is_empty() || !state.admission.has_room(bytes as u64)
    }

    /// The memory itself.
    pub(in crate::write) fn pool(&self) -> &BlockPool {
        &self.source.pool
    }

    /// Bytes that writers hold.
    pub(in crate::write) fn used(&self) -> u64 {
        self.state.lock().admission.used()
    }

    /// Bytes of WRITEs that may wait at once.
    fn expected(&self) -> u64 {
        self.threads.bytes(self.clock.now())
    }

    fn share(
        self: &Arc<Self>,
        admission: &mut Admission,
        request: BufferRequest,
        (kind, bytes): (BufferKind, u64),
    ) -> Share {
        admission.take(kind, bytes - request.held);
        Share {
            memory: Arc::clone(self),
            kind,
            held: request.held,
            more: bytes - request.held,
            is_used: false,
        }
    }

    fn block(&self, lease: &Arc<Lease>, len: usize) -> BlockFill {
        self.pool().allocate_guarded(len, Arc::clone(lease))
    }
}

/// A place in the queue, given up on drop.
struct Place {
    memory: Arc<WriteMemory>,
    ticket: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let waiter = {
            let mut state = self.memory.state.lock();
            let queue = &mut state.queue;
            let place = queue.binary_search_by_key(&self.ticket, |waiter| waiter.ticket);
            place.ok().and_then(|place| queue.remove(place))
        };
        if waiter.is_some() {
            // It may have been in the way of the next.
            self.memory.serve(WaitState::Waited);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.is_used {
            return;
        }
        let (kind, bytes) = (self.kind, self.more);
        self.memory.state.lock().admission.give_back(kind, bytes);
        self.memory.serve(WaitState::Waited);
    }
}

impl Grant {
    /// Bytes of the buffer.
    pub(in crate::write) fn len(&self) -> usize {
        let len = self.share.held + self.share.more;
        usize::try_from(len).expect("memory fits into memory")
    }

    /// Whether the buffer is for a whole part, and no beginning that grows.
    pub(in crate::write) fn is_part(&self) -> bool {
        self.share.kind == BufferKind::Part
    }

    /// Whether it is for a buffer that is there.
    pub(in crate::write) fn is_growth(&self) -> bool {
        self.share.held > 0
    }

    /// A new buffer.
    pub(in crate::write) fn block(mut self) -> (BlockFill, Arc<Lease>) {
        assert_eq!(self.share.held, 0, "a buffer that is there grows");
        self.share.is_used = true;
        let len = self.len();
        let memory = Arc::clone(&self.share.memory);
        let lease = Arc::new(Lease {
            held: Mutex::new(Held {
                kind: self.share.kind,
                main: self.main,
            }),
            memory: Arc::clone(&memory),
        });
        (memory.block(&lease, len), lease)
    }

    /// Makes `fill` as long as what was given for it.
    pub(in crate::write) fn grow(mut self, fill: &mut BlockFill, lease: &Lease) {
        let (len, kind) = (self.len(), self.share.kind);
        let from = {
            let mut held = lease.held.lock();
            let bytes = held.main.bytes();
            assert_eq!(self.share.held, bytes);
            self.share.is_used = true;
            let from = std::mem::replace(&mut held.kind, kind);
            let admission = &mut lease.memory.state.lock().admission;
            admission.convert(bytes, from, kind);
            held.main.merge(self.main);
            from
        };
        assert!(fill.grow(len), "nobody else had it when it was asked for");
        if from != kind {
            // A beginning less.
            lease.memory.serve(WaitState::Waited);
        }
    }
}

impl Lease {
    /// Bytes that are held.
    pub(in crate::write) fn bytes(&self) -> u64 {
        self.held.lock().main.bytes()
    }

    /// Whether it is held for a part that can be filled, and not for a beginning.
    pub(in crate::write) fn is_part(&self) -> bool {
        self.held.lock().kind == BufferKind::Part
    }

    /// Cuts `fill`, which is a part's, down to what is filled, as a beginning. Returns whether it
    /// did: others may have handles of it, or beginnings as much as they may.
    pub(in crate::write) fn cut(&self, fill: &mut BlockFill) -> bool {
        let len = BlockPool::memory_of(fill.filled()).min(fill.capacity());
        if fill.is_shared() {
            return false;
        }
        let rest = {
            let mut held = self.held.lock();
            let bytes = held.main.bytes();
            if !self.memory.state.lock().admission.cut(bytes, len as u64) {
                return false;
            }
            held.kind = BufferKind::Small;
            held.main.split(bytes - len as u64)
        };
        assert!(fill.shrink(len), "nobody else has it");
        drop(rest);
        self.memory.serve(WaitState::Waited);
        true
    }

    /// A buffer with `data`, which is the end of the one that this is for: of the same memory,
    /// which that does not need any more.
    pub(in crate::write) fn split(&self, data: &[u8]) -> (BlockFill, Arc<Self>) {
        let len = data.len() as u64;
        let main = {
            let mut held = self.held.lock();
            let admission = &mut self.memory.state.lock().admission;
            admission.convert(len, held.kind, BufferKind::Small);
            held.main.split(len)
        };
        let lease = Arc::new(Self {
            memory: Arc::clone(&self.memory),
            held: Mutex::new(Held {
                kind: BufferKind::Small,
                main,
            }),
        });
        let mut fill = self.memory.block(&lease, data.len());
        // A copy of file data: less than one write, where memory is short.
        fill.append(data);
        (fill, lease)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let held = self.held.get_mut();
        let bytes = free(&mut held.main);
        let kind = held.kind;
        self.memory.state.lock().admission.give_back(kind, bytes);
        self.memory.serve(WaitState::Waited);
    }
}

impl Counted {
    /// Bytes of it.
    #[cfg(test)]
    pub(in crate::write) fn bytes(&self) -> u64 {
        self.main.bytes()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let bytes = free(&mut self.main);
        self.memory.state.lock().admission.waited(bytes);
        self.memory.serve(WaitState::Waited);
    }
}

/// Gives the mount's memory back, and tells how much: before the share, or who is served that would
/// find it taken yet, and have reads give theirs.
fn free(main: &mut Reservation) -> u64 {
    let bytes = main.bytes();
    drop(main.split(bytes));
    bytes
}

/// The buffer for `len` bytes where memory is short. Small ones are copied while they grow, so they
/// get a quarter more, and what is copied stays within five times the file. The others get all of
/// the memory that is behind their length: it may have been used before, and then all of it is
/// there.
pub(in crate::write) fn least(len: usize, whole: usize) -> usize {
    let small = (len + len / 4).next_multiple_of(WRITE_STAGES[0]);
    let wanted = if len < WRITE_STAGES[1] {
        small.min(WRITE_STAGES[1])
    } else {
        BlockPool::memory_of(len)
    };
    wanted.min(whole)
}

/// The buffer for `len` bytes of a file whose parts have `whole` bytes: small ones grow in few
/// steps.
pub(in crate::write) fn stage(len: usize, whole: usize) -> usize {
    let stage = WRITE_STAGES.into_iter().find(|stage| len <= *stage);
    stage.unwrap_or(whole).min(whole)
}
