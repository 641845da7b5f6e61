//! The process that has a staging directory, as its lock tells.

use std::fmt;
use std::fs::File;
use std::io::Read as _;

use serde::{Deserialize, Serialize};

/// A process and its mount, or a process that changes a directory which no mount uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    /// The process, as numbered where it runs; 0 if it is unknown.
    pub(crate) pid: u32,
    /// The bucket.
    pub(crate) bucket: String,
    /// Where the bucket is mounted; empty for a process that has no mount.
    pub(crate) mount_point: String,
}

impl Holder {
    /// This process, which keeps mounts out.
    pub(super) fn beside_mounts() -> Self {
        Self {
            pid: std::process::id(),
            ..Self::default()
        }
    }

    /// Its line in the lock.
    pub(super) fn line(&self) -> String {
        let line = serde_json::to_string(self);
        line.map_or_else(|_| String::new(), |line| line + "\n")
    }

    /// The holder that the lock names.
    pub(super) fn read(file: &File) -> Option<Self> {
        let mut line = String::new();
        file.take(LINE_LEN_MAX).read_to_string(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pid,
            bucket,
            mount_point,
        } = self;
        if mount_point.is_empty() {
            return write!(f, " by process {pid}, a `mount-s3 staged`");
        }
        write!(
            f,
            " by process {pid}, which has mounted {bucket} on {mount_point}"
        )
    }
}

/// More than the line has: two names of the longest kind.
const LINE_LEN_MAX: u64 = 64 << 10;
