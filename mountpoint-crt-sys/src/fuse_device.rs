//! The FUSE device's one ioctl.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

const DEVICE: &str = "/dev/fuse";

/// `FUSE_DEV_IOC_CLONE`: `_IOR(229, 0, uint32_t)`.
const CLONE: libc::Ioctl = 0x8004_e500_u32 as libc::Ioctl;

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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::clone_device;

    #[test]
    fn what_is_no_fuse_session_cannot_be_cloned() {
        let file = File::open("/dev/null").unwrap();
        assert!(clone_device(file.as_fd()).is_err());
    }
}
