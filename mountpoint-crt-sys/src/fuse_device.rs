//! The ioctls of the FUSE device: further descriptors, and files that the kernel reads by itself.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

const DEVICE: &str = "/dev/fuse";

/// `FUSE_DEV_IOC_CLONE`: `_IOR(229, 0, uint32_t)`.
const CLONE: libc::Ioctl = 0x8004_e500_u32 as libc::Ioctl;

/// `FUSE_DEV_IOC_BACKING_OPEN`: `_IOW(229, 1, struct fuse_backing_map)`.
const BACKING_OPEN: libc::Ioctl = 0x4010_e501_u32 as libc::Ioctl;

/// `FUSE_DEV_IOC_BACKING_CLOSE`: `_IOW(229, 2, uint32_t)`.
const BACKING_CLOSE: libc::Ioctl = 0x4004_e502_u32 as libc::Ioctl;

/// A further descriptor of the FUSE connection behind `dev`, with a queue of its own.
pub fn clone_device(dev: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let clone = OpenOptions::new().read(true).write(true).open(DEVICE)?;
    let session = u32::try_from(dev.as_raw_fd()).map_err(io::Error::other)?;
    // SAFETY: both descriptors are open; the kernel reads one number.
    let result = unsafe { libc::ioctl(clone.as_raw_fd(), CLONE, &raw const session) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(clone.into())
    }
}

/// A file that the kernel knows by a number, and reads by itself for opens that name the number.
///
/// The number ends with this value. The kernel keeps the file itself for the opens that named it.
#[derive(Debug)]
pub struct BackingFile {
    device: Arc<OwnedFd>,
    number: i32,
}

/// `struct fuse_backing_map`.
#[repr(C)]
struct BackingMap {
    fd: i32,
    flags: u32,
    padding: u64,
}

impl BackingFile {
    /// Gives `file` a number on the FUSE connection behind `device`.
    ///
    /// # Errors
    /// EPERM without `CAP_SYS_ADMIN`, or on a connection without passthrough; ELOOP where `file`
    /// is on a stacked file system; ENOTTY before Linux 6.9.
    pub fn open(device: &Arc<OwnedFd>, file: BorrowedFd<'_>) -> io::Result<Self> {
        let map = BackingMap {
            fd: file.as_raw_fd(),
            flags: 0,
            padding: 0,
        };
        // SAFETY: both descriptors are open; the kernel reads one `fuse_backing_map`.
        let result = unsafe { libc::ioctl(device.as_raw_fd(), BACKING_OPEN, &raw const map) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            device: Arc::clone(device),
            number: result,
        })
    }

    /// The number, for replies to OPEN. Never 0.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.number
    }
}

impl Drop for BackingFile {
    fn drop(&mut self) {
        let device = self.device.as_fd();
        // SAFETY: the descriptor is open; the kernel reads one number. A connection that has ended
        // has lost its numbers, and refuses.
        unsafe { libc::ioctl(device.as_raw_fd(), BACKING_CLOSE, &raw const self.number) };
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn null() -> File {
        File::open("/dev/null").unwrap()
    }

    #[test]
    fn what_is_no_fuse_session_cannot_be_cloned() {
        assert!(clone_device(null().as_fd()).is_err());
    }

    #[test]
    fn what_is_no_fuse_session_takes_no_backing_file() {
        let device = Arc::new(OwnedFd::from(null()));
        let refused = BackingFile::open(&device, null().as_fd()).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ENOTTY));
    }

    /// `_IOW(229, number, size)`, as `asm-generic/ioctl.h` makes it.
    #[test]
    fn numbers_of_the_ioctls() {
        let write = |number: u32, size: usize| {
            let size = u32::try_from(size).unwrap();
            (1 << 30 | size << 16 | 229 << 8 | number) as libc::Ioctl
        };
        assert_eq!(BACKING_OPEN, write(1, size_of::<BackingMap>()));
        assert_eq!(BACKING_CLOSE, write(2, size_of::<u32>()));
    }
}
