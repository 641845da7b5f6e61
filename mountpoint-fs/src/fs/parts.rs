//! The owners that the operations of a file system ask and change.

use std::sync::Arc;
use std::time::SystemTime;

use crate::clock::Clock;
use crate::config::WriteConfig;
use crate::handle::{StagedFiles, StagedMarkers};
use crate::mutate::Mutator;
use crate::namespace::Namespace;
use crate::read::ReadContext;
use crate::write::WriteContext;

/// The owners that all operations share.
///
/// Operations stand in layers: permission checks and ends of files at the bottom, then markers and
/// headers, then opens, then changes of names and bytes. A layer calls only layers below it.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) config: WriteConfig,
    pub(super) clock: Clock,
    pub(super) namespace: Arc<Namespace>,
    pub(super) reading: Arc<ReadContext>,
    pub(super) writing: Arc<WriteContext>,
    pub(super) mutator: Arc<Mutator>,
    /// Files that are written: in memory, or in the mount's directory for them.
    pub(super) staged: Arc<StagedFiles>,
    /// Markers of directories that the bucket lacks.
    pub(super) markers: Arc<StagedMarkers>,
    /// Owner of new files and directories.
    pub(super) owner: (u32, u32),
    /// Default permission bits of directories.
    pub(super) dir_mode: u16,
}

impl Parts {
    /// The time of day.
    pub(super) fn wall_now(&self) -> SystemTime {
        self.clock.wall()
    }
}
