//! Unfinished uploads, remembered outside of the process, so that the next mount can abort what a killed one left; and
//! renames of directories that move name by name, so that it can go on with them.
//!
//! Each process that uploads in parts has a file of its own in the state directory, locked for as long as it lives, with
//! a line for each upload that was begun or ended. A file whose lock is free belongs to a process that is gone: the next
//! mount of the same bucket takes over what it names and what did not end, removes the file, and aborts the uploads.
//! Uploads are known by their ids only, so nothing of another client is ever touched.
//!
//! Invariant: the id of an upload is in the file before its first part is sent. Lines are not forced to the disk: they
//! outlive the process, not a loss of power. A journal that cannot be written is a warning and stops no upload; after a
//! line that it has missed, and where its file was lost or is long, a new file says what is open, and the old one goes.
//! So a file begins with its bucket. A line that makes no sense, as one that was cut off where the disk was full, hides no
//! other.
//!
//! A rename counts as begun only where it must: not if anything that is still to be moved is newer than all that was there
//! when it began, not after this mount has made, removed or otherwise renamed one of its directories, not after a day.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use mountpoint_client::types::{Key, Upload};
use mountpoint_client::{ErrorKind, ObjectClient};
use nix::unistd::AccessFlags;
use serde::{Deserialize, Serialize};

use crate::config::limits::{
    JOURNAL_FILES_MAX, JOURNAL_LEN_MAX, RENAME_REMEMBERED, RENAMES_REMEMBERED_MAX,
};
use crate::sync::Mutex;

/// The journal of this mount. Its file is made with the first upload.
#[derive(Debug)]
pub(crate) struct Journal {
    place: Option<Place>,
    /// The file, once it is there, and which uploads are open. The lock is a leaf.
    state: Mutex<State>,
}

/// Which file.
#[derive(Clone, Debug)]
struct Place {
    directory: PathBuf,
    /// Which bucket it is about: the same for every mount of it.
    bucket: String,
}

#[derive(Debug, Default)]
struct State {
    file: Option<File>,
    path: PathBuf,
    /// Begun and not ended, whether or not the file says so.
    open: Vec<Upload>,
    /// The same of renames. Oldest first.
    renames: Vec<Renaming>,
    len: u64,
    /// The length at which a new file is begun.
    len_max: u64,
    /// A line could not be written, or not all of it.
    has_missed: bool,
    has_warned: bool,
}

/// A rename of a directory that was begun.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Renaming {
    /// The prefixes.
    from: String,
    to: String,
    /// When the newest object that it was to move was made, as the server says, in milliseconds.
    newest: u64,
    /// When it was begun, by this machine's clock, in milliseconds.
    begun: u64,
}

impl Renaming {
    fn is(&self, from: &str, to: &str) -> bool {
        self.from == from && self.to == to
    }

    /// Whether one of its directories is `prefix` or below it.
    fn concerns(&self, prefix: &str) -> bool {
        self.from.starts_with(prefix) || self.to.starts_with(prefix)
    }

    /// Whether it is to be remembered: not from a time to come either, because then its age is unknown.
    fn is_fresh(&self, now: SystemTime) -> bool {
        let age = millis(now).checked_sub(self.begun);
        age.is_some_and(|age| u128::from(age) <= RENAME_REMEMBERED.as_millis())
    }

    fn ended(self) -> Line {
        let Self { from, to, .. } = self;
        Line::Renamed { from, to }
    }
}

fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A line of the file.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The first one: which bucket the file is about.
    Bucket(String),
    Begun {
        key: String,
        id: String,
    },
    Ended {
        id: String,
    },
    Renaming(Renaming),
    Renamed {
        from: String,
        to: String,
    },
}

/// Why nothing can be remembered in `directory`, which is made if need be.
pub(crate) fn is_usable(directory: &Path) -> io::Result<()> {
    make_directory(directory)?;
    Ok(nix::unistd::access(
        directory,
        AccessFlags::W_OK | AccessFlags::X_OK,
    )?)
}

