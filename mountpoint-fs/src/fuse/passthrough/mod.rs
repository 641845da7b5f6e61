//! Files that the kernel reads by itself, from a local file (FUSE passthrough).
//!
//! `inode_modes` decides which opens may; [`Passthrough`] gives the kernel the files. The kernel
//! demands Linux 6.9, `CAP_SYS_ADMIN`, and local files on a file system that is not stacked. Where
//! it refuses one file, it is asked for no other: all are served as without local files. Threads:
//! any; the lock is held for one system call that does not wait.

mod inode_modes;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use mountpoint_crt_sys::fuse_device::BackingFile;
use nix::errno::Errno;
use tokio::runtime::Handle;

use self::inode_modes::{InodeModes, Unlike};
use super::reply::Channel;
use super::session_options::SessionOptions;
use super::wire::{InitReply, init_flags};
use crate::config::PassthroughMode;
use crate::fs::FileSystem;
use crate::operation::{FsError, InodeNo, Opened};
use crate::sync::Mutex;

/// The files of a connection that the kernel reads by itself.
#[derive(Debug)]
pub(super) struct Passthrough {
    device: Arc<OwnedFd>,
    fs: Arc<FileSystem>,
    setting: PassthroughMode,
    /// The lock is a leaf.
    modes: Mutex<InodeModes<BackingFile>>,
    /// Gives large files back.
    runtime: Handle,
}

impl Passthrough {
    /// Whether the kernel is to be asked for it.
    pub(super) fn is_wanted(fs: &FileSystem, setting: PassthroughMode) -> bool {
        setting != PassthroughMode::Off && fs.has_local_files()
    }

    /// Begins on the connection of `channel`, if kernel and file system have agreed on it.
    pub(super) fn begin(
        channel: &Channel,
        agreed: &InitReply,
        fs: &Arc<FileSystem>,
        options: &SessionOptions,
    ) -> io::Result<Option<Self>> {
        let setting = options.passthrough;
        if !Self::is_wanted(fs, setting) {
            return Ok(None);
        }
        if agreed.flags & init_flags::PASSTHROUGH == 0 {
            Self::cannot(setting, NOT_OFFERED);
            return Ok(None);
        }
        fs.use_local_files(true);
        Ok(Some(Self {
            device: Arc::new(channel.device().as_fd().try_clone_to_owned()?),
            fs: Arc::clone(fs),
            setting,
            modes: Mutex::default(),
            runtime: options.runtime.clone(),
        }))
    }

    /// Logs why the kernel reads no file by itself: a warning only for users that asked for it.
    pub(super) fn cannot(setting: PassthroughMode, reason: &str) {
        if setting == PassthroughMode::On {
            tracing::warn!(
                "cached files are read through this process, not by the kernel itself: {reason}"
            );
        } else {
            tracing::info!(
                "cached files are read through this process, not by the kernel itself: {reason}"
            );
        }
    }

    /// Counts an open. Returns the number of the file that the kernel reads for it, or `None` if
    /// this process serves the open.
    ///
    /// An open that cannot go with the others of its inode is closed, and fails; its repetition by
    /// the kernel finds another inode.
    pub(super) fn open(&self, ino: InodeNo, opened: &Opened) -> Result<Option<i32>, FsError> {
        let mut refused = None;
        let back = |file: &File| {
            let backing = BackingFile::open(&self.device, file.as_fd());
            backing.map_err(|error| refused = Some(error)).ok()
        };
        let number = {
            let mut modes = self.modes.lock();
            let backing = modes.open(ino, opened.local.as_ref(), back);
            backing.map(|backing| backing.map(BackingFile::number))
        };
        if let Some(error) = refused {
            self.end(&error);
        }
        if let Ok(Some(number)) = number {
            tracing::debug!(
                inode = ino.0,
                number,
                "the kernel reads a local file by itself"
            );
        }
        number.map_err(|Unlike| {
            self.fs.release(opened.handle);
            self.fs.open_afresh(ino)
        })
    }

    /// Counts the RELEASE of an open.
    pub(super) fn released(&self, ino: InodeNo) {
        let Some(closed) = self.modes.lock().close(ino) else {
            return;
        };
        // The kernel frees the room of a file without a name, which may take a while.
        if closed.size >= CLOSE_BEHIND_MIN {
            self.runtime.spawn_blocking(move || drop(closed));
        }
    }

    /// Whether the kernel reads the open inode `ino` by itself.
    pub(super) fn is_reading(&self, ino: InodeNo) -> bool {
        self.modes.lock().is_passed_through(ino)
    }

    /// Uses no further local file: the kernel has refused one.
    fn end(&self, error: &io::Error) {
        // Opens at the same moment may be refused together.
        if self.fs.use_local_files(false) {
            Self::cannot(self.setting, &reason(error));
        }
    }
}

/// Why the kernel does not take a file, for the log.
fn reason(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EPERM) => {
            "that needs the capability CAP_SYS_ADMIN, outside of user namespaces".to_owned()
        }
        Some(Errno::ELOOP) => {
            "the cache is on a file system that lies on others, such as overlayfs".to_owned()
        }
        _ => format!("the kernel did not take a file: {error}"),
    }
}

/// Size of files that no session thread gives back, in bytes.
const CLOSE_BEHIND_MIN: u64 = 1 << 20;

/// The reason of a kernel that offers none.
const NOT_OFFERED: &str =
    "the kernel does not offer it; that takes Linux 6.9 and its setting CONFIG_FUSE_PASSTHROUGH";
