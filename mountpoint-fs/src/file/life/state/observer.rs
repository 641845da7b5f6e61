//! The observer of staged files: one for very many of them.

use std::sync::Arc;

use crate::operation::{FsError, InodeNo, Progress};
use crate::write::Stored;

/// Learns the outcomes of staged files.
pub trait StagedObserver: Send + Sync {
    /// The bucket has the file, or all of it that a store has sent.
    fn stored(&self, file: &ObservedFile<'_>, stored: &Stored);

    /// Another host's object stands for the file.
    fn adopted(&self, file: &ObservedFile<'_>);

    /// The file failed for good.
    fn failed(&self, file: &ObservedFile<'_>, error: &FsError);

    /// The journal has released the file: it has no version, not after a kill either.
    fn released(&self, file: &ObservedFile<'_>);
}

/// A file whose outcome is told.
#[derive(Debug)]
pub struct ObservedFile<'a> {
    /// Its inode; the root of the mount for a marker, which has none.
    pub ino: InodeNo,
    /// Its size and time.
    pub progress: &'a Arc<Progress>,
}

/// Learns nothing: the observer of a file that no application has opened.
pub(in crate::file::life) struct Nobody;

impl StagedObserver for Nobody {
    fn stored(&self, _: &ObservedFile<'_>, _: &Stored) {}

    fn adopted(&self, _: &ObservedFile<'_>) {}

    fn failed(&self, _: &ObservedFile<'_>, _: &FsError) {}

    fn released(&self, _: &ObservedFile<'_>) {}
}
