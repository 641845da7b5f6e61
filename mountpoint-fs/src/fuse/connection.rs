//! A FUSE connection as the kernel shows it under `/sys/fs/fuse/connections`.

use std::io;
use std::path::{Path, PathBuf};

/// The control directory of one connection. Ordinary users may use that of their own mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection(PathBuf);

impl Connection {
    /// The connection of the mount at `directory`.
    ///
    /// # Errors
    /// When the mount does not answer.
    pub fn of(directory: &Path) -> io::Result<Self> {
        let device = nix::sys::stat::stat(directory)?.st_dev;
        let minor = nix::sys::stat::minor(device);
        Ok(Self(
            Path::new("/sys/fs/fuse/connections").join(minor.to_string()),
        ))
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
