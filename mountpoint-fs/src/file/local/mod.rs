//! The local bytes of staged files: sparse files in the user's directory, small ones in memory.
//!
//! Knows no contents: the reader of a range knows which bytes count. A call may wait for the
//! disk, unless it says otherwise.

mod chunks;
mod data_files;
mod file_sums;
mod memory_file;
mod room;
mod stored_files;
mod sums;

pub(super) use data_files::{DataFiles, RestingBytes, disk_error};
pub(super) use file_sums::NotedSums;
pub(super) use memory_file::{FileMemory, Share};
pub(super) use room::{RoomHolder, RoomHolders};
pub(super) use stored_files::StoredFiles;
pub(super) use sums::BLOCK_LEN;
