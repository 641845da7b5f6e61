//! Versions that wait for their upload, seen while no mount uses the directory.
//!
//! A version is shown as a kept one is, under the name `pending-NUMBER`. Only its removal changes
//! the disk.

mod bytes;
mod versions;

pub(crate) use versions::{PendingVersion, PendingVersions};