fn make_directory(directory: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
}

impl Journal {
    /// A journal about `bucket` in `directory`; without one, nothing is remembered.
    pub(crate) fn new(directory: Option<&Path>, bucket: &str) -> Self {
        let place = directory.map(|directory| Place {
            directory: directory.to_owned(),
            bucket: bucket.to_owned(),
        });
        Self {
            place,
            state: Mutex::default(),
        }
    }

    /// `upload` was begun.
    pub(crate) fn begun(&self, upload: &Upload) {
        self.record(|state| {
            state.open.push(upload.clone());
            vec![Line::begun(upload)]
        });
    }

    /// `upload` is complete, or S3 has forgotten it.
    pub(crate) fn ended(&self, upload: &Upload) {
        let id = upload.upload_id.clone();
        self.record(|state| {
            state.open.retain(|open| open.upload_id != id);
            vec![Line::Ended { id }]
        });
    }

    /// The directory `from`, whose newest object was made at `newest`, is being moved to `to`, name by name, from `now` on
    /// or, if that is known, from an earlier time.
    pub(crate) fn renaming(&self, from: &str, to: &str, newest: SystemTime, now: SystemTime) {
        let renaming = Renaming {
            from: from.to_owned(),
            to: to.to_owned(),
            newest: millis(newest),
            begun: millis(now),
        };
        self.record(|state| state.remember(renaming));
    }

    /// It has come to its end, or is not moved so.
    pub(crate) fn renamed(&self, from: &str, to: &str) {
        self.forget(|known| known.is(from, to));
    }

    /// The directory `prefix` was made or removed: what is there now is not what was to be moved, and so it is with what
    /// is below it.
    pub(crate) fn forget_renames_of(&self, prefix: &str) {
        self.forget(|known| known.concerns(prefix));
    }

    /// `key` was moved, and may be older than it is there.
    pub(crate) fn forget_renames_from_above(&self, key: &str) {
        self.forget(|known| key.starts_with(&known.from));
    }

    /// Whether a move of `from` to `to` was begun and has not come to its end, where `newest` is when the newest object
    /// that is still below `from` was made. Every other move of one of the two is forgotten, and this one, too, if what is
    /// there is not what was to be moved.
    pub(crate) fn is_renaming(
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
        });
        let renames = &self.state.lock().renames;
        renames.iter().any(|known| known.is(from, to))
    }

    fn forget(&self, is_meant: impl Fn(&Renaming) -> bool) {
        self.record(|state| {
            let ended = state.renames.extract_if(.., |known| is_meant(known));
            ended.map(Renaming::ended).collect()
        });
    }

    /// Makes a change, and writes what there is to be said of it. Whether the file says all that is open.
    fn record(&self, change: impl FnOnce(&mut State) -> Vec<Line>) -> bool {
        let mut state = self.state.lock();
        let lines = change(&mut state);
        let Some(place) = &self.place else {
            return false;
        };
        if lines.is_empty() {
            return !state.has_missed;
        }
        let written = state.write(place, &lines);
        state.has_missed = written.is_err();
        if let Err(error) = written
            && !std::mem::replace(&mut state.has_warned, true)
        {
            let directory = place.directory.display();
            tracing::warn!(
                "unfinished uploads are not remembered, and stay in the bucket if this process is killed: cannot write \
                 in {directory}: {error}; --state-directory names another directory"
            );
        }
        !state.has_missed
    }

    /// Takes over what processes left that are gone, and aborts their uploads. Returns how many uploads that were.
    pub(crate) async fn recover(&self, client: &dyn ObjectClient, now: SystemTime) -> usize {
        let Some(place) = &self.place else { return 0 };
        let mut uploads = Vec::new();
        for path in place.files() {
            match Left::take(&path, &place.bucket) {
                Ok(Some(left)) => uploads.extend(self.take_over(&path, left, now)),
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(path = %path.display(), "a journal of uploads cannot be read: {error}");
                }
            }
        }
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
        let mut state = self.state.lock();
        if state.is_empty() && state.begin_anew(place).is_err() {
            tracing::debug!("a journal with nothing in it stays");
        }
        aborted
    }

    /// Has this journal name what is in the one at `path`, and removes that one. If that cannot be, its renames stay
    /// forgotten here, so that none is ever known twice. Returns the uploads that are to be aborted.
    fn take_over(&self, path: &Path, left: Left, now: SystemTime) -> Vec<Upload> {
        let Left {
            uploads,
            mut renames,
            file,
        } = left;
        renames.retain(|known| known.is_fresh(now));
        let of_renames = renames.clone();
        let is_told = (uploads.is_empty() && renames.is_empty())
            || self.record(|state| {
                state.open.extend(uploads.iter().cloned());
                let mut lines: Vec<_> = uploads.iter().map(Line::begun).collect();
                lines.extend(renames.into_iter().flat_map(|one| state.remember(one)));
                lines
            });
        // While the lock is held: nobody else has looked at it.
        let is_removed = is_told && is_gone(std::fs::remove_file(path));
        if !is_removed {
            self.forget(|known| of_renames.iter().any(|one| known.is(&one.from, &one.to)));
        }
        drop(file);
        uploads
    }
}

