//! Stores of a file: the bucket gets it as it is.

use std::sync::Arc;

use mountpoint_client::types::ObjectHeaders;
use tokio::sync::OwnedMutexGuard;

use super::committing::commit_now;
use super::ending::{give_way, keep_as};
use super::life::{Awake, Base, FileParts};
use super::releasing::{end_upload, release};
use crate::config::limits::METADATA_LEN_MAX;
use crate::config::{ConflictPolicy, StagingConfig};
use crate::operation::{FileKind, FsError, PosixAttributes};
use crate::staging::contents::{Piece, Snapshot, Source};
use crate::staging::upload::{Resolved, StoreRequest, is_conflict, resolve};
use crate::write::Stored;
use crate::write::background::{self, SharedOutcome};

/// Stores all changes. Returns when the bucket has them, or at once if it has.
pub(super) async fn store(file: &Awake) -> Result<(), FsError> {
    let turn = Arc::clone(&file.storing).lock_owned().await;
    if !file.state.lock().needs_store()? {
        return Ok(());
    }
    let outcome = SharedOutcome::new();
    let (this, settled) = (file.clone(), outcome.clone());
    let work = file.context.writing.begin_work();
    background::run(async move {
        let (turn, stored) = store_in_turn(&this, turn).await;
        // A caller that drops the file next is the last one to have it.
        drop(turn);
        drop(this);
        settled.settle(stored);
        drop(work);
    });
    outcome.wait().await
}

/// The right to store a file: `storing` is held.
pub(super) type StoreTurn = OwnedMutexGuard<()>;

/// Stores the file as it is. Returns the turn as well.
///
/// A change of the name that waits for the turn goes first: the store ends, and begins anew behind
/// it with what there is to store.
pub(super) async fn store_in_turn(
    file: &Awake,
    mut turn: StoreTurn,
) -> (StoreTurn, Result<(), FsError>) {
    loop {
        let stored = store_now(file).await;
        if !matches!(stored, Ok(StoreEnd::Stopped)) {
            return (turn, stored.map(drop));
        }
        drop(turn);
        turn = Arc::clone(&file.storing).lock_owned().await;
        let needs_store = file.state.lock().needs_store();
        match needs_store {
            Ok(true) => {}
            other => return (turn, other.map(drop)),
        }
    }
}

/// The end of a store without a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreEnd {
    /// The bucket has the file, or another object stands for it.
    Done,
    /// The store was asked to end, and has changed nothing.
    Stopped,
}

/// Stores the file as it is. The caller holds `storing`.
async fn store_now(file: &Awake) -> Result<StoreEnd, FsError> {
    if file.stop.is_asked() {
        return Ok(StoreEnd::Stopped);
    }
    let (mut beside, mut met) = (None, None);
    for _ in 0..SENDS_MAX {
        let mut request = begin(file).await?;
        keep_time(file, &mut request.headers);
        request.beside = beside.take();
        match resolve(&file.context, &request).await {
            Ok(Resolved::Stored { version, is_sent }) => {
                let has_old_headers = request.has_made_old_headers();
                let base = Base::new(version.clone());
                file.state.lock().stored(base, is_sent, has_old_headers);
                end_stored(file, &version);
                if !has_old_headers {
                    return Ok(StoreEnd::Done);
                }
            }
            Ok(Resolved::Sent(there, number)) => {
                let base = Base::new(there);
                file.state.lock().rebased(base, number);
            }
            Ok(Resolved::Superseded(there)) => {
                let base = Base::new(there.clone());
                if !file.state.lock().superseded(base) {
                    return Err(keep_as(file, SUPERSEDED).await);
                }
                end_stored(file, &there);
                return Ok(StoreEnd::Done);
            }
            Ok(Resolved::Adopted) => {
                let key = &request.key;
                let text = format!("another host has made {key} meanwhile");
                if give_way(file, &text).await {
                    return Ok(StoreEnd::Done);
                }
                met = Some(text);
            }
            Ok(Resolved::Beside(copy, version)) => {
                let key = &request.key;
                let text =
                    format!("another client changed {key}, and this host's version is {copy}");
                if give_way(file, &text).await {
                    return Ok(StoreEnd::Done);
                }
                (beside, met) = (Some((copy, version)), Some(text));
            }
            Err(FsError::Interrupted) if file.stop.take_stopped() => {
                file.state.lock().stopped();
                return Ok(StoreEnd::Stopped);
            }
            Err(error) => {
                return Err(end_refused(file, &request.snapshot, error).await);
            }
        }
    }
    if let Some(text) = met {
        let reason = format!("{text}, and it was written all the time");
        return Err(keep_as(file, &reason).await);
    }
    let key = file.key();
    Err(FsError::Busy(format!(
        "{key}: other clients keep changing it"
    )))
}

