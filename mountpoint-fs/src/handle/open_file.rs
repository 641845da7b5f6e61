//! A file that is open.

use std::sync::Arc;

use super::open_writer::OpenWriter;
use crate::operation::{FsError, InodeNo};
use crate::read::Reader;
use crate::read_mode::ReadWatch;

/// One open of a file: for reading or for writing, never both.
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
    },
    /// Of a file that is being written.
    Writing(Arc<OpenWriter>),
}

impl OpenFile {
    /// What reads it, and what looks at that; [`FsError::OneWay`] if it is open for writing.
    pub fn reading(&self) -> Result<(InodeNo, &Reader, Option<&ReadWatch>), FsError> {
        match self {
            Self::Reading { ino, reader, watch } => Ok((*ino, reader, watch.as_ref())),
            Self::Writing(_) => Err(FsError::OneWay(
                "what was written to a file can be read when it is closed",
            )),
        }
    }

    /// What writes it; [`FsError::OneWay`] if it is open for reading.
    pub fn writing(&self) -> Result<&Arc<OpenWriter>, FsError> {
        match self {
            Self::Reading { .. } => Err(FsError::OneWay(
                "an existing file that is opened without O_TRUNC is only read: parts of it cannot be replaced",
            )),
            Self::Writing(writer) => Ok(writer),
        }
    }
}
