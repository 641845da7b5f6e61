//! Memory for what was written and not sent yet.
//!
//! A file's buffer begins small and grows, so that hundreds of small files fit. Growing buffers could fill all memory
//! with beginnings of parts, none of which could be sent: S3 takes no part below 5 MiB. So a share is kept for whole
//! parts alone: whoever has one can fill it and send it, and gives it back. Writers that find no memory wait, in the
//! order in which they came; there is no other limit of how many files may be open.
//!
//! What is held here is held of the mount's one budget as well, and of that no more than half. When files that nobody
//! writes to hold all of it, memory is tight ([`WriteMemory::tighten`]): buffers are as long as what is in them, they use
//! what was kept for whole parts but for one of those, and they borrow from reads, which keep enough to go on.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::{Either, select};
use mountpoint_crt_sys::block::{BlockFill, BlockPool};

use crate::config::limits::{
    READ_KEPT_MIN, READ_KEPT_SHARE, UPLOAD_PART_MIN, WRITE_MEMORY_SHARE, WRITE_PLENTY_SHARE,
    WRITE_SIZE_MAX, WRITE_STAGES, WRITE_WHOLE_SHARE,
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
    /// Whole parts only, unless memory is tight.
    whole: Arc<Budget>,
    /// What reads lend when memory is tight.
    lent: Arc<Budget>,
    is_tight: AtomicBool,
}

/// What a writer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    /// Bytes that do for a while.
    pub(super) len: usize,
    /// Bytes that do for now.
    pub(super) least: usize,
    /// Bytes that do when memory is tight.
    pub(super) tight: usize,
    /// Bytes of a whole part.
    pub(super) whole: usize,
}

/// Memory for what is written.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) fill: BlockFill,
    pub(super) home: Home,
}

/// Which share a buffer is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    Any,
    Whole,
    Lent,
}

/// A share, before there is memory for it.
pub(super) struct Share {
    held: Reservation,
    len: usize,
    home: Home,
}

/// Memory that is held: of the share, and of the mount's.
struct Grant {
    _share: Reservation,
    _main: Reservation,
}

impl WriteMemory {
    pub(super) fn new(source: MemorySource) -> Self {
        let limit = source.budget.limit();
        let all = limit / WRITE_MEMORY_SHARE;
        let whole = all / WRITE_WHOLE_SHARE;
        // A buffer that shrinks is there twice while it is copied.
        let kept = READ_KEPT_MIN.max(limit / READ_KEPT_SHARE) + UPLOAD_PART_MIN;
        Self {
            source,
            any: Budget::new(all - whole),
            whole: Budget::new(whole),
            lent: Budget::new((limit - all).saturating_sub(kept)),
            is_tight: AtomicBool::new(false),
        }
    }

    /// Largest part that there is memory for, in bytes.
    pub(super) fn part_max(&self) -> u64 {
        self.whole.limit().saturating_sub(WRITE_SIZE_MAX as u64)
    }

    /// Memory at once, or `None`.
    pub(super) fn try_take(&self, ask: Ask) -> Option<Buffer> {
        let share = self.try_share(ask)?;
        let budget = &self.source.budget;
        let main = budget.try_reserve(share.len as u64, Purpose::Demand)?;
        Some(self.buffer(share, main))
    }

    /// A share at once, or `None`.
    pub(super) fn try_share(&self, ask: Ask) -> Option<Share> {
        if self.is_tight() {
            self.try_share_tight(ask)
        } else {
            let any = self.try_home(Home::Any, self.fitting(ask));
            any.or_else(|| self.try_home(Home::Whole, ask.whole))
        }
    }

    /// A share when there is some; not of what reads lend. Dropping the future gives the place in the queue up.
    pub(super) async fn share(&self, ask: Ask) -> Share {
        let len = if self.is_tight() {
            ask.tight
        } else {
            self.fitting(ask)
        };
        let any = self.any.reserve(len as u64);
        let whole = self.whole.reserve(ask.whole as u64);
        let (held, len, home) = match select(any, whole).await {
            Either::Left((held, _)) => (held, len, Home::Any),
            Either::Right((held, _)) => (held, ask.whole, Home::Whole),
        };
        Share { held, len, home }
    }

