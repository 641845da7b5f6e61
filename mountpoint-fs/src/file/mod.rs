//! Written files: changed at any place, in any order, and stored in S3 when they are closed or
//! synchronised.
//!
//! A [`StagedFile`] is a version of an object, its *base*, and the local changes over it: bytes in
//! sparse files of the user's directory, or in memory without one. Nothing of the base is fetched
//! before it is needed, and a store has the server copy what did not change. Knows no inodes and no
//! handles. `journal` makes records durable.
//!
//! With write-back a close makes the file durable on the local disk: `commit` makes a record of it,
//! and `queue` brings it to the bucket later.
//!
//! Imports run one way: `staging` → `left`, `life` → `store`, `pending` → `kept` →
//! `sources`, `commit` → `local`, `context` → `control` → `directory`, `queue`, `journal` →
//! `contents`.

mod commit;
mod contents;
mod context;
pub(crate) mod control;
pub(crate) mod directory;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
pub(crate) mod journal;
pub(crate) mod kept;
mod left;
mod life;
mod local;
pub(crate) mod pending;
mod queue;
mod sources;
mod staging;
mod store;

#[cfg(test)]
pub(crate) mod tests;

pub use life::{ObservedFile, StagedBase, StagedFile, StagedObserver, StoresHeld};
pub use queue::{PendingUpload, PendingUploads};
pub use staging::{RecoveredFile, Staging};
