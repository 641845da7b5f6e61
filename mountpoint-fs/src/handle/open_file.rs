//! An open file.

use std::sync::Arc;

use super::staged::StagedHandle;
use crate::operation::{FsError, InodeNo};
use crate::read::Reader;
use crate::read::mode::ReadWatch;
use crate::sync::Mutex;

/// One open of a file.
#[derive(Debug)]
pub enum OpenFile {
    /// An open for reading one version. Reads may run in parallel: the reader needs no lock from
    /// here.
    Reading {
        /// The inode, which lives at least as long as this value.
        ino: InodeNo,
        /// Reads the version that was opened.
        reader: Reader,
        /// Reads it by the name that this mount has given it since. A leaf.
        renamed: Mutex<Option<Arc<Reader>>>,
        /// Observes the reads where they decide how the next open is served.
        watch: Option<ReadWatch>,
    },
    /// An open of a file that is written, for reading or writing.
    Staged(StagedHandle),
}

/// The reader of an open, and that of another name.
type OpenedReader<'a> = (&'a Reader, &'a Mutex<Option<Arc<Reader>>>);

impl OpenFile {
    /// The inode, the reader with that of another name, and its observer.
    ///
    /// [`FsError::Unsupported`] if the file is being written.
    pub fn reading(&self) -> Result<(InodeNo, OpenedReader<'_>, Option<&ReadWatch>), FsError> {
        match self {
            Self::Reading {
                ino,
                reader,
                renamed,
                watch,
            } => Ok((*ino, (reader, renamed), watch.as_ref())),
            Self::Staged(_) => Err(FsError::Unsupported(
                "a file that is being written is not copied on the server",
            )),
        }
    }

    /// The handle of a file that is written.
    #[must_use]
    pub fn staged(&self) -> Option<&StagedHandle> {
        match self {
            Self::Staged(handle) => Some(handle),
            Self::Reading { .. } => None,
        }
    }

    /// As [`Self::staged`].
    ///
    /// # Errors
    /// [`FsError::OneWay`] if the file is only read.
    pub fn writing(&self) -> Result<&StagedHandle, FsError> {
        self.staged().ok_or(FsError::OneWay(
            "an existing file that is opened for reading and writing is only read; with --allow-changes, or \
             --allow-overwrite alone, it can be changed",
        ))
    }
}
