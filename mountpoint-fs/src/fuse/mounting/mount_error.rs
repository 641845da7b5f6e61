//! The reasons why a directory cannot be mounted on, with their remedies.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why a directory cannot be mounted on, with its remedy.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// There is no such directory.
    #[error("the mount point {} does not exist; make it with `mkdir -p {}`", .0.display(), .0.display())]
    Missing(PathBuf),
    /// The mount point is a file.
    #[error("the mount point {} is not a directory; name one", .0.display())]
    NotADirectory(PathBuf),
    /// The directory is a mount already.
    #[error(
        "the mount point {} is already mounted ({source_name}, type {kind}); {}choose another directory",
        directory.display(), unmounting(kind, directory)
    )]
    AlreadyMounted {
        /// Where.
        directory: PathBuf,
        /// The mounted source.
        source_name: String,
        /// File system type.
        kind: String,
    },
    /// A program uses the directory in a way that prevents a mount.
    #[error("the mount point {} is busy; `fuser -vm {}` shows who uses it", .0.display(), .0.display())]
    Busy(PathBuf),
    /// The mount point cannot be looked at.
    #[error("the mount point {} cannot be used: {error}; check the path and its permissions", directory.display())]
    Unusable {
        /// Where.
        directory: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There is no `/dev/fuse`.
    #[error(
        "/dev/fuse does not exist: load the kernel module (modprobe fuse) and install the package fuse3; \
         in a container, start it with --device /dev/fuse --cap-add SYS_ADMIN"
    )]
    NoDevice,
    /// Another file is at `/dev/fuse`.
    #[error(
        "/dev/fuse is not the FUSE device, something else lies there: in a container, start it with \
         --device /dev/fuse --cap-add SYS_ADMIN; elsewhere, `mknod /dev/fuse c 10 229`"
    )]
    NotTheDevice,
    /// `/dev/fuse` cannot be opened, or mounting is not allowed.
    #[error(
        "{action} was not allowed ({error}): in a container, start it with --device /dev/fuse --cap-add SYS_ADMIN"
    )]
    NotAllowed {
        /// The attempted action.
        action: &'static str,
        /// The system's reason.
        error: io::Error,
    },
    /// `/dev/fuse` is root's alone.
    #[error(
        "/dev/fuse may not be opened by this user: as root, allow it (chmod 666 /dev/fuse; \
         the udev rule of the package fuse3 does so), or mount as root"
    )]
    DeviceOfRoot,
    /// The helper for ordinary users is not installed.
    #[error("fusermount3 was not found: install the package fuse3, or mount as root")]
    NoFusermount,
    /// The system does not let users share their mounts.
    #[error(
        "--allow-other and --allow-root need the line user_allow_other in /etc/fuse.conf, \
         or mounting as root"
    )]
    UserAllowOther,
    /// The helper refused.
    #[error("cannot mount on {}: {message}", directory.display())]
    Fusermount {
        /// Where.
        directory: PathBuf,
        /// The message of the program.
        message: String,
    },
    /// The mount system call failed otherwise.
    #[error("cannot mount on {}: {error}", directory.display())]
    System {
        /// Where.
        directory: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// `/dev/fd/N`, where no descriptor N is open.
    #[error(
        "descriptor {0} is not open: the process that mounts at /dev/fd/{0} opens /dev/fuse, mounts with it, and passes it to \
         this process as descriptor {0}"
    )]
    NotPassed(i32),
    /// `/dev/fd/N`, where descriptor N is something else.
    #[error(
        "descriptor {0} is not an open /dev/fuse: the process that mounts at /dev/fd/{0} opens /dev/fuse, mounts with it, and \
         passes it as descriptor {0}"
    )]
    NotAPassedDevice(i32),
}

/// A hint how to unmount a FUSE mount in the way; none for other file systems.
///
/// A check whether the mount's process is gone would hang if the process is merely stuck.
fn unmounting(kind: &str, directory: &Path) -> String {
    if kind == "fuse" || kind.starts_with("fuse.") {
        let shown = directory.display();
        format!(
            "unmount it with `umount {shown}` (`fusermount3 -u {shown}` as an ordinary user; `umount -l {shown}` if its \
             process is gone), or "
        )
    } else {
        String::new()
    }
}
