//! A staged file: its contents, its name, its stores, and its commits.
//!
//! `staged_file` is the façade. Imports run one way: `staged_file` → `uploading`, `naming` →
//! `storing` → `committing` → `ending` → `releasing` → `parts` → `state` →
//! `ahead`, and `sending_ahead` → `parts`.

mod ahead;
mod committing;
mod ending;
mod naming;
mod parts;
mod releasing;
mod sending_ahead;
mod staged_file;
mod state;
mod storing;
mod uploading;

pub use parts::StagedObserver;
pub use staged_file::{StagedFile, StoresHeld};
pub use state::StagedBase;
