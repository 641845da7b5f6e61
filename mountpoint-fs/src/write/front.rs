//! The end of a file where bytes are added: what is held of it, and how far it has come.
//!
//! What [`Writer`](super::writer::Writer) keeps under its lock; it decides and sends, this only tells.

use std::sync::Arc;

use mountpoint_client::types::PutCondition;
use mountpoint_crt_sys::block::{Block, BlockFill};

use super::background::Settled;
use super::checksum::RunningChecksum;
use super::memory::Ask;
use super::upload::Upload;
use super::writer::Stored;
use crate::config::limits::{UPLOAD_PART_MAX, UPLOAD_PART_MIN};
use crate::operation::FsError;

/// The end of the file where bytes are added.
#[derive(Debug)]
pub(super) struct Front {
    /// Bytes taken so far: where the next write begins.
    pub(super) end: u64,
    /// The part that is being filled.
    pub(super) filling: Option<Filling>,
    /// Bytes behind the end of the part that was sent last.
    pub(super) carry: Option<Carry>,
    /// Tells which of several files was written to least lately.
    pub(super) written_at: u64,
    /// The upload that parts were sent to.
    pub(super) upload: Option<Arc<Upload>>,
    /// Parts sent, copies of the base included.
    pub(super) parts: u16,
    /// An object that the file begins with, and that is copied before anything is sent.
    pub(super) base: Option<Stored>,
    pub(super) condition: PutCondition,
    pub(super) stage: Stage,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// Bytes were taken, or none yet, that the bucket does not hold.
    Open,
    /// The object is being made.
    Storing(Settled<Result<Stored, FsError>>),
    /// The bucket holds everything.
    Stored(Stored),
}

#[derive(Debug)]
pub(super) struct Filling {
    pub(super) fill: BlockFill,
    pub(super) checksum: RunningChecksum,
    /// Bytes of the whole part; the buffer may be smaller, or larger by one write.
    pub(super) part_size: usize,
}

#[derive(Debug)]
pub(super) struct Carry {
    pub(super) bytes: BlockBytes,
    pub(super) checksum: RunningChecksum,
}

/// Valid bytes of a block, as the body of a request.
#[derive(Clone, Debug)]
pub(super) struct BlockBytes {
    pub(super) block: Block,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl AsRef<[u8]> for BlockBytes {
    fn as_ref(&self) -> &[u8] {
        self.block.bytes(self.start..self.end)
    }
}

/// What must be there before bytes can be taken.
pub(super) enum Need {
    Nothing,
    Memory(Ask),
    /// The object that is being made.
    End(Settled<Result<Stored, FsError>>),
}

impl Front {
    /// Notices that the object was made.
    pub(super) fn look(&mut self) {
        let Stage::Storing(settled) = &self.stage else {
            return;
        };
        // A failure is remembered elsewhere.
        if let Some(Ok(stored)) = settled.get() {
            if self.upload.take().is_some() {
                self.base = Some(stored.clone());
                self.parts = 0;
            }
            self.stage = Stage::Stored(stored);
        }
    }

    /// Whether what it holds is long enough for a part that is not the last.
    pub(super) fn has_part(&self) -> bool {
        let filled = self.filling.as_ref().map_or(0, |it| it.fill.filled());
        matches!(self.stage, Stage::Open) && filled as u64 >= UPLOAD_PART_MIN
    }

    /// Bytes in the buffer that are not sent.
    pub(super) fn held(&self) -> usize {
        let filled = self.filling.as_ref().map_or(0, |it| it.fill.filled());
        let carried = self.carry.as_ref().map_or(0, |it| it.bytes.as_ref().len());
        filled + carried
    }

    /// Parts that copying the base will take.
    pub(super) fn copies(&self) -> u16 {
        let base = self.base.as_ref().map_or(0, |base| base.size);
        u16::try_from(base.div_ceil(UPLOAD_PART_MAX)).unwrap_or(u16::MAX / 2)
    }
}

/// Ranges of an object of `size` bytes that are copied as parts: equally large, none larger than S3 copies at once.
pub(super) fn copy_ranges(size: u64) -> impl Iterator<Item = std::ops::Range<u64>> {
    let count = size.div_ceil(UPLOAD_PART_MAX).max(1);
    let len = size.div_ceil(count).max(1);
    (0..count)
        .map(move |index| index * len..((index + 1) * len).min(size))
        .filter(|range| !range.is_empty())
}
