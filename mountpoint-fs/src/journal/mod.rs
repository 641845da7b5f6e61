//! Unfinished uploads, remembered outside of the process, so that the next mount can abort what a killed one left; and
//! renames of directories that move name by name, so that it can go on with them.
//!
//! Each process that uploads in parts has a file of its own in the state directory, locked for as long as it lives, with
//! a line for each upload that was begun or ended. A file whose lock is free, and whose lock can be trusted
//! ([`origin`]), belongs to a process that is gone: the next mount of the same bucket takes over what it names and what
//! did not end, removes the file, and aborts the uploads. Uploads are known by their ids only, so nothing of another
//! client is ever touched.
//!
//! Invariant: the id of an upload is in the file before its first part is sent. Lines are not forced to the disk: they
//! outlive the process, not a loss of power. A journal that cannot be written is a warning and stops no upload; after a
//! line that it has missed, and where its file was lost or is long, a new file says what is open, and the old one goes.
//! So a file begins with its bucket and host. A line that makes no sense, as one that was cut off where the disk was full,
//! hides no other.
//!
//! Thread: `journal` writes, and holds no lock meanwhile that anybody else takes. Whoever needs a line to be in the file
//! waits for it, [`JOURNAL_WAIT_MAX`] at most. Before [`Journal::start`] the caller writes.
//!
//! A rename counts as begun only where it must: not if anything that is still to be moved is newer than all that was there
//! when it began, not after this mount has made, removed or otherwise renamed one of its directories, not after a day.

mod file;
mod line;
mod origin;
mod state;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::SystemTime;

use futures::channel::oneshot;
use mountpoint_client::types::Upload;
use mountpoint_client::{ErrorKind, ObjectClient};
use nix::unistd::AccessFlags;
use tokio::sync::Notify;

use self::file::{JournalFile, Left, Look, Place};
use self::line::{Line, Renaming, millis};
use self::state::{Errand, State, Thread, Work};
use crate::config::limits::{
    JOURNAL_END_MAX, JOURNAL_HOSTS_NAMED_MAX, JOURNAL_WAIT_MAX, READER_IDLE,
};
use crate::sync::{Condvar, Mutex};

/// The journal of this mount. Its file is made with the first upload.
#[derive(Debug)]
pub(crate) struct Journal(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    place: Option<Place>,
    /// What is open and what is still to be written. The lock is a leaf.
    state: Mutex<State>,
    /// There is something to write, or the thread has ended.
    changed: Condvar,
    /// Held while the file is written, and by nobody but the writer. Taken before the lock of the state.
    file: Mutex<JournalFile>,
    /// Somebody waits for a line to be in the file.
    waits: Arc<Notify>,
    /// Set by [`Journal::start`].
    is_unusable: OnceLock<Unusable>,
}

/// Whether nothing may be looked for, or written, in a directory.
struct Unusable(Box<dyn Fn(&Path) -> bool + Send + Sync>);

impl fmt::Debug for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unusable")
    }
}

/// Why nothing can be remembered in `directory`, which is made if need be.
pub(crate) fn is_usable(directory: &Path) -> io::Result<()> {
    file::make_directory(directory)?;
    Ok(nix::unistd::access(
        directory,
        AccessFlags::W_OK | AccessFlags::X_OK,
    )?)
}

impl Journal {
    /// A journal about `bucket` in `directory`; without one, nothing is remembered.
    pub(crate) fn new(directory: Option<&Path>, bucket: &str) -> Self {
        Self::at(directory.map(|directory| Place::new(directory, bucket)))
    }

    fn at(place: Option<Place>) -> Self {
        Self(Arc::new(Shared {
            place,
            state: Mutex::default(),
            changed: Condvar::new(),
            file: Mutex::default(),
            waits: Arc::default(),
            is_unusable: OnceLock::new(),
        }))
    }

    /// From now on a thread writes. It goes without a file as long as its directory is one that `is_unusable`, which is
    /// asked before the directory is touched.
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

