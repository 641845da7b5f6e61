//! Renames of files and directories.
//!
//! Each checks its permission, changes the bucket, and updates the names. A future that is dropped
//! while it waits may have changed the bucket; the names are then looked up again.

use std::ffi::OsStr;

use futures::future::join_all;
use mountpoint_client::types::{ETag, Key};

use crate::file::StagedBase;
use crate::fs::held::{HeldFile, hold_below, hold_both};
use crate::fs::markers::settle_markers;
use crate::fs::parts::Parts;
use crate::fs::permission::{Change, permit};
use crate::fs::written::{carried_time, end_of, store_newest};
use crate::mutate::Target;
use crate::namespace::{Found, NameChange, Version};
use crate::operation::{FsError, InodeNo, RenameMode, Stop};
use crate::write::Stored;

/// Gives a file or a directory another name.
///
/// [`FsError::Interrupted`] if `stop` was asked for before the end; then none of its requests
/// is in flight.
pub(in crate::fs) async fn rename(
    parts: &Parts,
    from: (InodeNo, &OsStr),
    to: (InodeNo, &OsStr),
    mode: RenameMode,
    stop: &Stop,
) -> Result<(), FsError> {
    permit(&parts.config, Change::Rename)?;
    if mode == RenameMode::KeepExisting {
        // A copy of an object tells of two hosts which one has the name.
        let known = parts.namespace.known_child(from.0, from.1);
        if let Some(ino) = known.filter(|_| parts.staged.are_exclusive()) {
            store_newest(&parts.staged, ino, stop).await?;
        }
    }
    // Taken before the check for writers: no writer begins there from now on.
    let _taken = parts.namespace.taken_by_rename(from, to, stop).await?;
    let child = |(directory, name)| parts.namespace.known_child(directory, name);
    let held = hold_both(parts, (child(from), child(to)), stop).await?;
    let from = parts.namespace.change_locked(from.0, from.1)?;
    let to = parts.namespace.change_locked(to.0, to.1)?;
    if from.key() == to.key() {
        return Ok(());
    }
    match from.known().cloned() {
        Some((_, Found::File(version))) => {
            rename_file(parts, from, to, (version, mode), (stop, held)).await
        }
        Some((_, Found::Directory)) => rename_directory(parts, from, to, mode, stop).await,
        None => Err(FsError::NotFound),
    }
}

async fn rename_file(
    parts: &Parts,
    from: NameChange<'_>,
    to: NameChange<'_>,
    (version, mode): (Version, RenameMode),
    (stop, (source, replaced)): (&Stop, (Option<HeldFile>, Option<HeldFile>)),
) -> Result<(), FsError> {
    let may_replace = permit(&parts.config, Change::Overwrite);
    let target = match (to.known(), mode) {
        (Some((_, Found::Directory)), _) => return Err(FsError::IsADirectory),
        (Some(_), RenameMode::KeepExisting) => return Err(FsError::Exists),
        (Some(_), RenameMode::Replace) => {
            may_replace.clone()?;
            Target::Any
        }
        (None, RenameMode::Replace) if may_replace.is_ok() => Target::Any,
        (None, _) => Target::Absent,
    };
    parts.mutator.forget_renames_from_above(to.key()).await;
    if let Some(replaced) = &replaced {
        replaced.outlive_object().await;
    }
    if let Some(file) = source
        .as_ref()
        .filter(|file| file.open.file.base().is_none())
    {
        rename_unstored(parts, file, (&to, &target), replaced.as_ref()).await?;
        from.moved(to, Some(version))?;
        end_replaced(parts, replaced).await;
        return Ok(());
    }
    // S3 was not asked for this name just now.
    let is_unasked = to.known().is_none() && to.is_own();
    let target = match is_unasked {
        true => Target::Absent,
        false => target,
    };
    let moved = parts
        .mutator
        .rename(from.key(), to.key(), &target, stop)
        .await;
    let moved = match moved {
        // Another client has made it meanwhile.
        Err(FsError::Exists) if mode == RenameMode::Replace => {
            may_replace?;
            return Err(FsError::Exists);
        }
        moved => moved?,
    };
    let is_known = |source: &ETag| source.matches(&version.etag);
    if !moved.source.as_ref().is_none_or(is_known) {
        for file in source.iter().chain(&replaced) {
            let reason = "another client changed the object during its rename";
            file.open.file.lose_name(reason).await;
        }
        from.moved_unseen(to);
        return Ok(());
    }
    let version = Version {
        etag: moved.etag.unwrap_or(version.etag),
        size: moved.size.unwrap_or(version.size),
        ..version
    };
    let noted = match &source {
        Some(file) => {
            let Version { etag, size, .. } = version.clone();
            let stored = Stored { etag, size };
            file.open.file.renamed(to.key().clone(), stored).await
        }
        None => Ok(()),
    };
    from.moved(to, Some(version))?;
    end_replaced(parts, replaced).await;
    noted
}

/// Ends the staged file whose name another one has now.
async fn end_replaced(parts: &Parts, file: Option<HeldFile>) {
    if let Some(file) = file {
        file.replaced().await;
        end_of(&parts.staged, &parts.namespace, file.open.ino);
    }
}

