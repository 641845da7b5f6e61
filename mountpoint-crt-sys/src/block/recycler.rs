//! Memory of dropped blocks, kept for the next ones.
//!
//! Memory comes in size classes, four for each doubling, so that a block wastes at most a quarter
//! of its length; up to 64 KiB the allocator serves. Idle memory is bounded; beyond the bound, the
//! memory that has been idle longest goes. The allocator is told to give its own back when a
//! bound's worth of small blocks is no longer used.
//!
//! One lock guards the idle lists. It is held for a push or a pop, never for a system call.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::memory::{self, Memory, SMALL_MAX};

/// Memory of dropped blocks, up to a bound, and the counters of all that is in use.
pub(super) struct Recycler {
    idle: Mutex<Idle>,
    pub(super) idle_max: usize,
    pub(super) in_use: AtomicUsize,
    /// Bytes of small blocks in use, and the most since the allocator last gave memory back.
    small: AtomicUsize,
    small_peak: AtomicUsize,
}

/// Idle memory by class, oldest first.
struct Idle {
    classes: Vec<VecDeque<(u64, Memory)>>,
    bytes: usize,
    /// Counts returns; orders idle memory by age.
    clock: u64,
}

impl Recycler {
    pub(super) fn new(idle_max: usize) -> Self {
        let idle = Mutex::new(Idle {
            classes: Vec::new(),
            bytes: 0,
            clock: 0,
        });
        Self {
            idle,
            idle_max,
            in_use: AtomicUsize::new(0),
            small: AtomicUsize::new(0),
            small_peak: AtomicUsize::new(0),
        }
    }

    /// Memory for `len` bytes: idle memory of that class, or new.
    pub(super) fn memory(self: &Arc<Self>, len: usize) -> Pooled {
        let class = Class::of(len);
        let memory = self.take(class).unwrap_or_else(|| self.new_memory(class));
        self.count(&memory);
        Pooled {
            memory: Some(memory),
            pool: Arc::clone(self),
        }
    }

    /// Bytes of idle memory.
    pub(super) fn idle_bytes(&self) -> usize {
        self.idle.lock().bytes
    }

    /// Gives all idle memory back to the system.
    pub(super) fn trim(&self) {
        let idle = {
            let mut idle = self.idle.lock();
            idle.bytes = 0;
            std::mem::take(&mut idle.classes)
        };
        drop(idle);
        self.give_back_small(0);
    }

    fn take(&self, class: Class) -> Option<Memory> {
        let index = class.index?;
        let mut idle = self.idle.lock();
        let (_, memory) = idle.classes.get_mut(index)?.pop_back()?;
        idle.bytes -= memory.size();
        Some(memory)
    }

    /// Memory that no block had before, as a piece of a huge page where that is possible: the rest
    /// of the page is idle. A disk takes one long range of memory where small pages are hundreds.
    fn new_memory(&self, class: Class) -> Memory {
        let index = class.index.filter(|_| self.idle_max >= IDLE_OF_PIECES_MIN);
        let Some(index) = index else {
            return Memory::new(class.size);
        };
        let mut pieces = Memory::of_huge_page(class.size).into_iter();
        let Some(memory) = pieces.next() else {
            return Memory::new(class.size);
        };
        self.keep(index, pieces);
        memory
    }

    fn count(&self, memory: &Memory) {
        let size = memory.size();
        self.in_use.fetch_add(size, Ordering::Relaxed);
        if size <= SMALL_MAX {
            let small = self.small.fetch_add(size, Ordering::Relaxed) + size;
            self.small_peak.fetch_max(small, Ordering::Relaxed);
        }
    }

    fn put_back(&self, memory: Memory) {
        let size = memory.size();
        self.in_use.fetch_sub(size, Ordering::Relaxed);
        let Some(index) = Class::of(size).index else {
            drop(memory);
            self.small.fetch_sub(size, Ordering::Relaxed);
            self.give_back_small(self.idle_max.max(GIVE_BACK_MIN));
            return;
        };
        if memory.size() > self.idle_max {
            return;
        }
        self.keep(index, std::iter::once(memory));
    }

    /// Keeps memory of a class for the next blocks, at the cost of what is idle longest.
    fn keep(&self, index: usize, memory: impl Iterator<Item = Memory>) {
        let mut surplus = Vec::new();
        {
            let mut idle = self.idle.lock();
            memory.for_each(|memory| idle.push(index, memory));
            while idle.bytes > self.idle_max {
                surplus.extend(idle.pop_oldest());
            }
        }
        drop(surplus);
    }

