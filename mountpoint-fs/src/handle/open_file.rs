//! A file that is open.

use std::sync::Arc;

use super::late_writer::LateWriter;
use super::open_writer::OpenWriter;
use crate::operation::{FsError, InodeNo};
use crate::read::Reader;
use crate::read::mode::ReadWatch;
use crate::sync::Mutex;

/// One open of a file: it is read or written, never both at once.
#[derive(Debug)]
pub enum OpenFile {
    /// Of one version, which stays the same. Reads may run in parallel: the reader needs no lock from here.
    Reading {
        /// The inode, which is there as long as this is.
        ino: InodeNo,
        /// Reads the version that was opened.
        reader: Reader,
        /// Looks at how it is read, where that tells how to open it the next time.
        watch: Option<ReadWatch>,
        /// Where it was opened for both (`O_RDWR`) and may be replaced: from its first change on it is only written.
        late: Option<LateWriter>,
    },
    /// Of a file that is being written, and that was synchronised: of the newest version that is stored.
    Following {
        /// The inode, which is there as long as this is.
        ino: InodeNo,
        /// Reads the version that was the newest when it was read last. The lock is a leaf.
        reader: Mutex<Arc<Reader>>,
    },
    /// Of a file that is open for writing and was not changed yet.
    Unchanged(LateWriter),
    /// Of a file that is being written.
    Writing(Arc<OpenWriter>),
}

impl OpenFile {
    /// What reads it, and what looks at that; [`FsError::OneWay`] if it is open for writing, [`FsError::Unsupported`] if
    /// that may change from read to read.
    pub fn reading(&self) -> Result<(InodeNo, &Reader, Option<&ReadWatch>), FsError> {
        match self {
            Self::Reading {
                ino, reader, watch, ..
            } if self.late().is_none_or(|late| late.writer().is_none()) => {
                Ok((*ino, reader, watch.as_ref()))
            }
            Self::Following { .. } => Err(FsError::Unsupported(
                "a file that is being written is not copied on the server",
            )),
            Self::Reading { .. } | Self::Unchanged(_) | Self::Writing(_) => Err(FsError::OneWay(
                "what was written to a file can be read when it is closed",
            )),
        }
    }

    /// Whether it is being written and `offset` is behind what was: nothing is to be read there, as in any other file.
    #[must_use]
    pub fn is_written_up_to(&self, offset: u64) -> bool {
        let open = match self {
            Self::Writing(open) => Some(open),
            _ => self.late().and_then(LateWriter::writer),
        };
        open.is_some_and(|open| {
            open.writer.failure().is_none() && open.writer.progress().size() <= offset
        })
    }

    /// What writes it: [`FsError::OneWay`] if nothing does, or the error of the first write that was refused.
    pub fn writing(&self) -> Result<&Arc<OpenWriter>, FsError> {
        if let Self::Writing(open) = self {
            return Ok(open);
        }
        let late = self.late().ok_or(FsError::OneWay(
            "an existing file that is opened for both without O_TRUNC is only read; with --allow-changes, or \
             --allow-overwrite alone, and without O_SYNC, it can be cut to nothing and replaced",
        ))?;
        late.writer().ok_or_else(|| {
            let not_yet = || FsError::OneWay("nothing was written to the file yet");
            self.refusal().unwrap_or_else(not_yet)
        })
    }

    /// What begins to write it with its first change, or has begun so.
    #[must_use]
    pub fn late(&self) -> Option<&LateWriter> {
        match self {
            Self::Unchanged(late) => Some(late),
            Self::Reading { late, .. } => late.as_ref(),
            Self::Following { .. } | Self::Writing(_) => None,
        }
    }

    /// The error of the first write that was refused.
    #[must_use]
    pub fn refusal(&self) -> Option<FsError> {
        self.late().and_then(LateWriter::refusal)
    }

    /// What is to write it with its first change, which has not come.
    #[must_use]
    pub fn unchanged(&self) -> Option<&LateWriter> {
        self.late().filter(|late| late.writer().is_none())
    }
}
