//! The life of a staged file: in use, with all its parts, or at rest until its upload.
//!
//! `file_life` has the one enum that says which. Imports run one way: `file_life` → `resting` →
//! `parts` → `state`, `resting` → `packing`, and `file_life` → `observer`.

mod file_life;
mod observer;
mod packing;
mod parts;
mod resting;
mod state;

pub(super) use file_life::{Awake, FileLife};
pub(super) use observer::Nobody;
pub use observer::{ObservedFile, StagedObserver};
pub(super) use parts::{FileParts, abort_unfinished};
pub use state::StagedBase;
pub(super) use state::{Base, FileState, Haste, NeverStored, RETAINED_MAX, Recorded, UnstoredName};
