//! Settings, resolved once at start-up, and the named bounds of everything that could grow.

mod cache;
pub mod limits;
pub mod scale;
mod settings;
pub mod shutdown;
mod staging;
mod write;

pub use cache::{CacheConfig, SharedCacheConfig};
pub use settings::{FsConfig, NamesConfig, PassthroughMode, ReadConfig, ReadMode};
pub use staging::{ConflictPolicy, StagingConfig, WriteBackConfig};
pub use write::{CopyLimits, WriteConfig};
