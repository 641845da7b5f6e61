//! Memory for written bytes that are not sent yet.
//!
//! A file's buffer begins small and grows, so that hundreds of small files fit; the mount's one
//! [`Budget`] decides which file may take how much. A buffer that grows is counted once: its pages
//! stay, and only the additional bytes are taken. Writers that find no memory wait, in the order of
//! their requests; nothing else limits the number of open files.
//!
//! Reads give memory back on request. No wait holds a lock, and a writer that gives up leaves
//! nothing behind.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use metrics::Histogram;
use mountpoint_crt_sys::block::{BlockFill, BlockPool};

use super::recent_writers::RecentWriters;
use crate::clock::Clock;
use crate::config::limits::WRITE_SIZE_MAX;
use crate::memory::{self, Budget, BufferKind, BufferRequest, Reservation, WaitState};
use crate::metrics::names::MEMORY_WAIT;
use crate::metrics::trace::{WaitCause, micros, waits};
use crate::sync::Mutex;

/// The sources of a mount's memory.
#[derive(Clone)]
pub struct MemorySource {
    /// The bound on all of it.
    pub budget: Arc<Budget>,
    /// The memory itself.
    pub pool: BlockPool,
    /// Makes reads give back the memory that they can spare. Called with no lock held.
    pub make_room: Arc<dyn Fn() + Send + Sync>,
}

impl MemorySource {
    /// Largest size that parts grow to, in bytes.
    pub(in crate::write) fn part_max(&self) -> u64 {
        (self.budget.limit() / WRITE_PART_MAX_SHARE).saturating_sub(WRITE_SIZE_MAX as u64)
    }

