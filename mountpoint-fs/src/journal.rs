//! Unfinished uploads, remembered outside of the process, so that the next mount can abort what a killed one left.
//!
//! Each process that uploads in parts has a file of its own in the state directory, locked for as long as it lives, with
//! a line for each upload that was begun or ended. A file whose lock is free belongs to a process that is gone: the next
//! mount of the same bucket aborts the uploads that it names and that did not end, and removes the file. Uploads are
//! known by their ids only, so nothing of another client is ever touched.
//!
//! Invariant: the id of an upload is in the file before its first part is sent. Lines are not forced to the disk: they
//! outlive the process, not a loss of power. A journal that cannot be written is a warning and stops no upload.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use mountpoint_client::types::{Key, Upload};
use mountpoint_client::{ErrorKind, ObjectClient};
use serde::{Deserialize, Serialize};

use crate::config::limits::{JOURNAL_FILES_MAX, JOURNAL_LEN_MAX};
use crate::sync::Mutex;

/// The journal of this mount. Its file is made with the first upload.
#[derive(Debug)]
pub(crate) struct Journal {
    place: Option<Place>,
    /// The file, once it is there, and how many uploads it has open. The lock is a leaf.
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
    open: usize,
    len: u64,
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
        self.write(&Line::Begun {
            key: upload.key.as_str().to_owned(),
            id: upload.upload_id.clone(),
        });
    }

    /// `upload` is complete, or S3 has forgotten it.
    pub(crate) fn ended(&self, upload: &Upload) {
        self.write(&Line::Ended {
            id: upload.upload_id.clone(),
        });
    }

    fn write(&self, line: &Line) {
        let Some(place) = &self.place else { return };
        let mut state = self.state.lock();
        let written = state.write(place, line);
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

    /// Aborts what processes left that are gone. Returns how many uploads that were.
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
            if is_done {
                // While the lock is held: nobody else has looked at it.
                std::fs::remove_file(&path).ok();
            }
        }
        aborted
    }
}

impl State {
    fn write(&mut self, place: &Place, line: &Line) -> io::Result<()> {
        if self.file.is_none() {
            let (path, mut file) = place.make()?;
            self.len = append(&mut file, &Line::Bucket(place.bucket.clone()))?;
            (self.path, self.file) = (path, Some(file));
        }
        let file = self.file.as_mut().expect("made above");
        self.len += append(file, line)?;
        match line {
            Line::Begun { .. } => self.open += 1,
            Line::Ended { .. } => self.open = self.open.saturating_sub(1),
            Line::Bucket(_) => {}
        }
        if self.open == 0 && self.len > JOURNAL_LEN_MAX {
            file.set_len(0)?;
            file.rewind()?;
            self.len = append(file, &Line::Bucket(place.bucket.clone()))?;
        }
        Ok(())
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if self.file.is_some() && self.open == 0 {
            std::fs::remove_file(&self.path).ok();
        }
    }
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
                    return Ok((path, file));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("there are too many journals"))
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
    _file: File,
}

impl Left {
    /// The uploads in the file at `path`; `None` if its process lives, or if it is about another bucket.
    fn take(path: &Path, bucket: &str) -> io::Result<Option<Self>> {
        let file = File::open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let mut uploads: Vec<Upload> = Vec::new();
        let mut is_ours = false;
        for line in BufReader::new(&file).lines() {
            // The last line may have been cut off by the end of its process: then nothing was done with it yet.
            match serde_json::from_str(&line?) {
                Ok(Line::Bucket(name)) => is_ours = name == bucket,
                Ok(Line::Begun { key, id }) => {
                    uploads.extend(Key::parse(&key).map(|key| Upload { key, upload_id: id }));
                }
                Ok(Line::Ended { id }) => uploads.retain(|upload| upload.upload_id != id),
                Err(_) => break,
            }
        }
        Ok(is_ours.then_some(Self {
            uploads,
            _file: file,
        }))
    }
}

/// Appends a line in one system call. Returns its length.
fn append(file: &mut File, line: &Line) -> io::Result<u64> {
    let mut text = serde_json::to_string(line).map_err(io::Error::other)?;
    text.push('\n');
    file.write_all(text.as_bytes())?;
    Ok(text.len() as u64)
}

const EXTENSION: &str = "journal";

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use mountpoint_client::SimClient;
    use mountpoint_client::sim::SimOptions;
    use mountpoint_client::types::ObjectHeaders;

    use super::*;

    fn begin(client: &SimClient, key: &str) -> Upload {
        let key = Key::parse(key).unwrap();
        let begun = client.create_upload(&key, ObjectHeaders::default(), None);
        begun.now_or_never().unwrap().unwrap()
    }

    fn open(client: &SimClient) -> Vec<String> {
        let uploads = client.list_uploads("").now_or_never().unwrap().unwrap();
        uploads
            .into_iter()
            .map(|upload| upload.key.as_str().to_owned())
            .collect()
    }

    /// What a killed process leaves: its files, without its locks.
    fn killed(journal: Journal) {
        let mut state = std::mem::take(&mut *journal.state.lock());
        // Not removed, as by a process that ends well.
        state.open = usize::MAX;
    }

    #[test]
    fn what_a_killed_process_left_is_aborted_and_nothing_else() {
        let client = SimClient::new(SimOptions::default());
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("not/there/yet");
        let journal = |bucket| Journal::new(Some(&state), bucket);
        let recover = |bucket| journal(bucket).recover(&client).now_or_never().unwrap();
        assert_eq!(recover("b"), 0);
        let [first, second, third, other] =
            ["first", "second", "third", "other"].map(|key| begin(&client, key));
        let (of_killed, of_other, living) = (journal("b"), journal("c"), journal("b"));
        begin(&client, "of another client");
        of_killed.begun(&first);
        of_killed.begun(&second);
        client.abort_upload(&first).now_or_never().unwrap().unwrap();
        of_killed.ended(&first);
        living.begun(&third);
        of_other.begun(&other);
        killed(of_killed);
        killed(of_other);
        assert_eq!(recover("b"), 1);
        assert_eq!(open(&client), ["of another client", "other", "third"]);
        assert_eq!(recover("b"), 0);
        assert_eq!(recover("c"), 1);
        // A process that ends well leaves no file.
        living.ended(&third);
        drop(living);
        assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0);
    }

    #[test]
    fn a_line_that_was_cut_off_does_no_harm_and_an_abort_that_fails_is_tried_again() {
        let client = SimClient::new(SimOptions::default());
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::new(Some(directory.path()), "b");
        journal.begun(&begin(&client, "key"));
        let path = journal.state.lock().path.clone();
        killed(journal);
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(b"{\"begun\":{\"key\":\"half").unwrap();
        drop(file);
        let recover = || {
            let journal = Journal::new(Some(directory.path()), "b");
            journal.recover(&client).now_or_never().unwrap()
        };
        client.fail_next(
            mountpoint_client::sim::Operation::AbortMultipartUpload,
            1,
            ErrorKind::Transient,
        );
        assert_eq!(recover(), 0);
        assert_eq!((recover(), open(&client).len()), (1, 0));
    }

    #[test]
    fn the_file_does_not_grow_for_ever() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::new(Some(directory.path()), "b");
        let upload = Upload {
            key: Key::parse(&"k".repeat(1000)).unwrap(),
            upload_id: "id".to_owned(),
        };
        for _ in 0..200 {
            journal.begun(&upload);
            journal.ended(&upload);
            let len = std::fs::metadata(&journal.state.lock().path).unwrap().len();
            assert!(len <= JOURNAL_LEN_MAX + 4096, "{len}");
        }
    }
}
