//! A run: every measurement of every system, in turns.

mod cache_folder;
mod disk_cache;
pub(crate) mod measure;
pub(crate) mod progress;
pub(crate) mod session;
