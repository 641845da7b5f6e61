//! Symbolic links, which are objects with the target as bytes, pipes and sockets, which are empty
//! ones, all with metadata that mark them; and hard links, which are copies.
//!
//! With write-back a symbolic link is a staged file that is durable when `symlink` returns, unless
//! names are made exclusively. A hard link asks the bucket in any case: only that can tell which of
//! two hosts has made the name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::pin::pin;

use bytes::Bytes;
use futures::future::{Either, select};
use mountpoint_client::types::ObjectHeaders;

use super::FileSystem;
use super::permission::{Change, permit};
use crate::handle::StagedFiles;
use crate::namespace::Version;
use crate::operation::{
    Entry, FileKind, FsError, InodeNo, Maker, PosixAttributes, ReadData, Stop, WriteOptions,
};
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
            special: Some(FileKind::SymbolicLink),
            ..self.posix_in(directory, Some(0o777), maker)
        };
        let link = (target, posix);
        let later = self.staged.commits().then_some(&*self.staged);
        match later.filter(|files| !files.are_exclusive()) {
            Some(files) => self.stage_link(files, (directory, name), link).await,
            None => {
                let target = target.as_bytes().to_vec();
                self.store_special((directory, name), posix, target).await
            }
        }
    }

    /// Makes a pipe or a socket: an empty object that says so, at once in any case. The kernel
    /// serves it, for the processes of this machine.
    pub async fn make_special(
        &self,
        directory: InodeNo,
        name: &OsStr,
        special: FileKind,
        options: WriteOptions,
    ) -> Result<Entry, FsError> {
        permit(&self.write, Change::Special)?;
        let posix = PosixAttributes {
            special: Some(special),
            ..self.posix_in(directory, options.mode, options.maker)
        };
        self.store_special((directory, name), posix, Vec::new())
            .await
    }

    /// Stores an object that is no plain file, as `posix` says.
    async fn store_special(
        &self,
        (directory, name): (InodeNo, &OsStr),
        posix: PosixAttributes,
        body: Vec<u8>,
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
        let kind = posix.special.unwrap_or(FileKind::File);
        posix.store(kind, wall, &mut headers.metadata);
        let stored = PosixAttributes::of(&headers.metadata);
        let size = body.len() as u64;
        let etag = self.mutator.make(change.key(), body, headers).await?;
        let version = Version {
            size,
            etag,
            mtime: wall,
            is_archived: false,
        };
        change.made_file(version, Some(stored))
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

    /// Gives the file `ino` another name: a copy on the server, which nothing ties to the file.
    ///
    /// The file is stored first, if the bucket lacks some of it.
    /// [`FsError::Exists`] if the name is taken, in the bucket or here. Returns the inode number
    /// that
    /// `stat` shows at first, too: git compares it with that of the file.
    pub async fn link(
        &self,
        ino: InodeNo,
        (directory, name): (InodeNo, &OsStr),
        stop: &Stop,
    ) -> Result<(Entry, InodeNo), FsError> {
        permit(&self.write, Change::HardLink)?;
        self.store_newest(ino, stop).await?;
        let from = self.namespace.file_key_of(ino)?;
        let change = self.namespace.change(directory, name)?;
        if change.known().is_some() {
            return Err(FsError::Exists);
        }
        let (source, etag) = self.mutator.link(&from, change.key(), stop).await?;
        let version = Version {
            size: source.info.size,
            etag,
            mtime: self.wall_now(),
            is_archived: false,
        };
        let carried = PosixAttributes::of(&source.headers.metadata);
        let carried = self.write.posix_metadata.then_some(carried);
        change.made_link(ino, version, carried)
    }

    /// Stores the newest bytes of the file `ino`, which is to be copied on the server.
    pub(super) async fn store_newest(&self, ino: InodeNo, stop: &Stop) -> Result<(), FsError> {
        let Some(staged) = self.staged_file(ino) else {
            return Ok(());
        };
        let stored = pin!(staged.file.settle());
        match select(stored, pin!(stop.asked())).await {
            Either::Left((stored, _)) => stored,
            Either::Right(_) => Err(FsError::Interrupted),
        }
    }

    /// The target of a symbolic link.
    pub async fn read_link(&self, ino: InodeNo) -> Result<ReadData, FsError> {
        if self.attributes(ino).await?.kind != FileKind::SymbolicLink {
            return Err(FsError::InvalidArgument("not a symbolic link"));
        }
        if let Some(opening) = self.share_staged(&self.staged, ino).await? {
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
