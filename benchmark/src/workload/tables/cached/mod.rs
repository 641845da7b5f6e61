//! Files that are read again: out of the kernel's page cache, and out of a cache on disk.

pub(super) mod disk;
pub(super) mod page;
