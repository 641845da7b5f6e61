//! Wakes the thread of a ring from any other.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// Ends a ring's wait.
#[derive(Debug)]
pub struct RingWaker(File);

impl RingWaker {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: makes a descriptor, takes no pointer.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it has just been made, and nobody else knows it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self(File::from(fd)))
    }

    /// Ends the current wait, or the next one.
    pub fn wake(&self) {
        // The write cannot fail: it would take 2^64 wake-ups to fill the counter.
        (&self.0).write_all(&1_u64.to_ne_bytes()).ok();
    }

    pub(super) fn fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}
