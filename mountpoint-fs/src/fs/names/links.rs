//! Symbolic links, which are objects with the target as bytes, pipes and sockets, which are empty
//! ones, all with metadata that mark them; and hard links, which are copies.
//!
//! With write-back a symbolic link is a staged file that is durable when `symlink` returns, unless
//! names are made exclusively. A hard link asks the bucket in any case: only that can tell which of
//! two hosts has made the name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use bytes::Bytes;
use mountpoint_client::types::ObjectHeaders;

use crate::fs::attributes::{posix_in, stat};
use crate::fs::opening::{begin_new, make_object, share, unmake};
use crate::fs::parts::Parts;
use crate::fs::permission::{Change, permit};
use crate::fs::written::{read_newest, store_newest};
use crate::namespace::Version;
use crate::operation::{
    Entry, FileKind, FsError, InodeNo, Maker, PosixAttributes, ReadData, Stop, WriteOptions,
};
use crate::read::Reader;

/// Makes a symbolic link for `maker`, if that is not the mount's user.
pub(in crate::fs) async fn symbolic_link(
    parts: &Parts,
    directory: InodeNo,
    name: &OsStr,
    target: &OsStr,
    maker: Option<Maker>,
) -> Result<Entry, FsError> {
    permit(&parts.config, Change::SymbolicLink)?;
    let posix = PosixAttributes {
        special: Some(FileKind::SymbolicLink),
        ..posix_in(parts, directory, Some(0o777), maker)
    };
    let link = (target, posix);
    match parts.staged.commits() && !parts.staged.are_exclusive() {
        true => stage_link(parts, (directory, name), link).await,
        false => {
            let target = target.as_bytes().to_vec();
            store_special(parts, (directory, name), posix, target).await
        }
    }
}

/// Makes a pipe or a socket: an empty object that says so, at once in any case. The kernel
/// serves it, for the processes of this machine.
pub(in crate::fs) async fn make_special(
    parts: &Parts,
    directory: InodeNo,
    name: &OsStr,
    special: FileKind,
    options: WriteOptions,
) -> Result<Entry, FsError> {
    permit(&parts.config, Change::Special)?;
    let posix = PosixAttributes {
        special: Some(special),
        ..posix_in(parts, directory, options.mode, options.maker)
    };
    store_special(parts, (directory, name), posix, Vec::new()).await
}

/// Stores an object that is no plain file, as `posix` says.
async fn store_special(
    parts: &Parts,
    (directory, name): (InodeNo, &OsStr),
    posix: PosixAttributes,
    body: Vec<u8>,
) -> Result<Entry, FsError> {
    let change = parts.namespace.change(directory, name)?;
    let wall = parts.wall_now();
    let posix = PosixAttributes {
        mtime: Some(wall),
        ..posix
    };
    let mut headers = ObjectHeaders::default();
    let kind = posix.special.unwrap_or(FileKind::File);
    posix.store(kind, wall, &mut headers.metadata);
    let stored = PosixAttributes::of(&headers.metadata);
    let size = body.len() as u64;
    let etag = make_object(parts, &change, body, headers).await?;
    change.made_file(Version::new(size, etag, wall), Some(stored))
}

/// Makes a symbolic link that is uploaded later. Durable on the local disk when this returns.
async fn stage_link(
    parts: &Parts,
    (directory, name): (InodeNo, &OsStr),
    (target, posix): (&OsStr, PosixAttributes),
) -> Result<Entry, FsError> {
    if parts.namespace.known_child(directory, name).is_some() {
        return Err(FsError::Exists);
    }
    let posix = (FileKind::SymbolicLink, Some(posix));
    let (mut entry, opening) = begin_new(parts, (directory, name), posix)?;
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
            unmake(parts, (directory, name), entry.attributes.ino).await;
            Err(error)
        }
    }
}

/// Gives the file `ino` another name: a copy on the server, which nothing ties to the file.
///
/// The file is stored first, if the bucket lacks some of it. [`FsError::Exists`] if the name is
/// taken, in the bucket or here. Returns the inode number that `stat` shows at first, too: git
/// compares it with that of the file.
pub(in crate::fs) async fn link(
    parts: &Parts,
    ino: InodeNo,
    (directory, name): (InodeNo, &OsStr),
    stop: &Stop,
) -> Result<(Entry, InodeNo), FsError> {
    permit(&parts.config, Change::HardLink)?;
    store_newest(&parts.staged, ino, stop).await?;
    let from = parts.namespace.file_key_of(ino)?;
    let change = parts.namespace.change(directory, name)?;
    if change.known().is_some() {
        return Err(FsError::Exists);
    }
    let (source, etag) = parts.mutator.link(&from, change.key(), stop).await?;
    let version = Version::new(source.info.size, etag, parts.wall_now());
    let carried = PosixAttributes::of(&source.headers.metadata);
    let carried = parts.config.posix_metadata.then_some(carried);
    change.made_link(ino, version, carried)
}

/// The target of a symbolic link.
pub(in crate::fs) async fn read_link(parts: &Parts, ino: InodeNo) -> Result<ReadData, FsError> {
    if stat(parts, ino).await?.kind != FileKind::SymbolicLink {
        return Err(FsError::InvalidArgument("not a symbolic link"));
    }
    if let Some(opening) = share(parts, ino).await? {
        let read = read_newest(&parts.namespace, opening.open(), (0, LINK_LEN_MAX), false);
        return read.await;
    }
    let opened = parts.namespace.open(ino, false, false).await?;
    let (etag, size) = (opened.version.etag, opened.version.size);
    let reader = Reader::new(&parts.reading, opened.key, etag, size);
    reader.read(0, LINK_LEN_MAX).await
}

/// Longest target of a symbolic link, in bytes: Linux's `PATH_MAX`.
const LINK_LEN_MAX: u32 = 4096;
