//! The state of a staged file: in use, with all its parts, or at rest until its upload.
//!
//! `file_life` has the one enum that says which. Imports run one way: `file_life` → `resting` →
//! `parts` → `file_state` → `end`, `resting` → `packing`, and `file_life` → `observer`.

mod end;
mod file_life;
mod file_state;
mod observer;
mod packing;
mod parts;
mod resting;

pub(super) use file_life::{Awake, FileLife};
pub use file_state::StagedBase;
pub(super) use file_state::{Base, FileState, Haste, RETAINED_MAX, Recorded, UnstoredName};
pub(super) use observer::Nobody;
pub use observer::{ObservedFile, StagedObserver};
pub(super) use parts::{FileParts, abort_unfinished};
