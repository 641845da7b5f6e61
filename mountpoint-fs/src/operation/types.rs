//! Arguments and results of operations.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mountpoint_crt_sys::block::Block;
use smallvec::SmallVec;

use super::local::LocalVersion;

/// The kernel's number of a file; valid while its lookup count is above 0.
///
/// The root is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InodeNo(pub u64);

impl InodeNo {
    /// The mounted prefix itself.
    pub const ROOT: Self = Self(1);
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
    /// An object whose metadata mark it as a link; only with `--posix-metadata`, as the next two.
    SymbolicLink,
    /// An object that marks a pipe, which the kernel serves.
    Pipe,
    /// An object that marks a socket, which the kernel serves.
    Socket,
}

/// stat data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The inode.
    pub ino: InodeNo,
    /// File type.
    pub kind: FileKind,
    /// Size in bytes; 0 for directories.
    pub size: u64,
    /// Time of the last change.
    pub mtime: SystemTime,
    /// Permission bits; 0 for an archived object, which cannot be read.
    pub mode: u16,
    /// Number of links: 1, or 0 where the name was removed.
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
    /// Attributes of the inode.
    pub attributes: Attributes,
    /// How long the kernel may keep the name, counted from the reply.
    pub ttl: Duration,
}

/// Options of an open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// `O_RDONLY`, `O_WRONLY` or `O_RDWR` asks for writing.
    pub write: bool,
    /// `O_DIRECT`: every read must reach the store.
    pub direct: bool,
    /// The thread that opens, as numbered in this process's namespace. 0 if it has no number there.
    pub process: u32,
    /// The lookup of the same system call has just asked S3 about the file.
    pub is_vouched: bool,
}

/// Options of an open for writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "flags of `open` are independent of each other"
)]
pub struct WriteOptions {
    /// `O_TRUNC`: the existing bytes are dropped.
    pub truncate: bool,
    /// `O_EXCL`: an open that makes the file fails if the file exists.
    pub exclusive: bool,
    /// `O_APPEND`: every write goes to the end of the file.
    pub append: bool,
    /// `O_SYNC` or `O_DSYNC`: a write returns when it is stored.
    pub synchronous: bool,
    /// `O_RDWR`: the file may be read and mapped, too.
    pub both: bool,
    /// Permission bits of a new file; kept with `--posix-metadata`.
    pub mode: Option<u16>,
    /// The lookup of the same system call has just asked S3 about the file.
    pub is_vouched: bool,
    /// The user that makes the file, unless that is the mount's.
    pub maker: Option<Maker>,
}

/// A user and a group that a new file belongs to, where that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maker {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// Reply to `open`.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The handle.
    pub handle: HandleNo,
    /// Replies go to the application without passing through the page cache (`FOPEN_DIRECT_IO`).
    pub direct_io: bool,
    /// Pages cached by an earlier open are still valid (`FOPEN_KEEP_CACHE`).
    pub keep_cache: bool,
    /// The file system wants to see each `close`, and `close` returns its error.
    pub flush: bool,
    /// The source of reads, if nothing else can happen to the file through this handle: the kernel
    /// may read a local file of that version by itself.
    pub local: Option<LocalVersion>,
}

/// How `rename` treats an existing destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// Replaces the destination.
    Replace,
    /// Refuses (`RENAME_NOREPLACE`).
    KeepExisting,
}

/// A new time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeChange {
    /// The time of the change.
    Now,
    /// A time counted from 1970.
    At {
        /// Whole seconds, negative before 1970.
        seconds: i64,
        /// Nanoseconds within the second.
        nanos: u32,
    },
}

impl TimeChange {
    /// Whether the change leaves the time `time` as it is.
    #[must_use]
    pub fn is(self, time: SystemTime) -> bool {
        matches!(self, Self::At { .. }) && self.time(time) == Some(time)
    }

    /// The new time, if the change is made at `now`. `None` if no clock can have that time.
    #[must_use]
    pub fn time(self, now: SystemTime) -> Option<SystemTime> {
        match self {
            Self::Now => Some(now),
            Self::At { seconds, nanos } => {
                let distance = Duration::from_secs(seconds.unsigned_abs());
                let whole = match seconds < 0 {
                    true => SystemTime::UNIX_EPOCH.checked_sub(distance),
                    false => SystemTime::UNIX_EPOCH.checked_add(distance),
                };
                // Nanoseconds count forward before 1970, too.
                whole?.checked_add(Duration::from_nanos(nanos.into()))
            }
        }
    }
}

/// How setting an extended attribute treats an existing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetMode {
    /// Sets the value in either case.
    Any,
    /// The attribute must be new (`XATTR_CREATE`).
    Create,
    /// The attribute must exist (`XATTR_REPLACE`).
    Replace,
}

/// The effect of `fallocate` on a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocateMode {
    /// Room for its bytes.
    Reserve {
        /// Whether the file is not made longer (`FALLOC_FL_KEEP_SIZE`).
        keeps_size: bool,
    },
    /// Zeros (`FALLOC_FL_PUNCH_HOLE`, `FALLOC_FL_ZERO_RANGE`).
    Zero {
        /// Whether the file is not made longer.
        keeps_size: bool,
    },
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
    /// The open file of an `ftruncate`.
    pub handle: Option<HandleNo>,
    /// Whether it takes the set-ID bits from a file: its user may not keep them.
    pub drops_set_id: bool,
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

    /// Whether there are no bytes. The read began at or behind the end of the file.
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
    /// Attributes and entry validity, as far as `detail` says.
    pub entry: Entry,
    /// How much of `entry` is known.
    pub detail: EntryDetail,
}

/// How much is known of an entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryDetail {
    /// All: the kernel's lookup count of its inode rises.
    Attributes,
    /// Inode number and kind. The kernel looks it up when it needs more.
    Kind,
    /// As [`Self::Kind`], but what seems to be a file may be a symbolic link.
    KindUnlessLink,
}

/// The destination of directory entries: the reply that is being filled.
pub trait DirectorySink: Send {
    /// Adds an entry, or returns `false` and is full.
    fn add(&mut self, entry: &DirectoryEntry) -> bool;
}

/// A name that the kernel should forget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleName {
    /// Its directory.
    pub directory: InodeNo,
    /// The name.
    pub name: Arc<str>,
}

/// Names of unused files, while the table has too many inodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictionBatch {
    /// The names that the kernel should forget: a few of many.
    pub names: Vec<StaleName>,
    /// The pause before the next batch, once the kernel was told these.
    pub pause: Duration,
}

/// Reply to `statfs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatFs {
    /// Size of a block in bytes.
    pub block_size: u32,
    /// Blocks in all and free: a bucket has no size limit.
    pub blocks: u64,
    /// Longest name.
    pub name_len_max: u32,
}
