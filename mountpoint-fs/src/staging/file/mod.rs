//! A staged file: its contents, its name, its stores, and its commits.
//!
//! `staged_file` is the façade. Imports run one way: `staged_file` → `uploading`, `naming` →
//! `storing` → `committing` → `ending` → `releasing` → `sending_ahead` → `life` → `ahead`,
//! and `memory` → `storing`, `bytes` → `releasing`.

mod ahead;
mod bytes;
mod committing;
mod ending;
mod life;
mod memory;
mod naming;
mod releasing;
mod sending_ahead;
mod staged_file;
mod storing;
mod uploading;

pub use life::{ObservedFile, StagedBase, StagedObserver};
pub use staged_file::{StagedFile, StoresHeld};
