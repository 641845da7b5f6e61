//! The end of a file where bytes are added: what is held of it, and how far it has come.
//!
//! What [`Writer`](super::writer::Writer) keeps under its lock; it decides and sends, this only
//! tells.

use std::sync::Arc;
use std::time::Duration;

use mountpoint_client::types::{ChecksumAlgorithm, ETag, Key, PutCondition};
use mountpoint_crt_sys::block::{Block, BlockFill};

use super::checksum::RunningChecksum;
use crate::config::limits::UPLOAD_PART_MIN;
use crate::operation::FsError;
use crate::write::background::SharedOutcome;
use crate::write::memory::admission::BufferRequest;
use crate::write::memory::buffers::Lease;
use crate::write::send::append::AppendUpload;
use crate::write::send::copied_range::CopiedRange;
use crate::write::send::multipart::Upload;
use crate::write::send::put::Adopts;
use crate::write::types::Stored;

/// The end of the file where bytes are added.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what is known of a file in any order"
)]
pub(in crate::write) struct Sink {
    /// Bytes taken so far: where the next write begins.
    pub(in crate::write) end: u64,
    /// Where the last bytes end that are no filling: until the gap behind them is full and written
    /// behind, `end` is larger.
    pub(in crate::write) written: u64,
    /// The length that was set; 0 if none was.
    pub(in crate::write) len_set: u64,
    /// Zeros that were taken for gaps.
    pub(in crate::write) zeros: u64,
    /// Whether gaps are filled: not where the file is appended to.
    pub(in crate::write) takes_gaps: bool,
    /// Whether the file was opened for reading, too.
    pub(in crate::write) is_for_both: bool,
    /// Whether this open has made the file.
    pub(in crate::write) is_new: bool,
    /// Which object of another host stands for a new file without bytes.
    pub(in crate::write) adopts: Adopts,
    /// Why a length could not be set, until bytes are written.
    pub(in crate::write) refused_len: Option<FsError>,
    /// The part that is being filled.
    pub(in crate::write) filling: Option<Filling>,
    /// Bytes behind the end of the part that was sent last.
    pub(in crate::write) overflow: Option<Overflow>,
    /// Tells which of several files was written to least lately.
    pub(in crate::write) written_at: u64,
    /// When that was.
    pub(in crate::write) written_when: Duration,
    /// When it got the room for a part last.
    pub(in crate::write) part_since: Duration,
    /// The upload that parts were sent to.
    pub(in crate::write) upload: Option<Arc<Upload>>,
    /// Parts sent, copies of the base included.
    pub(in crate::write) parts: u16,
    /// What the file begins with: it is copied before anything more is sent, and large enough for a
    /// part.
    pub(in crate::write) base: Option<CopiedRange>,
    /// How what is full is sent, unless that has begun otherwise.
    pub(in crate::write) mode: UploadMode,
    /// The object that parts are appended to.
    pub(in crate::write) append: Option<AppendUpload>,
    /// Whether the upload has copies in it, and so no checksums.
    pub(in crate::write) has_copies: bool,
    /// What the object carries was changed after its upload was begun.
    pub(in crate::write) is_metadata_late: bool,
    /// What it carries may say a time, which the next write makes wrong.
    pub(in crate::write) is_timed: bool,
    pub(in crate::write) condition: PutCondition,
    /// The version that is replaced without a condition.
    pub(in crate::write) replaced: Option<ETag>,
    pub(in crate::write) stage: Stage,
}

/// How an object is made of a file that is larger than a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::write) enum UploadMode {
    /// By an upload: it appears as a whole.
    Upload,
    /// By parts that are appended to it.
    Append,
}

#[derive(Debug)]
pub(in crate::write) enum Stage {
    /// Bytes were taken, or none yet, that the bucket does not hold.
    Open,
    /// The object is being made.
    Storing(SharedOutcome<Result<Stored, FsError>>),
    /// The bucket holds everything.
    Stored(Stored),
}

#[derive(Debug)]
pub(in crate::write) struct Filling {
    pub(in crate::write) fill: BlockFill,
    /// Of its memory.
    pub(in crate::write) lease: Arc<Lease>,
    pub(in crate::write) checksum: RunningChecksum,
    /// Bytes of the whole part; the buffer may be smaller, or larger by one write.
    pub(in crate::write) part_size: usize,
}

#[derive(Debug)]
pub(in crate::write) struct Overflow {
    pub(in crate::write) bytes: BlockBytes,
    /// Of the memory of the part that they are behind.
    pub(in crate::write) lease: Arc<Lease>,
    pub(in crate::write) checksum: RunningChecksum,
}

