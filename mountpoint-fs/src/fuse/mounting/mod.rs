//! The begin and the end of a mount: the mount point, `fusermount3`, an inherited descriptor.
//!
//! [`mount`] makes a [`Mount`]; `mount_info` and `Coverage` list mounts without touching them;
//! `DeadMount` removes the mount of a killed process. Knows no message of the protocol.

mod coverage;
mod dead_mount;
mod fuse_device;
mod fusermount;
mod inherited;
mod mount_error;
mod mount_info;
mod mount_options;
mod mount_point;
pub(super) mod readahead;
mod unmount_watchdog;

pub use coverage::{Coverage, MountedAt, leads_into};
pub use inherited::inherit;
pub use mount_error::MountError;
pub(super) use mount_info::{DeviceNumber, MountInfo};
pub use mount_options::MountOptions;
pub use mount_point::{Mount, check_mount_point, is_dead_mount, mount};
