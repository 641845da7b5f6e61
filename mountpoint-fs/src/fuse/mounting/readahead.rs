//! The kernel's read-ahead for files read through the page cache.
//!
//! INIT can only lower it, from a default of 128 KiB. Raising it takes a write to sysfs, which root
//! may do.

use std::fs;

use super::mount_info::DeviceNumber;
use crate::config::limits::READAHEAD_DEFAULT;
use crate::fuse::init::READAHEAD_MAX;

/// Raises the read-ahead of the mount with this device number, if this process may. Returns the
/// new read-ahead in bytes.
pub(in crate::fuse) fn raise(number: DeviceNumber) -> u32 {
    let path = format!("/sys/class/bdi/{number}/read_ahead_kb");
    let kib = READAHEAD_MAX >> 10;
    match fs::write(&path, kib.to_string()) {
        Ok(()) => {
            tracing::debug!(path, kib, "kernel read-ahead raised");
            READAHEAD_MAX
        }
        Err(error) => {
            tracing::debug!(path, %error, "kernel read-ahead stays as it is");
            READAHEAD_DEFAULT
        }
    }
}
