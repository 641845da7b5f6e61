//! The FUSE device's one ioctl.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// A further descriptor of the FUSE connection behind `dev`, with a queue of its own.
pub fn clone_device(dev: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let _ = dev;
    unimplemented!()
}