/// Ends a store that was refused. Returns the failure for the call.
async fn end_refused(file: &Awake, snapshot: &Snapshot, error: FsError) -> FsError {
    {
        let mut state = file.state.lock();
        state.contents.end_store(false);
        state.refused_edits = state.sent_edits;
    }
    if is_conflict(&error) {
        return keep_in_conflict(file, snapshot, error).await;
    }
    match snapshot.has_sent() {
        // The upload was given up, and nobody else has all bytes.
        true => keep_as(file, &error.to_string()).await,
        false => error,
    }
}

/// The bucket has all that a store has sent, as `version`.
fn end_stored(file: &Awake, version: &Stored) {
    file.tell(|observer, file| observer.stored(file, version));
    end_upload(file);
    release(file, false);
}

/// Keeps a file whose store has met another client's change. Returns the failure for the call.
async fn keep_in_conflict(file: &Awake, snapshot: &Snapshot, error: FsError) -> FsError {
    let reason = conflict_reason(&file.context.config, snapshot, &error);
    let kept = keep_as(file, &reason).await;
    match error {
        // Another host has made the file: the call says so, as without staging.
        FsError::Exists => error,
        _ => kept,
    }
}

/// Why a file is kept that another client's change met.
fn conflict_reason(config: &StagingConfig, snapshot: &Snapshot, error: &FsError) -> String {
    let pieces = snapshot.pieces(0..snapshot.size());
    let missing = pieces.iter().filter(|piece| piece.source == Source::Base);
    let missing: u64 = missing.map(Piece::len).sum();
    let lacks = match config.on_conflict {
        ConflictPolicy::KeepBoth | ConflictPolicy::Overwrite if missing > 0 => format!(
            "; {missing} bytes of the file were neither changed nor read here, so without the version that was opened \
             only its changes can be kept"
        ),
        _ => String::new(),
    };
    format!("another client changed the object: {error}{lacks}")
}

/// Begins a store of the file as it is. The version that it sends is in the journal before, unless
/// the disk is full.
async fn begin(file: &Awake) -> Result<StoreRequest, FsError> {
    let ranges = file.state.lock().contents.range_count();
    if ranges > FEW_RANGES {
        // The snapshot of many ranges takes time that no thread of the kernel has.
        file.context.on_disk(|| Ok(())).await?;
    }
    let _turn = file.gate.write().await;
    // Another end may have come behind an attempt that found newer bytes.
    file.state.lock().check()?;
    match commit_now(file).await {
        // The upload makes room.
        Ok(_) | Err(FsError::NoSpace(_)) => {
            let mut state = file.state.lock();
            Ok(state.begin_store(file.places(), file.ways()))
        }
        Err(error) => Err(error),
    }
}

/// Sends the time of the last change along, if objects carry times and there is room: programs that
/// compare times see none change by a store.
fn keep_time(file: &FileParts, headers: &mut ObjectHeaders) {
    // A directory has the time that was set, or that of its making.
    let is_file = !file.state.lock().key.is_marker();
    if is_file && file.context.writing.config().posix_metadata {
        let posix = PosixAttributes {
            mtime: Some(file.progress.mtime()),
            ..PosixAttributes::default()
        };
        let now = file.context.clock.wall();
        let mut timed = headers.clone();
        posix.store(FileKind::File, now, &mut timed.metadata);
        if timed.metadata_len() <= METADATA_LEN_MAX.max(headers.metadata_len()) {
            *headers = timed;
        }
    }
}

/// Sends of one store: each but the last finds an upload of a process that was killed, or another
/// object in the file's place while the file is written on.
const SENDS_MAX: usize = 3;

/// Why a recovered file is kept that was changed before its upload.
const SUPERSEDED: &str = "the bucket has a later version, which a killed process had stored and not recorded, and the \
                          recorded one was changed since";

/// Ranges that any thread has the time to copy.
const FEW_RANGES: usize = 256;
