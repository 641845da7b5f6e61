//! The file system's operations, in domain types: no FUSE message, no errno, no thread.

mod attribute_change;
mod carried;
mod change;
mod copying;
mod file_system;
mod following;
mod late_writing;
mod open_directory;
mod permission;
mod writing;

#[cfg(test)]
mod tests;

pub use file_system::FileSystem;
