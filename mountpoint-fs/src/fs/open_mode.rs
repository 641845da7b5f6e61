//! How the kernel treats the pages of a file that is opened.

use crate::operation::OpenOptions;

/// What a reply to `open` says of the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpenMode {
    pub(super) direct_io: bool,
    pub(super) keep_cache: bool,
}

impl OpenMode {
    /// Pages are always worth keeping: an inode is one version of an object, so pages of it are never of another.
    pub(super) fn choose(options: OpenOptions) -> Self {
        Self {
            direct_io: options.direct,
            keep_cache: true,
        }
    }
}
