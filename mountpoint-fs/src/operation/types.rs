//! What operations take and return.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mountpoint_crt_sys::block::Block;
use smallvec::SmallVec;

/// What the kernel knows a file by; valid while its lookup count is above 0. The root is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InodeNo(pub u64);

impl InodeNo {
    /// The mounted prefix itself.
    pub const ROOT: Self = Self(1);
}

/// One open, from `open` or `opendir` to `release` or `releasedir`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandleNo(pub u64);

/// The two kinds of inode there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// An object.
    File,
    /// A prefix.
    Directory,
}

/// stat data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Of which inode.
    pub ino: InodeNo,
    /// File or directory.
    pub kind: FileKind,
    /// Size in bytes; 0 for directories.
    pub size: u64,
    /// Time of the last change; mount time for directories.
    pub mtime: SystemTime,
    /// Permission bits; 0 for an archived object, which nobody can read.
    pub mode: u16,
    /// Number of links: 1, 2 for directories.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// How long the kernel may keep them, counted from the reply.
    pub ttl: Duration,
}

/// Reply to `lookup`: the lookup count of the inode was raised by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What the name means.
    pub attributes: Attributes,
    /// How long the kernel may keep the name, counted from the reply.
    pub ttl: Duration,
}

/// How a file is to be opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// `O_RDONLY`, `O_WRONLY` or `O_RDWR` asks for writing.
    pub write: bool,
    /// `O_DIRECT`: every read is to reach the store.
    pub direct: bool,
    /// The thread that opens, as this process numbers it; 0 if it cannot.
    pub process: u32,
}

/// How a file is to be opened for writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// `O_TRUNC`: what is there goes.
    pub truncate: bool,
    /// `O_APPEND`: every write goes behind what is there.
    pub append: bool,
    /// `O_SYNC` or `O_DSYNC`: a write returns when it is stored.
    pub synchronous: bool,
}

/// Reply to `open`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The handle.
    pub handle: HandleNo,
    /// Replies go to the application without passing through the page cache (`FOPEN_DIRECT_IO`).
    pub direct_io: bool,
    /// Pages cached by an earlier open are still right (`FOPEN_KEEP_CACHE`).
    pub keep_cache: bool,
    /// `close` is to be told of, and its error to be returned.
    pub flush: bool,
}

/// Slices of blocks. Most replies are of one or two, which take no memory of their own.
pub type Slices = SmallVec<[(Block, Range<usize>); 2]>;

/// Bytes of a file as slices of blocks, in order: what one `writev` sends.
#[derive(Clone, Debug, Default)]
pub struct ReadData {
    /// Valid ranges of blocks.
    pub slices: Slices,
}

impl ReadData {
    /// Bytes in all slices together.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slices.iter().map(|(_, range)| range.len()).sum()
    }

    /// Whether there are none: the read began at or behind the end of the file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One name of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name; `.` and `..` included.
    pub name: String,
    /// Pass it to the next `read_directory` to continue behind this entry.
    pub next_offset: u64,
    /// Attributes and entry validity; of `.` and `..` only the inode number and the kind are used.
    pub entry: Entry,
}

/// Where directory entries go: the reply that is being filled.
pub trait DirectorySink: Send {
    /// Adds an entry, or returns `false` and is full.
    fn add(&mut self, entry: &DirectoryEntry) -> bool;
}

/// A name that the kernel had better forget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleName {
    /// The directory it is in.
    pub directory: InodeNo,
    /// The name.
    pub name: Arc<str>,
}

/// Reply to `statfs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatFs {
    /// Size of a block in bytes.
    pub block_size: u32,
    /// Blocks in all and free: a bucket has no end.
    pub blocks: u64,
    /// Longest name.
    pub name_len_max: u32,
}
