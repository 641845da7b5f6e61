//! Symbolic links: objects with the target as bytes, and metadata that mark them.
//!
//! With write-back a link is a staged file that is durable when `symlink` returns.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use bytes::Bytes;
use mountpoint_client::types::ObjectHeaders;

use super::FileSystem;
use super::permission::{Change, permit};
use crate::handle::StagedFiles;
use crate::namespace::Version;
use crate::operation::{Entry, FileKind, FsError, InodeNo, Maker, PosixAttributes, ReadData};
use crate::read::Reader;

impl FileSystem {
    /// Makes a symbolic link.
    pub async fn symbolic_link(
        &self,
        directory: InodeNo,
        name: &OsStr,
        target: &OsStr,
    ) -> Result<Entry, FsError> {
        self.symbolic_link_for(directory, name, target, None).await
    }

    /// As [`Self::symbolic_link`], for `maker` if that is not the mount's user.
    pub async fn symbolic_link_for(
        &self,
        directory: InodeNo,
        name: &OsStr,
        target: &OsStr,
        maker: Option<Maker>,
    ) -> Result<Entry, FsError> {
        permit(&self.write, Change::SymbolicLink)?;
        let posix = PosixAttributes {
            is_link: true,
            ..self.posix_in(directory, Some(0o777), maker)
        };
        let link = (target, posix);
        match self.staged.as_deref().filter(|files| files.commits()) {
            Some(files) => self.stage_link(files, (directory, name), link).await,
            None => self.store_link((directory, name), link).await,
        }
    }

    async fn store_link(
        &self,
        (directory, name): (InodeNo, &OsStr),
        (target, posix): (&OsStr, PosixAttributes),
    ) -> Result<Entry, FsError> {
        let change = self.namespace.change(directory, name)?;
        if change.known().is_some() {
            return Err(FsError::Exists);
        }
        if change.is_unasked() {
            self.writing.check_absent(change.key()).await?;
        }
        let wall = self.wall_now();
        let posix = PosixAttributes {
            mtime: Some(wall),
            ..posix
        };
        let mut headers = ObjectHeaders::default();
        posix.store(FileKind::SymbolicLink, wall, &mut headers.metadata);
        let stored = PosixAttributes::of(&headers.metadata);
        let body = target.as_bytes().to_vec();
        let size = body.len() as u64;
        let etag = self.mutator.make(change.key(), body, headers).await?;
        let version = Version {
            size,
            etag,
            mtime: wall,
            is_archived: false,
        };
        change.made_file(version, stored)
    }

    /// Makes a symbolic link that is uploaded later. Durable on the local disk when this returns.
    async fn stage_link(
        &self,
        files: &StagedFiles,
        (directory, name): (InodeNo, &OsStr),
        (target, posix): (&OsStr, PosixAttributes),
    ) -> Result<Entry, FsError> {
        if self.namespace.known_child(directory, name).is_some() {
            return Err(FsError::Exists);
        }
        let posix = (FileKind::SymbolicLink, Some(posix));
        let (mut entry, opening) = self.begin_new(files, (directory, name), posix)?;
        let file = &opening.open().file;
        let target = Bytes::copy_from_slice(target.as_bytes());
        entry.attributes.size = target.len() as u64;
        let made = async {
            file.write(0, target).await?;
            file.commit().await
        };
        match made.await {
            Ok(()) => Ok(entry),
            Err(error) => {
                self.unmake_staged((directory, name), entry.attributes.ino)
                    .await;
                Err(error)
            }
        }
    }

    /// The target of a symbolic link.
    pub async fn read_link(&self, ino: InodeNo) -> Result<ReadData, FsError> {
        if self.attributes(ino).await?.kind != FileKind::SymbolicLink {
            return Err(FsError::InvalidArgument("not a symbolic link"));
        }
        if let Some(files) = &self.staged
            && let Some(opening) = self.share_staged(files, ino).await?
        {
            let read = self.read_staged(opening.open(), (0, LINK_LEN_MAX), false);
            return read.await;
        }
        let opened = self.namespace.open(ino, false, false).await?;
        let (etag, size) = (opened.version.etag, opened.version.size);
        let reader = Reader::new(&self.reading, opened.key, etag, size);
        reader.read(0, LINK_LEN_MAX).await
    }
}

/// Longest target of a symbolic link, in bytes: Linux's `PATH_MAX`.
const LINK_LEN_MAX: u32 = 4096;