async fn rename_directory(
    parts: &Parts,
    from: NameChange<'_>,
    to: NameChange<'_>,
    mode: RenameMode,
    stop: &Stop,
) -> Result<(), FsError> {
    match (to.known(), mode) {
        (Some((_, Found::File(_))), _) => return Err(FsError::NotADirectory),
        (Some(_), RenameMode::KeepExisting) => return Err(FsError::Exists),
        _ if to.has_kept_children() => return Err(FsError::NotEmpty),
        _ => {}
    }
    let mut below = Vec::new();
    for change in [&from, &to] {
        if let Some((ino, _)) = change.known() {
            below.push(hold_below(parts, *ino, stop).await?);
        }
    }
    if below.get(1).is_some_and(|files| !files.is_empty()) {
        return Err(FsError::NotEmpty);
    }
    let (old, new) = (from.prefix()?, to.prefix()?);
    for file in below.iter().flatten() {
        // The bucket may lack the file, and with it the name that is too long.
        renamed_key(&file.open.file.key(), &old, &new).ok_or(FsError::NameTooLong)?;
    }
    for prefix in [&old, &new] {
        settle_markers(parts, prefix, stop).await?;
    }
    let seems_new = to.known().is_none();
    let moved = parts
        .mutator
        .rename_directory((&old, &new), seems_new, stop);
    let renamed = moved.await?;
    let noted = match below.first() {
        Some(files) => renamed_above(parts, files, &old, &new).await,
        None => Ok(()),
    };
    from.moved(to, None)?;
    for one in renamed {
        parts
            .namespace
            .renamed_version(&one.key, &one.before, &one.now);
    }
    noted
}

/// Renames a staged file of which the bucket has nothing. Its store will replace the object
/// that the new name has now; what is known of that counts where S3 is away, or need not be
/// asked.
async fn rename_unstored(
    parts: &Parts,
    file: &HeldFile,
    (to, target): (&NameChange<'_>, &Target),
    over: Option<&HeldFile>,
) -> Result<(), FsError> {
    let key = to.key();
    let is_recorded = file.open.file.is_recorded();
    // An upload of a file of that name may have reached the bucket.
    let is_known = to.is_own() && !over.is_some_and(|over| over.open.file.may_have_object());
    let known = match to.known() {
        Some((_, Found::File(version))) => Some(version),
        Some((_, Found::Directory)) | None => None,
    };
    let known = known.filter(|version| !version.etag.as_str().is_empty());
    let as_known = || {
        known.map_or(StagedBase::Unasked, |version| {
            StagedBase::Version(Stored {
                etag: version.etag.clone(),
                size: version.size,
            })
        })
    };
    let asked = match is_recorded && is_known {
        true => None,
        false => Some(parts.mutator.describe(key).await),
    };
    let replaced = match (asked, target) {
        (None, _) => as_known(),
        (Some(Ok(_)), Target::Absent) => return Err(FsError::Exists),
        (Some(Ok(object)), Target::Any) => StagedBase::Version(Stored {
            etag: object.info.etag,
            size: object.info.size,
        }),
        (Some(Err(FsError::NotFound)), _) => StagedBase::None,
        (Some(Err(FsError::Client(error))), Target::Any)
            if error.kind.is_retryable() && is_recorded =>
        {
            as_known()
        }
        (Some(Err(error)), _) => return Err(error),
    };
    // None of the bytes of that version show through: it only is what the store replaces.
    let over = over.map(|held| &held.open.file);
    file.open
        .file
        .rename_unstored(key.clone(), replaced, over)
        .await
}

/// Notes that the directory `old`, which `files` are below, is called `new`.
///
/// A copy on the server may have another version. A file whose object is not found there is a
/// conflict at its next store.
///
/// With write-back the new names of files that wait for their upload are durable then.
async fn renamed_above(
    parts: &Parts,
    files: &[HeldFile],
    old: &str,
    new: &str,
) -> Result<(), FsError> {
    let moved = files.iter().map(async |file| {
        let Some(key) = renamed_key(&file.open.file.key(), old, new) else {
            return Ok(());
        };
        let Some(base) = file.open.file.base() else {
            let replaced = StagedBase::Unasked;
            return file.open.file.rename_unstored(key, replaced, None).await;
        };
        let etag: ETag = match parts.mutator.describe(&key).await {
            Ok(object) if object.info.size == base.size => object.info.etag,
            Ok(_) | Err(_) => base.etag,
        };
        let base = Stored { etag, ..base };
        let progress = file.open.file.progress();
        let noted = file.open.file.renamed(key, base.clone()).await;
        let mtime = carried_time(&parts.staged, progress);
        let version = (base.size, base.etag);
        parts
            .namespace
            .stored_staged(file.open.ino, progress, version, mtime);
        noted
    });
    join_all(moved).await.into_iter().collect()
}

/// The key of the file `key` when its directory `old` is called `new`; `None` if S3 takes none as
/// long.
fn renamed_key(key: &Key, old: &str, new: &str) -> Option<Key> {
    let rest = key.as_str().strip_prefix(old)?;
    Key::parse(&format!("{new}{rest}"))
}