impl State {
    /// Remembers `renaming` unless it is known; the oldest ones are forgotten. What there is to be written of it.
    fn remember(&mut self, renaming: Renaming) -> Vec<Line> {
        let is_known = |known: &Renaming| known.is(&renaming.from, &renaming.to);
        if self.renames.iter().any(is_known) {
            return Vec::new();
        }
        let mut lines = Vec::new();
        while self.renames.len() >= RENAMES_REMEMBERED_MAX {
            lines.push(self.renames.remove(0).ended());
        }
        self.renames.push(renaming.clone());
        lines.push(Line::Renaming(renaming));
        lines
    }

    /// Writes `lines`; or, where the file is not there or has missed something, a new one.
    fn write(&mut self, place: &Place, lines: &[Line]) -> io::Result<()> {
        if !self.is_there() || self.has_missed {
            return self.begin_anew(place);
        }
        let mut text = Vec::new();
        for line in lines {
            line.append_to(&mut text)?;
        }
        let file = self.file.as_mut().expect("it is there");
        file.write_all(&text)?;
        self.len += text.len() as u64;
        if self.len > self.len_max && self.begin_anew(place).is_err() {
            // What there is to say stands in the old one.
            self.len_max = self.len.saturating_mul(2);
        }
        Ok(())
    }

    /// Whether there is nothing that the next mount would have to know.
    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.renames.is_empty()
    }

    fn tell_open(&self, lines: &mut Vec<u8>) -> io::Result<()> {
        for upload in &self.open {
            Line::begun(upload).append_to(lines)?;
        }
        for renaming in &self.renames {
            Line::Renaming(renaming.clone()).append_to(lines)?;
        }
        Ok(())
    }

    /// Whether the next mount would find the file.
    fn is_there(&self) -> bool {
        self.file.as_ref().is_some_and(has_name)
    }

    /// A new file that says what is open, instead of the one that is there.
    fn begin_anew(&mut self, place: &Place) -> io::Result<()> {
        let mut made = None;
        if !self.is_empty() {
            let mut lines = place.first_line()?;
            self.tell_open(&mut lines)?;
            let (path, mut file) = place.make()?;
            if let Err(error) = file.write_all(&lines) {
                std::fs::remove_file(&path).ok();
                return Err(error);
            }
            made = Some((path, file, lines.len() as u64));
        }
        // One that cannot be removed stays locked, or the next mount would abort what is open in it.
        if self.is_there() && !is_gone(std::fs::remove_file(&self.path)) {
            if let Some((path, file, _)) = made {
                // One that cannot be removed either is to name nothing.
                file.set_len(0).ok();
                std::fs::remove_file(path).ok();
            }
            return Err(io::Error::other("a journal cannot be removed"));
        }
        self.file = None;
        if let Some((path, file, len)) = made {
            (self.path, self.file) = (path, Some(file));
            (self.len, self.len_max) = (len, JOURNAL_LEN_MAX.max(2 * len));
        }
        Ok(())
    }
}