    /// Largest part that fits into memory, in bytes.
    pub(in crate::write) fn fixed_part_max(&self) -> u64 {
        memory::part_max(self.budget.limit()).saturating_sub(WRITE_SIZE_MAX as u64)
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

/// Memory of writers: the budget, and the threads that write.
#[derive(Debug)]
pub(in crate::write) struct WriteMemory {
    source: MemorySource,
    clock: Clock,
    threads: RecentWriters,
    waits: Histogram,
}

/// Memory granted for a [`BufferRequest`]; given back on drop, unless it becomes a buffer.
#[derive(Debug)]
pub struct Grant {
    memory: Arc<WriteMemory>,
    added: Reservation,
    /// Bytes of the small buffer that the memory is added to.
    held: u64,
}

/// Memory that a buffer holds, given back on drop: when both the buffer and its writer are done
/// with it.
#[derive(Debug)]
pub(in crate::write) struct Lease {
    memory: Arc<WriteMemory>,
    /// Locked before the budget's, which is a leaf.
    held: Mutex<Reservation>,
}

/// Memory for those that wait. To be dropped with no lock held: that wakes them.
#[derive(Debug)]
#[must_use]
pub struct Spared {
    memory: Arc<WriteMemory>,
    rest: Option<Reservation>,
}

impl Drop for Spared {
    fn drop(&mut self) {
        drop(self.rest.take());
        self.memory.serve(WaitState::Waited);
    }
}

impl WriteMemory {
    /// The memory of writers whose first parts need `part` bytes.
    pub(in crate::write) fn new(source: MemorySource, part: u64, clock: Clock) -> Arc<Self> {
        source.budget.set_first_part(part);
        Arc::new(Self {
            source,
            clock,
            threads: RecentWriters::new(),
            waits: metrics::histogram!(MEMORY_WAIT, "area" => "upload"),
        })
    }

    /// Notes that `thread` has `len` bytes to write.
    pub(in crate::write) fn writes(&self, thread: u64, len: usize) {
        self.threads.wrote(thread, len, self.clock.now());
    }

    /// Counts a WRITE of `bytes` that waits. Returns the counted bytes.
    pub(in crate::write) fn wait(&self, bytes: u64) -> Reservation {
        self.source.budget.pending(bytes)
    }

    /// Memory at once, or `None`.
    pub(in crate::write) fn try_take(self: &Arc<Self>, request: BufferRequest) -> Option<Grant> {
        let added = self.source.budget.try_buffer(request, self.expected())?;
        Some(self.grant(request, added))
    }

    /// Waits for memory for a file with `written` taken bytes; `None` if there will be none. A drop
    /// of the future gives up the place in the queue.
    pub(in crate::write) async fn take(
        self: &Arc<Self>,
        request: BufferRequest,
        written: u64,
    ) -> Option<Grant> {
        let granted = self.source.budget.buffer(request, written, self.expected());
        let added = async {
            let added = granted.await?;
            self.make_room();
            Some(added.await)
        };
        let observe = |waited| self.waits.record(micros(waited));
        let added = waits(WaitCause::Memory, added, observe).await?;
        Some(self.grant(request, added))
    }

    /// Gives waiting writers the free memory, in the order of their requests. If nothing in flight
    /// would give memory back, one of them is [`WaitState::Stuck`].
    pub(in crate::write) fn serve(&self, wait: WaitState) {
        self.source
            .budget
            .serve_writers(wait, Some(self.expected()));
    }

    /// Fails one of the waiting writers.
    pub(in crate::write) fn fail_one(&self) {
        self.source.budget.fail_writer();
    }

    /// Fails all writers that wait, now and later. For the end of the mount.
    pub(in crate::write) fn fail_all(&self) {
        self.source.budget.fail_writers();
    }

    /// Asks reads for granted memory that they still hold.
    pub(in crate::write) fn make_room(&self) {
        (self.source.make_room)();
    }

    /// Whether a writer waits, or would wait for `bytes` more.
    pub(in crate::write) fn is_short(&self, bytes: usize) -> bool {
        let expected = self.expected();
        self.source
            .budget
            .is_short_for_writers(bytes as u64, expected)
    }

    /// The memory itself.
    pub(in crate::write) fn pool(&self) -> &BlockPool {
        &self.source.pool
    }

    /// Bytes that writers hold.
    pub(in crate::write) fn used(&self) -> u64 {
        self.source.budget.used_by_writers()
    }

    /// Bytes of WRITEs that may wait at once.
    fn expected(&self) -> u64 {
        self.threads.bytes(self.clock.now())
    }

    fn grant(self: &Arc<Self>, request: BufferRequest, added: Reservation) -> Grant {
        Grant {
            memory: Arc::clone(self),
            added,
            held: request.held,
        }
    }

    fn block(&self, lease: &Arc<Lease>, len: usize) -> BlockFill {
        self.pool().allocate_guarded(len, Arc::clone(lease))
    }
}

impl Grant {
    /// Bytes of the buffer.
    pub(in crate::write) fn len(&self) -> usize {
        let len = self.held + self.added.bytes();
        usize::try_from(len).expect("memory fits into memory")
    }

    /// Whether the buffer is for a whole part, not a small one that grows.
    pub(in crate::write) fn is_part(&self) -> bool {
        self.added.is_for_part()
    }

    /// Whether the memory is for a buffer of `held` bytes, and is enough for `needed`.
    #[must_use]
    pub fn is_for(&self, held: usize, needed: usize) -> bool {
        self.held == held as u64 && self.len() >= needed
    }

    /// A new buffer.
    pub(in crate::write) fn block(self) -> (BlockFill, Arc<Lease>) {
        assert_eq!(self.held, 0, "a buffer that is there grows");
        let len = self.len();
        let lease = Arc::new(Lease {
            memory: Arc::clone(&self.memory),
            held: Mutex::new(self.added),
        });
        (self.memory.block(&lease, len), lease)
    }

    /// Makes `fill` as long as the granted memory. Returns what others may have now.
    pub(in crate::write) fn grow(self, fill: &mut BlockFill, lease: &Lease) -> Option<Spared> {
        let len = self.len();
        let is_part = self.is_part();
        {
            let mut held = lease.held.lock();
            assert_eq!(self.held, held.bytes());
            if is_part {
                held.convert(BufferKind::Part);
            }
            held.merge(self.added);
        }
        assert!(fill.grow(len), "nobody else had it when it was asked for");
        // One small buffer less.
        is_part.then(|| lease.spared(None))
    }
}

impl Lease {
    /// Whether the memory is for a whole part, not for a small buffer.
    pub(in crate::write) fn is_part(&self) -> bool {
        self.held.lock().is_for_part()
    }

    /// Cuts a part's buffer down to its filled bytes, as a small buffer. Returns the rest; `None`
    /// if other owners share the buffer, or small buffers have all of their memory.
    pub(in crate::write) fn cut(&self, fill: &mut BlockFill) -> Option<Spared> {
        let len = BlockPool::memory_of(fill.filled()).min(fill.capacity());
        if fill.is_shared() {
            return None;
        }
        let rest = self.held.lock().cut(len as u64)?;
        assert!(fill.shrink(len), "nobody else has it");
        Some(self.spared(Some(rest)))
    }

    fn spared(&self, rest: Option<Reservation>) -> Spared {
        Spared {
            memory: Arc::clone(&self.memory),
            rest,
        }
    }
}

/// The buffer for `len` bytes while memory is short. Small buffers are copied while they grow, so
/// they get a quarter more: the copies stay within five times the file. Other buffers get all of
/// the mapping behind their length: if it was used before, all of its pages are resident.
pub(in crate::write) fn least(len: usize, whole: usize) -> usize {
    let small = (len + len / 4).next_multiple_of(WRITE_STAGES[0]);
    let wanted = if len < WRITE_STAGES[1] {
        small.min(WRITE_STAGES[1])
    } else {
        BlockPool::memory_of(len)
    };
    wanted.min(whole)
}

/// The buffer for `len` bytes of a file whose parts have `whole` bytes. Small buffers grow in few
/// steps.
pub(in crate::write) fn stage(len: usize, whole: usize) -> usize {
    let stage = WRITE_STAGES.into_iter().find(|stage| len <= *stage);
    stage.unwrap_or(whole).min(whole)
}

/// Buffer sizes of a written file, in bytes, before the one for a whole part.
///
/// A small file takes a page, and growing a buffer copies an eighth of the first part at most.
const WRITE_STAGES: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];

/// Largest part, as a share of the mount's memory: one in so many bytes.
///
/// One part can be filled while another is sent.
const WRITE_PART_MAX_SHARE: u64 = 4;
