//! The version of the last commit while its file is changed: an upload sends it as it was.

use std::ops::Range;
use std::sync::Arc;

use super::piece::DataFileNo;
use super::snapshot::{Place, Snapshot};

/// Where the version of the last commit is.
#[derive(Debug, Default)]
pub(in crate::file) enum LastCommit {
    /// No version waits for its upload.
    #[default]
    None,
    /// The contents are the version.
    Newest,
    /// The contents have changed since, and all bytes of the version are there.
    Apart(Apart),
    /// The contents have changed since, and the store in progress sends the version.
    Sending,
    /// The contents have changed since, and bytes of the version were written over, or may be.
    Lost,
}

/// A version that a store sends, or will send.
#[derive(Debug)]
pub(super) struct Storing {
    pub(super) snapshot: Arc<Snapshot>,
    /// How far the stored version will show through.
    pub(super) base_len: u64,
    /// Whether it is that of the last commit.
    pub(super) is_last_commit: bool,
}

/// A version that the contents have left behind.
#[derive(Debug)]
pub(in crate::file) struct Apart {
    pub(super) version: Storing,
    /// How far the version that a store was sending then will show through.
    pub(super) rebased_len: u64,
    pub(super) sparing: Sparing,
}

/// Whether changes are written elsewhere than the bytes of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sparing {
    /// No, as the disk has no room.
    Ended,
    /// While the contents have not more than [`RANGES_MAX`] ranges.
    FewRanges,
    /// Whatever room that takes: an upload waits for the version.
    Always,
}

#[cfg(any(test, fuzzing))]
impl Apart {
    pub(super) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.version.snapshot
    }
}

impl LastCommit {
    /// The version, if it is apart and is spared by contents of so many ranges.
    pub(super) fn spared(&self, ranges: usize) -> Option<&Snapshot> {
        let Self::Apart(apart) = self else {
            return None;
        };
        let is_spared = match apart.sparing {
            Sparing::Ended => false,
            Sparing::FewRanges => ranges <= RANGES_MAX,
            Sparing::Always => true,
        };
        is_spared.then_some(&*apart.version.snapshot)
    }

    /// Whether the version is apart and has bytes of `range` in the data file.
    pub(super) fn has(&self, range: &Range<u64>, file: DataFileNo) -> bool {
        let Self::Apart(apart) = self else {
            return false;
        };
        let mut hit = apart.version.snapshot.changes.overlapping(range);
        hit.any(|(_, change)| change.place == Place::Data(file))
    }

    /// The file was cut to `len` bytes.
    pub(super) fn cut(&mut self, len: u64) {
        if let Self::Apart(apart) = self {
            apart.version.base_len = apart.version.base_len.min(len);
        }
    }

    /// The bucket has the changes up to `generation`, those of a version before.
    pub(super) fn rebase(&mut self, generation: u64) {
        if let Self::Apart(apart) = self {
            let rebased = Arc::make_mut(&mut apart.version.snapshot);
            rebased.stored = generation;
            rebased.base_len = apart.rebased_len;
        }
    }
}

/// Ranges of a file up to which changes are kept apart from the committed bytes: a record names
/// them all, and a database that syncs each change writes such a record each time.
const RANGES_MAX: usize = 64;
