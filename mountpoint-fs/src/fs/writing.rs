//! Changes of the bytes of files: writes, server-side copies, lengths, holes.
//!
//! A future that is dropped while it waits has changed nothing visible to the application; work
//! that was begun continues by itself.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::attributes::{drop_set_id, has_set_id};
use super::moved::moved;
use super::opening::{begin, share};
use super::parts::Parts;
use super::permission::{Change, permit};
use crate::handle::{OpenFile, OpenStaged, StagedHandle};
use crate::operation::{AllocateMode, FsError, InodeNo};
use crate::write::CopiedRange;

/// Writes `data` at `offset`.
pub(super) async fn write(
    parts: &Parts,
    file: &OpenFile,
    offset: u64,
    data: Bytes,
) -> Result<(), FsError> {
    let handle = written_by(parts, file)?;
    let open = writable(handle)?;
    if offset < open.file.size() {
        permit_change_of(parts, open)?;
    }
    open.written();
    let written = open.file.write(offset, data).await;
    if written.is_err() {
        // The kernel may keep the page of a mapping as the application wrote it.
        parts.namespace.write_refused(open.ino);
    }
    written?;
    match handle.is_synchronous {
        true => open.file.commit().await,
        false => Ok(()),
    }
}

/// As [`write`], if that needs no waiting; `None` otherwise, and then nothing has
/// changed.
pub(super) fn write_now(
    parts: &Parts,
    file: &OpenFile,
    offset: u64,
    data: &[u8],
) -> Option<Result<(), FsError>> {
    let permitted = written_by(parts, file).and_then(|handle| {
        let open = writable(handle)?;
        if offset < open.file.size() {
            permit_change_of(parts, open)?;
        }
        Ok(handle)
    });
    let open = match permitted {
        Err(error) => return Some(Err(error)),
        Ok(handle) if handle.is_synchronous => return None,
        Ok(handle) => &handle.open,
    };
    let written = open.file.write_now(offset, data)?;
    open.written();
    if written.is_err() {
        parts.namespace.write_refused(open.ino);
    }
    Some(written)
}

/// Whether the kernel may have pages that a write by `handle`, which passes them by, makes old.
pub(super) fn overtakes_pages(parts: &Parts, handle: &StagedHandle) -> bool {
    let (namespace, open) = (&parts.namespace, &handle.open);
    let were_there = namespace.drop_pages(open.ino);
    were_there || open.has_others() || namespace.has_readers(open.ino)
}

/// Has the server copy up to `len` bytes between two places, each an open file and an offset.
/// Returns the number copied, which is 0 only at the end of the source.
///
/// [`FsError::Unsupported`] where reads and writes are better.
pub(super) async fn copy_range(
    parts: &Parts,
    from: (&OpenFile, u64),
    to: (&OpenFile, u64),
    len: u64,
) -> Result<u64, FsError> {
    let (ino, (reader, _), _) = from.0.reading()?;
    if parts.staged.of(ino).is_some() {
        return Err(FsError::Unsupported(
            "a file that is being written is copied through this machine",
        ));
    }
    let moved = moved((&parts.namespace, &parts.reading), ino, reader).await;
    let (key, etag, size) = moved.as_deref().unwrap_or(reader).version();
    let start = from.1.min(size);
    let end = start.saturating_add(len).min(size);
    if start == end {
        return Ok(0);
    }
    let source = CopiedRange {
        key: key.clone(),
        etag: etag.clone(),
        object_size: size,
        range: start..end,
    };
    let open = writable(to.0.writing()?)?;
    let copied = open.file.copy(to.1, source).await?;
    open.written();
    Ok(copied)
}

/// Sets the length of a file by an open handle.
pub(super) async fn set_len(parts: &Parts, handle: &StagedHandle, len: u64) -> Result<(), FsError> {
    let open = writable(handle)?;
    permit_change_of(parts, open)?;
    open.written();
    open.file.set_len(len).await
}

/// Sets the length of the file `ino` by its path. The change is stored, or durable with write-back,
/// when this returns. It takes the set-ID bits from the file if it `drops_set_id`.
pub(super) async fn set_len_of(
    parts: &Parts,
    ino: InodeNo,
    (len, drops_set_id): (u64, bool),
) -> Result<(), FsError> {
    permit(&parts.config, Change::Overwrite)?;
    let opening = match share(parts, ino).await? {
        Some(opening) => opening,
        None => {
            // A rename or a removal of the name waits until the file has it.
            let _name = parts.namespace.change_inode(ino)?;
            begin(parts, ino, len == 0).await?
        }
    };
    let open = opening.open();
    open.file.set_len(len).await?;
    if drops_set_id && has_set_id(parts, ino) {
        drop_set_id(parts, ino).await?;
    }
    open.file.commit().await
}

/// `fallocate` of a staged file.
pub(super) async fn allocate(
    parts: &Parts,
    handle: &StagedHandle,
    range: Range<u64>,
    mode: AllocateMode,
) -> Result<(), FsError> {
    let open = writable(handle)?;
    match mode {
        AllocateMode::Reserve { keeps_size } => {
            open.written();
            open.file.allocate(range, keeps_size).await
        }
        AllocateMode::Zero { keeps_size } => {
            permit_change_of(parts, open)?;
            open.written();
            open.file.zero(range, keeps_size).await
        }
    }
}

/// The handle of an open `file` that an application writes to. A refusal is noted.
fn written_by<'a>(parts: &Parts, file: &'a OpenFile) -> Result<&'a StagedHandle, FsError> {
    if let OpenFile::Reading { ino, .. } = file {
        parts.namespace.write_refused(*ino);
    }
    file.writing()
}

/// The file of a handle that may write.
fn writable(handle: &StagedHandle) -> Result<&Arc<OpenStaged>, FsError> {
    match handle.writes {
        true => Ok(&handle.open),
        false => Err(FsError::BadHandle),
    }
}

/// Whether bytes that the file has may be changed.
fn permit_change_of(parts: &Parts, open: &OpenStaged) -> Result<(), FsError> {
    match open.is_new {
        true => Ok(()),
        false => permit(&parts.config, Change::Overwrite),
    }
}
