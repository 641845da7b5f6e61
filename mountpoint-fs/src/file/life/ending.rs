//! The ends of a file but for its removal: another object stands for it, or its local version is
//! kept in the user's directory.
//!
//! Each end holds the gate from the look at the newest bytes on, so that no write is half done and
//! no commit in progress: a file ends with all of its bytes, or goes on.

use std::sync::Arc;

use super::releasing::{end_upload, release};
use super::state::Awake;
use crate::file::commit::{ReadRecord, read_record, write_inline};
use crate::file::kept::{Kept, keep, keep_version};
use crate::file::local::{DataFiles, disk_error};
use crate::operation::FsError;

/// Ends a file for which another object stands behind its store. `false` if the file has changed
/// since that store began: it goes on, and the bucket lacks all of it.
pub(super) async fn give_way(file: &Awake, text: &str) -> bool {
    let _turn = file.gate.write().await;
    let failure = FsError::Stale(text.to_owned());
    if !file.state.lock().give_way(failure) {
        return false;
    }
    file.tell(|observer, file| observer.adopted(file));
    end_upload(file);
    release(file, false);
    true
}

/// Ends a file that can be stored under no name: its changes are kept, if there are any. The caller
/// holds `storing`.
pub(super) async fn lose_name(file: &Awake, reason: &str) {
    let _turn = file.gate.write().await;
    if file.state.lock().lose_name(reason) {
        keep_now(file, reason).await;
    } else {
        release(file, false);
    }
}

/// Keeps the local version and ends the file, unless its changes are stored or committed.
pub(super) async fn keep_uncommitted(file: &Awake, reason: &str) {
    let _turn = file.gate.write().await;
    let is_committed = {
        let state = file.state.lock();
        !state.needs_commit().unwrap_or(false)
    };
    if !is_committed {
        keep_now(file, reason).await;
    }
}

/// Keeps the local version. Returns the failure that ends the file by that. The caller holds
/// `storing`.
pub(super) async fn keep_as(file: &Awake, reason: &str) -> FsError {
    let _turn = file.gate.write().await;
    keep_now(file, reason).await
}

/// As [`keep_as`], where the bytes of the newest version are unknown: the version of the record is
/// kept apart, as its close has returned.
pub(super) async fn keep_unsynced(file: &Awake, reason: &str) {
    let _turn = file.gate.write().await;
    let recorded = keep_recorded(file, reason).await;
    end_kept(file, reason, keep_newest(file, reason).await, recorded);
}

/// As [`keep_as`], for a caller that holds the gate. A version that was closed before, and that the
/// newest one has left behind, is kept apart.
async fn keep_now(file: &Awake, reason: &str) -> FsError {
    let has_left_commit = file.state.lock().has_left_commit();
    let recorded = match has_left_commit {
        true => keep_recorded(file, reason).await,
        false => Ok(None),
    };
    end_kept(file, reason, keep_newest(file, reason).await, recorded)
}

/// Ends a file whose `newest` version and that of its record are kept, as the caller has tried. The
/// record goes with that; a version that could not be kept has its record.
fn end_kept(
    file: &Awake,
    reason: &str,
    newest: Result<String, FsError>,
    recorded: Result<Option<String>, FsError>,
) -> FsError {
    let key = file.key();
    let is_kept = newest.is_ok() && recorded.is_ok();
    let before = match recorded {
        Ok(None) => String::new(),
        Ok(Some(id)) => format!("; the one that was closed before is kept as {id}"),
        Err(error) => format!("; the one that was closed before stays in the journal: {error}"),
    };
    let directory = file.context.config.directory.display();
    let text = match newest {
        Err(_) if file.files.have_no_disk() => format!("{key} was not stored: {reason}"),
        Ok(id) => format!(
            "{key} was not stored: its local version is kept as {id}{before}; see `mount-s3 staged list {directory}`"
        ),
        Err(error) => format!(
            "{key} was not stored, and its local version could not be kept: {error}{before}"
        ),
    };
    tracing::error!("{text}");
    let failure = FsError::Stale(text);
    file.state.lock().fail(failure.clone());
    file.tell(|observer, file| observer.failed(file, &failure));
    end_upload(file);
    if is_kept {
        release(file, true);
    }
    failure
}

/// Keeps the newest bytes. Returns the name of the kept version.
async fn keep_newest(file: &Awake, reason: &str) -> Result<String, FsError> {
    file.context.directory()?;
    let (context, files) = (Arc::clone(&file.context), Arc::clone(&file.files));
    let (key, base, metadata, contents) = {
        let state = file.state.lock();
        let base = state.base.as_ref().map(|base| base.version.clone());
        let metadata = state.headers.metadata.clone();
        (
            state.key.clone(),
            base,
            metadata,
            state.contents.now().clone(),
        )
    };
    let reason = reason.to_owned();
    let kept = file.context.on_disk(move || {
        let kept = Kept {
            key: &key,
            base: base.as_ref(),
            metadata,
            contents: &contents,
            reason,
            time: context.clock.wall(),
        };
        let directory = context.directory()?;
        keep(directory, &context.config, &files, &kept)
            .map_err(|error| disk_error(directory, &error))
    });
    kept.await
}

/// Keeps the version of the file's record. Returns its name; `None` if the bucket has it, or there
/// is none.
async fn keep_recorded(file: &Awake, reason: &str) -> Result<Option<String>, FsError> {
    let Some(record) = file.state.lock().pending_record() else {
        return Ok(None);
    };
    let (context, files) = (Arc::clone(&file.context), Arc::clone(&file.files));
    let reason = reason.to_owned();
    let kept = file.context.on_disk(move || {
        let Some(write_back) = &context.write_back else {
            return Ok(None);
        };
        let directory = context.directory()?;
        let payload = write_back.journal.read(record.id);
        let (mut version, local) = match read_record(&**directory.disk(), files.name(), payload) {
            ReadRecord::Version(version, local, _) => (*version, local),
            ReadRecord::Removed => return Ok(None),
            ReadRecord::Unreadable(reason) | ReadRecord::Newer(reason) => {
                return Err(FsError::Local(reason));
            }
        };
        let apart = DataFiles::new(directory, &context.file_memory, false);
        let kept = match version.is_inline {
            true => write_inline(&apart, &mut version, &local).map(|()| &apart),
            false => Ok(&*files),
        };
        let now = context.clock.wall();
        let kept = kept.and_then(|files| {
            keep_version(directory, &context.config, files, &version, (reason, now))
        });
        kept.map(Some)
            .map_err(|error| disk_error(directory, &error))
    });
    kept.await
}