/// Whether nothing has the name after an attempt to remove it.
fn is_gone(removed: io::Result<()>) -> bool {
    removed.map_or_else(|error| error.kind() == io::ErrorKind::NotFound, |()| true)
}

impl Drop for State {
    fn drop(&mut self) {
        if self.is_empty() && self.is_there() {
            std::fs::remove_file(&self.path).ok();
        }
    }
}

impl Line {
    fn begun(upload: &Upload) -> Self {
        Self::Begun {
            key: upload.key.as_str().to_owned(),
            id: upload.upload_id.clone(),
        }
    }

    fn append_to(&self, lines: &mut Vec<u8>) -> io::Result<()> {
        serde_json::to_writer(&mut *lines, self).map_err(io::Error::other)?;
        lines.push(b'\n');
        Ok(())
    }
}

/// Whether the file can be found by a name, or is only open.
fn has_name(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
}

impl Place {
    /// A new file, locked.
    fn make(&self) -> io::Result<(PathBuf, File)> {
        make_directory(&self.directory)?;
        let process = std::process::id();
        for number in 0..JOURNAL_FILES_MAX {
            let path = self
                .directory
                .join(format!("uploads-{process}-{number}.{EXTENSION}"));
            let file = OpenOptions::new()
                .create_new(true)
                .append(true)
                .mode(0o600)
                .open(&path);
            match file {
                Ok(file) => {
                    file.lock()?;
                    // Who looked at it before it was locked may have taken it for a dead one's.
                    if has_name(&file) {
                        return Ok((path, file));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("there are too many journals"))
    }

    fn first_line(&self) -> io::Result<Vec<u8>> {
        let mut lines = Vec::new();
        Line::Bucket(self.bucket.clone()).append_to(&mut lines)?;
        Ok(lines)
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten();
        entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|it| it == EXTENSION))
            .take(JOURNAL_FILES_MAX)
            .collect()
    }
}

/// What a process left that is gone. The file is locked.
struct Left {
    uploads: Vec<Upload>,
    renames: Vec<Renaming>,
    /// Locked as long as it is here.
    file: File,
}

impl Left {
    /// What is in the file at `path`; `None` if its process lives, or if it is about another bucket.
    fn take(path: &Path, bucket: &str) -> io::Result<Option<Self>> {
        let mut file = File::open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Between the two its process has begun another one, which is locked, or another mount has taken it.
        if !has_name(&file) {
            return Ok(None);
        }
        let mut lines = Vec::new();
        file.read_to_end(&mut lines)?;
        let mut uploads: Vec<Upload> = Vec::new();
        let mut renames: Vec<Renaming> = Vec::new();
        let (mut is_ours, mut is_anothers) = (false, false);
        for line in lines.split(|byte| *byte == b'\n') {
            match serde_json::from_slice(line) {
                Ok(Line::Bucket(name)) if name == bucket => is_ours = true,
                Ok(Line::Bucket(_)) => is_anothers = true,
                Ok(Line::Begun { key, id }) => {
                    uploads.extend(Key::parse(&key).map(|key| Upload { key, upload_id: id }));
                }
                Ok(Line::Ended { id }) => uploads.retain(|upload| upload.upload_id != id),
                Ok(Line::Renaming(renaming)) => renames.push(renaming),
                Ok(Line::Renamed { from, to }) => renames.retain(|known| !known.is(&from, &to)),
                // It was cut off by a full disk, or the end of its process: then nothing was done with it yet.
                Err(_) => {}
            }
        }
        // One without a bucket has come to nothing; what it names all the same is nobody knows where.
        let is_taken = !is_anothers && (is_ours || (uploads.is_empty() && renames.is_empty()));
        Ok(is_taken.then_some(Self {
            uploads,
            renames,
            file,
        }))
    }
}

const EXTENSION: &str = "journal";

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
