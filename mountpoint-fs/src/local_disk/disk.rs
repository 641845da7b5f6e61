//! The local disk as its users need it: one folder of files, and what is durable when.
//!
//! Nothing is durable before a sync says so: bytes of a file until [`DiskFile::sync_data`], names
//! until [`Disk::sync`]. A power loss keeps any part of what was not synced, in any order. After a
//! failed sync the bytes on the disk are unknown; the caller gives the file up.
//!
//! Every operation blocks for as long as the disk takes: no thread that serves requests calls one.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use mountpoint_crt_sys::block::BlockFill;
use nix::fcntl::OFlag;

/// One folder of a disk.
pub(crate) trait Disk: Send + Sync + fmt::Debug {
    /// The names of all files, in no order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens a file for reading and writing, with more `flags` of `open`.
    fn open_with(&self, name: &str, flags: OFlag) -> io::Result<Arc<dyn DiskFile>>;

    /// Renames a file. Another file of the new name is replaced.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. A missing one is no error.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes all names durable.
    fn sync(&self) -> io::Result<()>;

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
    /// Length in bytes.
    fn size(&self) -> io::Result<u64>;

    /// Reads from `offset` on. Returns how many bytes; fewer than the buffer has only where the
    /// file ends.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`. After an error some of them may be there.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

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

    /// Gives back the room of `range`, whose bytes are needed no longer, if the disk can.
    fn discard(&self, _range: &Range<u64>) {}
}
