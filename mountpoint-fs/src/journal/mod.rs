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
mod line;
mod origin;
mod state;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, SystemTime};

use futures::channel::oneshot;
use mountpoint_client::types::Upload;
use mountpoint_client::{ErrorKind, ObjectClient};
use nix::unistd::AccessFlags;
use tokio::sync::Notify;

use self::file::{JournalDirectory, JournalFile, JournalReport, Leftovers};
use self::line::{Line, Renaming, millis};
use self::state::{JournalState, JournalTask, Thread, Work};
use crate::config::limits::READER_IDLE;
use crate::sync::{Condvar, Mutex};

/// The journal of this mount. Its file is made with the first upload.
#[derive(Debug)]
pub(crate) struct Journal(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    place: Option<JournalDirectory>,
    /// Open entries and lines to write. The lock is a leaf.
    state: Mutex<JournalState>,
    /// Signals that a line is to be written or that the thread has ended.
    changed: Condvar,
    /// Held by the writer while it writes the file. Taken before the lock of the state.
    file: Mutex<JournalFile>,
    /// Signals that a caller waits for a line to be in the file.
    waits: Arc<Notify>,
    /// Set by [`Journal::start`].
    is_unusable: OnceLock<Unusable>,
}

/// Whether a directory must not be read or written.
struct Unusable(Box<dyn Fn(&Path) -> bool + Send + Sync>);

