//! The file of a journal, with the entries that it has to name.
//!
//! Writes the lines that wait, and takes over the files of processes that have ended. Runs on the
//! journal's thread; before that is started, on the caller's.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use mountpoint_client::types::Upload;
use tokio::sync::Notify;

use super::file::{self, JournalDirectory, JournalFile, JournalReport, Leftovers};
use super::line::{Line, Renaming};
use super::state::{JournalState, JournalTask, Thread, Work};
use crate::metrics::trace::{WaitCause, waits};
use crate::sync::{Condvar, Mutex};

/// The entries and the file of a journal, which its owner and its thread share.
#[derive(Debug)]
pub(super) struct JournalWriter {
    pub(super) place: Option<JournalDirectory>,
    /// Open entries and lines to write. The lock is a leaf.
    pub(super) state: Mutex<JournalState>,
    /// Signals that a line is to be written or that the thread has ended.
    pub(super) changed: Condvar,
    /// Held by the writer while it writes the file. Taken before the lock of the state.
    pub(super) file: Mutex<JournalFile>,
    /// Signals that a caller waits for a line to be in the file.
    pub(super) waits: Arc<Notify>,
    /// Set by `Journal::start`.
    pub(super) is_unusable: OnceLock<Unusable>,
}

/// Whether a directory must not be read or written.
pub(super) struct Unusable(pub(super) Box<dyn Fn(&Path) -> bool + Send + Sync>);

impl fmt::Debug for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unusable")
    }
}

impl JournalWriter {
    /// No entry is open, and there is no file.
    pub(super) fn new(place: Option<JournalDirectory>) -> Self {
        Self {
            place,
            state: Mutex::default(),
            changed: Condvar::new(),
            file: Mutex::default(),
            waits: Arc::default(),
            is_unusable: OnceLock::new(),
        }
    }

    /// Applies a change; the thread writes its lines soon.
    ///
    /// Returns the number of the change, or `None` if it has no lines or the journal has no
    /// directory.
    pub(super) fn record(
        &self,
        change: impl FnOnce(&mut JournalState) -> Vec<Line>,
    ) -> Option<u64> {
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
    pub(super) fn ask(&self, task: JournalTask) {
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
    pub(super) async fn settled(&self, change: Option<u64>) {
        let Some(change) = change else { return };
        let told = self.state.lock().wait_for(change);
        if let Some(told) = told {
            self.waits.notify_one();
            // A change that was given up is signalled, too.
            waits(WaitCause::Disk, told, |_| ()).await.ok();
        }
    }

    /// Releases the waiting callers if no line was written since `before`.
    pub(super) fn give_up(&self, before: u64) {
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
    pub(super) fn serve(&self) {
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
    pub(super) fn end(&self) {
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
fn tell_of(others: &[(String, PathBuf)]) {
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

/// How long an upload waits until the journal names it. A slower disk must not delay uploads.
pub(super) const JOURNAL_WAIT_MAX: Duration = Duration::from_secs(5);

/// Journals of other hosts that the log names. A home that many hosts share may have one for each.
const JOURNAL_HOSTS_NAMED_MAX: usize = 8;
