//! Caches of contents: on a local disk, and in a bucket that mounts share (`shared`).
//!
//! The cache on disk keeps versions of objects, which outlive the mount.
//! `cache` is what the read path sees. An `entry` is one version: a sparse data file and an `index`
//! of the ranges that are there, with checksums. `listings` are those of directories. `storage` has
//! the files of entries, `eviction` keeps to the room there is. `fill`
//! serves commands that fill a cache on purpose. Nothing here is ever flushed or trusted: bytes
//! without their checksum are a miss. doc/internals/cache.md has the format and the policies,
//! doc/internals/shared-cache.md those of the shared bucket.

#[expect(
    clippy::module_inception,
    reason = "the file is named after the type it defines"
)]
mod cache;
mod directory;
mod disk;
mod entry;
mod eviction;
mod fill;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod identity;
mod index;
mod index_memory;
mod listings;
pub(crate) mod maintenance;
mod open;
mod open_entries;
mod shared;
mod sources;
mod statistics;
mod storage;

pub(crate) use cache::CachedObject;
pub use cache::{Cache, CacheParts};
pub(crate) use fill::{CacheFill, FillError, ObjectFill};
pub use identity::StoreId;
pub(crate) use listings::{ListingStore, SavedListing, SavedName};
pub(crate) use shared::{BlockSource, FillObserver, SharedObject};
pub use shared::{CheckFailure, CheckedStep, SharedCache, SharedCacheParts, SharedCacheStats};
pub(crate) use sources::CachedCopies;
pub use sources::Caches;
pub use statistics::CacheStats;
pub(crate) use storage::ListedEntry;

#[cfg(test)]
mod tests;