impl fmt::Debug for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unusable")
    }
}

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
        Self(Arc::new(Shared {
            place,
            state: Mutex::default(),
            changed: Condvar::new(),
            file: Mutex::default(),
            waits: Arc::default(),
            is_unusable: OnceLock::new(),
        }))
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

    /// Records that the directory `from` is being moved to `to`, name by name.
    ///
    /// The newest object of `from` was made at `newest`. The rename begins `now`, or keeps its
    /// earlier time if it is known. Returns when the line is in the file or cannot be written.
    pub(crate) async fn renaming(&self, from: &str, to: &str, newest: SystemTime, now: SystemTime) {
        let renaming = Renaming {
            from: from.to_owned(),
            to: to.to_owned(),
            newest: millis(newest),
            begun: millis(now),
        };
        let change = self.0.record(|state| state.remember(renaming));
        self.0.settled(change).await;
    }

    /// Records that the rename has ended, or is not done name by name.
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

    /// Whether a move of `from` to `to` has begun and may be resumed.
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
    ) -> bool {
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
        renames.iter().any(|known| known.is(from, to))
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

impl Shared {
    /// Applies a change; the thread writes its lines soon.
    ///
    /// Returns the number of the change, or `None` if it has no lines or the journal has no
    /// directory.
    fn record(&self, change: impl FnOnce(&mut JournalState) -> Vec<Line>) -> Option<u64> {
        let mut state = self.state.lock();
        let lines = change(&mut state);
        let place = self.place.as_ref().filter(|_| !lines.is_empty())?;
        let change = state.push(&lines);
        let has_thread = state.thread != Thread::None;
        drop(state);
        self.get_written(place, has_thread);
        Some(change)
    }

    /// Queues a task for the thread.
    fn ask(&self, task: JournalTask) {
        let Some(place) = &self.place else { return };
        let mut state = self.state.lock();
        state.tasks.push_back(task);
        let has_thread = state.thread != Thread::None;
        drop(state);
        self.get_written(place, has_thread);
    }

    fn get_written(&self, place: &JournalDirectory, has_thread: bool) {
        if has_thread {
            self.changed.notify_all();
        } else {
            self.work_off(place);
        }
    }

    /// Returns when the change of this number is in the file or was given up.
    async fn settled(&self, change: Option<u64>) {
        let Some(change) = change else { return };
        let told = self.state.lock().wait_for(change);
        if let Some(told) = told {
            self.waits.notify_one();
            // A change that was given up is signalled, too.
            told.await.ok();
        }
    }

    /// Releases the waiting callers if no line was written since `before`.
    fn give_up(&self, before: u64) {
        let mut state = self.state.lock();
        match state.waiting() {
            Some(now) if now == before => {}
            // The disk is making progress, and other callers may wait by now.
            Some(_) => return self.waits.notify_one(),
            None => return,
        }
        state.is_stuck = true;
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        self.warn(&format!(
            "the disk does not answer within {} s",
            JOURNAL_WAIT_MAX.as_secs()
        ));
        drop(waiters);
    }

    /// The loop of the thread.
    fn serve(&self) {
        let Some(place) = &self.place else { return };
        loop {
            let mut state = self.state.lock();
            while state.thread == Thread::Runs && !state.has_work() {
                self.changed.wait(&mut state);
            }
            let is_last = state.thread == Thread::IsToEnd;
            drop(state);
            if is_last {
                break;
            }
            self.work_off(place);
        }
        self.end();
        self.state.lock().thread = Thread::None;
        self.changed.notify_all();
    }

    /// Writes the remaining lines, and removes a file without open entries.
    fn end(&self) {
        let Some(place) = &self.place else { return };
        self.work_off(place);
        let mut file = self.file.lock();
        if self.state.lock().is_empty() {
            file.remove();
        }
    }

    /// Works until no line and no task is left.
    fn work_off(&self, place: &JournalDirectory) {
        loop {
            let mut file = self.file.lock();
            let Some(work) = self.state.lock().next_work() else {
                return;
            };
            match work {
                Work::Write => drop(self.write(place, &mut file)),
                Work::Task(JournalTask::TakeOver(now, tell)) => {
                    let uploads = self.take_over_all(place, &mut file, now);
                    // The caller may be gone: then this journal names the uploads.
                    tell.send(uploads).ok();
                }
                Work::Task(JournalTask::TidyUp) => {
                    if self.state.lock().is_empty() {
                        file.remove();
                        file.file = None;
                    }
                }
            }
        }
    }

    /// Writes the pending lines. Returns whether the file names all open entries.
    fn write(&self, place: &JournalDirectory, file: &mut JournalFile) -> bool {
        let (lines, last, tells_all) = self.state.lock().take_lines();
        let mut last_of_all = last;
        let mut all = || {
            let state = self.state.lock();
            last_of_all = state.last();
            let all = state.tell_all()?;
            // Even an existing file is not examined: the directory may be one that must not be
            // touched.
            if !all.is_empty() && self.is_unusable(&place.directory) {
                return Err(io::Error::other(INSIDE));
            }
            Ok(all)
        };
        let written = file.write(place, (&lines, tells_all), &mut all);
        let last = match &written {
            Ok(true) => last_of_all,
            Ok(false) | Err(_) => last,
        };
        let waiters = self.state.lock().settle(last);
        if let Err(error) = &written {
            self.warn(&error.to_string());
        }
        for waiter in waiters {
            waiter.send(()).ok();
        }
        written.is_ok()
    }

    fn is_unusable(&self, directory: &Path) -> bool {
        self.is_unusable
            .get()
            .is_some_and(|is_unusable| is_unusable.0(directory))
    }

    /// Warns once for each journal.
    fn warn(&self, reason: &str) {
        let Some(place) = &self.place else { return };
        if !std::mem::replace(&mut self.state.lock().has_warned, true) {
            let directory = place.directory.display();
            tracing::warn!(
                "unfinished uploads are not remembered, and stay in the bucket if this process is killed: cannot write \
                 in {directory}: {reason}; --state-directory names another directory"
            );
        }
    }

    /// Takes over the entries of processes that have ended. Returns the uploads to abort.
    fn take_over_all(
        &self,
        place: &JournalDirectory,
        file: &mut JournalFile,
        now: SystemTime,
    ) -> Vec<Upload> {
        if self.is_unusable(&place.directory) {
            self.warn(INSIDE);
            return Vec::new();
        }
        let (mut uploads, mut others) = (Vec::new(), Vec::new());
        for path in place.files() {
            match JournalReport::at(&path, place) {
                Ok(JournalReport::Leftovers(left)) => {
                    uploads.extend(self.take_over(&path, left, (place, file), now));
                }
                Ok(JournalReport::Elsewhere(host)) => others.push((host, path)),
                Ok(JournalReport::Nothing) => {}
                // The file belongs to another user, or another mount has taken it since it was
                // listed.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound
                    ) =>
                {
                    tracing::debug!(path = %path.display(), "a journal of uploads cannot be read: {error}");
                }
                Err(error) => {
                    tracing::warn!(path = %path.display(), "a journal of uploads cannot be read: {error}");
                }
            }
        }
        tell_of(&others);
        uploads
    }

    /// Copies the entries of the journal at `path` to this one, and removes that file.
    ///
    /// If that fails, its renames stay forgotten here, so that no rename is ever known twice.
    fn take_over(
        &self,
        path: &Path,
        left: Leftovers,
        (place, file): (&JournalDirectory, &mut JournalFile),
        now: SystemTime,
    ) -> Vec<Upload> {
        let Leftovers {
            uploads,
            mut renames,
            file: theirs,
        } = left;
        renames.retain(|known| known.is_fresh(now));
        let of_renames = renames.clone();
        let mut is_told = true;
        if !(uploads.is_empty() && renames.is_empty()) {
            let mut state = self.state.lock();
            state.open.extend(uploads.iter().cloned());
            let mut lines: Vec<_> = uploads.iter().map(Line::begun).collect();
            lines.extend(renames.into_iter().flat_map(|one| state.remember(one)));
            state.push(&lines);
            drop(state);
            is_told = self.write(place, file);
        }
        // The lock is still held, so no other mount has examined the file.
        let is_removed = is_told && file::is_gone(std::fs::remove_file(path));
        if !is_removed {
            let is_of_it =
                |known: &Renaming| of_renames.iter().any(|it| known.is(&it.from, &it.to));
            let mut state = self.state.lock();
            let lines = state.forget(is_of_it);
            state.push(&lines);
        }
        drop(theirs);
        uploads
    }
}

/// Logs the journals that are left alone.
fn tell_of(others: &[(String, std::path::PathBuf)]) {
    if others.is_empty() {
        return;
    }
    let named = others.iter().take(JOURNAL_HOSTS_NAMED_MAX);
    let named: Vec<_> = named
        .map(|(host, path)| format!("{host} ({})", path.display()))
        .collect();
    let more = match others.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    tracing::warn!(
        "journals of other hosts are left alone: {}{more}; a mount of the bucket on such a host aborts their uploads. \
         Remove those of hosts that are gone",
        named.join(", ")
    );
}

/// The reason to reject a directory inside the mount.
const INSIDE: &str = "the directory is inside the mount itself";

#[cfg(test)]
mod tests;

/// How long an upload waits until the journal names it. A slower disk must not delay uploads.
const JOURNAL_WAIT_MAX: Duration = Duration::from_secs(5);

/// How long an unmount waits for the journal's last lines.
const JOURNAL_END_MAX: Duration = Duration::from_secs(2);

/// Journals of other hosts that the log names. A home that many hosts share may have one for each.
const JOURNAL_HOSTS_NAMED_MAX: usize = 8;
