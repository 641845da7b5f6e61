//! Unfinished uploads and directory renames, recorded in a file for the next mount.
//!
//! The next mount aborts the uploads that a killed process left, and may resume its renames. Each
//! process has a file in the state directory, locked while it lives. The next mount of the bucket
//! takes over a file whose lock is free and can be trusted ([`origin`]).
//!
//! Invariant: the file names an upload before its first part is sent. Lines are not synced: they
//! survive the process, not a power failure. A failure to write is a warning and stops no upload. A
//! new file with all open entries replaces one that missed a line, was lost, or is long.
//!
//! Thread: `journal` writes, with no lock held that others take. A caller waits for its line for
//! [`JOURNAL_WAIT_MAX`] at most. Before [`Journal::start`] the caller writes.

mod file;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod line;
mod origin;
mod state;
mod writer;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use futures::channel::oneshot;
use mountpoint_client::types::{Upload, WriteToken};
use mountpoint_client::{ErrorKind, ObjectClient};
use nix::unistd::AccessFlags;

use self::file::JournalDirectory;
pub(crate) use self::line::RENAME_REMEMBERED;
use self::line::{Line, Renaming, millis};
use self::state::{JournalState, JournalTask, Thread};
use self::writer::{JOURNAL_WAIT_MAX, JournalWriter, Unusable};
use crate::config::limits::READER_IDLE;

/// The journal of this mount. Its file is made with the first upload.
#[derive(Debug)]
pub(crate) struct Journal(Arc<JournalWriter>);

/// Checks that journals can be kept in `directory`, which is created if needed.
pub(crate) fn is_usable(directory: &Path) -> io::Result<()> {
    file::make_directory(directory)?;
    Ok(nix::unistd::access(
        directory,
        AccessFlags::W_OK | AccessFlags::X_OK,
    )?)
}

impl Journal {
    /// A journal about `bucket` in `directory`. Without a directory, only this process remembers.
    pub(crate) fn new(directory: Option<&Path>, bucket: &str) -> Self {
        Self::at(directory.map(|directory| JournalDirectory::new(directory, bucket)))
    }

    fn at(place: Option<JournalDirectory>) -> Self {
        Self(Arc::new(JournalWriter::new(place)))
    }

    /// Starts the thread that writes.
    ///
    /// The journal has no file while `is_unusable` rejects its directory; the check runs before the
    /// directory is touched.
    pub(crate) fn start(
        &self,
        is_unusable: impl Fn(&Path) -> bool + Send + Sync + 'static,
    ) -> io::Result<()> {
        if self.0.place.is_none() {
            return Ok(());
        }
        let is_unusable = Unusable(Box::new(is_unusable));
        self.0.is_unusable.set(is_unusable).ok();
        let shared = Arc::clone(&self.0);
        self.0.state.lock().thread = Thread::Runs;
        let thread = thread::Builder::new().name("journal".to_owned());
        let started = thread.spawn(move || shared.serve());
        if started.is_err() {
            self.0.state.lock().thread = Thread::None;
        }
        started.map(drop)
    }

    /// Limits every wait to [`JOURNAL_WAIT_MAX`]. A task of a tokio runtime that lives as long as
    /// the journal.
    pub(crate) fn watch(&self) -> impl Future<Output = ()> + Send + use<> {
        let (shared, waits) = (Arc::downgrade(&self.0), Arc::clone(&self.0.waits));
        async move {
            loop {
                // After a signal or a timeout, the task checks whether the journal still exists.
                drop(tokio::time::timeout(READER_IDLE, waits.notified()).await);
                let Some(before) = shared.upgrade().map(|shared| shared.state.lock().waiting())
                else {
                    return;
                };
                let Some(before) = before else { continue };
                tokio::time::sleep(JOURNAL_WAIT_MAX).await;
                if let Some(shared) = shared.upgrade() {
                    shared.give_up(before);
                }
            }
        }
    }

    /// Uploads and renames that were begun and have not ended.
    pub(crate) fn open_entries(&self) -> usize {
        let state = self.0.state.lock();
        state.open.len() + state.renames.len()
    }

    /// Records the begin of `upload`. Returns when the line is in the file or cannot be written.
    pub(crate) async fn begun(&self, upload: &Upload) {
        let change = self.0.record(|state| {
            state.open.push(upload.clone());
            vec![Line::begun(upload)]
        });
        self.0.settled(change).await;
    }

    /// Records that `upload` is complete, or that S3 has forgotten it.
    pub(crate) fn ended(&self, upload: &Upload) {
        let id = upload.upload_id.clone();
        self.0.record(|state| {
            state.open.retain(|open| open.upload_id != id);
            vec![Line::Ended { id }]
        });
    }

