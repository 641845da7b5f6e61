//! Reading: which ranges to ask S3 for, and when a read can be answered.
//!
//! One range, one GET, one block of our own memory; a reply is slices of blocks, and nothing is copied. [`Reader`]
//! does, `Planner`, `Window` and `HedgePolicy` decide, `Flight` is a range in the
//! air, `Traces` remembers where files were read, [`ReadContext`] is what a mount's readers share. [`NextFiles`] has readers
//! of files that are not open yet.

mod context;
mod fetch;
mod layout;
pub mod mode;
mod object;
mod plan;
mod prefetch_budget;
mod reader;
mod sibling_prefetch;

pub use context::{ReadContext, ReadStats};
pub use reader::Reader;
pub use sibling_prefetch::{NextFile, NextFiles, NextFilesStats};

#[cfg(test)]
mod tests;
