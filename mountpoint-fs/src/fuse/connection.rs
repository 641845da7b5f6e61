//! A FUSE connection as the kernel shows it under `/sys/fs/fuse/connections`.

use std::io;
use std::path::{Path, PathBuf};

use super::mounting::Mount;

/// The control directory of one connection. Ordinary users may use that of their own mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection(PathBuf);

impl Connection {
    /// The connection of `mount`; `None` if the kernel does not tell its number.
    ///
    /// No request goes to the mount itself: a process that is killed while it waits for an answer
    /// of its own never ends.
    #[must_use]
    pub fn of(mount: &Mount) -> Option<Self> {
        let number = mount.device_number()?;
        let directory = Path::new("/sys/fs/fuse/connections");
        Some(Self(directory.join(number.minor.to_string())))
    }

    /// The requests that the kernel has begun and not finished, those that this program works on
    /// among them.
    ///
    /// # Errors
    /// As of [`Connection::abort`].
    pub fn waiting(&self) -> io::Result<u64> {
        let text = std::fs::read_to_string(self.0.join("waiting"))?;
        text.trim().parse().map_err(io::Error::other)
    }

    /// Ends the connection: every operation in progress fails, and every later one. Works after a
    /// lazy unmount too.
    ///
    /// # Errors
    /// Where `/sys/fs/fuse/connections` is not mounted, as in many containers; the connection then
    /// ends with the process.
    pub fn abort(&self) -> io::Result<()> {
        std::fs::write(self.0.join("abort"), "1")
    }
}
