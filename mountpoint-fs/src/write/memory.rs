//! Memory for what was written and not sent yet.
//!
//! A file's buffer begins small and grows, so that hundreds of small files fit. Growing buffers could fill all memory
//! with beginnings of parts, none of which could be sent: S3 takes no part below 5 MiB. So a share is kept for whole
//! parts alone: whoever has one can fill it and send it, and gives it back. Writers that find no memory wait, in the
//! order in which they came; there is no other limit of how many files may be open.
//!
//! What is held here is held of the mount's one budget as well, and of that never more than half: reads go on.

use std::fmt;
use std::sync::Arc;

use futures::future::{Either, select};
use mountpoint_crt_sys::block::{BlockFill, BlockPool};

use crate::config::limits::{
    WRITE_MEMORY_SHARE, WRITE_PLENTY_SHARE, WRITE_SIZE_MAX, WRITE_STAGES, WRITE_WHOLE_SHARE,
};
use crate::memory::{Budget, Purpose, Reservation};

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
pub(super) struct WriteMemory {
    source: MemorySource,
    /// Buffers of any size.
    any: Arc<Budget>,
    /// Whole parts only.
    whole: Arc<Budget>,
}

/// What a writer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    /// Bytes that do for a while.
    pub(super) len: usize,
    /// Bytes that do for now.
    pub(super) least: usize,
    /// Bytes of a whole part.
    pub(super) whole: usize,
}

/// Memory that is held: of the share, and of the mount's.
struct Grant {
    _share: Reservation,
    _main: Reservation,
}

impl WriteMemory {
    pub(super) fn new(source: MemorySource) -> Self {
        let all = source.budget.limit() / WRITE_MEMORY_SHARE;
        let whole = all / WRITE_WHOLE_SHARE;
        Self {
            source,
            any: Budget::new(all - whole),
            whole: Budget::new(whole),
        }
    }

    /// Largest part that there is memory for, in bytes.
    pub(super) fn part_max(&self) -> u64 {
        self.whole.limit().saturating_sub(WRITE_SIZE_MAX as u64)
    }

    /// Memory at once, or `None`.
    pub(super) fn try_take(&self, ask: Ask) -> Option<BlockFill> {
        let take = |budget: &Arc<Budget>, len: usize| {
            Some((budget.try_reserve(len as u64, Purpose::Demand)?, len))
        };
        let (share, len) =
            take(&self.any, self.fitting(ask)).or_else(|| take(&self.whole, ask.whole))?;
        let main = self
            .source
            .budget
            .try_reserve(len as u64, Purpose::Demand)?;
        Some(self.block(len, share, main))
    }

    /// Memory, when there is some. Dropping the future gives the place in the queue up.
    pub(super) async fn take(&self, ask: Ask) -> BlockFill {
        let len = self.fitting(ask);
        let any = self.any.reserve(len as u64);
        let whole = self.whole.reserve(ask.whole as u64);
        let (share, len) = match select(any, whole).await {
            Either::Left((share, _)) => (share, len),
            Either::Right((share, _)) => (share, ask.whole),
        };
        let place = self.source.budget.reserve(len as u64);
        (self.source.make_room)();
        let main = place.await;
        self.block(len, share, main)
    }

    /// What is asked for; no more than is needed now, when much is held already.
    fn fitting(&self, ask: Ask) -> usize {
        let is_plenty = self.any.used() + ask.len as u64 <= self.any.limit() / WRITE_PLENTY_SHARE;
        if is_plenty { ask.len } else { ask.least }
    }

    fn block(&self, len: usize, share: Reservation, main: Reservation) -> BlockFill {
        let grant = Grant {
            _share: share,
            _main: main,
        };
        self.source.pool.allocate_guarded(len, grant)
    }

    /// The memory itself.
    pub(super) fn pool(&self) -> &BlockPool {
        &self.source.pool
    }

    /// Bytes that writers hold.
    pub(super) fn used(&self) -> u64 {
        self.any.used() + self.whole.used()
    }
}

/// The buffer for `len` bytes where memory is short: a quarter more, so that what is copied while it grows stays within
/// five times the file.
pub(super) fn least(len: usize, whole: usize) -> usize {
    (len + len / 4).next_multiple_of(WRITE_STAGES[0]).min(whole)
}

/// The buffer for `len` bytes of a file whose parts have `whole` bytes: small ones grow in few steps.
pub(super) fn stage(len: usize, whole: usize) -> usize {
    let stage = WRITE_STAGES.into_iter().find(|stage| len <= *stage);
    stage.unwrap_or(whole).min(whole)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn memory(limit: u64) -> WriteMemory {
        WriteMemory::new(MemorySource {
            budget: Budget::new(limit),
            pool: BlockPool::new(0),
            make_room: Arc::new(|| ()),
        })
    }

    #[test]
    fn buffers_grow_in_few_steps() {
        const WHOLE: usize = 9 << 20;
        for (len, expected) in [
            (0, 4 << 10),
            (1024, 4 << 10),
            (4097, 64 << 10),
            (65_537, 1 << 20),
            ((1 << 20) + 1, WHOLE),
        ] {
            assert_eq!(stage(len, WHOLE), expected, "{len}");
        }
    }

    #[test]
    fn buffers_are_tight_when_much_is_held() {
        for (len, expected) in [(1, 4 << 10), (4096, 8 << 10), (100_000, 126_976)] {
            assert_eq!(least(len, 9 << 20), expected, "{len}");
        }
        assert_eq!(least(9 << 20, 9 << 20), 9 << 20);
        // Of 200 for buffers of any size, a quarter is plenty.
        let memory = memory(800);
        let ask = Ask {
            len: 50,
            least: 5,
            whole: 100,
        };
        let held: Vec<_> = (0..10).map(|_| memory.try_take(ask).unwrap()).collect();
        let sizes: Vec<_> = held.iter().map(BlockFill::capacity).collect();
        assert_eq!(sizes[..3], [50, 5, 5]);
        assert_eq!(sizes[9], 5);
    }

    #[test]
    fn beginnings_of_parts_never_take_what_whole_parts_need() {
        // Writers have 200, of which 100 are for whole parts.
        let memory = memory(400);
        let ask = Ask {
            len: 50,
            least: 50,
            whole: 100,
        };
        let mut held: Vec<_> = (0..2).map(|_| memory.try_take(ask).unwrap()).collect();
        // The next one gets a whole part, which it can fill and send.
        let whole = memory.try_take(ask).unwrap();
        assert_eq!(whole.capacity(), 100);
        assert!(memory.try_take(ask).is_none());
        let mut waiting = Box::pin(memory.take(ask));
        assert!((&mut waiting).now_or_never().is_none());
        drop(whole);
        let whole = waiting.now_or_never().expect("the part was sent");
        assert_eq!((whole.capacity(), memory.used()), (100, 200));
        let mut waiting = Box::pin(memory.take(ask));
        assert!((&mut waiting).now_or_never().is_none());
        held.pop();
        assert_eq!(waiting.now_or_never().unwrap().capacity(), 50);
        drop((held, whole));
        assert_eq!((memory.used(), memory.source.budget.used()), (0, 0));
    }
}
