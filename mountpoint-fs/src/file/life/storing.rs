//! Stores of a file: the bucket gets it as it is, or as it was at the last commit.

use std::sync::Arc;
use std::time::SystemTime;

use mountpoint_client::types::ObjectHeaders;
use tokio::sync::OwnedMutexGuard;

use super::committing::{commit_now, committed};
use super::ending::{give_way, keep_as};
use super::releasing::{end_upload, give_back, release};
use super::sending_ahead::send_ahead;
use super::state::{Awake, Base, FileParts, Haste};
use crate::config::limits::METADATA_LEN_MAX;
use crate::config::{ConflictPolicy, StagingConfig};
use crate::file::contents::{Piece, Snapshot, Source};
use crate::file::store::{Resolved, StoreRequest, is_conflict, resolve};
use crate::operation::{FileKind, FsError, PosixAttributes};
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
        let (turn, stored) = store_in_turn(&this, turn, Extent::Newest).await;
        if stored.is_err() && this.state.lock().has_pending_commit() {
            // Its record may be new.
            committed(&this);
        }
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

/// The changes that a store sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// All of them, which are committed first.
    Newest,
    /// Those of the last commit.
    LastCommit,
    /// Those before the end of a part, while the file is written.
    Part(Haste),
}

/// Stores changes of the file. Returns the turn as well.
///
/// A change of the name that waits for the turn goes first: the store ends, and begins anew behind
/// it with what there is to store.
pub(super) async fn store_in_turn(
    file: &Awake,
    mut turn: StoreTurn,
    extent: Extent,
) -> (StoreTurn, Result<(), FsError>) {
    loop {
        let stored = store_now(file, extent).await;
        if !matches!(stored, Ok(StoreEnd::Stopped)) {
            return (turn, stored.map(drop));
        }
        drop(turn);
        turn = Arc::clone(&file.storing).lock_owned().await;
        let needs_store = {
            let state = file.state.lock();
            match extent {
                Extent::LastCommit => Ok(state.has_pending_commit()),
                Extent::Newest | Extent::Part(_) => state.needs_store(),
            }
        };
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

/// Sends what is due in the background: called behind each write, and where memory is short.
/// Returns whether something is.
pub(super) fn send_due(file: &Awake, haste: Haste) -> bool {
    grow_ahead(file, haste) || send_ahead(file, haste)
}

/// Sends whole parts of an object that grows while its file is written, in the background: all
/// that may be sent where memory is needed. Returns whether something is due.
fn grow_ahead(file: &Awake, haste: Haste) -> bool {
    let is_due = {
        let mut state = file.state.lock();
        let next = state.next_growth((&file.files, &file.context.writing), Some(haste));
        next.is_some() && state.ahead.run()
    };
    if !is_due {
        return false;
    }
    let (file, work) = (file.clone(), file.context.writing.begin_work());
    background::run(async move {
        let _turn = file.storing.lock().await;
        while grow_once(&file, haste).await {
            if file.files.chunk_bytes() > GROWN_MAX || file.context.writing.is_short() {
                give_back(&file);
            }
            file.moved.notify_waiters();
        }
        file.state.lock().ahead.rest();
        file.moved.notify_waiters();
        drop(work);
    });
    true
}

/// Sends the next part of an object that grows. Returns whether there was one. A failure stays for
/// the close to tell.
async fn grow_once(file: &Awake, haste: Haste) -> bool {
    let ways = (&*file.files, &*file.context.writing);
    let next = file.state.lock().next_growth(ways, Some(haste));
    if next.is_none() {
        return false;
    }
    let stored = store_now(file, Extent::Part(haste)).await;
    if stored.is_err() {
        file.state.lock().ahead.stop();
    }
    matches!(stored, Ok(StoreEnd::Done))
}

/// Stores changes of the file. The caller holds `storing`.
async fn store_now(file: &Awake, extent: Extent) -> Result<StoreEnd, FsError> {
    if file.stop.is_asked() {
        return Ok(StoreEnd::Stopped);
    }
    let (mut beside, mut met) = (None, None);
    let mut sends_left = SENDS_MAX;
    // Another send of the last commit would meet the same.
    while sends_left > 0 && !(met.is_some() && extent == Extent::LastCommit) {
        sends_left -= 1;
        let (mut request, is_part) = begin(file, extent).await?;
        request.beside = beside.take();
        match resolve(&file.context, &request).await {
            Ok(Resolved::Stored { version, is_sent }) => {
                let has_all = end_sent(file, &request, version, is_sent);
                match is_part {
                    true if extent == Extent::Newest => sends_left = SENDS_MAX,
                    _ if !has_all => {}
                    true | false => return Ok(StoreEnd::Done),
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

/// The bucket has what `request` asked for as `version`, which `is_sent` by it. Returns whether it
/// has the headers as well.
fn end_sent(file: &Awake, request: &StoreRequest, version: Stored, is_sent: bool) -> bool {
    let has_old_headers = request.has_made_old_headers();
    let algorithm = match &request.grows {
        Some((_, algorithm)) => Some(*algorithm),
        None if request.is_one_request(&file.context) => {
            Some(file.context.writing.config().checksum)
        }
        // The checksum of an object of parts may be made of theirs.
        None => None,
    };
    let (base, sent) = (Base::new(version.clone()), (is_sent, algorithm));
    file.state.lock().stored(base, sent, has_old_headers);
    end_stored(file, &version);
    !has_old_headers
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

/// Begins a store: with that, tells whether more is to come, where the object grows. The version
/// that it sends is in the journal before, unless the disk is full.
async fn begin(file: &Awake, extent: Extent) -> Result<(StoreRequest, bool), FsError> {
    let ranges = file.state.lock().contents.range_count();
    if ranges > FEW_RANGES {
        // The snapshot of many ranges takes time that no thread of the kernel has.
        file.context.on_disk(|| Ok(())).await?;
    }
    let _turn = file.gate.write().await;
    // Another end may have come behind an attempt that found newer bytes.
    file.state.lock().check()?;
    if extent == Extent::LastCommit {
        let begun = file
            .state
            .lock()
            .begin_store_of_commit(file.places(), file.ways())?;
        if let Some((mut request, mtime)) = begun {
            keep_time(file, mtime, &mut request.headers);
            return Ok((request, false));
        }
    }
    match commit_now(file).await {
        // The upload makes room.
        Ok(_) | Err(FsError::NoSpace(_)) => {
            let writing = &*file.context.writing;
            let haste = match extent {
                Extent::Part(haste) => Some(haste),
                Extent::Newest | Extent::LastCommit => None,
            };
            let (mut request, is_part) = {
                let mut state = file.state.lock();
                let limit = state.next_growth((&file.files, writing), haste);
                let is_part = limit.is_some_and(|limit| limit < state.contents.size());
                let request = state.begin_store(file.places(), file.ways(), (writing, limit));
                (request, is_part)
            };
            keep_time(file, file.progress.mtime(), &mut request.headers);
            Ok((request, is_part))
        }
        Err(error) => Err(error),
    }
}

/// Sends the time of the last change along, `mtime`, if objects carry times and there is room:
/// programs that compare times see none change by a store.
fn keep_time(file: &FileParts, mtime: SystemTime, headers: &mut ObjectHeaders) {
    // A directory has the time that was set, or that of its making.
    let is_file = !file.state.lock().key.is_marker();
    // The object of a file in memory is as new as its close.
    if is_file && !file.files.have_no_disk() && file.context.writing.config().posix_metadata {
        let posix = PosixAttributes {
            mtime: Some(mtime),
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

/// Bytes of an object that grows that stay in memory behind their sending.
const GROWN_MAX: u64 = 16 << 20;

/// Ranges that any thread has the time to copy.
const FEW_RANGES: usize = 256;
