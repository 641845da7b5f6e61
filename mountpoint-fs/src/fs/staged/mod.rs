//! Files that are written in place, in memory or on the local disk of `--staging`: the operations
//! of the kernel on them.
//!
//! An inode has one [`StagedFile`] from its first open for writing on. All handles read and write
//! it, also those that were opened for reading before. Closing and synchronising store it.
//! With write-back the marker of a new directory is such a file as well.
//!
//! [`StagedFile`]: crate::staging::StagedFile

mod changes;
mod close;
mod exclusive;
mod markers;
mod names;
mod open;

pub(super) use names::{HeldFile, VAIN, renamed_key};
