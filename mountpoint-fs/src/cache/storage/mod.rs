//! The disk as the cache needs it.
//!
//! An entry is one version of one object: a *data* file with the object's bytes at their own
//! offsets, sparse where none were fetched, and an *index* file that tells which ranges are there,
//! with their checksums. No operation here is atomic over both files and nothing is ever flushed:
//! checksums in the index decide what counts, so any order of writes, any loss and any mixture of
//! two processes' work reads as a miss.
//!
//! Times: the data file's modification time is when bytes were last stored, its access time when
//! the entry was last used by an open file. Both are set by us, so `noatime` does not matter.

mod disk;
#[cfg(test)]
pub(crate) mod test_storage;
mod usage;

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use mountpoint_crt_sys::block::BlockFill;

pub(crate) use self::disk::DiskStorage;
pub(crate) use self::usage::Usage;

/// Name of an entry: a hash of the version that it holds. The first byte is its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EntryName(pub(crate) [u8; 16]);

impl EntryName {
    /// The shard, a folder of the cache directory.
    pub(crate) fn shard(self) -> u8 {
        self.0[0]
    }

    /// The entry of this text, as [`fmt::Display`] writes it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut name = [0; 16];
        if text.len() != 2 * name.len() {
            return None;
        }
        for (byte, pair) in name.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(name))
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// One of the two files of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FileKind {
    /// Which ranges are there, with checksums.
    Index,
    /// The bytes of the object.
    Data,
}

/// An entry as a scan of its shard shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListedEntry {
    pub(crate) name: EntryName,
    /// Bytes that both files occupy on the disk.
    pub(crate) bytes: u64,
    /// When bytes were last stored.
    pub(crate) stored_at: SystemTime,
    /// When the entry was last used by an open file.
    pub(crate) used_at: SystemTime,
    /// Whether both files are there.
    pub(crate) is_complete: bool,
}

/// The space of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskSpace {
    /// Size of the file system, in bytes.
    pub(crate) total: u64,
    /// Bytes that this process may still use.
    pub(crate) available: u64,
    /// Files that the file system can have; 0 where it has no such limit.
    pub(crate) files_total: u64,
    /// Files that this process may still make.
    pub(crate) files_available: u64,
}

/// The state of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStatus {
    /// Length in bytes.
    pub(crate) len: u64,
    /// Bytes that it occupies on the disk.
    pub(crate) allocated: u64,
    /// Whether it still has its name.
    pub(crate) is_linked: bool,
    /// Inode number.
    pub(crate) inode: u64,
    /// When its bytes were last changed.
    pub(crate) modified_at: SystemTime,
}

/// The files of one cache directory. Several processes may use one directory at once.
///
/// Every operation blocks for as long as the disk takes: no thread that serves requests calls one.
pub(crate) trait Storage: Send + Sync + fmt::Debug {
    /// Opens a file for reading and writing; `None` if there is none.
    fn open(&self, name: EntryName, kind: FileKind) -> io::Result<Option<Arc<dyn StoredFile>>>;

    /// Makes a file and opens it for reading and writing; `None` if it is there already. Of several
    /// processes that try at once, one makes it.
    fn create(&self, name: EntryName, kind: FileKind) -> io::Result<Option<Arc<dyn StoredFile>>>;

    /// Removes an entry, the index first. A file that is missing is no error.
    fn remove(&self, name: EntryName) -> io::Result<()>;

    /// All entries of a shard, in no order.
    fn list(&self, shard: u8) -> io::Result<Vec<ListedEntry>>;

    /// Size and free space of the disk.
    fn space(&self) -> io::Result<DiskSpace>;

    /// The right to evict, which one process of all that share the directory has; `None` while
    /// another one has it. Dropping it gives it back.
    fn lock_eviction(&self) -> io::Result<Option<Box<dyn Send>>>;

    /// Changes the estimate of what all entries occupy, which all processes share. Returns the new
    /// one, or `None` while another process changes it. A damaged or missing one is the default.
    fn update_usage(&self, change: &mut dyn FnMut(&mut Usage)) -> io::Result<Option<Usage>>;
}

/// An open file. It can be read and written when its name is gone, too.
pub(crate) trait StoredFile: Send + Sync + fmt::Debug {
    /// Fills `fill` with `len` bytes of the file from `offset` on. Returns how many; fewer only
    /// where the file ends.
    fn read_into(&self, fill: &mut BlockFill, offset: u64, len: usize) -> io::Result<usize>;

    /// Reads `buffer.len()` bytes from `offset` on. Returns how many; fewer only where the file
    /// ends.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Fills `buffer` from `offset` on if that needs no wait for the disk. Returns whether it did.
    /// Any thread may call this one.
    fn read_at_once(&self, buffer: &mut [u8], offset: u64) -> bool;

    /// Writes all of `bytes` at `offset` of a data file.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Appends all of `bytes` to an index file by one write, so that records of several processes
    /// do not mix. After an error some of `bytes` may be there.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;

    /// Length, occupied bytes, whether the name is still there.
    fn status(&self) -> io::Result<FileStatus>;

    /// Notes that the entry is used now.
    fn touch(&self) -> io::Result<()>;

    /// The file itself, for the kernel to read; `None` if there is no such file.
    fn file(&self) -> Option<Arc<File>>;
}
