//! The pool: hands out blocks, whose memory is recycled.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::fill::BlockFill;
use super::recycler::{Class, Recycler};

/// Hands out blocks and keeps the memory of dropped ones for the next, up to a bound. Clones share
/// the memory.
#[derive(Clone)]
pub struct BlockPool {
    recycler: Arc<Recycler>,
}

impl BlockPool {
    /// A pool that keeps at most `idle_max` bytes of memory that no block uses.
    #[must_use]
    pub fn new(idle_max: usize) -> Self {
        Self {
            recycler: Arc::new(Recycler::new(idle_max)),
        }
    }

    /// A block of exactly `len` bytes, none of them valid yet. Aborts the process when the system
    /// has no memory.
    #[must_use]
    pub fn allocate(&self, len: usize) -> BlockFill {
        BlockFill::new(self.recycler.memory(len), len, None)
    }

    /// A block with a `guard` that is dropped when its memory goes back: a share of a budget, say.
    #[must_use]
    pub fn allocate_guarded(&self, len: usize, guard: impl Send + Sync + 'static) -> BlockFill {
        BlockFill::new(self.recycler.memory(len), len, Some(Box::new(guard)))
    }

    /// Bytes of memory that a block of `len` bytes gets.
    #[must_use]
    pub fn memory_of(len: usize) -> usize {
        Class::of(len).size
    }

    /// Bytes of memory kept for the next blocks.
    #[must_use]
    pub fn idle_bytes(&self) -> usize {
        self.recycler.idle_bytes()
    }

    /// Bytes of memory behind the blocks that are alive; a little more than the sum of their
    /// lengths.
    #[must_use]
    pub fn bytes_in_use(&self) -> usize {
        self.recycler.in_use.load(Ordering::Relaxed)
    }

    /// Gives all idle memory back to the system.
    pub fn trim(&self) {
        self.recycler.trim();
    }
}

impl fmt::Debug for BlockPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockPool")
            .field("in_use", &self.bytes_in_use())
            .field("idle", &self.idle_bytes())
            .field("idle_max", &self.recycler.idle_max)
            .finish()
    }
}
