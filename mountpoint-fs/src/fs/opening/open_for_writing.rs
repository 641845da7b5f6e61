//! Opening files for writing: created, replaced, changed, appended to.
//!
//! [`permit`] decides on permissions, a [`StagedFile`](crate::staging::StagedFile) owns the bytes,
//! [`Namespace`](crate::namespace::Namespace) the names. A future that is dropped while it waits
//! has changed nothing visible to the application.

use std::ffi::OsStr;
use std::sync::Arc;

use crate::config::WriteConfig;
use crate::fs::FileSystem;
use crate::fs::permission::{Change, permit};
use crate::handle::Opener;
use crate::operation::{Entry, FsError, InodeNo, OpenOptions, Opened, Progress, WriteOptions};

impl FileSystem {
    /// Creates a file and opens it for writing. No request is sent: its close stores the object.
    pub fn create(
        &self,
        parent: InodeNo,
        name: &OsStr,
        options: WriteOptions,
        opener: Opener,
    ) -> Result<(Entry, Opened), FsError> {
        permit(&self.write, Change::Create)?;
        self.create_staged(&self.staged, (parent, name), options, opener)
    }

    /// Makes an empty file, which is there when this returns and nobody else has made.
    pub async fn make_file(
        &self,
        parent: InodeNo,
        name: &OsStr,
        options: WriteOptions,
    ) -> Result<Entry, FsError> {
        let options = WriteOptions {
            exclusive: true,
            ..options
        };
        let created = self.create_for(parent, name, options, Opener::UNSEEN);
        let (entry, opened) = created.await?;
        let outcome = self.sync(opened.handle).await;
        if outcome.is_err() {
            self.unmake_staged((parent, name), entry.attributes.ino)
                .await;
        }
        self.release(opened.handle);
        outcome.map(|()| entry)
    }

    /// Opens an existing file for writing, at any place.
    pub async fn open_for_writing(
        &self,
        ino: InodeNo,
        options: WriteOptions,
        opener: Opener,
    ) -> Result<Opened, FsError> {
        self.open_staged(&self.staged, ino, options, opener).await
    }

    /// Opens a file for reading and writing (`O_RDWR`). Where changes are not allowed, it is only
    /// read.
    pub async fn open_for_both(
        &self,
        ino: InodeNo,
        options: OpenOptions,
        how: WriteOptions,
        opener: Opener,
    ) -> Result<Opened, FsError> {
        match permit(&self.write, Change::Overwrite) {
            Ok(()) => self.open_for_writing(ino, how, opener).await,
            Err(_) => self.open(ino, options).await,
        }
    }

    pub(in crate::fs) fn new_progress(&self, size: u64) -> Arc<Progress> {
        Arc::new(Progress::new(size, self.clock.wall()))
    }
}

/// Checks that an existing file may be opened for writing with `options`.
pub(in crate::fs) fn permit_writing(
    config: &WriteConfig,
    options: WriteOptions,
) -> Result<(), FsError> {
    let change = match options {
        WriteOptions {
            append: true,
            truncate: false,
            ..
        } => Change::Append,
        WriteOptions { .. } => Change::Overwrite,
    };
    permit(config, change)
}
