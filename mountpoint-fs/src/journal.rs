//! Unfinished uploads, remembered outside of the process, so that the next mount can abort what a killed one left; and
//! renames of directories that move name by name, so that it can go on with them.
//!
//! Each process that uploads in parts has a file of its own in the state directory, locked for as long as it lives, with
//! a line for each upload that was begun or ended. A file whose lock is free belongs to a process that is gone: the next
//! mount of the same bucket aborts the uploads that it names and that did not end, and removes the file. Uploads are
//! known by their ids only, so nothing of another client is ever touched.
//!
//! Invariant: the id of an upload is in the file before its first part is sent. Lines are not forced to the disk: they
//! outlive the process, not a loss of power. A journal that cannot be written is a warning and stops no upload; what it
//! has missed then, or lost with its file, it is told again with the next line. A line that makes no sense, as one that was
//! cut off where the disk was full, hides no other.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use mountpoint_client::types::{Key, Upload};
use mountpoint_client::{ErrorKind, ObjectClient};
use serde::{Deserialize, Serialize};

use crate::config::limits::{JOURNAL_FILES_MAX, JOURNAL_LEN_MAX, RENAMES_REMEMBERED_MAX};
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
    /// The same of renames: old and new prefix. Oldest first.
    renames: Vec<(String, String)>,
    len: u64,
    /// A line could not be written, or not all of it.
    has_missed: bool,
    has_warned: bool,
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
    /// A rename of a directory, by its prefixes.
    Renaming {
        from: String,
        to: String,
    },
    Renamed {
        from: String,
        to: String,
    },
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
            Line::begun(upload)
        });
    }

    /// `upload` is complete, or S3 has forgotten it.
    pub(crate) fn ended(&self, upload: &Upload) {
        let id = upload.upload_id.clone();
        self.record(|state| {
            state.open.retain(|open| open.upload_id != id);
            Line::Ended { id }
        });
    }

    /// The directory `from` is being moved to `to`, name by name.
    pub(crate) fn renaming(&self, from: &str, to: &str) {
        self.record(|state| {
            let rename = (from.to_owned(), to.to_owned());
            if !state.renames.contains(&rename) {
                if state.renames.len() == RENAMES_REMEMBERED_MAX {
                    state.renames.remove(0);
                }
                state.renames.push(rename);
            }
            let (from, to) = (from.to_owned(), to.to_owned());
            Line::Renaming { from, to }
        });
    }

    /// It has come to its end, or is not moved so.
    pub(crate) fn renamed(&self, from: &str, to: &str) {
        self.record(|state| {
            let (from, to) = (from.to_owned(), to.to_owned());
            state
                .renames
                .retain(|known| *known != (from.clone(), to.clone()));
            Line::Renamed { from, to }
        });
    }

    /// Whether a move of `from` to `to` was begun and has not come to its end.
    pub(crate) fn is_renaming(&self, from: &str, to: &str) -> bool {
        let renames = &self.state.lock().renames;
        renames.iter().any(|known| known.0 == from && known.1 == to)
    }

    fn record(&self, change: impl FnOnce(&mut State) -> Line) {
        let mut state = self.state.lock();
        let line = change(&mut state);
        let Some(place) = &self.place else { return };
        let written = state.write(place, &line);
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
    }

    /// Aborts what processes left that are gone, and takes over their renames. Returns how many uploads that were.
    pub(crate) async fn recover(&self, client: &dyn ObjectClient) -> usize {
        let Some(place) = &self.place else { return 0 };
        let mut aborted = 0;
        for path in place.files() {
            let left = match Left::take(&path, &place.bucket) {
                Ok(Some(left)) => left,
                Ok(None) => continue,
                Err(error) => {
                    tracing::debug!(path = %path.display(), "a journal of uploads cannot be read: {error}");
                    continue;
                }
            };
            let mut is_done = true;
            for upload in &left.uploads {
                match client.abort_upload(upload).await {
                    Ok(()) => aborted += 1,
                    Err(error) if error.kind == ErrorKind::NoSuchUpload => {}
                    Err(error) => {
                        is_done = false;
                        tracing::warn!(key = %upload.key, "an upload of a mount that was killed stays in the bucket: {error}");
                    }
                }
            }
            for (from, to) in &left.renames {
                self.renaming(from, to);
            }
            if is_done {
                // While the lock is held: nobody else has looked at it.
                std::fs::remove_file(&path).ok();
            }
        }
        aborted
    }
}

impl State {
    /// Writes `line`, and before it what was missed.
    fn write(&mut self, place: &Place, line: &Line) -> io::Result<()> {
        if !self.is_there() {
            return self.begin_anew(place);
        }
        let mut lines = Vec::new();
        if self.has_missed {
            // The end of what was cut off.
            lines.push(b'\n');
            self.tell_open(&mut lines)?;
        }
        line.append_to(&mut lines)?;
        let is_empty = self.is_empty();
        let file = self.file.as_mut().expect("it is there");
        file.write_all(&lines)?;
        self.len += lines.len() as u64;
        if is_empty && self.len > JOURNAL_LEN_MAX {
            file.set_len(0)?;
            file.rewind()?;
            let lines = place.first_line()?;
            file.write_all(&lines)?;
            self.len = lines.len() as u64;
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
        for (from, to) in self.renames.iter().cloned() {
            Line::Renaming { from, to }.append_to(lines)?;
        }
        Ok(())
    }

    /// Whether the next mount would find the file.
    fn is_there(&self) -> bool {
        self.file.as_ref().is_some_and(has_name)
    }

    /// A file that says what is open.
    fn begin_anew(&mut self, place: &Place) -> io::Result<()> {
        self.file = None;
        if self.is_empty() {
            return Ok(());
        }
        let mut lines = place.first_line()?;
        self.tell_open(&mut lines)?;
        let (path, mut file) = place.make()?;
        if let Err(error) = file.write_all(&lines) {
            std::fs::remove_file(&path).ok();
            return Err(error);
        }
        self.len = lines.len() as u64;
        (self.path, self.file) = (path, Some(file));
        Ok(())
    }
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
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)?;
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
    renames: Vec<(String, String)>,
    _file: File,
}

impl Left {
    /// The uploads in the file at `path`; `None` if its process lives, or if it is about another bucket.
    fn take(path: &Path, bucket: &str) -> io::Result<Option<Self>> {
        let mut file = File::open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let mut lines = Vec::new();
        file.read_to_end(&mut lines)?;
        let mut uploads: Vec<Upload> = Vec::new();
        let mut renames = Vec::new();
        let mut is_anothers = false;
        for line in lines.split(|byte| *byte == b'\n') {
            match serde_json::from_slice(line) {
                Ok(Line::Bucket(name)) => is_anothers = name != bucket,
                Ok(Line::Begun { key, id }) => {
                    uploads.extend(Key::parse(&key).map(|key| Upload { key, upload_id: id }));
                }
                Ok(Line::Ended { id }) => uploads.retain(|upload| upload.upload_id != id),
                Ok(Line::Renaming { from, to }) => renames.push((from, to)),
                Ok(Line::Renamed { from, to }) => {
                    let rename = (from, to);
                    renames.retain(|known| *known != rename);
                }
                // It was cut off by a full disk, or the end of its process: then nothing was done with it yet.
                Err(_) => {}
            }
        }
        // One without a bucket has come to nothing, and holds nothing.
        Ok((!is_anothers).then_some(Self {
            uploads,
            renames,
            _file: file,
        }))
    }
}

const EXTENSION: &str = "journal";

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