    /// The memory of a share, when reads have given it back.
    pub(super) async fn take(&self, share: Share) -> Buffer {
        let place = self.source.budget.reserve(share.len as u64);
        self.make_room();
        let main = place.await;
        self.buffer(share, main)
    }

    /// Exactly `len` bytes for what is held in a buffer of `from` bytes of `home`, which is given back at once. `None` if
    /// that would take the `whole` part from the others, or reads hold it.
    pub(super) fn try_shrink(
        &self,
        len: usize,
        (from, home): (usize, Home),
        whole: usize,
    ) -> Option<Buffer> {
        assert!(len < from, "it shrinks");
        let main = self.source.budget.try_overtake(len as u64, 0)?;
        let share = self.try_exact(len, whole, Budget::try_overtake);
        let share = share.or_else(|| {
            let is_kept = home == Home::Whole && from >= whole;
            let held = (!is_kept).then(|| self.budget(home).exceed(len as u64))?;
            Some(Share { held, len, home })
        })?;
        Some(self.buffer(share, main))
    }

    /// From now on buffers take no more than they need, from wherever there is some, until little is held. Returns
    /// whether that is new.
    pub(super) fn tighten(&self) -> bool {
        !self.is_tight.swap(true, Ordering::AcqRel)
    }

    /// Whether they do.
    pub(super) fn is_tight(&self) -> bool {
        let is_tight = self.is_tight.load(Ordering::Acquire);
        if is_tight && self.is_plenty(0) {
            self.is_tight.store(false, Ordering::Release);
            return false;
        }
        is_tight
    }

    /// Whether reads hold some of what writers may take, or shrink into.
    pub(super) fn is_held_by_reads(&self) -> bool {
        let budget = &self.source.budget;
        let others = budget.used().saturating_sub(self.used());
        let ours = self.any.limit() + self.whole.limit() + self.lent.limit();
        let kept = budget.limit() - ours;
        budget.shortage().is_some() || others > kept.saturating_sub(UPLOAD_PART_MIN)
    }

    /// Makes others give back what they can spare.
    pub(super) fn make_room(&self) {
        (self.source.make_room)();
    }

    /// A file that is larger than the first stages may be long: it is to get the whole part that is kept. Who is at a
    /// beginning takes that last.
    fn try_share_tight(&self, ask: Ask) -> Option<Share> {
        let whole = || self.try_home(Home::Whole, ask.whole);
        let exact = || self.try_exact(ask.tight, ask.whole, Budget::try_reserve_leaving);
        if ask.len == ask.whole {
            whole().or_else(exact)
        } else {
            exact().or_else(whole)
        }
    }

    fn try_home(&self, home: Home, len: usize) -> Option<Share> {
        let held = self.budget(home).try_reserve(len as u64, Purpose::Demand)?;
        Some(Share { held, len, home })
    }

    /// `len` bytes from wherever there are some, beside a `whole` part.
    fn try_exact(
        &self,
        len: usize,
        whole: usize,
        reserve: impl Fn(&Arc<Budget>, u64, u64) -> Option<Reservation>,
    ) -> Option<Share> {
        let homes = [(Home::Any, 0), (Home::Whole, whole), (Home::Lent, 0)];
        homes.into_iter().find_map(|(home, left)| {
            let held = reserve(self.budget(home), len as u64, left as u64)?;
            Some(Share { held, len, home })
        })
    }

    fn budget(&self, home: Home) -> &Arc<Budget> {
        match home {
            Home::Any => &self.any,
            Home::Whole => &self.whole,
            Home::Lent => &self.lent,
        }
    }

    /// What is asked for; no more than is needed now, when much is held already.
    fn fitting(&self, ask: Ask) -> usize {
        if self.is_plenty(ask.len) {
            ask.len
        } else {
            ask.least
        }
    }

    fn is_plenty(&self, len: usize) -> bool {
        self.any.used() + len as u64 <= self.any.limit() / WRITE_PLENTY_SHARE
    }

    fn buffer(&self, share: Share, main: Reservation) -> Buffer {
        let Share { held, len, home } = share;
        let grant = Grant {
            _share: held,
            _main: main,
        };
        let fill = self.source.pool.allocate_guarded(len, grant);
        Buffer { fill, home }
    }

