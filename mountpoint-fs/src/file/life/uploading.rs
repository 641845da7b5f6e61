//! Uploads of committed files, which the queue begins.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mountpoint_client::ErrorKind;
use mountpoint_client::types::Key;

use super::ending::keep_as;
use super::releasing::release;
use super::state::{Awake, FileLife};
use super::storing::{Extent, store_in_turn};
use crate::file::queue::{Attempt, PendingFile, PendingUpload};
use crate::operation::FsError;

impl PendingFile for FileLife {
    fn upload(self: Arc<Self>) -> BoxFuture<'static, Attempt> {
        let work = self.context().writing.begin_work();
        async move {
            let attempt = upload(&self.wake()).await;
            drop(work);
            attempt
        }
        .boxed()
    }

    fn size(&self) -> u64 {
        self.look(|state| state.contents.size())
    }

    fn delay(&self) -> Duration {
        match self.look(|state| state.key.is_marker()) {
            true => MARKER_DELAY,
            false => Duration::ZERO,
        }
    }

    fn describe(&self) -> PendingUpload {
        let modified = self.progress().mtime();
        self.look(|state| PendingUpload {
            key: state.key.clone(),
            size: state.contents.size(),
            modified,
            number: self.name().0,
            failures: state.failures,
            error: state.last_failure.clone(),
        })
    }
}

async fn upload(file: &Awake) -> Attempt {
    let turn = Arc::clone(&file.storing).lock_owned().await;
    if !file.state.lock().has_pending_commit() {
        // Stored by somebody else, or removed; a file that failed has its record as long as it is
        // not kept.
        release(file, false);
        return Attempt::Ended;
    }
    let (_turn, stored) = store_in_turn(file, turn, Extent::LastCommit).await;
    let Err(error) = stored else {
        return Attempt::Ended;
    };
    if let Some(damage) = file.files.damage()
        && file.state.lock().end.failure().is_none()
    {
        keep_as(file, &damage).await;
        return Attempt::Ended;
    }
    let refusals = {
        let mut state = file.state.lock();
        if state.end.failure().is_some() {
            return Attempt::Ended;
        }
        if state.awaits_commit() {
            state.last_failure = Some(error.to_string());
            return Attempt::Early;
        }
        state.upload_failed(&error);
        match attempt_of(&error) {
            Some(attempt) => {
                tell_passing(&state.key, state.failures, &error);
                return attempt;
            }
            None => state.refusals += 1,
        }
        state.refusals
    };
    tracing::warn!(key = %file.key(), refusals, "a staged file was not uploaded: {error}");
    if refusals < REFUSALS_MAX {
        return Attempt::Failed;
    }
    keep_as(file, &error.to_string()).await;
    Attempt::Ended
}

/// Logs a failure that may pass by itself. The client's log tells of a server that is away; what a
/// person has to mend is told now and then.
fn tell_passing(key: &Key, failures: u32, error: &FsError) {
    match error {
        FsError::Client(client) if !client.kind.is_retryable() && failures.is_power_of_two() => {
            tracing::warn!(%key, failures, "staged files wait for their upload: {error}");
        }
        _ => tracing::debug!(%key, "the upload is tried again: {error}"),
    }
}

/// The outcome of an upload that is tried for as long as it takes; `None` if the bucket or the disk
/// refuses it.
fn attempt_of(error: &FsError) -> Option<Attempt> {
    match error {
        FsError::Client(error) if is_away(&error.kind) => Some(Attempt::Away),
        FsError::Busy(_) | FsError::InMotion(_) | FsError::Interrupted => Some(Attempt::Failed),
        _ => None,
    }
}

/// Whether a failure says nothing of the file, and a later upload may succeed: the bucket cannot be
/// reached, or the credentials are missing, have expired or seem to by a wrong clock.
fn is_away(kind: &ErrorKind) -> bool {
    kind.is_retryable()
        || matches!(
            kind,
            ErrorKind::Credentials | ErrorKind::NoSuchBucket | ErrorKind::WrongRegion(_)
        )
}

/// Time from the making of a directory to the upload of its marker: programs that unpack archives
/// set its mode and time when all its files are there.
const MARKER_DELAY: Duration = Duration::from_secs(5);

/// Refusals of an upload until the version is kept: with the pauses between them, permissions have
/// a minute to be given.
const REFUSALS_MAX: u32 = 8;
