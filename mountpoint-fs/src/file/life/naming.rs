//! Names of a file: removals, renames, and what they must not find in the journal.
//!
//! A version that waits for its upload has its key in its record. So a removal or a rename of it is
//! durable in the journal before it returns, or the bucket alone has the file by then.

use mountpoint_client::types::Key;

use super::committing::commit_file;
use super::releasing::{end_upload, forget};
use super::state::{Awake, Base, UnstoredName};
use super::storing::store;
use crate::file::commit;
use crate::file::context::WriteBack;
use crate::operation::FsError;
use crate::write::Stored;

/// Makes it durable that the file is removed: a version of it that waits is never uploaded, not
/// after a kill either. A failure leaves the state as it was.
pub(super) async fn remove(file: &Awake) -> Result<(), FsError> {
    // A commit that runs ends first, and one that begins waits for the outcome.
    let _turn = file.gate.write().await;
    if let Some(write_back) = &file.context.write_back
        && file.files.is_recorded()
    {
        end_record(file, write_back).await?;
    }
    file.state.lock().removed();
    end_upload(file);
    Ok(())
}

/// Has the bucket alone have the file: stores it, and makes it durable that no record has it. A
/// commit meanwhile makes another record.
pub(super) async fn settle(file: &Awake) -> Result<(), FsError> {
    store(file).await?;
    let Some(write_back) = &file.context.write_back else {
        return Ok(());
    };
    let _turn = file.gate.write().await;
    if !file.state.lock().is_recorded_in_vain() {
        return Ok(());
    }
    end_record(file, write_back).await?;
    file.state.lock().record_ended();
    Ok(())
}

/// Makes it durable that the file has no record. The caller holds the gate exclusively.
async fn end_record(file: &Awake, write_back: &WriteBack) -> Result<(), FsError> {
    // No commit runs: the end is that of all records.
    let last = file.files.last_record();
    let ended = commit::remove(&file.context, &write_back.journal, file.files.name()).await;
    let recorded = file.state.lock().recorded;
    let (id, number) = match (ended, recorded) {
        (Ok(id), _) => (id, last),
        (Err(FsError::NoSpace(_)), Some(recorded)) => {
            // A release needs no room. It is durable a moment later.
            let (id, number) = (recorded.record.id, recorded.record.number);
            let released = write_back.journal.release(id).await;
            released.map_err(|error| FsError::Local(error.to_string()))?;
            // The journal's thread belongs to the next batch.
            file.context.on_disk(|| Ok(())).await?;
            (id, number)
        }
        (Err(error), _) => return Err(error),
    };
    forget(file, (id, number), write_back.journal.release(id));
    Ok(())
}

/// Notes that the file, which the bucket has as `version` now, is called `key`.
pub(super) async fn renamed(file: &Awake, key: Key, version: Stored) -> Result<(), FsError> {
    let base = Base::new(version);
    file.state.lock().renamed(key, base);
    commit_name(file).await
}

/// Gives a file of which the bucket has nothing another name. A failure leaves the one of before.
pub(super) async fn rename_unstored(file: &Awake, name: UnstoredName) -> Result<(), FsError> {
    let before = file.state.lock().rename_unstored(name);
    let committed = commit_name(file).await;
    if committed.is_err() {
        file.state.lock().rename_unstored(before);
    }
    committed
}

/// Makes changes of the name or of the headers durable, if a version of the file waits for its
/// upload.
pub(super) async fn commit_name(file: &Awake) -> Result<(), FsError> {
    let Some(write_back) = file.context.committing() else {
        return Ok(());
    };
    // A commit that runs may have the name of before, and ends first.
    drop(file.gate.write().await);
    let is_due = {
        let state = file.state.lock();
        state.recorded.is_some() || state.due_edits > 0
    };
    match is_due {
        true => commit_file(file, write_back).await,
        false => Ok(()),
    }
}
