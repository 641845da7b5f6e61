//! A staged file: its contents, its name, and its stores.

mod staged_file;
mod state;

pub use staged_file::{StagedFile, StoresHeld};
pub use state::StagedBase;
