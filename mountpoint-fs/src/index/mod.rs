//! A file with the names, sizes, times and ETags of a bucket: written, read, and in the place of
//! LIST and HEAD.
//!
//! `entry`, `header` and `footer` (pure) are the format; [`IndexBuilder`] writes a file from keys
//! in any order, [`IndexFile`] finds keys in one, and [`IndexedClient`] answers a mount from it.
//! Knows no inodes and no directories but those that a delimiter makes.
//!
//! Invariant: every byte of the file is covered by a checksum that is compared before anything made
//! of it is returned, so a damaged file is an error and never another name.
//! `doc/internals/index-file.md` draws the format.

mod builder;
mod client;
mod coding;
mod entry;
mod error;
mod file;
mod footer;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod header;
mod listing;
mod writer;

pub use builder::IndexBuilder;
pub use client::IndexedClient;
pub use entry::IndexEntry;
pub use error::IndexError;
pub use file::{DiskWait, IndexCursor, IndexFile};
pub use header::IndexHeader;

#[cfg(test)]
mod tests;
