//! Small files fetched before they are opened, where a directory's files are opened in order.
//!
//! `Runs` decides which, `Credit` how many bytes may be at stake; [`NextFiles`] does. Only for mounts that open files at
//! the version they were last known to have: where each open asks for the newest version, a GET that was sent before it
//! proves nothing.

mod credit;
mod files;
mod runs;

pub(super) use files::Ahead;
pub use files::{NextFiles, NextFilesStats};
pub use runs::NextFile;

#[cfg(test)]
mod tests;
