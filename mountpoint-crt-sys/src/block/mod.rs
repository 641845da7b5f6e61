//! Blocks: reference-counted pieces of memory that one writer fills from the start while readers
//! use the valid bytes.
//!
//! [`BlockPool`] hands out a [`BlockFill`], the one right to write; [`Block`]s are the readers'
//! handles. The C library writes straight into a block through the crate-private `Unfilled`. Knows
//! nothing of the bytes' meaning, and of no budget: it never waits for memory.
//!
//! Invariant: bytes `..valid()` never change while a [`Block`] is there; only the one [`BlockFill`]
//! writes, behind them.
//!
//! Any thread may use any of the types; publishing is one Release store, reading one Acquire load.

mod fill;
mod memory;
mod pool;
mod recycler;

pub use fill::{Block, BlockFill};
pub use memory::trim_allocator;
pub use pool::BlockPool;

pub(crate) use fill::Unfilled;

#[cfg(test)]
mod tests;
