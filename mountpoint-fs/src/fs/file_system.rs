//! The operations of a mounted bucket.

use std::ffi::OsStr;
use std::sync::Arc;

use mountpoint_client::ObjectClient;

use super::{Attributes, DirectorySink, Entry, FsError, HandleNo, InodeNo, OpenOptions, Opened, ReadData, StatFs};
use crate::clock::Clock;
use crate::config::FsConfig;

/// A mounted bucket. Every operation may be called from any thread and never blocks it: what must wait for S3
/// or memory is a future. Shared as `Arc<FileSystem>`.
#[derive(Debug)]
pub struct FileSystem {
    client: Arc<dyn ObjectClient>,
    config: FsConfig,
    clock: Clock,
}

impl FileSystem {
    /// A file system over `client`'s bucket.
    #[must_use]
    pub fn new(client: Arc<dyn ObjectClient>, config: FsConfig, clock: Clock) -> Self {
        Self { client, config, clock }
    }

    /// Finds `name` in a directory and raises its inode's lookup count by one.
    pub async fn lookup(&self, parent: InodeNo, name: &OsStr) -> Result<Entry, FsError> {
        let _ = (parent, name, &self.client, &self.config, &self.clock);
        Err(FsError::NotFound)
    }

    /// Gives back `count` lookups of an inode; an inode without lookups is dropped.
    pub fn forget(&self, ino: InodeNo, count: u64) {
        let _ = (ino, count);
    }

    /// stat data of an inode, asked for again when they are too old.
    pub async fn attributes(&self, ino: InodeNo) -> Result<Attributes, FsError> {
        let _ = ino;
        Err(FsError::NotFound)
    }

    /// Opens a file for reading, at the version S3 has now.
    pub async fn open(&self, ino: InodeNo, options: OpenOptions) -> Result<Opened, FsError> {
        let _ = (ino, options);
        Err(FsError::NotFound)
    }

    /// Reads up to `size` bytes; fewer only at the end of the file.
    pub async fn read(&self, handle: HandleNo, offset: u64, size: u32) -> Result<ReadData, FsError> {
        let _ = (handle, offset, size);
        Err(FsError::BadHandle)
    }

    /// Closes a file.
    pub fn release(&self, handle: HandleNo) {
        let _ = handle;
    }

    /// Opens a directory for reading.
    pub async fn open_directory(&self, ino: InodeNo) -> Result<HandleNo, FsError> {
        let _ = ino;
        Err(FsError::NotFound)
    }

    /// Offers entries from `offset` on to `sink` until it is full or the directory ends; `.` and `..` first.
    ///
    /// With `plus`, each entry that the sink took (but `.` and `..`) raised its inode's lookup count by one.
    pub async fn read_directory(
        &self,
        handle: HandleNo,
        offset: u64,
        plus: bool,
        sink: &mut dyn DirectorySink,
    ) -> Result<(), FsError> {
        let _ = (handle, offset, plus, sink);
        Err(FsError::BadHandle)
    }

    /// Closes a directory.
    pub fn release_directory(&self, handle: HandleNo) {
        let _ = handle;
    }

    /// Size of the file system: as good as endless.
    #[must_use]
    pub fn statfs(&self) -> StatFs {
        StatFs { block_size: 4096, blocks: u64::MAX / 4096, name_len_max: 255 }
    }
}
