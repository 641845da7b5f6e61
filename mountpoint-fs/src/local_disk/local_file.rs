//! An open file of a local file system.

use std::fs::File;
use std::io::{self, IoSliceMut, Write as _};
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use mountpoint_crt_sys::block::BlockFill;
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, OFlag, fallocate};
use nix::sys::stat::{FileStat, fstat, futimens};
use nix::sys::time::TimeSpec;
use rustix::io::{ReadWriteFlags, preadv2};

use super::disk::{DiskFile, FileStatus};
use super::lock;

/// A file of a [`Folder`](super::Folder).
#[derive(Debug)]
pub(super) struct LocalFile {
    file: Arc<File>,
    /// Whether Linux appends whatever is written.
    appends: bool,
    /// A descriptor past the page cache; `None` where the file system cannot do that.
    direct: OnceLock<Option<File>>,
}

impl LocalFile {
    /// The file, which was opened with `flags`.
    pub(super) fn new(file: File, flags: OFlag) -> Self {
        Self {
            file: Arc::new(file),
            appends: flags.contains(OFlag::O_APPEND),
            direct: OnceLock::new(),
        }
    }

    /// Writes what of `bytes` can go past the page cache, if they are many. Returns how many bytes
    /// that were.
    fn write_direct(&self, bytes: &[u8], offset: u64) -> usize {
        let is_aligned = bytes.as_ptr().addr().is_multiple_of(DIRECT_BLOCK)
            && offset.is_multiple_of(DIRECT_BLOCK as u64);
        let len = bytes.len() - bytes.len() % DIRECT_BLOCK;
        if len < DIRECT_MIN || !is_aligned {
            return 0;
        }
        let reopen = || {
            let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            let mut options = File::options();
            options.write(true).custom_flags(OFlag::O_DIRECT.bits());
            options.open(path).ok()
        };
        let Some(direct) = self.direct.get_or_init(reopen) else {
            return 0;
        };
        // Bytes that fail here are written through the page cache, or fail there again.
        direct
            .write_all_at(&bytes[..len], offset)
            .map_or(0, |()| len)
    }
}

impl FileStatus {
    pub(super) fn of(status: &FileStat) -> Self {
        let blocks = u64::try_from(status.st_blocks).unwrap_or_default();
        Self {
            len: u64::try_from(status.st_size).unwrap_or_default(),
            // Blocks are counted in 512 bytes on every file system.
            allocated: blocks.saturating_mul(512),
            is_linked: status.st_nlink > 0,
            inode: status.st_ino,
            modified_at: time(status.st_mtime, status.st_mtime_nsec),
            used_at: time(status.st_atime, status.st_atime_nsec),
        }
    }
}

fn time(secs: i64, nanos: i64) -> SystemTime {
    let nanos = u32::try_from(nanos).unwrap_or_default();
    let since = u64::try_from(secs).map(|secs| Duration::new(secs, nanos));
    let time = SystemTime::UNIX_EPOCH.checked_add(since.unwrap_or_default());
    time.unwrap_or(SystemTime::UNIX_EPOCH)
}

impl DiskFile for LocalFile {
    fn status(&self) -> io::Result<FileStatus> {
        Ok(FileStatus::of(&fstat(&*self.file)?))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let (mut read, mut at) = (0, offset);
        while read < buffer.len() {
            match self.file.read_at(&mut buffer[read..], at) {
                Ok(0) => break,
                Ok(len) => (read, at) = (read + len, at + len as u64),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        assert!(!self.appends);
        self.file.write_all_at(bytes, offset)
    }

    fn write_beside_page_cache(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let done = self.write_direct(bytes, offset);
        self.write_at(&bytes[done..], offset + done as u64)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        assert!(self.appends);
        let written = loop {
            match (&*self.file).write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                written => break written?,
            }
        };
        if written == bytes.len() {
            Ok(())
        } else {
            // The rest would come behind another process's record.
            Err(io::Error::from(io::ErrorKind::WriteZero))
        }
    }

    fn allocate(&self, len: u64) -> io::Result<bool> {
        let end = i64::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        match fallocate(&*self.file, FallocateFlags::empty(), 0, end) {
            Err(Errno::EOPNOTSUPP) => self.file.set_len(len).map(|()| false),
            allocated => Ok(allocated.map(|()| true)?),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn read_into(&self, fill: &mut BlockFill, offset: u64, len: usize) -> io::Result<usize> {
        fill.read_from(&self.file, offset, len)
    }

    fn read_at_once(&self, buffer: &mut [u8], offset: u64) -> bool {
        let len = buffer.len();
        let slices = &mut [IoSliceMut::new(buffer)];
        let read = preadv2(&*self.file, slices, offset, ReadWriteFlags::NOWAIT);
        // A read that waits meets whatever is wrong; so do file systems that cannot tell.
        read.is_ok_and(|read| read == len)
    }

    fn touch(&self) -> io::Result<()> {
        // The kernel's clock, which sets the other time as well.
        Ok(futimens(
            &*self.file,
            &TimeSpec::UTIME_NOW,
            &TimeSpec::UTIME_OMIT,
        )?)
    }

    fn try_lock(&self) -> io::Result<bool> {
        lock::try_lock(&self.file)
    }

    fn file(&self) -> Option<Arc<File>> {
        Some(Arc::clone(&self.file))
    }

    fn discard(&self, range: &Range<u64>) {
        let offset = libc::off_t::try_from(range.start);
        let len = libc::off_t::try_from(range.end - range.start);
        if let (Ok(offset), Ok(len)) = (offset, len) {
            let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
            // A file system without holes gives the space back when the file is removed.
            fallocate(&*self.file, flags, offset, len).ok();
        }
    }
}

/// Blocks of any disk are no larger: offsets, addresses and lengths of direct writes are multiples.
const DIRECT_BLOCK: usize = 4096;

/// Fewer bytes are written through the page cache: each direct write waits for the disk.
const DIRECT_MIN: usize = 1 << 20;
