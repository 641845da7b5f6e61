//! Commits of a file: its state becomes durable on the local disk, and its upload follows.

use std::sync::Arc;
use std::time::Duration;

use super::ending::keep_unsynced;
use super::releasing::release;
use super::state::{Awake, Recorded};
use crate::file::commit::{CommitFailure, CommitRequest, commit, drop_sums};
use crate::file::contents::DataFileNo;
use crate::file::context::{StagingContext, WriteBack};
use crate::file::queue::PendingFile;
use crate::metrics::trace::{WaitCause, waits};
use crate::operation::FsError;
use crate::write::background::{self, SharedOutcome};

/// Returns when the file is durable on the local disk as it is, or at once if it is. Waits for room
/// there, for a while. A commit that is given up while it waits continues.
pub(super) async fn commit_file(file: &Awake, write_back: &WriteBack) -> Result<(), FsError> {
    let mut room = RoomWait::new(&file.context);
    if !file.state.lock().needs_commit()? {
        return Ok(());
    }
    loop {
        let has_place = write_back.queue.has_room(file.files.name().0);
        let committed = match has_place {
            true => commit_once(file).await,
            false => Err(FsError::NoSpace(
                "too many files wait for their upload: S3 is slower than what is written"
                    .to_owned(),
            )),
        };
        match committed {
            Err(FsError::NoSpace(_)) if room.wait(&file.context, has_place).await => {}
            committed => return committed,
        }
    }
}

async fn commit_once(file: &Awake) -> Result<(), FsError> {
    let outcome = SharedOutcome::new();
    let (this, settled) = (file.clone(), outcome.clone());
    let work = file.context.writing.begin_work();
    background::run(async move {
        let done = {
            let _turn = this.gate.write().await;
            commit_now(&this).await
        };
        if let Ok(true) = done {
            committed(&this);
        }
        drop(this);
        settled.settle(done.map(drop));
        drop(work);
    });
    outcome.wait().await
}

/// A commit of the file is durable: its upload follows.
pub(super) fn committed(file: &Awake) {
    if let Some(write_back) = &file.context.write_back {
        let pending = Arc::clone(file.life()) as Arc<dyn PendingFile>;
        write_back.queue.committed(file.files.name().0, pending);
    }
}

/// Makes the file durable as it is. Returns whether the bucket lacks it. The caller holds the gate
/// exclusively.
pub(super) async fn commit_now(file: &Awake) -> Result<bool, FsError> {
    let Some(write_back) = file.context.committing() else {
        return Ok(false);
    };
    let (request, edits) = {
        let state = file.state.lock();
        match state.to_commit(&file.files, file.progress.mtime())? {
            Some(request) => request,
            None => return state.needs_store(),
        }
    };
    put_commit(file, write_back, (request, edits)).await
}

/// Makes the version of `request` durable, with the changes up to `edits`. The caller holds the
/// gate exclusively.
async fn put_commit(
    file: &Awake,
    write_back: &WriteBack,
    (request, edits): (CommitRequest, u64),
) -> Result<bool, FsError> {
    match commit(&file.context, &write_back.journal, request).await {
        Ok(record) => {
            file.state.lock().committed(record, edits);
            file.files.shrink();
            Ok(true)
        }
        Err(CommitFailure::Again(error)) => Err(error),
        Err(CommitFailure::Sync(error)) => {
            poison(file, &error);
            Err(error)
        }
    }
}

/// Has the last record name no sums, before bytes that they cover are written over: a kill would
/// leave a version that looks damaged.
pub(super) async fn unseal(file: &Awake) -> Result<(), FsError> {
    let _turn = file.gate.write().await;
    unseal_in_turn(file).await
}

/// As [`unseal`], for a caller that holds the gate exclusively.
pub(super) async fn unseal_in_turn(file: &Awake) -> Result<(), FsError> {
    if !DataFileNo::ALL
        .iter()
        .any(|place| file.files.is_sealed(*place, 0))
    {
        return Ok(());
    }
    file.files.begin_rewriting();
    let recorded = file.state.lock().recorded;
    if let Some(Recorded { record, edits }) = recorded {
        let record = drop_sums(&file.context, &file.files, record).await?;
        if let Some(record) = record {
            file.state.lock().recorded = Some(Recorded { record, edits });
        }
    }
    file.files.unseal();
    // The bucket may have all of it by now.
    release(file, false);
    Ok(())
}

/// Has the record of a file that was written over name its sums again, behind the last close. It
/// counts without them.
pub(super) async fn seal(file: &Awake) {
    let Some(write_back) = file.context.committing() else {
        return;
    };
    let _turn = file.gate.write().await;
    let request = {
        let state = file.state.lock();
        state.to_seal(&file.files, file.progress.mtime())
    };
    if let Ok(Some(request)) = request
        && let Err(error) = put_commit(file, write_back, request).await
    {
        tracing::debug!(key = %file.key(), "a committed file has no checksums: {error}");
    }
}

/// Ends a file whose bytes on the disk are unknown: none of them is uploaded, and the file is kept
/// as it is.
fn poison(file: &Awake, error: &FsError) {
    let failure = error.clone();
    file.state.lock().end.fail(failure);
    let (this, reason) = (file.clone(), error.to_string());
    let work = file.context.writing.begin_work();
    background::run(async move {
        let _turn = this.storing.lock().await;
        let reason = format!("bytes of it may be lost, as they could not be synced: {reason}");
        keep_unsynced(&this, &reason).await;
        drop(work);
    });
}

/// Has all files give back what they can. `false` if the disk's threads have ended.
pub(super) async fn ask_others(context: &Arc<StagingContext>) -> bool {
    let holders = Arc::clone(context);
    let asked = context.on_disk(move || {
        holders.room_holders.give_back();
        Ok(())
    });
    asked.await.is_ok()
}

/// A bounded wait for room on the disk of staged files.
#[derive(Debug)]
pub(super) struct RoomWait {
    until: Duration,
    has_asked: bool,
}

impl RoomWait {
    pub(super) fn new(context: &StagingContext) -> Self {
        Self {
            until: context.clock.now() + ROOM_WAIT_MAX,
            has_asked: false,
        }
    }

    /// Waits until the other files have given back what they can, if the disk `is_full`, and then
    /// until an upload may have made room. `false` if none will, or not in time.
    pub(super) async fn wait(&mut self, context: &Arc<StagingContext>, is_full: bool) -> bool {
        if is_full && !std::mem::replace(&mut self.has_asked, true) {
            return ask_others(context).await;
        }
        let left = self.until.saturating_sub(context.clock.now());
        match context.committing() {
            Some(write_back) if !left.is_zero() => {
                waits(WaitCause::Disk, write_back.queue.room(left), |_| ()).await
            }
            _ => false,
        }
    }
}

/// Longest wait of a write or a commit for room on a full disk. Applications take a disk that does
/// not answer for longer for broken.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(30);
