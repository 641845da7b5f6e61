//! The cache on disk: versions of objects that outlive the mount.

mod directory;
mod eviction;
mod storage;
