//! Blocks: reference-counted pieces of memory that one writer fills from the front while readers use what is valid.
//!
//! Invariant: bytes `..valid()` never change again; only the one [`BlockFill`] writes, behind them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Hands out blocks and keeps the memory of dropped ones for the next, up to a bound.
#[derive(Clone, Debug)]
pub struct BlockPool {}

impl BlockPool {
    /// A pool that keeps at most `idle_max` bytes of memory that no block uses.
    #[must_use]
    pub fn new(idle_max: usize) -> Self {
        let _ = idle_max;
        unimplemented!()
    }

    /// Bytes kept for the next blocks.
    #[must_use]
    pub fn idle_bytes(&self) -> usize {
        unimplemented!()
    }

    /// Bytes in blocks that are alive.
    #[must_use]
    pub fn bytes_in_use(&self) -> usize {
        unimplemented!()
    }

    /// Gives all idle memory back to the system.
    pub fn trim(&self) {
        unimplemented!()
    }

    /// A block of exactly `len` bytes, none of them valid yet.
    #[must_use]
    pub fn allocate(&self, len: usize) -> BlockFill {
        let _ = len;
        unimplemented!()
    }
}

/// The right to fill a block; there is one for each block. Dropping it ends the filling.
pub struct BlockFill(Block);

impl BlockFill {
    /// Another reader's handle of the block.
    #[must_use]
    pub fn block(&self) -> Block {
        self.0.clone()
    }

    /// Size of the block in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Bytes filled so far: those that [`Block::valid`] tells.
    #[must_use]
    pub fn filled(&self) -> usize {
        self.0.valid()
    }

    /// Appends and publishes `bytes`. Panics if they do not fit.
    pub fn append(&mut self, bytes: &[u8]) {
        let _ = bytes;
        unimplemented!()
    }
}

impl fmt::Debug for BlockFill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A reader's handle of a block. The memory returns to the pool with the last handle.
#[derive(Clone, Debug)]
pub struct Block(Arc<()>);

impl Block {
    /// Size in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        unimplemented!()
    }

    /// How many bytes from the front are valid. Grows only.
    #[must_use]
    pub fn valid(&self) -> usize {
        unimplemented!()
    }

    /// The bytes of `range`. Panics unless `range.end <= valid()`.
    #[must_use]
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        let _ = range;
        unimplemented!()
    }
}
