//! The file system's operations, in domain types: no FUSE message, no errno, no thread.

mod error;
mod file_system;
mod open_directory;
mod open_mode;
mod types;

#[cfg(test)]
mod tests;

pub use error::FsError;
pub use file_system::FileSystem;
pub use types::{
    Attributes, DirectoryEntry, DirectorySink, Entry, FileKind, HandleNo, InodeNo, OpenOptions,
    Opened, ReadData, StatFs,
};
