//! The file system's operations, in domain types: no FUSE message, no errno, no thread.

mod at_rest;
mod attributes;
mod file_system;
mod follow;
mod links;
mod local;
mod names;
mod open_directory;
mod opening;
mod permission;
mod staged;
mod staged_names;
mod statistics;
mod write;

#[cfg(test)]
mod tests;

pub use file_system::FileSystem;
pub use statistics::FileSystemStats;
