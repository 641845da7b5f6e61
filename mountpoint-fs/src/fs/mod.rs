//! The file system's operations, in domain types: no FUSE message, no errno, no thread.

mod at_rest;
mod attributes;
mod file_system;
mod held;
mod lifecycle;
mod markers;
mod moved;
mod names;
mod open_directory;
mod opening;
mod parts;
mod permission;
mod writing;
mod written;

#[cfg(test)]
mod tests;

pub use file_system::FileSystem;
pub use lifecycle::FileSystemStats;
