//! Numbers that the parts of a file system keep for themselves, for metrics.

use super::file_system::FileSystem;
use crate::namespace::WalkStats;
use crate::read::{ReadStats, SiblingPrefetchStats};

/// The numbers of a file system at one time.
#[derive(Clone, Copy, Debug)]
pub struct FileSystemStats {
    /// GETs and memory.
    pub read: ReadStats,
    /// Bytes that readers have read so far.
    pub consumed: u64,
    /// Files that were fetched before they were opened.
    pub sibling_prefetch: SiblingPrefetchStats,
    /// LISTs ahead of walks.
    pub walks: WalkStats,
    /// How often a listing met a key that cannot be shown.
    pub hidden_keys: u64,
    /// Inodes besides the root.
    pub inodes: usize,
    /// Open handles of files.
    pub open_files: usize,
    /// Open handles of directories.
    pub open_directories: usize,
    /// Written bytes that S3 does not have yet.
    pub write_held: u64,
    /// Multipart uploads in progress.
    pub uploads: usize,
    /// Entries of the journal that are not done.
    pub journal_entries: usize,
}

impl FileSystem {
    /// The numbers now.
    #[must_use]
    pub fn statistics(&self) -> FileSystemStats {
        FileSystemStats {
            read: self.reading.stats(),
            consumed: self.reading.consumed(),
            sibling_prefetch: self.sibling_prefetch(),
            walks: self.walk_stats(),
            hidden_keys: self.hidden_keys(),
            inodes: self.inode_count(),
            open_files: self.files.len(),
            open_directories: self.directories.len(),
            write_held: self.writing.bytes_held(),
            uploads: self.writing.uploads(),
            journal_entries: self.writing.journal_entries(),
        }
    }
}
