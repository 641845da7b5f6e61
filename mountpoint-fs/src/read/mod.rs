//! Reading: which ranges to ask S3 for, and when a read can be answered.
//!
//! One range, one GET, one block of our own memory; a reply is slices of blocks, and nothing is
//! copied. [`Reader`] does, `plan` and `HedgePolicy` decide, `Fetch` is a range in flight,
//! `LayoutCache` remembers where files were read, [`ReadContext`] is what a mount's readers share.
//! [`SiblingPrefetch`] has readers of files that are not open yet, and [`mode`] chooses between the
//! page cache and direct replies.

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
pub use sibling_prefetch::{Sibling, SiblingPrefetch, SiblingPrefetchStats};

#[cfg(test)]
mod tests;
