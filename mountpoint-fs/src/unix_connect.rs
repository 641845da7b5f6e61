//! Connections to Unix sockets that never wait.
//!
//! Linux lets a blocking connection wait for as long as the listener's queue is full, and a process
//! that is stopped empties no queue.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

/// A connection to the socket at `path`.
///
/// # Errors
/// Of kind `WouldBlock` if a process listens there and its queue is full.
pub(crate) fn connect_at_once(path: &Path) -> io::Result<UnixStream> {
    connect_to(&UnixAddr::new(path)?)
}

/// A connection to a socket that may have no path; see [`connect_at_once`].
///
/// # Errors
/// As of [`connect_at_once`].
pub(crate) fn connect_to(address: &UnixAddr) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket: OwnedFd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(socket.as_raw_fd(), address)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}
