//! What operations take, return and fail with: the words that all layers from `fs` down speak.
//!
//! Plain values; knows no layer.

mod error;
mod progress;
mod types;

pub use error::FsError;
pub use progress::Progress;
pub use types::{
    Attributes, DirectoryEntry, DirectorySink, Entry, FileKind, HandleNo, InodeNo, OpenOptions,
    Opened, ReadData, Slices, StaleName, StatFs, WriteOptions,
};
