//! Unmounting after a kill of this process, in the cases that `fusermount3` does not handle.
//!
//! The `auto_unmount` of `fusermount3` first opens the mount point as root to see whether it is
//! dead, and root may not open an unshared mount of an ordinary user. So a shell of the user waits
//! instead. Invariant: the shell unmounts when, and only when, this process ends without a goodbye.

use std::io::{self, PipeWriter, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The shell that waits.
#[derive(Debug)]
pub(in crate::fuse) struct UnmountWatchdog {
    /// The shell sees this end close.
    lifeline: PipeWriter,
    shell: Child,
}

impl UnmountWatchdog {
    /// Guards the mount at `directory`.
    pub(in crate::fuse) fn start(directory: &Path) -> io::Result<Self> {
        let (theirs, lifeline) = io::pipe()?;
        let shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "mount-s3-guard"])
            .arg(directory)
            .current_dir("/")
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C is for the guarded process.
            .process_group(0)
            .spawn()?;
        Ok(Self { lifeline, shell })
    }
}

impl Drop for UnmountWatchdog {
    fn drop(&mut self) {
        let told = self.lifeline.write_all(b"goodbye\n");
        let ended = told.and_then(|()| self.shell.wait());
        tracing::debug!(?ended, "the guard of the mount is dismissed");
    }
}

/// A goodbye is a line; the end of the input without one is the end of the process.
const SCRIPT: &str = "trap '' HUP INT TERM; read -r goodbye || exec fusermount3 -u -z -- \"$1\"";
