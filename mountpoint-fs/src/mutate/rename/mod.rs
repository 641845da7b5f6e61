//! Renaming objects, and directories object by object.

mod claim;
mod moves;
mod object;
mod progress;
mod tree;

pub use moves::RenamedVersion;
pub use object::{Moved, Target};
