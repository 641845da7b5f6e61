//! Objects that are made of written bytes, whole or not at all.
//!
//! An [`ObjectUpload`] is one object whose bytes a caller has. An object of less than a part is one
//! PutObject; a larger one is a multipart upload. Knows no names, no inodes and no handles.
//!
//! Invariants: the first failure of a file is final, and then no object appears; an upload is
//! completed or aborted, or named in the journal. Runs on each thread that polls it or brings an
//! answer.

pub(crate) mod background;
mod checksum;
mod content_type;
mod context;
mod failure;
mod memory;
mod object_upload;
mod send;
mod types;
mod written_part;

pub use context::WriteContext;
pub use memory::buffers::{Grant, MemorySource, Spared};
pub use memory::pending::PendingWrite;
pub use memory::pressure::Reclaim;
pub use object_upload::{ObjectUpload, PartBuffer, PartOutcome, UploadTarget};
pub use send::checkpoint::{
    BegunUpload, CheckpointFound, CheckpointStore, FinishedPart, PartContent, UploadCheckpoint,
};
pub use send::context::PendingWork;
pub use send::copied_range::CopiedRange;
pub use send::put::Adopts;
pub use types::{Outcome, Replaced, Stored};
pub use written_part::{PartBody, SUMMED_AT_ONCE, WrittenPart};