    /// The memory itself.
    pub(super) fn pool(&self) -> &BlockPool {
        &self.source.pool
    }

    /// Bytes that writers hold.
    pub(super) fn used(&self) -> u64 {
        self.any.used() + self.whole.used() + self.lent.used()
    }
}

/// The buffer for `len` bytes that nobody adds to.
pub(super) fn tight(len: usize) -> usize {
    len.next_multiple_of(WRITE_STAGES[0])
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

    async fn waits(memory: &WriteMemory, ask: Ask) -> Buffer {
        memory.take(memory.share(ask).await).await
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
            tight: 5,
            whole: 100,
        };
        let held: Vec<_> = (0..10).map(|_| memory.try_take(ask).unwrap()).collect();
        let sizes: Vec<_> = held.iter().map(|it| it.fill.capacity()).collect();
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
            tight: 50,
            whole: 100,
        };
        let mut held: Vec<_> = (0..2).map(|_| memory.try_take(ask).unwrap()).collect();
        // The next one gets a whole part, which it can fill and send.
        let whole = memory.try_take(ask).unwrap();
        assert_eq!(whole.fill.capacity(), 100);
        assert!(memory.try_take(ask).is_none());
        let mut waiting = Box::pin(waits(&memory, ask));
        assert!((&mut waiting).now_or_never().is_none());
        drop(whole);
        let whole = waiting.now_or_never().expect("the part was sent");
        assert_eq!((whole.fill.capacity(), memory.used()), (100, 200));
        let mut waiting = Box::pin(waits(&memory, ask));
        assert!((&mut waiting).now_or_never().is_none());
        held.pop();
        assert_eq!(waiting.now_or_never().unwrap().fill.capacity(), 50);
        drop((held, whole));
        assert_eq!((memory.used(), memory.source.budget.used()), (0, 0));
    }

    #[test]
    fn when_memory_is_tight_one_whole_part_is_kept_and_reads_lend() {
        const MIB: usize = 1 << 20;
        // Writers have 40 of 80 MiB, and reads keep 32.
        let memory = memory(80 << 20);
        let ask = Ask {
            len: MIB,
            least: MIB,
            tight: MIB,
            whole: 9 * MIB,
        };
        let usual: Vec<_> = std::iter::from_fn(|| memory.try_take(ask)).collect();
        let sizes: Vec<_> = usual.iter().map(|it| it.fill.capacity() / MIB).collect();
        assert_eq!((&sizes[..20], &sizes[20..]), (&[1; 20][..], &[9, 9][..]));
        drop(usual);
        let held = memory.try_take(Ask {
            len: 6 * MIB,
            least: 6 * MIB,
            ..ask
        });
        assert!(memory.tighten() && !memory.tighten() && memory.is_tight());
        let tight: Vec<_> = std::iter::from_fn(|| memory.try_take(ask)).collect();
        let sizes: Vec<_> = tight.iter().map(|it| it.fill.capacity() / MIB).collect();
        // 14 of any size, 11 beside the whole part, 3 that reads lend, and the whole part.
        assert_eq!((&sizes[..28], &sizes[28..]), (&[1; 28][..], &[9][..]));
        assert_eq!(memory.used(), 43 << 20);
        // Buffers shrink within their share, but never into the whole part.
        let shrink = |from, home| memory.try_shrink(4 * MIB, (from, home), 9 * MIB);
        let shrunk = shrink(5 * MIB, Home::Lent).unwrap();
        assert_eq!((shrunk.home, memory.used()), (Home::Lent, 47 << 20));
        assert!(shrink(9 * MIB, Home::Whole).is_none());
        drop((held, tight, shrunk));
        // A file that goes on has the whole part first.
        let held = memory.try_take(Ask {
            len: 6 * MIB,
            least: 6 * MIB,
            ..ask
        });
        memory.tighten();
        let part = memory.try_take(Ask {
            len: 9 * MIB,
            least: 9 * MIB,
            ..ask
        });
        assert_eq!(part.unwrap().fill.capacity(), 9 * MIB);
        drop(held);
        assert!(!memory.is_tight(), "little is held");
    }
}
