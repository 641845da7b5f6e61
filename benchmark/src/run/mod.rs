//! A run: every measurement of every system, in turns.

mod disk_cache;
mod disk_folder;
pub(crate) mod measure;
pub(crate) mod progress;
pub(crate) mod session;
