//! Changes of whole objects: removing, making directories, copying and renaming on the server.
//!
//! Knows keys, not names or inodes: the caller applies a change to those. Invariant: no object is
//! deleted before its replacement is complete, and no request is sent to a server that is not known
//! to understand it.
//!
//! Runs on any thread that polls it.

mod attributes;
pub(crate) mod completion_tags;
pub(crate) mod conditions;
pub(crate) mod copy;
pub(crate) mod deletion;
mod directory;
pub(crate) mod fault;
pub(crate) mod fetch;
mod mutator;
pub(crate) mod own_write;
mod parallel;
mod rename;

pub use directory::Removal;
pub(crate) use directory::marker;
pub use mutator::Mutator;
pub use rename::{Moved, RenamedVersion, Target};
