//! An open file of a local file system.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use mountpoint_crt_sys::block::BlockFill;
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};

use super::disk::DiskFile;

/// A file of a [`Folder`](super::Folder).
#[derive(Debug)]
pub(super) struct LocalFile(pub(super) File);

impl DiskFile for LocalFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let (mut read, mut at) = (0, offset);
        while read < buffer.len() {
            match self.0.read_at(&mut buffer[read..], at) {
                Ok(0) => break,
                Ok(len) => (read, at) = (read + len, at + len as u64),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn allocate(&self, len: u64) -> io::Result<bool> {
        let end = i64::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        match fallocate(&self.0, FallocateFlags::empty(), 0, end) {
            Err(Errno::EOPNOTSUPP) => self.0.set_len(len).map(|()| false),
            allocated => Ok(allocated.map(|()| true)?),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn read_into(&self, fill: &mut BlockFill, offset: u64, len: usize) -> io::Result<usize> {
        fill.read_from(&self.0, offset, len)
    }

    fn discard(&self, range: &Range<u64>) {
        let offset = libc::off_t::try_from(range.start);
        let len = libc::off_t::try_from(range.end - range.start);
        if let (Ok(offset), Ok(len)) = (offset, len) {
            let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
            // A file system without holes gives the space back when the file is removed.
            fallocate(&self.0, flags, offset, len).ok();
        }
    }
}
