//! The index of an entry that is open, in memory.

use std::ops::Range;
use std::sync::Arc;

use crate::cache::index::Extents;
use crate::cache::index_memory::{IndexMemory, IndexShare};
use crate::local_disk::DiskFile;

/// The index of an entry, once it was read.
#[derive(Debug)]
pub(super) enum EntryState {
    /// The index was not read yet.
    Unread,
    /// The index was read.
    Read(Contents),
}

/// Both files of an entry.
#[derive(Clone, Debug)]
pub(super) struct EntryFiles {
    pub(super) data: Arc<dyn DiskFile>,
    pub(super) index: Arc<dyn DiskFile>,
    /// The checksum of the index file's header.
    pub(super) salt: u32,
}

/// The contents of an entry.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) extents: Extents,
    /// `None` while there are no files.
    pub(super) files: Option<EntryFiles>,
    /// The mark of boot and data file for which all bytes were compared.
    pub(super) verified: Option<u64>,
    /// Bytes that this process has stored: it knows them to be right.
    pub(super) stored_here: u64,
    /// Records of the index file, as far as this process knows.
    pub(super) records: u64,
    /// Whether the index file has more than there was memory for: nothing is stored then.
    pub(super) is_cut: bool,
    /// The memory of `extents`.
    pub(super) memory: IndexShare,
}

/// Where the bytes of a range are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) enum Place {
    /// All are on the disk.
    Disk,
    /// Some are not on the disk.
    Elsewhere,
    /// The index was not read yet.
    Unknown,
}

impl EntryState {
    /// Where the bytes of `range` are.
    pub(super) fn place(&self, range: &Range<u64>) -> Place {
        match self {
            Self::Unread => Place::Unknown,
            Self::Read(contents) if contents.extents.covers(range) => Place::Disk,
            Self::Read(_) => Place::Elsewhere,
        }
    }

    /// Divides `range` into ranges that are on the disk and ranges that are not, if there are both
    /// and at most `parts_max` altogether.
    pub(super) fn divide(&self, range: &Range<u64>, parts_max: usize) -> Option<Vec<Range<u64>>> {
        let Self::Read(Contents { extents, .. }) = self else {
            return None;
        };
        if extents.bytes() == 0 || extents.is_whole() {
            return None;
        }
        let parts = extents.divide(range);
        ((2..=parts_max).contains(&parts.len()))
            .then(|| parts.into_iter().map(|(part, _)| part).collect())
    }

    /// The files of an entry that has all its bytes, and its mark of verification.
    pub(super) fn whole(&self) -> Option<(EntryFiles, Option<u64>)> {
        match self {
            Self::Read(contents) if contents.extents.is_whole() => {
                Some((contents.files.clone()?, contents.verified))
            }
            _ => None,
        }
    }
}

impl Contents {
    /// The contents of an entry of `size` bytes that has none of them.
    pub(super) fn nothing(size: u64, memory: &Arc<IndexMemory>) -> Self {
        Self {
            extents: Extents::new(size),
            files: None,
            verified: None,
            stored_here: 0,
            records: 0,
            is_cut: false,
            memory: IndexShare::new(memory),
        }
    }
}
