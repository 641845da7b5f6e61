//! A mount made by the parent process, which opened `/dev/fuse`, mounted with it, and passed it on.
//!
//! The Kubernetes CSI driver mounts so: the driver has the privileges, and `mount-s3 BUCKET
//! /dev/fd/N` runs without any. Invariants: the descriptor is known to be a FUSE device before the
//! first read, and no child of this process inherits it, because the child would keep the
//! connection alive.

use std::os::fd::{OwnedFd, RawFd};

use nix::unistd::geteuid;

use super::fuse_device::is_fuse_device;
use super::mount_error::MountError;
use super::mount_info::{DeviceNumber, MountInfo};
use super::mount_point::Mount;
use crate::fuse::allowed_users::{AllowedUsers, OtherUsers};

/// Takes over descriptor `number`. A mount that the kernel opens to all users (`allow_other`)
/// serves only this process's user and `others`.
///
/// # Errors
/// If the descriptor is not open, or no FUSE device.
pub fn inherit(number: RawFd, others: OtherUsers) -> Result<Mount, MountError> {
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
    let owner = geteuid().as_raw();
    let allowed_users = match others {
        OtherUsers::Everybody => AllowedUsers::All,
        OtherUsers::Root => AllowedUsers::OwnerAndRoot(owner),
        // The mount's user may differ from this process's.
        OtherUsers::Nobody if is_closed_by_kernel(&device) => AllowedUsers::All,
        OtherUsers::Nobody => AllowedUsers::Owner(owner),
    };
    Ok(Mount::from_device(device, allowed_users))
}

/// Whether the kernel itself admits only the mount's user; `false` if that is unknown.
fn is_closed_by_kernel(device: &OwnedFd) -> bool {
    let number = DeviceNumber::of_connection(device);
    let mounts = MountInfo::all().unwrap_or_default();
    let found = number.and_then(|number| mounts.into_iter().find(|mount| mount.number == number));
    found.is_some_and(|mount| {
        !mount
            .options
            .split(',')
            .any(|option| option == "allow_other")
    })
}

/// Standard error; this descriptor and smaller ones belong to the terminal.
const STANDARD_STREAM_LAST: RawFd = 2;

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::IntoRawFd;

    use super::*;

    #[test]
    fn only_a_fuse_device_is_taken_over() {
        assert!(matches!(
            inherit(1_000_000, OtherUsers::Nobody),
            Err(MountError::NotPassed(_))
        ));
        assert!(matches!(
            inherit(-1, OtherUsers::Nobody),
            Err(MountError::NotAPassedDevice(_))
        ));
        assert!(matches!(
            inherit(2, OtherUsers::Nobody),
            Err(MountError::NotAPassedDevice(2))
        ));
        let other = File::open("/dev/null").unwrap().into_raw_fd();
        assert!(matches!(
            inherit(other, OtherUsers::Nobody),
            Err(MountError::NotAPassedDevice(_))
        ));
        let owner = geteuid().as_raw();
        for (others, allowed_users) in [
            (OtherUsers::Nobody, AllowedUsers::Owner(owner)),
            (OtherUsers::Root, AllowedUsers::OwnerAndRoot(owner)),
            (OtherUsers::Everybody, AllowedUsers::All),
        ] {
            let device = File::options().read(true).write(true).open("/dev/fuse");
            let mount = inherit(device.unwrap().into_raw_fd(), others).unwrap();
            assert_eq!(mount.allowed_users(), allowed_users);
            assert!(!mount.is_mounted());
        }
    }
}
