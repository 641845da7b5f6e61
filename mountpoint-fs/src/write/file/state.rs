//! The state of a written file, which a [`Writer`](super::writer::Writer) keeps under its lock.
//!
//! Neither decides nor sends.

use std::time::Duration;

use mountpoint_client::types::{ChecksumAlgorithm, ETag, Key, PutCondition};

use super::buffer::Buffer;
use super::extent::Extent;
use super::sink::Sink;
use crate::config::limits::UPLOAD_PART_MIN;
use crate::operation::FsError;
use crate::write::background::SharedOutcome;
use crate::write::send::append::AppendUpload;
use crate::write::send::copied_range::CopiedRange;
use crate::write::send::put::Adopts;
use crate::write::types::{Beginning, Stored, UploadMode};

/// The state of a written file.
#[derive(Debug)]
pub(in crate::write) struct FileState {
    pub(in crate::write) extent: Extent,
    pub(in crate::write) buffer: Buffer,
    pub(in crate::write) sink: Sink,
    pub(in crate::write) stage: Stage,
    pub(in crate::write) replaces: Replaces,
    /// The objects of other hosts that may stand for the file; `None` if the file is not new.
    pub(in crate::write) adopts: Option<Adopts>,
    /// The metadata may hold a time, which the next write makes void.
    pub(in crate::write) is_timed: bool,
    /// Orders files by their last write.
    pub(in crate::write) written_at: u64,
    /// The time of the last write.
    pub(in crate::write) written_when: Duration,
}

#[derive(Debug)]
pub(in crate::write) enum Stage {
    /// The bucket does not hold all bytes, or nothing was stored yet.
    Open,
    /// The object is being made.
    Storing(SharedOutcome<Result<Stored, FsError>>),
    /// The bucket holds everything.
    Stored(Stored),
}

/// The object that the file replaces.
#[derive(Debug)]
pub(in crate::write) enum Replaces {
    /// No object: there must be none.
    Nothing,
    /// Any version.
    Any,
    /// This version only.
    Version(ETag),
}

impl Replaces {
    /// The object that a file with this beginning replaces.
    fn by(beginning: &Beginning) -> Self {
        match beginning {
            Beginning::New | Beginning::NewUnasked => Self::Nothing,
            Beginning::Replace => Self::Any,
            Beginning::Grow(stored, ..)
            | Beginning::Append(stored)
            | Beginning::Extend(stored)
            | Beginning::Fill(stored) => Self::Version(stored.etag.clone()),
        }
    }

    /// The condition of the request that makes the object.
    pub(in crate::write) fn condition(&self) -> PutCondition {
        match self {
            Self::Nothing => PutCondition::Absent,
            Self::Any => PutCondition::None,
            Self::Version(version) => PutCondition::Match(version.clone()),
        }
    }
}

impl FileState {
    /// The state of a file at `key`, opened at `now`.
    pub(in crate::write) fn new(beginning: Beginning, key: &Key, now: Duration) -> Self {
        let replaces = Replaces::by(&beginning);
        let is_new = matches!(replaces, Replaces::Nothing);
        let takes_gaps = is_new || matches!(beginning, Beginning::Replace | Beginning::Fill(_));
        let (sink, stored) = match beginning {
            Beginning::New | Beginning::NewUnasked | Beginning::Replace => (Sink::Undecided, None),
            Beginning::Grow(stored, algorithm) => {
                let upload = AppendUpload::at(stored.clone(), algorithm);
                (Sink::Append { upload, parts: 0 }, Some(stored))
            }
            Beginning::Append(stored) => {
                let base = CopiedRange::whole(key, stored.clone());
                (Sink::Copied(base), Some(stored))
            }
            Beginning::Extend(stored) | Beginning::Fill(stored) => (Sink::Undecided, Some(stored)),
        };
        let end = match (&sink, &stored) {
            // `Writer::preload` brings the bytes of a short object.
            (Sink::Undecided, _) | (_, None) => 0,
            (_, Some(stored)) => stored.size,
        };
        Self {
            extent: Extent::new(end, takes_gaps),
            buffer: Buffer::Empty,
            sink,
            stage: stored.map_or(Stage::Open, Stage::Stored),
            replaces,
            adopts: is_new.then_some(Adopts::Nothing),
            is_timed: false,
            written_at: 0,
            written_when: now,
        }
    }

    /// Notices that the object `key` was made. `new` is the checksum of new objects.
    pub(in crate::write) fn look(
        &mut self,
        key: &Key,
        new: Option<ChecksumAlgorithm>,
        mode: UploadMode,
    ) {
        let Stage::Storing(outcome) = &self.stage else {
            return;
        };
        // `Failure` remembers failures.
        let Some(Ok(stored)) = outcome.get() else {
            return;
        };
        self.sink = match std::mem::take(&mut self.sink) {
            Sink::Multipart(_) => Sink::Copied(CopiedRange::whole(key, stored.clone())),
            Sink::Undecided if mode == UploadMode::Append => {
                drop(self.buffer.take());
                let upload = AppendUpload::at(stored.clone(), new);
                Sink::Append { upload, parts: 0 }
            }
            Sink::Append { upload, .. } => Sink::Append { upload, parts: 0 },
            // The buffer keeps a small file: if the file continues, it is stored again as a whole.
            sink @ (Sink::Undecided | Sink::Copied(_)) => sink,
        };
        self.stage = Stage::Stored(stored);
    }

    /// The object in the bucket if the file fails now, for the log.
    pub(in crate::write) fn what_stays(&self) -> &'static str {
        match (&self.sink, &self.stage, &self.replaces) {
            (Sink::Append { .. }, ..) => "the parts appended before stay",
            (_, Stage::Stored(_), _) | (_, _, Replaces::Version(_)) => {
                "the version stored before stays"
            }
            (_, _, Replaces::Any) => "the object that was to be replaced stays",
            (_, _, Replaces::Nothing) => "nothing of the file is stored",
        }
    }

    /// Whether the buffer is long enough for a part that is not the last.
    pub(in crate::write) fn has_part(&self) -> bool {
        let filled = self.buffer.filling().map_or(0, |it| it.fill.filled());
        matches!(self.stage, Stage::Open) && filled as u64 >= UPLOAD_PART_MIN
    }

    /// The objects of other hosts that may stand for the file now.
    pub(in crate::write) fn adopts_now(&self) -> Adopts {
        let is_untouched = self.extent.len() == 0;
        self.adopts.filter(|_| is_untouched).unwrap_or_default()
    }
}