    /// Records that the directory `from` is being moved to `to`, object by object. All copies that
    /// it makes carry `token`.
    ///
    /// The newest object of `from` was made at `newest`. The rename begins `now`, or keeps its
    /// earlier time if it is known. Returns when the line is in the file or cannot be written.
    pub(crate) async fn renaming(
        &self,
        (from, to): (&str, &str),
        token: &WriteToken,
        (newest, now): (SystemTime, SystemTime),
    ) {
        let renaming = Renaming {
            from: from.to_owned(),
            to: to.to_owned(),
            newest: millis(newest),
            begun: millis(now),
            token: token.as_str().to_owned(),
        };
        let change = self.0.record(|state| state.remember(renaming));
        self.0.settled(change).await;
    }

    /// Records that the rename has ended, or has not begun.
    pub(crate) async fn renamed(&self, from: &str, to: &str) {
        self.forget(|known| known.is(from, to)).await;
    }

    /// Forgets renames of `prefix` and of directories below it, because `prefix` was made or
    /// removed.
    pub(crate) async fn forget_renames_of(&self, prefix: &str) {
        self.forget(|known| known.concerns(prefix)).await;
    }

    /// Forgets renames above `key`, which was moved there and may be older than their objects.
    pub(crate) async fn forget_renames_from_above(&self, key: &str) {
        self.forget(|known| key.starts_with(&known.from)).await;
    }

    /// The token of a move of `from` to `to` that has begun and may be resumed.
    ///
    /// `newest` is the modification time of the newest object still below `from`. Every other
    /// rename of either directory is forgotten, and so is this one if `from` now holds other
    /// objects. A rename may not be resumed if a remaining object is newer than all objects at its
    /// start, if this mount has made, removed or otherwise renamed one of its directories since, or
    /// after a day.
    pub(crate) async fn is_renaming(
        &self,
        from: &str,
        to: &str,
        newest: Option<SystemTime>,
        now: SystemTime,
    ) -> Option<WriteToken> {
        let goes_on = |known: &Renaming| {
            known.is(from, to)
                && known.is_fresh(now)
                && newest.is_some_and(|newest| millis(newest) <= known.newest)
        };
        self.forget(|known| {
            let is_touched = known.concerns(from) || known.concerns(to);
            (is_touched || to.starts_with(&known.from)) && !goes_on(known)
        })
        .await;
        let renames = &self.0.state.lock().renames;
        let known = renames.iter().find(|known| known.is(from, to))?;
        // An earlier program noted no token: nothing carries a new one.
        Some(WriteToken::parse(&known.token).unwrap_or_else(WriteToken::random))
    }

    /// Forgets renames. Returns when the next mount does not know them either.
    async fn forget(&self, is_meant: impl Fn(&Renaming) -> bool) {
        let change = self.0.record(|state| state.forget(is_meant));
        self.0.settled(change).await;
    }

    /// Takes over the entries of processes that have ended, and aborts their uploads. Returns the
    /// number of those uploads.
    pub(crate) async fn recover(&self, client: &dyn ObjectClient, now: SystemTime) -> usize {
        if self.0.place.is_none() {
            return 0;
        }
        let (tell, told) = oneshot::channel();
        self.0.ask(JournalTask::TakeOver(now, tell));
        let uploads = told.await.unwrap_or_default();
        let mut aborted = 0;
        for upload in &uploads {
            match client.abort_upload(upload).await {
                Ok(()) => aborted += 1,
                Err(error) if error.kind == ErrorKind::NoSuchUpload => {}
                Err(error) => {
                    tracing::warn!(key = %upload.key, "an upload of a killed mount stays in the bucket: {error}");
                    continue;
                }
            }
            self.ended(upload);
        }
        self.0.ask(JournalTask::TidyUp);
        aborted
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let shared = &self.0;
        let mut state = shared.state.lock();
        if state.thread == Thread::None {
            drop(state);
            return shared.end();
        }
        state.thread = Thread::IsToEnd;
        shared.changed.notify_all();
        let has_not_ended = |state: &mut JournalState| state.thread != Thread::None;
        // A disk that does not answer must not keep the process alive.
        let ended = shared
            .changed
            .wait_while_for(&mut state, has_not_ended, JOURNAL_END_MAX);
        if ended.timed_out() {
            tracing::warn!("the journal of unfinished uploads was not written to its end");
        }
    }
}

/// How long an unmount waits for the journal's last lines.
const JOURNAL_END_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
