//! A mount that somebody else made: the parent process opened `/dev/fuse`, mounted with it, and passed it on.
//!
//! So the Kubernetes CSI driver mounts: what needs privileges is done by it, and `mount-s3 BUCKET /dev/fd/N` runs
//! without any. Invariant: the descriptor is known to be a FUSE device before anything is read from it, and no child
//! of this process inherits it, because a child that held it would keep the connection alive.

use std::os::fd::{AsFd, OwnedFd, RawFd};

use nix::sys::stat::{SFlag, fstat, major, minor};
use nix::unistd::geteuid;

use super::mount_error::MountError;
use super::mount_point::Mount;

/// Takes over descriptor `number`. With `allow_root`, only this process's user and root are served; who else may come
/// in has been decided by whoever mounted.
///
/// # Errors
/// When it is not open, or no FUSE device.
pub fn inherit(number: RawFd, allow_root: bool) -> Result<Mount, MountError> {
    if number <= STANDARD_STREAM_LAST {
        return Err(MountError::NotAPassedDevice(number));
    }
    let passed = mountpoint_crt_sys::process::take_inherited_fd(number)
        .map_err(|_| MountError::NotPassed(number))?;
    if !is_fuse_device(&passed) {
        return Err(MountError::NotAPassedDevice(number));
    }
    // The duplicate is closed on exec.
    let device: OwnedFd = passed
        .try_clone()
        .map_err(|_| MountError::NotPassed(number))?;
    Ok(if allow_root {
        Mount::for_owner(device, geteuid().as_raw())
    } else {
        Mount::from_device(device)
    })
}

/// Whether this is an open `/dev/fuse`, under whatever name.
pub(super) fn is_fuse_device(device: &impl AsFd) -> bool {
    fstat(device).is_ok_and(|stat| {
        let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
        kind == SFlag::S_IFCHR && (major(stat.st_rdev), minor(stat.st_rdev)) == FUSE_DEVICE
    })
}

/// Major and minor number of `/dev/fuse`, the same on every Linux.
const FUSE_DEVICE: (u64, u64) = (10, 229);
/// Standard error; what comes before belongs to the terminal.
const STANDARD_STREAM_LAST: RawFd = 2;

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::IntoRawFd;

    use super::*;

    #[test]
    fn only_a_fuse_device_is_taken_over() {
        assert!(matches!(
            inherit(1_000_000, false),
            Err(MountError::NotPassed(_))
        ));
        assert!(matches!(
            inherit(-1, false),
            Err(MountError::NotAPassedDevice(_))
        ));
        assert!(matches!(
            inherit(2, false),
            Err(MountError::NotAPassedDevice(2))
        ));
        let other = File::open("/dev/null").unwrap().into_raw_fd();
        assert!(matches!(
            inherit(other, false),
            Err(MountError::NotAPassedDevice(_))
        ));
        let device = File::options()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .unwrap();
        let mount = inherit(device.into_raw_fd(), true).unwrap();
        assert_eq!(mount.owner(), Some(geteuid().as_raw()));
        assert!(!mount.is_mounted());
    }
}
