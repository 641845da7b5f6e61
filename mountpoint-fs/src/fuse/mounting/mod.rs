//! How a mount comes to be and goes: the mount point, `fusermount3`, a descriptor of somebody
//! else's, the end.
//!
//! [`mount`] makes a [`Mount`]; `mount_info` and `Coverage` say what is mounted where, without
//! touching it; `DeadMount` clears away what a killed process left. Knows no message of the
//! protocol.

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

pub use coverage::Coverage;
pub use inherited::inherit;
pub use mount_error::MountError;
#[cfg(test)]
pub(super) use mount_info::MountInfo;
pub use mount_options::MountOptions;
pub use mount_point::{Mount, check_mount_point, is_dead_mount, mount};
