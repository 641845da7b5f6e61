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

    /// A number that no inode has, for a name that is listed and not looked up yet: inodes are counted up from 1.
    #[must_use]
    pub fn provisional(hash: u64) -> Self {
        Self(hash & !Self::UNKNOWN_KIND | Self::PROVISIONAL)
    }

    /// The same number for a name that may turn out to be a symbolic link.
    #[must_use]
    pub fn of_unknown_kind(self) -> Self {
        Self(self.0 | Self::UNKNOWN_KIND)
    }

    /// Whether the name may turn out to be a symbolic link.
    #[must_use]
    pub fn is_of_unknown_kind(self) -> bool {
        self.is_provisional() && self.0 & Self::UNKNOWN_KIND != 0
    }

    /// Whether no inode has this number.
    #[must_use]
    pub fn is_provisional(self) -> bool {
        self.0 & Self::PROVISIONAL != 0
    }

    const PROVISIONAL: u64 = 1 << 63;
    const UNKNOWN_KIND: u64 = 1 << 62;
}

/// One open, from `open` or `opendir` to `release` or `releasedir`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandleNo(pub u64);

/// The kinds of inode there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// An object.
    File,
    /// A prefix.
    Directory,
    /// An object that says it is one; only with `--posix-metadata`.
    SymbolicLink,
}

/// stat data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Of which inode.
    pub ino: InodeNo,
    /// What it is.
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
#[expect(
    clippy::struct_excessive_bools,
    reason = "flags of `open` are independent of each other"
)]
pub struct WriteOptions {
    /// `O_TRUNC`: what is there goes.
    pub truncate: bool,
    /// `O_APPEND`: every write goes behind what is there.
    pub append: bool,
    /// `O_SYNC` or `O_DSYNC`: a write returns when it is stored.
    pub synchronous: bool,
    /// `O_RDWR`: it may be read and mapped, too.
    pub both: bool,
    /// Permission bits of a new file; kept with `--posix-metadata`.
    pub mode: Option<u16>,
}

/// Reply to `open`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what an open says is independent of each other"
)]
pub struct Opened {
    /// The handle.
    pub handle: HandleNo,
    /// Replies go to the application without passing through the page cache (`FOPEN_DIRECT_IO`).
    pub direct_io: bool,
    /// It may be longer the next time it is read: its replies must not pass through the page cache.
    pub grows: bool,
    /// Pages cached by an earlier open are still right (`FOPEN_KEEP_CACHE`).
    pub keep_cache: bool,
    /// `close` is to be told of, and its error to be returned.
    pub flush: bool,
}

/// What `rename` does with what has the new name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// Replaces it.
    Replace,
    /// Refuses (`RENAME_NOREPLACE`).
    KeepExisting,
}

/// A new time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeChange {
    /// That of the change.
    Now,
    /// Counted from 1970.
    At {
        /// Whole seconds, negative before 1970.
        seconds: i64,
        /// Nanoseconds behind them.
        nanos: u32,
    },
}

impl TimeChange {
    /// Whether it changes nothing where the time is `time`.
    #[must_use]
    pub fn is(self, time: SystemTime) -> bool {
        let since = time.duration_since(SystemTime::UNIX_EPOCH);
        match (self, since) {
            (Self::At { seconds, nanos }, Ok(since)) => {
                u64::try_from(seconds) == Ok(since.as_secs()) && nanos == since.subsec_nanos()
            }
            _ => false,
        }
    }
}

/// What setting an extended attribute does with one that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetMode {
    /// Gives it the value, whether it is there or not.
    Any,
    /// It is not to be there (`XATTR_CREATE`).
    Create,
    /// It is to be there (`XATTR_REPLACE`).
    Replace,
}

/// Attributes to change; `None` where one stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttributeChange {
    /// Permission bits.
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size in bytes: `truncate`.
    pub size: Option<u64>,
    /// Time of the last access.
    pub atime: Option<TimeChange>,
    /// Time of the last change.
    pub mtime: Option<TimeChange>,
    /// The open file that is meant: `ftruncate`.
    pub handle: Option<HandleNo>,
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

    /// A copy of the bytes.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        for (block, range) in &self.slices {
            bytes.extend_from_slice(block.bytes(range.clone()));
        }
        bytes
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

/// Files that nobody uses while there are too many inodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surplus {
    /// What the kernel had better forget: a few of many.
    pub names: Vec<StaleName>,
    /// When the next are to be asked for, once the kernel was told these.
    pub pause: Duration,
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
