//! The local bytes of staged files: sparse files in the user's directory.
//!
//! Knows no contents: the reader of a range knows which bytes count. Every call but
//! [`DataFiles::new`] may wait for the disk.

mod data_files;

pub(super) use data_files::{DataFiles, disk_error};
