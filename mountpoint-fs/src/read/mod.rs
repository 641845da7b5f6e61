//! Reading: which ranges to ask S3 for, and when a read can be answered.
//!
//! One range, one GET, one block of our own memory; a reply is slices of blocks, and nothing is copied. [`Reader`]
//! does, `Planner`, `Window` and `HedgePolicy` decide, `Flight` is a range in the air, [`ReadContext`] is what a mount's readers share.

mod blocks;
mod context;
mod delay;
mod flight;
mod hedge;
mod hedger;
mod planner;
mod reader;
mod stride;
mod tracks;
mod window;

pub use context::{ReadContext, ReadStats};
pub use reader::Reader;

#[cfg(test)]
mod tests;
