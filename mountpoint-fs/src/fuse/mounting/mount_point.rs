//! Mounting and unmounting: by system call as root, through `fusermount3` as another user.
//!
//! Knows no file and no request. Invariant: the drop of a [`Mount`] that was made here unmounts it,
//! lazily if need be. It is unmounted only if the directory still shows this mount, and not a later
//! one with the same number.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::thread;

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, umount2};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, stat};
use nix::sys::statfs::statfs;
use nix::unistd::geteuid;

use super::coverage::Coverage;
use super::dead_mount::{DeadMount, MOUNT_LOOK};
use super::fuse_device;
use super::fusermount::{self, AutoUnmount};
use super::mount_error::MountError;
use super::mount_info::{DeviceNumber, MountInfo};
use super::mount_options::{MOUNT_TYPE, MountOptions};
use super::unmount_watchdog::UnmountWatchdog;
use crate::fuse::allowed_users::AllowedUsers;

/// Mounts on `directory`. Programs that look at it wait until the session begins.
pub fn mount(directory: &Path, options: &MountOptions) -> Result<Mount, MountError> {
    let directory = check_mount_point(directory)?;
    remove_dead(&directory)?;
    if !is_empty(&directory) {
        tracing::warn!(
            ?directory,
            "the mount point is not empty: what lies there is hidden until it is unmounted"
        );
    }
    let allowed_users = match options.allow_root {
        true => AllowedUsers::OwnerAndRoot(geteuid().as_raw()),
        false => AllowedUsers::All,
    };
    let (device, helper) = if geteuid().is_root() && !options.auto_unmount {
        (mount_as_root(&directory, options)?, None)
    } else {
        let is_guarded = needs_watchdog(options);
        let options = MountOptions {
            auto_unmount: options.auto_unmount && !is_guarded,
            ..options.clone()
        };
        let (device, auto_unmount) = fusermount::mount(&directory, &options)?;
        let helper = if is_guarded {
            Some(Helper::UnmountWatchdog(watchdog(&directory)?))
        } else {
            auto_unmount.map(Helper::Fusermount)
        };
        (device, helper)
    };
    let number = MountInfo::at(&directory)
        .ok()
        .flatten()
        .map(|mount| mount.number);
    tracing::debug!(?directory, ?number, "mounted");
    let mounted = MountedDirectory {
        directory,
        number,
        _helper: helper,
    };
    Ok(Mount {
        device,
        allowed_users,
        mounted: Some(mounted),
    })
}

/// Removes mounts of this program whose processes are gone.
fn remove_dead(directory: &Path) -> Result<(), MountError> {
    for _ in 0..DEAD_MOUNTS_MAX {
        let Some(dead) = DeadMount::at(directory) else {
            break;
        };
        tracing::warn!(
            ?directory,
            "the process of the mount that is here is gone: it is unmounted, and the directory mounted anew"
        );
        dead.remove().map_err(|error| MountError::System {
            directory: directory.to_owned(),
            error,
        })?;
    }
    // The directory below the dead mounts.
    check_mount_point(directory).map(drop)
}

/// Whether the directory shows a mount of this program whose process is gone. The next mount there
/// removes it.
#[must_use]
pub fn is_dead_mount(directory: &Path) -> bool {
    DeadMount::at(directory).is_some()
}

/// Dead mounts that may lie on top of each other.
const DEAD_MOUNTS_MAX: usize = 8;

/// Whether a watchdog must unmount after a kill, because `fusermount3` cannot:
/// [`unmount_watchdog`](super::unmount_watchdog) has the reason.
fn needs_watchdog(options: &MountOptions) -> bool {
    let is_shared = options.allow_other || options.allow_root;
    let may_not_look = !is_shared && !geteuid().is_root();
    options.auto_unmount && may_not_look
}

/// The watchdog of a new mount; without it, the mount is given up.
fn watchdog(directory: &Path) -> Result<UnmountWatchdog, MountError> {
    UnmountWatchdog::start(directory).map_err(|error| {
        // The user must see the reason why there is no watchdog.
        fusermount::unmount(directory, true).ok();
        MountError::System {
            directory: directory.to_owned(),
            error: io::Error::other(format!("--auto-unmount needs /bin/sh: {error}")),
        }
    })
}

/// A mount, and the device over which the kernel asks for its contents.
#[derive(Debug)]
pub struct Mount {
    device: OwnedFd,
    allowed_users: AllowedUsers,
    /// `None` if another process has mounted and will unmount.
    mounted: Option<MountedDirectory>,
}

#[derive(Debug)]
struct MountedDirectory {
    directory: PathBuf,
    /// `None` if the mount is not visible in this process's mount table.
    number: Option<DeviceNumber>,
    _helper: Option<Helper>,
}

