//! An open file.

use std::sync::Arc;

use super::open_writer::OpenWriter;
use super::staged::StagedHandle;
use crate::operation::{FsError, InodeNo};
use crate::read::Reader;
use crate::read::mode::ReadWatch;
use crate::sync::Mutex;

/// One open of a file: it is read or written, never both at once.
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
    /// An open for reading a file that another handle writes and has synchronised. Follows the
    /// newest stored version.
    Following {
        /// The inode, which lives at least as long as this value.
        ino: InodeNo,
        /// Reads the version that was the newest at the last read, if there was one. The lock is a
        /// leaf.
        reader: Mutex<Option<Arc<Reader>>>,
        /// Set for the process that writes the file: reads get bytes that are not stored as well.
        /// The handle is one of the writer's.
        own: Option<Arc<OpenWriter>>,
    },
    /// An open for writing bytes one after the other.
    Writing(Arc<OpenWriter>),
    /// An open of a file that is written in place, for reading or writing.
    Staged(StagedHandle),
}

/// The reader of an open, and that of another name.
type OpenedReader<'a> = (&'a Reader, &'a Mutex<Option<Arc<Reader>>>);

impl OpenFile {
    /// The inode, the reader with that of another name, and its observer.
    ///
    /// [`FsError::OneWay`] if the file is open for writing, [`FsError::Unsupported`] if the reader
    /// may change from read to read.
    pub fn reading(&self) -> Result<(InodeNo, OpenedReader<'_>, Option<&ReadWatch>), FsError> {
        match self {
            Self::Reading {
                ino,
                reader,
                renamed,
                watch,
            } => Ok((*ino, (reader, renamed), watch.as_ref())),
            Self::Following { .. } | Self::Staged(_) => Err(FsError::Unsupported(
                "a file that is being written is not copied on the server",
            )),
            Self::Writing(_) => Err(FsError::OneWay(
                "a file that is being written can be read after its close",
            )),
        }
    }

    /// The writer whose bytes the handle reads: its own, or that of its process.
    #[must_use]
    pub fn written(&self) -> Option<&Arc<OpenWriter>> {
        match self {
            Self::Writing(open) => Some(open),
            Self::Following { own, .. } => own.as_ref(),
            Self::Reading { .. } | Self::Staged(_) => None,
        }
    }

    /// The handle of a staged file.
    #[must_use]
    pub fn staged(&self) -> Option<&StagedHandle> {
        match self {
            Self::Staged(handle) => Some(handle),
            _ => None,
        }
    }

    /// The writer: [`FsError::OneWay`] if there is none.
    pub fn writing(&self) -> Result<&Arc<OpenWriter>, FsError> {
        match self {
            Self::Writing(open) => Ok(open),
            _ => Err(FsError::OneWay(
                "an existing file that is opened for reading and writing is only read; with --allow-changes, or \
                 --allow-overwrite alone, it can be changed",
            )),
        }
    }
}
