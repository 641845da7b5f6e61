//! What operations take, return and fail with: the words that all layers from `fs` down speak.
//!
//! Plain values; knows no layer.

mod error;
mod posix;
mod progress;
mod types;

pub use error::FsError;
pub use posix::PosixAttributes;
pub use progress::Progress;
pub use types::{
    AttributeChange, Attributes, DirectoryEntry, DirectorySink, Entry, FileKind, HandleNo, InodeNo,
    OpenOptions, Opened, ReadData, RenameMode, Slices, StaleName, StatFs, TimeChange, WriteOptions,
};
