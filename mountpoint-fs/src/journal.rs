//! Unfinished uploads, remembered outside of the process, so that the next mount can abort what a killed one left.
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

use crate::config::limits::{JOURNAL_FILES_MAX, JOURNAL_LEN_MAX};
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

    fn record(&self, change: impl FnOnce(&mut State) -> Line) {
        let Some(place) = &self.place else { return };
        let mut state = self.state.lock();
        let line = change(&mut state);
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
    /// Writes `line`, and before it what was missed.
    fn write(&mut self, place: &Place, line: &Line) -> io::Result<()> {
        if !self.is_there() {
            return self.begin_anew(place);
        }
        let mut lines = Vec::new();
        if self.has_missed {
            // The end of what was cut off.
            lines.push(b'\n');
            for upload in &self.open {
                Line::begun(upload).append_to(&mut lines)?;
            }
        }
        line.append_to(&mut lines)?;
        let file = self.file.as_mut().expect("it is there");
        file.write_all(&lines)?;
        self.len += lines.len() as u64;
        if self.open.is_empty() && self.len > JOURNAL_LEN_MAX {
            file.set_len(0)?;
            file.rewind()?;
            let lines = place.first_line()?;
            file.write_all(&lines)?;
            self.len = lines.len() as u64;
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
        if self.open.is_empty() {
            return Ok(());
        }
        let mut lines = place.first_line()?;
        for upload in &self.open {
            Line::begun(upload).append_to(&mut lines)?;
        }
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
        if self.open.is_empty() && self.is_there() {
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
        let mut is_anothers = false;
        for line in lines.split(|byte| *byte == b'\n') {
            match serde_json::from_slice(line) {
                Ok(Line::Bucket(name)) => is_anothers = name != bucket,
                Ok(Line::Begun { key, id }) => {
                    uploads.extend(Key::parse(&key).map(|key| Upload { key, upload_id: id }));
                }
                Ok(Line::Ended { id }) => uploads.retain(|upload| upload.upload_id != id),
                // It was cut off by a full disk, or the end of its process: then nothing was done with it yet.
                Err(_) => {}
            }
        }
        // One without a bucket has come to nothing, and holds nothing.
        Ok((!is_anothers).then_some(Self {
            uploads,
            _file: file,
        }))
    }
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
        state.file = None;
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

    /// The uploads that the next mount aborts.
    fn recovered(client: &SimClient, directory: &Path) -> usize {
        let journal = Journal::new(Some(directory), "b");
        let recovered = journal.recover(client).now_or_never().unwrap();
        assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0);
        recovered
    }

    /// As a disk leaves it that was full for a while, or a loss of power.
    #[test]
    fn what_makes_no_sense_hides_nothing() {
        for rubbish in [
            &b"{\"begun\":{\"key\":\"half\n"[..],
            b"{\"begun\":{\"key\":\"\xc3\n",
            b"\0\0\0\0\n",
            b"\n\n",
            b"{\"unheard of\":1}\n",
        ] {
            let client = SimClient::new(SimOptions::default());
            let directory = tempfile::tempdir().unwrap();
            let journal = Journal::new(Some(directory.path()), "b");
            journal.begun(&begin(&client, "first"));
            let file = || {
                OpenOptions::new()
                    .append(true)
                    .open(&journal.state.lock().path)
            };
            file().unwrap().write_all(rubbish).unwrap();
            journal.begun(&begin(&client, "second"));
            killed(journal);
            assert_eq!(recovered(&client, directory.path()), 2, "{rubbish:?}");
        }
    }

    #[test]
    fn what_could_not_be_written_is_told_again() {
        let client = SimClient::new(SimOptions::default());
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::new(Some(directory.path()), "b");
        let [first, second, third] = ["first", "second", "third"].map(|key| begin(&client, key));
        journal.begun(&first);
        let path = journal.state.lock().path.clone();
        // As a full disk does: part of a line, and then nothing.
        let fails = |fails: bool| {
            let file = OpenOptions::new().read(true).append(!fails).open(&path);
            journal.state.lock().file = Some(file.unwrap());
        };
        let mut torn = OpenOptions::new().append(true).open(&path).unwrap();
        torn.write_all(b"{\"begun\":{\"ke").unwrap();
        fails(true);
        journal.begun(&second);
        journal.ended(&first);
        assert!(journal.state.lock().has_missed);
        fails(false);
        journal.begun(&third);
        assert!(!journal.state.lock().has_missed);
        killed(journal);
        assert_eq!(recovered(&client, directory.path()), 3);
    }

    #[test]
    fn a_directory_that_vanishes_is_made_again_with_what_is_open() {
        let client = SimClient::new(SimOptions::default());
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("state");
        let journal = Journal::new(Some(&directory), "b");
        let [first, second, third] = ["first", "second", "third"].map(|key| begin(&client, key));
        journal.begun(&first);
        journal.begun(&second);
        std::fs::remove_dir_all(&directory).unwrap();
        journal.ended(&first);
        journal.begun(&third);
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
        killed(journal);
        assert_eq!(recovered(&client, &directory), 2);
        assert_eq!(open(&client), ["first"]);
    }

    /// One whose process ended before it had written its first line.
    #[test]
    fn a_file_without_a_word_is_removed() {
        let client = SimClient::new(SimOptions::default());
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("uploads-1-0.journal"), b"").unwrap();
        assert_eq!(recovered(&client, directory.path()), 0);
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
