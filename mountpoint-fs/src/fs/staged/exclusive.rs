//! Names that are made for their maker alone, although closes return before the bucket has a file.
//!
//! `O_EXCL` is a question that only the bucket answers. With `--write-back-exclusive` the object is
//! made, empty and on the condition that there is none, before the call returns; what is written is
//! uploaded later, on the condition that this very version is still there. An answer that is lost
//! is settled by the object's token. A process that is killed in between has told nobody, and
//! leaves an empty file.

use std::ffi::OsStr;

use crate::fs::FileSystem;
use crate::fs::permission::{Change, permit};
use crate::handle::{Opener, StagedFiles};
use crate::namespace::Version;
use crate::operation::{
    Entry, FileKind, FsError, InodeNo, Opened, PosixAttributes, Stop, WriteOptions,
};

impl FileSystem {
    /// The staged files, if the bucket is asked before a name is made for its maker alone.
    pub(in crate::fs) fn exclusive_files(&self) -> Option<&StagedFiles> {
        self.staged.are_exclusive().then_some(&*self.staged)
    }

    /// Creates a file and opens it, as [`Self::create`] does. If the caller asks for it to be new,
    /// and the mount asks the bucket about that, the bucket has it empty when this returns.
    ///
    /// [`FsError::Exists`] if anybody else has made it.
    pub async fn create_for(
        &self,
        parent: InodeNo,
        name: &OsStr,
        options: WriteOptions,
        opener: Opener,
    ) -> Result<(Entry, Opened), FsError> {
        match self.exclusive_files().filter(|_| options.exclusive) {
            Some(files) => {
                let name = (parent, name);
                self.create_exclusively(files, name, options, opener).await
            }
            None => self.create(parent, name, options, opener),
        }
    }

    async fn create_exclusively(
        &self,
        files: &StagedFiles,
        (parent, name): (InodeNo, &OsStr),
        options: WriteOptions,
        opener: Opener,
    ) -> Result<(Entry, Opened), FsError> {
        permit(&self.write, Change::Create)?;
        let change = self.namespace.change(parent, name)?;
        if change.known().is_some() {
            return Err(FsError::Exists);
        }
        if change.is_unasked() {
            self.writing.check_absent(change.key()).await?;
        }
        let (key, now) = (change.key().clone(), self.wall_now());
        let mut headers = files.staging().headers_of_new(&key);
        let posix = self.posix_of_new(parent, options);
        if let Some(posix) = posix {
            posix.store(FileKind::File, now, &mut headers.metadata);
        }
        let made = self.mutator.make(&key, Vec::new(), headers.clone());
        let version = Version {
            size: 0,
            etag: made.await?,
            mtime: now,
            is_archived: false,
        };
        let carried = posix.map(|_| PosixAttributes::of(&headers.metadata));
        let entry = change.made_file(version.clone(), carried)?;
        let ino = entry.attributes.ino;
        let opening = self.begin_over(files, ino, (key, version), (headers, now), true);
        // No later mount may show the name as absent.
        self.settled().await;
        match opening {
            Ok(opening) => {
                let opened = self.insert_staged(opening.take(), Some(options), opener);
                Ok((entry, opened))
            }
            Err(error) => {
                self.namespace.forget(ino, 1);
                Err(error)
            }
        }
    }

    /// Stores the file `name`, which is about to be renamed to a name that must be new: a copy of
    /// its object then tells of two hosts which one has the name. Only where the bucket is asked
    /// about that, and if the bucket lacks something.
    pub(in crate::fs) async fn store_to_claim(
        &self,
        (parent, name): (InodeNo, &OsStr),
        stop: &Stop,
    ) -> Result<(), FsError> {
        if self.exclusive_files().is_none() {
            return Ok(());
        }
        match self.namespace.known_child(parent, name) {
            Some(ino) if self.staged_file(ino).is_some() => self.store_newest(ino, stop).await,
            Some(_) | None => Ok(()),
        }
    }
}
