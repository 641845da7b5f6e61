//! The device `/dev/fuse`.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::stat::{SFlag, fstat, major, minor};

use super::mount_error::MountError;

/// Opens `/dev/fuse`.
pub(super) fn open() -> Result<OwnedFd, MountError> {
    match fs::File::options().read(true).write(true).open("/dev/fuse") {
        Ok(device) if is_fuse_device(&device) => Ok(device.into()),
        Ok(_) => Err(MountError::NotTheDevice),
        Err(error) => Err(match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOENT | Errno::ENODEV | Errno::ENXIO) => MountError::NoDevice,
            _ => MountError::NotAllowed {
                action: "opening /dev/fuse",
                error,
            },
        }),
    }
}

/// Whether this is an open `/dev/fuse`, under any name.
pub(super) fn is_fuse_device(device: &impl AsFd) -> bool {
    fstat(device).is_ok_and(|stat| {
        let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
        kind == SFlag::S_IFCHR && (major(stat.st_rdev), minor(stat.st_rdev)) == FUSE_DEVICE
    })
}

/// Major and minor number of `/dev/fuse`, the same on every Linux.
const FUSE_DEVICE: (u64, u64) = (10, 229);
