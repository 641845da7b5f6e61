//! A mount of this program whose process is gone: every access fails with `Transport endpoint is
//! not connected`.
//!
//! Invariant: only the mount that was found dead is removed, and an ended connection never comes
//! back. So a live mount is never touched, not even a new one on the same directory.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, umount2};
use nix::sys::stat::Mode;
use nix::sys::statfs::fstatfs;
use nix::unistd::geteuid;

use super::fusermount;
use super::mount_info::MountInfo;
use super::mount_options::MOUNT_TYPE;

/// A mount whose connection has ended.
#[derive(Debug)]
pub(in crate::fuse) struct DeadMount {
    /// The root of the dead mount.
    root: OwnedFd,
    directory: PathBuf,
}

impl DeadMount {
    /// The dead mount of this program on `directory`, if there is one. The mount table's spelling
    /// of the directory counts.
    pub(in crate::fuse) fn at(directory: &Path) -> Option<Self> {
        let shown = MountInfo::at(directory).ok().flatten()?;
        if shown.kind != MOUNT_TYPE {
            return None;
        }
        // Sends no request to the file system.
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let root = open(directory, flags, Mode::empty()).ok()?;
        let is_shown = mount_of(&root) == Some(shown.id);
        (is_shown && has_ended(&root)).then(|| Self {
            root,
            directory: directory.to_owned(),
        })
    }

    /// Removes the mount. Its open files stay dead.
    pub(in crate::fuse) fn remove(self) -> io::Result<()> {
        if !geteuid().is_root() {
            return fusermount::unmount(&self.directory, true);
        }
        let root = format!("/proc/self/fd/{}", self.root.as_raw_fd());
        match umount2(root.as_str(), MntFlags::MNT_DETACH) {
            // Another process has removed it meanwhile.
            Ok(()) | Err(Errno::EINVAL) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The number of the mount of `root`.
fn mount_of(root: &OwnedFd) -> Option<u32> {
    let told = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", root.as_raw_fd())).ok()?;
    let line = told.lines().find_map(|line| line.strip_prefix("mnt_id:"))?;
    line.trim().parse().ok()
}

/// Whether the connection has ended. A live one answers, or is slow.
fn has_ended(root: &OwnedFd) -> bool {
    let (sender, answer) = sync_channel(1);
    let Ok(root) = root.as_fd().try_clone_to_owned() else {
        return false;
    };
    let look = move || {
        // The waiting thread may have given up.
        sender.send(fstatfs(&root).map(drop)).ok();
    };
    let looking = thread::Builder::new().name("mount-look".to_owned());
    let answer = looking.spawn(look).map(|_| answer.recv_timeout(MOUNT_LOOK));
    matches!(answer, Ok(Ok(Err(Errno::ENOTCONN | Errno::ECONNABORTED))))
}

/// How long a process whose connection has ended examines its mount point.
///
/// The mount point shows a dead mount, which answers at once, or a newer mount.
pub(super) const MOUNT_LOOK: Duration = Duration::from_secs(1);
