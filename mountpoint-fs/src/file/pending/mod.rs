//! Versions that wait for their upload, seen from outside of a mount.
//!
//! A version is shown as a kept one is, under the name `pending-NUMBER`. Only its removal changes
//! the disk. Who only looks locks nothing, so that a mount can start at any time.

mod bytes;
mod find;
#[cfg(test)]
mod tests;
mod versions;

pub(crate) use find::{FoundPending, Pending, find_pending};
pub(crate) use versions::{PendingEntry, PendingVersion, PendingVersions};
