//! Inodes that the kernel knows: their numbers, their versions and the state of their writers.
//!
//! `table` alone owns lookup counts; the other files are its parts. Nothing here sends a request.

mod attributes;
mod directory_time;
mod eviction;
mod inode;
mod kept;
mod packed_version;
mod reserved;
mod sharded_table;
pub(super) mod table;
mod writing;

pub use attributes::AttributeStyle;
pub(super) use inode::Observed;
pub(super) use writing::written;
