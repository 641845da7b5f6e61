//! Files whose bytes are in a local file, which the kernel may read by itself.
//!
//! The operations tell which opens allow it; whether the kernel does it is not known here.

use std::sync::Arc;

use super::FileSystem;
use super::opening::permit_writing;
use crate::operation::{FsError, HandleNo, InodeNo, LocalFiles, WriteOptions};

impl FileSystem {
    /// Takes local files with the bytes of whole objects from `files`. Before the mount is served;
    /// only the first call has an effect.
    pub fn set_local_files(&self, files: Arc<dyn LocalFiles>) {
        self.reading.set_local_files(files);
    }

    /// Whether there may be local files with the bytes of whole objects.
    #[must_use]
    pub fn has_local_files(&self) -> bool {
        self.reading.has_local_files()
    }

    /// Begins or ends the use of local files. Returns whether that is a change.
    pub fn use_local_files(&self, is_used: bool) -> bool {
        self.reading.use_local_files(is_used)
    }

    /// Bytes that this process has read for applications, from wherever.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.reading.consumed()
    }

    /// The error of an open of `ino` that cannot go with those that read its local file.
    ///
    /// The kernel looks the name up again, finds another inode of the same object, and opens that.
    /// The local file is not used for a while, so that this open comes first there. The other opens
    /// keep theirs.
    pub fn open_afresh(&self, ino: InodeNo) -> FsError {
        if let Some((key, version)) = self.namespace.stored_version(ino) {
            self.reading.pause_local_file(key, version.etag);
        }
        self.namespace.distrust(ino);
        FsError::Stale("it is read from a local file, and was opened in another way".to_owned())
    }

    /// Whether the file of `handle` is written at any place.
    #[must_use]
    pub fn writes_in_place(&self, handle: HandleNo) -> bool {
        let file = self.files.get(handle);
        file.is_ok_and(|file| file.staged().is_some())
    }

    /// Whether the mount's flags permit to open an existing file in this way.
    #[must_use]
    pub fn permits_writing(&self, options: WriteOptions) -> bool {
        permit_writing(self.writing.config(), options).is_ok()
    }
}
