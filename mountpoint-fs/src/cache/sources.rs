//! The caches of a mount, in the order in which they are asked: the disk, then the shared bucket.

use std::sync::Arc;

use super::cache::{Cache, CachedObject};
use super::shared::{SharedCache, SharedObject};

/// The caches of a mount.
#[derive(Clone, Debug, Default)]
pub struct Caches {
    /// Content on a local disk.
    pub disk: Option<Arc<Cache>>,
    /// Content in a bucket that mounts share.
    pub shared: Option<Arc<SharedCache>>,
}

/// One version in the caches of a mount.
#[derive(Clone, Debug, Default)]
pub(crate) struct CachedCopies {
    /// The version on the disk.
    pub(crate) disk: Option<CachedObject>,
    /// The version in the shared bucket.
    pub(crate) shared: Option<SharedObject>,
}