/// Valid bytes of a block, as the body of a request.
#[derive(Clone, Debug)]
pub(in crate::write) struct BlockBytes {
    pub(in crate::write) block: Block,
    pub(in crate::write) start: usize,
    pub(in crate::write) end: usize,
}

impl AsRef<[u8]> for BlockBytes {
    fn as_ref(&self) -> &[u8] {
        self.block.bytes(self.start..self.end)
    }
}

/// What must be there before bytes can be taken.
pub(in crate::write) enum Need {
    Nothing,
    Memory(BufferRequest),
    /// Zeros up to where the write begins.
    Gap,
    /// The object that is being made.
    End(SharedOutcome<Result<Stored, FsError>>),
}

impl Sink {
    /// The version of the object that is to be replaced, as far as it is known.
    pub(in crate::write) fn old(&self) -> Option<&ETag> {
        match &self.condition {
            PutCondition::Match(old) => Some(old),
            PutCondition::Absent | PutCondition::None => self.replaced.as_ref(),
        }
    }

    /// Notices that the object `key` was made, with a checksum of `algorithm`.
    pub(in crate::write) fn look(&mut self, key: &Key, algorithm: Option<ChecksumAlgorithm>) {
        let Stage::Storing(settled) = &self.stage else {
            return;
        };
        // A failure is remembered elsewhere.
        if let Some(Ok(stored)) = settled.get() {
            let whole = match &self.filling {
                Some(filling) => filling.checksum.value(),
                None => RunningChecksum::new(algorithm).value(),
            };
            if self.upload.take().is_some() {
                self.base = Some(CopiedRange::whole(key, stored.clone()));
                self.parts = 0;
                self.has_copies = false;
            } else if self.mode == UploadMode::Append {
                self.parts = 0;
                self.filling = None;
                self.overflow = None;
                let now = || AppendUpload::at(stored.clone(), algorithm, whole);
                self.append.get_or_insert_with(now);
            }
            self.stage = Stage::Stored(stored);
        }
    }

    /// What the bucket holds of the file if that fails now, for the log.
    pub(in crate::write) fn what_stays(&self) -> &'static str {
        match (&self.append, &self.stage, &self.condition) {
            (Some(_), ..) => "what was appended before stays",
            (None, Stage::Stored(_), _) | (None, _, PutCondition::Match(_)) => {
                "what was stored before stays"
            }
            _ if self.replaced.is_some() => "the object that was to be replaced stays",
            _ => "nothing of the file is stored",
        }
    }

    /// Whether the buffer takes `len` bytes more.
    pub(in crate::write) fn has_room(&self, len: usize) -> bool {
        let fill = self.filling.as_ref().map(|filling| &filling.fill);
        fill.is_some_and(|fill| fill.capacity() - fill.filled() >= len)
    }

    /// Whether what it holds is long enough for a part that is not the last.
    pub(in crate::write) fn has_part(&self) -> bool {
        let filled = self.filling.as_ref().map_or(0, |it| it.fill.filled());
        matches!(self.stage, Stage::Open) && filled as u64 >= UPLOAD_PART_MIN
    }

    /// Whether the next part is appended to the object.
    pub(in crate::write) fn is_growing(&self) -> bool {
        self.append.is_some()
            || (self.mode == UploadMode::Append && self.upload.is_none() && self.base.is_none())
    }

    /// Takes what is held, if it is anything, with its checksum.
    pub(in crate::write) fn take_held(&mut self) -> Option<(BlockBytes, RunningChecksum)> {
        match (self.filling.take(), self.overflow.take()) {
            (Some(filling), _) => {
                let bytes = BlockBytes {
                    block: filling.fill.block(),
                    start: 0,
                    end: filling.fill.filled(),
                };
                Some((bytes, filling.checksum))
            }
            (None, Some(overflow)) => Some((overflow.bytes, overflow.checksum)),
            (None, None) => None,
        }
    }

    /// Drops what is held: the file has failed.
    pub(in crate::write) fn let_go(&mut self) {
        self.filling = None;
        self.overflow = None;
    }

    /// Bytes in the buffer that are not sent.
    pub(in crate::write) fn held(&self) -> usize {
        let filled = self.filling.as_ref().map_or(0, |it| it.fill.filled());
        let carried = self
            .overflow
            .as_ref()
            .map_or(0, |it| it.bytes.as_ref().len());
        filled + carried
    }
}
