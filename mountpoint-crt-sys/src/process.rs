//! Process primitives that Rust calls unsafe.

use std::io;
use std::os::fd::OwnedFd;

/// Which side of a fork this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    Parent { child_pid: i32 },
    Child,
}

/// Forks. Only for a process that has one thread: fails when there are more.
pub fn fork_child() -> io::Result<Fork> {
    unimplemented!()
}

/// Takes over a descriptor inherited from the parent process. Fails when it is not open.
pub fn take_inherited_fd(fd: i32) -> io::Result<OwnedFd> {
    let _ = fd;
    unimplemented!()
}
