//! A staged file: its contents, its name, its stores, and its commits.
//!
//! `staged_file` is the façade. Imports run one way: `staged_file` → `uploading`, `naming` →
//! `storing` → `committing` → `ending` → `releasing` → `sending_ahead` → `state` →
//! `ahead`, and `memory` → `storing`, `bytes` → `releasing`.

mod ahead;
mod bytes;
mod committing;
mod ending;
mod memory;
mod naming;
mod releasing;
mod sending_ahead;
mod staged_file;
mod state;
mod storing;
mod uploading;

pub use staged_file::{StagedFile, StoresHeld};
pub use state::{ObservedFile, StagedBase, StagedObserver};
