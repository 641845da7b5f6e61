//! Reading: which ranges to ask S3 for, and when a read can be answered.
//!
//! One range, one GET, one block of our own memory; a reply is slices of blocks, and nothing is
//! copied. [`Reader`] is one open file, `object` one open version; `plan` and `layout` decide what
//! to ask for, `fetch` asks. [`SiblingPrefetch`] reads files that are not open yet, and [`mode`]
//! chooses between the page cache and direct replies.
//!
//! Imports run one way: `context` → `object` → `resources` → `fetch` → `block_memory`.

mod block_memory;
mod context;
mod fetch;
mod layout;
mod local;
pub mod mode;
mod object;
mod object_version;
mod plan;
mod prefetch_budget;
mod reader;
mod renewals;
mod resources;
mod sibling_prefetch;

pub(crate) use block_memory::MemoryHolder;
pub use context::{ReadContext, ReadStats};
pub use fetch::HEDGE_BURST;
pub use plan::STRIDE_RUNS_MAX;
#[cfg(test)]
pub(crate) use prefetch_budget::SIBLING_BUDGET;
pub use reader::Reader;
pub use sibling_prefetch::{SIBLINGS_AHEAD_MAX, Sibling, SiblingPrefetch, SiblingPrefetchStats};

#[cfg(test)]
mod tests;
