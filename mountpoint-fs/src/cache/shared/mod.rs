//! The shared tier of the cache: contents in a bucket that all nodes of a fleet use.
//!
//! Asked behind the disk and before S3, filled behind the reader. `shared_cache` is what the read
//! path sees, `format` the bucket's content, `policy` decides when to ask and fill; `read` and
//! `store` carry that out. Never the reason of a failed read, and never trusted: what has not
//! its checksum is a miss. doc/internals/shared-cache.md has more.

mod check;
mod extent;
mod format;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz;
mod policy;
mod read;
mod receive;
mod shared_cache;
mod statistics;
mod store;
mod tier;

pub use check::{CheckFailure, CheckedStep};
pub(crate) use receive::FillObserver;
pub use shared_cache::SharedCache;
pub(crate) use shared_cache::SharedObject;
pub use statistics::SharedCacheStats;
pub(crate) use tier::BlockSource;
pub use tier::SharedCacheParts;

#[cfg(test)]
mod tests;
