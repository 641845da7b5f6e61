//! The local disk as its users need it: one folder of files, and what is durable when.
//!
//! Nothing is durable before a sync says so: bytes of a file until [`DiskFile::sync_data`], names
//! until [`Disk::sync`]. A power loss keeps any part of what was not synced, in any order. After a
//! failed sync the bytes on the disk are unknown; the caller gives the file up.
//!
//! Every operation blocks for as long as the disk takes: no thread that serves requests calls one.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use mountpoint_crt_sys::block::BlockFill;
use nix::fcntl::OFlag;

/// The space of a disk.
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

/// The state of a file.
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
    /// When it was last used.
    pub(crate) used_at: SystemTime,
}

/// One folder of a disk.
pub(crate) trait Disk: Send + Sync + fmt::Debug {
    /// The names of all files, in no order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens a file for reading and writing, with more `flags` of `open`. Reads of it are no use of
    /// it: [`DiskFile::touch`] is one.
    fn open_with(&self, name: &str, flags: OFlag) -> io::Result<Arc<dyn DiskFile>>;

    /// Renames a file. Another file of the new name is replaced.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. A missing one is no error.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes all names durable.
    fn sync(&self) -> io::Result<()>;

    /// Opens the folder `name` in it, which must be ours alone, and makes it where it is missing if
    /// it `may_make` it. `None` if there is none.
    fn folder(&self, name: &str, may_make: bool) -> io::Result<Option<Arc<dyn Disk>>>;

    /// The state of a file; `None` if no file has the name.
    fn status(&self, name: &str) -> io::Result<Option<FileStatus>>;

    /// Size and free space of the disk.
    fn space(&self) -> io::Result<DiskSpace>;

    /// Makes a file and opens it; an error if the name is taken.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.open_with(name, OFlag::O_CREAT | OFlag::O_EXCL)
    }

    /// Opens a file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.open_with(name, OFlag::empty())
    }
}

/// An open file. Its bytes can be read after its name is gone, too.
pub(crate) trait DiskFile: Send + Sync + fmt::Debug {
    /// Its state.
    fn status(&self) -> io::Result<FileStatus>;

    /// Length in bytes.
    fn size(&self) -> io::Result<u64> {
        Ok(self.status()?.len)
    }

    /// Reads from `offset` on. Returns how many bytes; fewer than the buffer has only where the
    /// file ends.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`. After an error some of them may be there.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// As [`Self::write_at`]; many bytes take no room in the page cache, where the disk can do
    /// that.
    fn write_beside_page_cache(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(bytes, offset)
    }

    /// Appends all of `bytes` to a file that is open with `O_APPEND` by one write, so that those of
    /// several processes do not mix. After an error some of `bytes` may be there.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;

    /// Makes the file `len` bytes long, which are zeros, and claims their room on the disk. Returns
    /// whether the disk can do that: if not, a later write may find it full.
    fn allocate(&self, len: u64) -> io::Result<bool>;

    /// Makes the bytes that were written so far durable, and the length.
    fn sync_data(&self) -> io::Result<()>;

    /// Appends at most `len` bytes from `offset` on to `fill`, which has room for them. Returns how
    /// many; fewer only where the file ends.
    fn read_into(&self, fill: &mut BlockFill, offset: u64, len: usize) -> io::Result<usize> {
        let mut bytes = vec![0; len];
        let read = self.read_at(&mut bytes, offset)?;
        fill.append(&bytes[..read]);
        Ok(read)
    }

    /// Fills `buffer` from `offset` on if that needs no wait for the disk. Returns whether it did.
    /// Any thread may call this one.
    fn read_at_once(&self, _buffer: &mut [u8], _offset: u64) -> bool {
        false
    }

    /// Notes that the file is used now.
    fn touch(&self) -> io::Result<()>;

    /// Takes the lock of the file for as long as it is open here. `false` while it is locked.
    fn try_lock(&self) -> io::Result<bool>;

    /// The file itself, for the kernel to read; `None` if there is no such file.
    fn file(&self) -> Option<Arc<File>> {
        None
    }

    /// Gives back the room of `range`, whose bytes are needed no longer, if the disk can.
    fn discard(&self, _range: &Range<u64>) {}
}
