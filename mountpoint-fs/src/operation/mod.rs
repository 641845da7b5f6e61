//! Arguments, results and errors of operations: the vocabulary of all layers from `fs` down.
//!
//! Plain values; knows no layer.

mod error;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod local;
mod packed_etag;
mod posix;
mod progress;
mod purpose;
mod stop;
mod types;
mod version;
mod xattrs;

pub use error::FsError;
pub use local::{LocalFiles, LocalVersion};
pub use packed_etag::PackedETag;
pub use posix::PosixAttributes;
pub use progress::Progress;
pub use purpose::{CallMark, Purpose};
pub use stop::Stop;
pub use types::{
    AllocateMode, AttributeChange, Attributes, DirectoryEntry, DirectorySink, Entry, EntryDetail,
    EvictionBatch, FileKind, HandleNo, InodeNo, Maker, OpenOptions, Opened, ReadData, RenameMode,
    SetMode, Slices, StaleName, StatFs, TimeChange, WriteOptions,
};
pub use version::Version;
pub use xattrs::ExtendedAttributes;
