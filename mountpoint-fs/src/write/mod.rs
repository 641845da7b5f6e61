//! Written files: bytes in order, into an object that appears whole or not at all.
//!
//! A [`Writer`] is one open file, an [`ObjectUpload`] one object whose bytes a caller has. Bytes
//! are copied once, into a buffer of the memory budget. A file of less than a part is one PutObject
//! at its close; a larger one is a multipart upload, with parts that are sent while the application
//! writes on. Knows no names, no inodes and no handles.
//!
//! Invariants: the first failure of a file is final, and then no object appears; an upload is
//! completed or aborted, or named in the journal. Runs on each thread that polls it or brings an
//! answer.

pub(crate) mod background;
mod checksum;
mod content_type;
mod context;
mod failure;
mod file;
mod memory;
mod object_upload;
mod send;
mod types;
mod written_part;

#[cfg(test)]
mod tests;

pub use context::WriteContext;
pub use file::writer::Writer;
pub use memory::buffers::MemorySource;
pub use memory::pending::PendingWrite;
pub use object_upload::{ObjectUpload, PartBuffer, PartOutcome, UploadTarget};
pub use send::checkpoint::{
    BegunUpload, CheckpointFound, CheckpointStore, FinishedPart, PartContent, UploadCheckpoint,
};
pub use send::context::PendingWork;
pub use send::copied_range::CopiedRange;
pub use send::put::Adopts;
pub use types::{Beginning, Outcome, Replaced, Stored, WriteObserver};
pub use written_part::{PartBody, SUMMED_AT_ONCE, WrittenPart};