    /// Has the allocator give memory back if more than `kept` bytes of small blocks came back since
    /// it last did: it keeps what was freed, and blocks of other sizes cannot use it.
    fn give_back_small(&self, kept: usize) {
        let peak = self.small_peak.load(Ordering::Relaxed);
        let small = self.small.load(Ordering::Relaxed);
        let is_due = peak.saturating_sub(small) > kept;
        // One of the threads that meet here does it.
        if is_due
            && self
                .small_peak
                .compare_exchange(peak, small, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            memory::trim_allocator();
        }
    }
}

impl Idle {
    fn push(&mut self, index: usize, memory: Memory) {
        if self.classes.len() <= index {
            self.classes.resize_with(index + 1, VecDeque::new);
        }
        self.clock += 1;
        self.bytes += memory.size();
        self.classes[index].push_back((self.clock, memory));
    }

    fn pop_oldest(&mut self) -> Option<Memory> {
        let age = |class: &VecDeque<(u64, Memory)>| class.front().map(|(age, _)| *age);
        let oldest = self
            .classes
            .iter_mut()
            .filter(|class| !class.is_empty())
            .min_by_key(|class| age(class))?;
        let (_, memory) = oldest.pop_front()?;
        self.bytes -= memory.size();
        Some(memory)
    }
}

/// Memory that returns to its pool when dropped.
pub(super) struct Pooled {
    memory: Option<Memory>,
    pool: Arc<Recycler>,
}

impl Pooled {
    pub(super) fn memory(&self) -> &Memory {
        self.memory.as_ref().expect("taken only by drop")
    }

    /// Makes the memory long enough for `len` bytes, of which the first `filled` stay. They are
    /// copied only if they are few: out of small memory, or into idle memory, which was touched
    /// before and is faster than new pages.
    pub(super) fn grow(&mut self, len: usize, filled: usize) {
        let class = Class::of(len);
        let memory = self.memory.as_mut().expect("taken only by drop");
        let size = memory.size();
        if class.size <= size {
            return;
        }
        let is_cheap = size <= SMALL_MAX || filled <= COPY_MAX;
        let idle = is_cheap.then(|| self.pool.take(class)).flatten();
        if idle.is_none() && size > SMALL_MAX && memory.grow(class.size) {
            let more = class.size - size;
            self.pool.in_use.fetch_add(more, Ordering::Relaxed);
            return;
        }
        let mut larger = idle.unwrap_or_else(|| Memory::new(class.size));
        larger.copy_from(memory, filled);
        self.pool.count(&larger);
        let smaller = std::mem::replace(memory, larger);
        self.pool.put_back(smaller);
    }

    /// Gives back the memory behind `len` bytes. They are copied only if they are few.
    pub(super) fn shrink(&mut self, len: usize) {
        let class = Class::of(len);
        let memory = self.memory.as_mut().expect("taken only by drop");
        let size = memory.size();
        if class.size >= size {
            return;
        }
        if class.size > SMALL_MAX {
            memory.cut(class.size);
            let less = size - class.size;
            self.pool.in_use.fetch_sub(less, Ordering::Relaxed);
            return;
        }
        let mut smaller = Memory::new(class.size);
        smaller.copy_from(memory, len);
        self.pool.count(&smaller);
        let larger = std::mem::replace(memory, smaller);
        self.pool.put_back(larger);
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.pool.put_back(memory);
        }
    }
}

/// How much memory a block of some length gets, and which idle list serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class {
    pub(super) size: usize,
    /// None: not kept.
    pub(super) index: Option<usize>,
}

impl Class {
    /// Sizes between two powers of two.
    const STEPS: usize = 4;

    pub(super) fn of(len: usize) -> Self {
        if len <= SMALL_MAX {
            return Self {
                size: len,
                index: None,
            };
        }
        let power = (len - 1).ilog2();
        let floor = 1_usize << power;
        let step = floor / Self::STEPS;
        let steps = (len - floor).div_ceil(step);
        let doublings = (power - SMALL_MAX.ilog2()) as usize;
        Self {
            size: floor + steps * step,
            index: Some(doublings * Self::STEPS + steps - 1),
        }
    }
}

/// A pool that keeps less has no room for the rest of a huge page.
const IDLE_OF_PIECES_MIN: usize = 32 << 20;

/// Up to here a copy into memory that was touched before is cheaper than new pages.
const COPY_MAX: usize = 1 << 20;

/// Less is not worth a walk through all that the allocator holds.
const GIVE_BACK_MIN: usize = 8 << 20;
