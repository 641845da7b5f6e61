//! The end of a record: the bucket has the version, or the version is kept or gone.

use std::sync::Arc;

use super::parts::{FileParts, abort_unfinished};
use crate::staging::journal::{Commit, RecordId};
use crate::write::background;

/// Releases the record of the file if nothing needs it: the bucket has all its changes, or the
/// file `is_over`.
pub(super) fn release(file: &Arc<FileParts>, is_over: bool) {
    let Some(write_back) = &file.context.write_back else {
        return;
    };
    let recorded = {
        let state = file.state.lock();
        let is_stored = |edits| is_over || edits <= state.stored_edits;
        state.recorded.filter(|recorded| is_stored(recorded.edits))
    };
    if let Some(recorded) = recorded {
        let id = recorded.record.id;
        forget(file, id, write_back.journal.release(id));
    }
}

/// Aborts what a store has begun and no other one continues.
pub(super) fn end_upload(file: &FileParts) {
    let early = file.state.lock().ahead.end();
    abort_unfinished(&file.context, &file.checkpoint, early);
}

/// Gives up the data files when the release of a record is durable.
pub(super) fn forget(file: &Arc<FileParts>, id: RecordId, released: Commit) {
    let Some(write_back) = &file.context.write_back else {
        return;
    };
    write_back.queue.begin_release();
    let file = Arc::clone(file);
    background::run(async move {
        let is_released = released.await.is_ok();
        // The journal's thread belongs to the next batch.
        file.context.on_disk(|| Ok(())).await.ok();
        if is_released {
            let mut state = file.state.lock();
            let newer = state
                .recorded
                .filter(|it| it.record.id.version > id.version);
            if newer.is_none() {
                state.recorded = None;
                file.files.set_recorded(false);
            }
            drop(state);
            file.observer().released();
        }
        let context = Arc::clone(&file.context);
        // Its data files go with its last owner.
        drop(file);
        if let Some(write_back) = &context.write_back {
            write_back.queue.end_release();
        }
    });
}