/// Unmounts when this process is killed; dropped after the mount itself.
#[derive(Debug)]
enum Helper {
    Fusermount(#[expect(dead_code, reason = "held for its drop")] AutoUnmount),
    UnmountWatchdog(#[expect(dead_code, reason = "held for its drop")] UnmountWatchdog),
}

impl Mount {
    /// A mount made by another process.
    pub(in crate::fuse) fn from_device(device: OwnedFd, allowed_users: AllowedUsers) -> Self {
        Self {
            device,
            allowed_users,
            mounted: None,
        }
    }

    /// Whether another process made the mount, and will unmount it.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        self.mounted.is_none()
    }

    /// Whether the directory still shows this mount; `false` for a mount of another process.
    #[must_use]
    pub fn is_mounted(&self) -> bool {
        let is_this = |mounted: &MountedDirectory| {
            mounted.shows_number() && (self.is_connected() || mounted.shows_what_is_dead())
        };
        self.mounted.as_ref().is_some_and(is_this)
    }

    /// Whether the connection lives. Until its end no other mount gets this mount's number.
    fn is_connected(&self) -> bool {
        let mut device = [PollFd::new(self.device.as_fd(), PollFlags::empty())];
        let polled = poll(&mut device, PollTimeout::ZERO);
        let events = device[0].revents().unwrap_or(PollFlags::empty());
        polled.is_ok() && !events.contains(PollFlags::POLLERR)
    }

    /// Unmounts: now, which fails with EBUSY while files are open; or lazily, so that the name is
    /// gone at once and the session ends with the last open file. Succeeds if it is unmounted
    /// already.
    ///
    /// # Errors
    /// `Unsupported` for a mount of another process; otherwise the system's error.
    pub fn unmount(&self, lazy: bool) -> io::Result<()> {
        match &self.mounted {
            Some(mounted) if self.is_mounted() => mounted.unmount(lazy),
            Some(_) => Ok(()),
            None => {
                let message = "the mount belongs to the process that passed the FUSE device";
                Err(io::Error::new(io::ErrorKind::Unsupported, message))
            }
        }
    }

    pub(in crate::fuse) fn device(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    pub(in crate::fuse) fn allowed_users(&self) -> AllowedUsers {
        self.allowed_users
    }

    /// The paths that lead into the mount; `None` if this process does not see it.
    #[must_use]
    pub fn coverage(&self) -> Option<Coverage> {
        match &self.mounted {
            Some(mounted) => mounted.number.map(Coverage::of),
            None => Some(Coverage::of_device(&self.device)),
        }
    }

    /// Number of the mount's device, as `/proc/self/mountinfo` has it; `None` if the kernel does
    /// not tell.
    #[must_use]
    pub fn device_name(&self) -> Option<String> {
        self.device_number().map(|number| number.to_string())
    }

    /// Where this process sees the mount: an absolute path without links, however it was given.
    #[must_use]
    pub fn directory(&self) -> Option<PathBuf> {
        let number = self.device_number()?;
        let mut mounts = MountInfo::all().ok()?.into_iter();
        mounts
            .find(|mount| mount.number == number)
            .map(|mount| mount.directory)
    }

    /// Number of the mount's device; `None` if the kernel does not tell.
    pub(in crate::fuse) fn device_number(&self) -> Option<DeviceNumber> {
        match &self.mounted {
            Some(mounted) => mounted.number,
            None => DeviceNumber::of_connection(&self.device),
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Some(mounted) = self.mounted.as_ref().filter(|_| self.is_mounted())
            && let Err(error) = mounted.unmount(true)
        {
            tracing::warn!(directory = ?mounted.directory, %error, "the mount could not be removed");
        }
    }
}

impl MountedDirectory {
    fn shows_number(&self) -> bool {
        match (self.number, MountInfo::at(&self.directory)) {
            (Some(number), Ok(shown)) => shown.is_some_and(|mount| mount.number == number),
            // The mount never was in the table, or the table cannot be read: only a trial tells.
            (None, _) | (_, Err(_)) => true,
        }
    }

    /// Whether the directory shows an ended connection. A newer mount answers, or is slow.
    fn shows_what_is_dead(&self) -> bool {
        let (sender, answer) = sync_channel(1);
        let directory = self.directory.clone();
        let look = move || {
            // The waiting thread may have given up.
            sender.send(statfs(&directory).map(drop)).ok();
        };
        let looking = thread::Builder::new().name("mount-look".to_owned());
        let answer = looking.spawn(look).map(|_| answer.recv_timeout(MOUNT_LOOK));
        matches!(answer, Ok(Ok(Err(Errno::ENOTCONN | Errno::ECONNABORTED))))
    }

    fn unmount(&self, lazy: bool) -> io::Result<()> {
        if !geteuid().is_root() {
            return fusermount::unmount(&self.directory, lazy);
        }
        let flags = if lazy {
            MntFlags::MNT_DETACH
        } else {
            MntFlags::empty()
        };
        Ok(umount2(&self.directory, flags | MntFlags::UMOUNT_NOFOLLOW)?)
    }
}

/// The directory's canonical name, if it can be mounted on. A dead mount of this program is no
/// obstacle.
///
/// # Errors
/// The reason why it cannot be mounted on.
pub fn check_mount_point(directory: &Path) -> Result<PathBuf, MountError> {
    let unusable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => MountError::Missing(directory.to_owned()),
        _ => MountError::Unusable {
            directory: directory.to_owned(),
            error,
        },
    };
    // Without a slash at its end: looking at "automounted/" would make systemd mount it, and wait
    // for us.
    let absolute: PathBuf = std::path::absolute(directory)
        .map_err(unusable)?
        .components()
        .collect();
    // Before the directory is touched: if a dead or stuck mount is there, touching it fails or
    // waits for ever.
    if is_dead_mount(&absolute) {
        return Ok(absolute);
    }
    check_not_mounted(&absolute)?;
    let canonical = absolute.canonicalize().map_err(unusable)?;
    if is_dead_mount(&canonical) {
        return Ok(canonical);
    }
    check_not_mounted(&canonical)?;
    // Not `fs::metadata`: its statx triggers an automount, stat does not.
    let mode = stat(&canonical)
        .map_err(|errno| unusable(errno.into()))?
        .st_mode;
    if SFlag::from_bits_truncate(mode) & SFlag::S_IFMT == SFlag::S_IFDIR {
        Ok(canonical)
    } else {
        Err(MountError::NotADirectory(canonical))
    }
}

/// Whether a mount would hide something. Looks into no autofs: that would trigger it.
fn is_empty(directory: &Path) -> bool {
    let is_mount = MountInfo::at(directory).is_ok_and(|mount| mount.is_some());
    is_mount || fs::read_dir(directory).map_or(true, |mut entries| entries.next().is_none())
}

fn check_not_mounted(directory: &Path) -> Result<(), MountError> {
    match MountInfo::at(directory) {
        // systemd puts an autofs below mounts that are made on first use.
        Ok(Some(mount)) if mount.kind != "autofs" => Err(MountError::AlreadyMounted {
            directory: mount.directory,
            source_name: mount.source,
            kind: mount.kind,
        }),
        // Without a table, the mount itself will tell.
        Ok(_) | Err(_) => Ok(()),
    }
}

fn mount_as_root(directory: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let device = fuse_device::open()?;
    let mut flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOATIME;
    if options.read_only {
        flags |= MsFlags::MS_RDONLY;
    }
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions",
        device.as_raw_fd(),
        geteuid(),
        nix::unistd::getegid(),
    );
    if options.allow_other || options.allow_root {
        data.push_str(",allow_other");
    }
    let name = options.source_name.as_str();
    nix::mount::mount(
        Some(name),
        directory,
        Some(MOUNT_TYPE),
        flags,
        Some(data.as_str()),
    )
    .map_err(|errno| match errno {
        Errno::ENODEV => MountError::NoDevice,
        Errno::EBUSY => MountError::Busy(directory.to_owned()),
        Errno::EPERM | Errno::EACCES => MountError::NotAllowed {
            action: "mounting",
            error: errno.into(),
        },
        errno => MountError::System {
            directory: directory.to_owned(),
            error: errno.into(),
        },
    })?;
    Ok(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_cannot_be_mounted_on() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing");
        assert!(matches!(
            check_mount_point(&missing),
            Err(MountError::Missing(_))
        ));
        let file = directory.path().join("file");
        fs::write(&file, "x").unwrap();
        assert!(matches!(
            check_mount_point(&file),
            Err(MountError::NotADirectory(_))
        ));
        let below = file.join("below");
        assert!(matches!(
            check_mount_point(&below),
            Err(MountError::Unusable { .. })
        ));
        assert!(matches!(
            check_mount_point(Path::new("/proc")),
            Err(MountError::AlreadyMounted { .. })
        ));
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/proc", &link).unwrap();
        assert!(matches!(
            check_mount_point(&link),
            Err(MountError::AlreadyMounted { .. })
        ));
        check_mount_point(directory.path()).unwrap();
    }

    #[test]
    fn messages_say_what_to_do() {
        let directory = PathBuf::from("/mnt/x");
        for (error, expected) in [
            (MountError::Missing(directory.clone()), "mkdir -p /mnt/x"),
            (MountError::NoDevice, "modprobe fuse"),
            (MountError::NoFusermount, "install the package fuse3"),
            (MountError::UserAllowOther, "/etc/fuse.conf"),
            (MountError::Busy(directory.clone()), "fuser -vm /mnt/x"),
            (MountError::NotPassed(7), "descriptor 7 is not open"),
        ] {
            let message = error.to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}
