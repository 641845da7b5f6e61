//! Changes of objects as wholes: removing, making directories, copying and renaming on the server.
//!
//! Knows keys, not names or inodes: what a change means for those is told by the caller. Invariant: nothing is deleted
//! before what replaces it is complete, and nothing is sent to a server that is not known to understand it.
//!
//! Runs on whatever thread polls it.

mod attributes;
mod conditions;
pub(crate) mod copy;
mod directory;
pub(crate) mod fault;
pub(crate) mod fetch;
pub(crate) mod lost_upload;
mod mutator;
mod rename;
mod tree;

pub use directory::Removal;
pub use mutator::Mutator;
pub use rename::{Moved, Target};
