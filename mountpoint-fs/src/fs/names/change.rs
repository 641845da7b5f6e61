//! Operations that change one name: unlink, rmdir, mkdir.
//!
//! Each checks its permission, changes the bucket, and updates the names. A future that is dropped
//! while it waits may have changed the bucket; the names are then looked up again.

use std::ffi::OsStr;

use mountpoint_client::types::ObjectHeaders;

use crate::fs::attributes::posix_in;
use crate::fs::held::{VAIN, hold_staged};
use crate::fs::markers::{self, hold_marker, removed_marker};
use crate::fs::parts::Parts;
use crate::fs::permission::{Change, permit};
use crate::fs::written::end_of;
use crate::mutate::{Removal, marker};
use crate::namespace::{DirectoryMarker, Found};
use crate::operation::{Entry, FileKind, FsError, InodeNo, Maker, PosixAttributes};
use crate::write::Adopts;

/// Removes a file.
pub(in crate::fs) async fn unlink(
    parts: &Parts,
    directory: InodeNo,
    name: &OsStr,
) -> Result<(), FsError> {
    permit(&parts.config, Change::Delete)?;
    let change = parts.namespace.removal(directory, name)?;
    let (ino, _) = change.file()?;
    let staged = hold_staged(parts, Some(ino), VAIN).await;
    let noted = match &staged {
        // Nothing was sent, so there is nothing to delete.
        Some(file) if !file.open.file.may_have_object() => {
            // A failure leaves the file.
            file.open.file.remove().await?;
            Ok(())
        }
        Some(file) => {
            file.outlive_object().await;
            parts.mutator.delete(change.key()).await?;
            file.removed().await
        }
        None => {
            parts.mutator.delete(change.key()).await?;
            Ok(())
        }
    };
    change.removed();
    end_of(&parts.staged, &parts.namespace, ino);
    noted
}

/// Removes an empty directory.
pub(in crate::fs) async fn remove_directory(
    parts: &Parts,
    directory: InodeNo,
    name: &OsStr,
) -> Result<(), FsError> {
    permit(&parts.config, Change::MakeDirectory)?;
    let change = parts.namespace.change(directory, name)?;
    match change.known() {
        Some((_, Found::Directory)) => {}
        Some((_, Found::File(_))) => return Err(FsError::NotADirectory),
        None => return Err(FsError::NotFound),
    }
    if !change.seems_empty() {
        return Err(FsError::NotEmpty);
    }
    if let Some((ino, _)) = change.known()
        && !parts.namespace.written_below(*ino).is_empty()
    {
        return Err(FsError::NotEmpty);
    }
    let prefix = change.prefix()?;
    let staged = hold_marker(parts, &prefix).await;
    // A removal that had emptied a directory below this one has updated the names by now, or is
    // still in flight.
    let may_remove = |has_marker| match (change.seems_empty(), has_marker || staged.is_some()) {
        (false, _) => Err(FsError::NotEmpty),
        (true, true) => permit(&parts.config, Change::RemoveDirectory),
        (true, false) => Ok(()),
    };
    let removal = parts.mutator.remove_directory(&prefix, may_remove);
    if let Removal::Holds(key) = removal.await? {
        change.tell_of_unseen(&key);
        return Err(FsError::NotEmpty);
    }
    parts.mutator.forget_renames_of(&prefix).await;
    let noted = match &staged {
        Some(marker) => removed_marker(parts, &prefix, marker).await,
        None => Ok(()),
    };
    change.removed();
    noted
}

/// Makes a directory for `maker`, if that is not the mount's user. A marker object, or an entry
/// that this mount remembers until the directory has a file.
pub(in crate::fs) async fn make_directory(
    parts: &Parts,
    directory: InodeNo,
    name: &OsStr,
    mode: u16,
    maker: Option<Maker>,
) -> Result<Entry, FsError> {
    permit(&parts.config, Change::MakeDirectory)?;
    let change = parts.namespace.change(directory, name)?;
    let prefix = change.prefix()?;
    if change.known().is_some() {
        return Err(FsError::Exists);
    }
    parts.mutator.forget_renames_of(&prefix).await;
    let posix = posix_of_directory(parts, directory, mode, maker);
    // The mode is stored at once: a directory of `mkdtemp` belongs to its creator alone.
    let is_usual = posix.mode == Some(parts.dir_mode)
        && (posix.uid, posix.gid) == (Some(parts.owner.0), Some(parts.owner.1));
    let has_own_mode = parts.config.posix_metadata && !is_usual;
    // Of two hosts that make the directory, the marker is that of one.
    let is_exclusive = parts.staged.are_exclusive();
    let is_marked = parts.mutator.makes_markers() || has_own_mode || is_exclusive;
    if !is_marked {
        let (entry, _) = change.made_directory(DirectoryMarker::None, None)?;
        return Ok(entry);
    }
    let (headers, carried) = new_directory(parts, posix);
    // With markers, `mkdir` tells which of two hosts has made the directory.
    let may_wait = !is_exclusive && (change.is_own() || !parts.mutator.makes_markers());
    if markers::waits(parts, may_wait) {
        // Another host's directory does not have the mode.
        let adopts = match has_own_mode {
            true => Adopts::Nothing,
            false => Adopts::Any,
        };
        return markers::make_directory(parts, change, (headers, carried), adopts).await;
    }
    if change.is_unasked() {
        parts.writing.check_absent(&marker(&prefix)?).await?;
    }
    parts.mutator.make_marker(&prefix, headers).await?;
    let (entry, _) = change.made_directory(DirectoryMarker::Stored, carried)?;
    Ok(entry)
}

/// The attributes of a directory that `maker` makes in `parent`. The set-group-ID bit is passed
/// on.
fn posix_of_directory(
    parts: &Parts,
    parent: InodeNo,
    mode: u16,
    maker: Option<Maker>,
) -> PosixAttributes {
    let passed = match parts.namespace.passed_group(parent) {
        Some(_) => 0o2000,
        None => 0,
    };
    posix_in(parts, parent, Some(mode | passed), maker)
}

/// The headers of a new directory's marker, and what they say of it with `--posix-metadata`.
fn new_directory(
    parts: &Parts,
    posix: PosixAttributes,
) -> (ObjectHeaders, Option<PosixAttributes>) {
    let mut headers = ObjectHeaders::default();
    if !parts.config.posix_metadata {
        return (headers, None);
    }
    let now = parts.wall_now();
    let posix = PosixAttributes {
        mtime: Some(now),
        ..posix
    };
    posix.store(FileKind::Directory, now, &mut headers.metadata);
    headers.content_type = Some("application/x-directory".to_owned());
    (headers, Some(posix))
}