    /// Lets nobody wait for longer than [`JOURNAL_WAIT_MAX`]. A task of a tokio runtime, for as long as the journal lives.
    pub(crate) fn watch(&self) -> impl Future<Output = ()> + Send + use<> {
        let (shared, waits) = (Arc::downgrade(&self.0), Arc::clone(&self.0.waits));
        async move {
            loop {
                // However it ends, it is time to look whether the journal is still there.
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

    /// `upload` was begun. Returns when that can be read in the file, or cannot be written.
    pub(crate) async fn begun(&self, upload: &Upload) {
        let change = self.0.record(|state| {
            state.open.push(upload.clone());
            vec![Line::begun(upload)]
        });
        self.0.settled(change).await;
    }

    /// `upload` is complete, or S3 has forgotten it.
    pub(crate) fn ended(&self, upload: &Upload) {
        let id = upload.upload_id.clone();
        self.0.record(|state| {
            state.open.retain(|open| open.upload_id != id);
            vec![Line::Ended { id }]
        });
    }

    /// The directory `from`, whose newest object was made at `newest`, is being moved to `to`, name by name, from `now` on
    /// or, if that is known, from an earlier time. Returns when that can be read in the file, or cannot be written.
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

    /// It has come to its end, or is not moved so.
    pub(crate) async fn renamed(&self, from: &str, to: &str) {
        self.forget(|known| known.is(from, to)).await;
    }

    /// The directory `prefix` was made or removed: what is there now is not what was to be moved, and so it is with what
    /// is below it.
    pub(crate) async fn forget_renames_of(&self, prefix: &str) {
        self.forget(|known| known.concerns(prefix)).await;
    }

    /// `key` was moved, and may be older than it is there.
    pub(crate) async fn forget_renames_from_above(&self, key: &str) {
        self.forget(|known| key.starts_with(&known.from)).await;
    }

    /// Whether a move of `from` to `to` was begun and has not come to its end, where `newest` is when the newest object
    /// that is still below `from` was made. Every other move of one of the two is forgotten, and this one, too, if what is
    /// there is not what was to be moved.
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

    /// Takes over what processes left that are gone, and aborts their uploads. Returns how many uploads that were.
    pub(crate) async fn recover(&self, client: &dyn ObjectClient, now: SystemTime) -> usize {
        if self.0.place.is_none() {
            return 0;
        }
        let (tell, told) = oneshot::channel();
        self.0.ask(Errand::TakeOver(now, tell));
        let uploads = told.await.unwrap_or_default();
        let mut aborted = 0;
        for upload in &uploads {
            match client.abort_upload(upload).await {
                Ok(()) => aborted += 1,
                Err(error) if error.kind == ErrorKind::NoSuchUpload => {}
                Err(error) => {
                    tracing::warn!(key = %upload.key, "an upload of a mount that was killed stays in the bucket: {error}");
                    continue;
                }
            }
            self.ended(upload);
        }
        self.0.ask(Errand::TidyUp);
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
        let has_not_ended = |state: &mut State| state.thread != Thread::None;
        // A disk that does not answer keeps no process alive.
        let ended = shared
            .changed
            .wait_while_for(&mut state, has_not_ended, JOURNAL_END_MAX);
        if ended.timed_out() {
            tracing::warn!("the journal of unfinished uploads was not written to its end");
        }
    }
}

impl Shared {
    /// Makes a change; what there is to be said of it is written soon. Returns the number of the change, or `None` if there
    /// is nothing to be said, or nowhere to say it.
    fn record(&self, change: impl FnOnce(&mut State) -> Vec<Line>) -> Option<u64> {
        let mut state = self.state.lock();
        let lines = change(&mut state);
        let place = self.place.as_ref().filter(|_| !lines.is_empty())?;
        let change = state.push(&lines);
        let has_thread = state.thread != Thread::None;
        drop(state);
        self.get_written(place, has_thread);
        Some(change)
    }

    /// Has something done besides writing.
    fn ask(&self, errand: Errand) {
        let Some(place) = &self.place else { return };
        let mut state = self.state.lock();
        state.errands.push_back(errand);
        let has_thread = state.thread != Thread::None;
        drop(state);
        self.get_written(place, has_thread);
    }

    fn get_written(&self, place: &Place, has_thread: bool) {
        if has_thread {
            self.changed.notify_all();
        } else {
            self.work_off(place);
        }
    }

    /// Returns when the change of this number is in the file, or was given up.
    async fn settled(&self, change: Option<u64>) {
        let Some(change) = change else { return };
        let told = self.state.lock().wait_for(change);
        if let Some(told) = told {
            self.waits.notify_one();
            // One that is given up is told, too.
            told.await.ok();
        }
    }

    /// Lets go who waits, if nothing was written since `before`.
    fn give_up(&self, before: u64) {
        let mut state = self.state.lock();
        match state.waiting() {
            Some(now) if now == before => {}
            // It goes on, with others that wait by now.
            Some(_) => return self.waits.notify_one(),
            None => return,
        }
        state.is_stuck = true;
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        self.warn(&format!(
            "it does not answer within {} s",
            JOURNAL_WAIT_MAX.as_secs()
        ));
        drop(waiters);
    }

    /// The thread.
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

    /// Writes what is left, and removes a file that says nothing.
    fn end(&self) {
        let Some(place) = &self.place else { return };
        self.work_off(place);
        let mut file = self.file.lock();
        if self.state.lock().is_empty() {
            file.remove();
        }
    }

    /// Does what is to be done, until nothing is.
    fn work_off(&self, place: &Place) {
        loop {
            let mut file = self.file.lock();
            let Some(work) = self.state.lock().next_work() else {
                return;
            };
            match work {
                Work::Write => drop(self.write(place, &mut file)),
                Work::Errand(Errand::TakeOver(now, tell)) => {
                    let uploads = self.take_over_all(place, &mut file, now);
                    // Who asked may be gone: then the uploads stand in this journal.
                    tell.send(uploads).ok();
                }
                Work::Errand(Errand::TidyUp) => {
                    if self.state.lock().is_empty() {
                        file.remove();
                        file.file = None;
                    }
                }
            }
        }
    }

    /// Writes the lines that wait. Whether the file says all that is open.
    fn write(&self, place: &Place, file: &mut JournalFile) -> bool {
        let (lines, last, tells_all) = self.state.lock().take_lines();
        let mut last_of_all = last;
        let mut all = || {
            let state = self.state.lock();
            last_of_all = state.last();
            let all = state.tell_all()?;
            // What is there already may be looked at, and is not: it may be what must not be touched.
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

    /// Once for each journal.
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

    /// Takes over what processes left that are gone. Returns the uploads that are to be aborted.
    fn take_over_all(&self, place: &Place, file: &mut JournalFile, now: SystemTime) -> Vec<Upload> {
        if self.is_unusable(&place.directory) {
            self.warn(INSIDE);
            return Vec::new();
        }
        let (mut uploads, mut others) = (Vec::new(), Vec::new());
        for path in place.files() {
            match Look::at(&path, place) {
                Ok(Look::Left(left)) => {
                    uploads.extend(self.take_over(&path, left, (place, file), now));
                }
                Ok(Look::Elsewhere(host)) => others.push((host, path)),
                Ok(Look::Nothing) => {}
                // Another user's, or taken by another mount since it was listed.
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

    /// Has this journal name what is in the one at `path`, and removes that one. If that cannot be, its renames stay
    /// forgotten here, so that none is ever known twice.
    fn take_over(
        &self,
        path: &Path,
        left: Left,
        (place, file): (&Place, &mut JournalFile),
        now: SystemTime,
    ) -> Vec<Upload> {
        let Left {
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
        // While the lock is held: nobody else has looked at it.
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

/// Says which journals are left alone.
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
        "journals of other hosts are left alone: {}{more}; a mount of the bucket on such a host aborts what they name. \
         Remove those of hosts that are gone",
        named.join(", ")
    );
}

/// Why a directory cannot be written that is a part of the mount.
const INSIDE: &str = "it is inside the mount itself";

#[cfg(test)]
mod tests;
