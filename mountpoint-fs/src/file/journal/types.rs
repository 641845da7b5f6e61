//! Types that the journal takes and returns.

use std::io;
use std::sync::Arc;

use thiserror::Error;

/// The subject of a record: a staged file. The journal keeps the newest record of each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RecordKey(pub u64);

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RecordId {
    /// The staged file that the record describes.
    pub(crate) key: RecordKey,
    /// Of two records of a key, the one with the higher version is newer.
    pub(crate) version: u64,
}

/// A record that an earlier process made durable and did not release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecoveredRecord {
    /// Which one.
    pub(crate) id: RecordId,
    /// Bytes of its payload, for [`super::Journal::read`].
    pub(crate) len: u32,
}

/// How large a journal may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalLimits {
    /// Bytes of a segment file, claimed when it is begun.
    pub(crate) segment_len: u64,
    /// Bytes of all segments; when live records have half of them, new ones are refused.
    pub(crate) bytes_max: u64,
}

impl Default for JournalLimits {
    fn default() -> Self {
        Self {
            segment_len: SEGMENT_LEN,
            bytes_max: JOURNAL_BYTES_MAX,
        }
    }
}

impl JournalLimits {
    /// Bytes of a batch: that of a full one is written in milliseconds, and a few of them go into a
    /// segment.
    pub(super) fn batch_len_max(&self) -> usize {
        let share = usize::try_from(self.segment_len / 4).unwrap_or(usize::MAX);
        share.min(BATCH_LEN_MAX)
    }

    /// Zeros that are written at once behind a small batch. 30 small files use them up; a disk of
    /// 1 GB/s has them in a quarter of a millisecond.
    pub(super) fn zeros_len(&self) -> u64 {
        ZEROS_LEN.min(self.segment_len / 4)
    }

    /// Bytes of a batch behind which zeros are worth their writing: those of a larger one take
    /// longer than what zeros save.
    pub(super) fn small_batch_len(&self) -> u64 {
        self.zeros_len() / 4
    }

    /// Bytes of a payload.
    pub(super) fn record_len_max(&self) -> usize {
        RECORD_LEN_MAX.min(self.batch_len_max() / 2)
    }
}

/// A part of a journal that was durable once and is not valid now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Number of the segment.
    pub(crate) segment: u64,
    /// First byte in it that is not valid.
    pub(crate) offset: u64,
    /// The defect of the part.
    pub(crate) reason: DamageReason,
}

/// The defect of a part of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum DamageReason {
    /// The file is not there.
    #[error("the segment is missing")]
    Missing,
    /// The file begins with something else.
    #[error("its header is not valid")]
    Header,
    /// The file is shorter than it was made.
    #[error("the segment was cut there, with what it held behind")]
    Cut,
    /// The segment is of another journal, or was renamed.
    #[error("it belongs elsewhere")]
    Foreign,
    /// A record has a wrong checksum.
    #[error("a record is not valid")]
    Record,
}

/// Why a journal cannot be opened.
#[derive(Debug, Error)]
pub(crate) enum JournalError {
    /// A newer program wrote the journal, whose records could be misread.
    #[error(
        "segment {segment} of the journal has format {found}, and this program reads up to {known}: \
         use the newer program that wrote it, or empty the journal with that one"
    )]
    Newer {
        /// Number of the segment.
        segment: u64,
        /// Its format.
        found: u32,
        /// The newest format that is read.
        known: u32,
    },
    /// Records that were acknowledged are lost or wrong.
    #[error(
        "the journal is damaged in segment {}, at byte {}: {}; what else it holds can be exported, \
         and nothing is uploaded from it until it is removed",
        .0.segment, .0.offset, .0.reason
    )]
    Damaged(Damage),
    /// The disk does not work.
    #[error("cannot read the journal: {0}")]
    Io(#[from] io::Error),
}

impl From<JournalError> for String {
    /// The text for the user.
    fn from(refused: JournalError) -> Self {
        refused.to_string()
    }
}

/// Why a record is not in the journal.
#[derive(Clone, Debug, Error)]
pub(crate) enum AppendError {
    /// Such data belongs beside the journal.
    #[error("a record of {len} bytes is too large for the journal, which takes {RECORD_LEN_MAX}")]
    TooLarge {
        /// Bytes of the payload.
        len: usize,
    },
    /// Live records have all the room that they may have.
    #[error(
        "the journal is full: it may have {bytes_max} bytes, and what it holds is not uploaded"
    )]
    Full {
        /// Bytes that all segments may have.
        bytes_max: u64,
    },
    /// The disk failed, for this record for good: whether it is durable is unknown.
    #[error("cannot write the journal: {0}")]
    Disk(Arc<io::Error>),
    /// The journal was closed.
    #[error("the journal is closed")]
    Closed,
}

/// Largest payload of a record. Larger data costs less beside the journal, where it is written once
/// and read by ranges.
pub(crate) const RECORD_LEN_MAX: usize = 1 << 20;

/// A segment is made, synced and named each 64 MiB: 4 syncs beside the 64 of full batches.
const SEGMENT_LEN: u64 = 64 << 20;

/// See [`JournalLimits::zeros_len`].
const ZEROS_LEN: u64 = 256 << 10;

/// Small files of some minutes at 20 MB/s; an upload that takes longer than that stops writers.
const JOURNAL_BYTES_MAX: u64 = 4 << 30;

/// Bytes of a batch, twice: one fills while the other is written. Beyond that a batch gains
/// nothing: its sync takes as long as its bytes do.
const BATCH_LEN_MAX: usize = 4 << 20;
