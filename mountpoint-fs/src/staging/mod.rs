//! Staged files: written in place, in any order, and stored in S3 when they are closed or
//! synchronised.
//!
//! A [`StagedFile`] is a version of an object, its *base*, and the local changes over it: bytes in
//! sparse files of the user's directory, or in memory without one. Nothing of the base is fetched
//! before it is needed, and a store has the server copy what did not change. Knows no inodes and no
//! handles. [`journal`] makes records durable, and [`disk`] is what it needs of a disk.
//!
//! With write-back a close makes the file durable on the local disk, as a `record` of the journal,
//! and the queue in `uploads` brings it to the bucket later.
//!
//! Imports run one way: `staging` → `left`, `file` → `upload`, `pending` → `kept` → `sources`,
//! `record` → `local`, `context` → `control` → `directory`, `uploads`, `journal` → `disk`,
//! `contents`.

mod contents;
mod context;
pub(crate) mod control;
pub(crate) mod directory;
pub mod disk;
mod file;
pub mod journal;
pub(crate) mod kept;
mod left;
mod local;
pub(crate) mod pending;
mod record;
mod sources;
#[expect(
    clippy::module_inception,
    reason = "the façade has the name of what it is the façade of"
)]
mod staging;
mod upload;
mod uploads;

#[cfg(test)]
mod tests;

pub use file::{ObservedFile, StagedBase, StagedFile, StagedObserver, StoresHeld};
pub use staging::{RecoveredFile, Staging};
pub use uploads::{PendingUpload, PendingUploads};
