//! Files that wait for their upload and change their names, after a kill.

use std::fs::{self, DirEntry, File, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mountpoint_client::SimClient;
use tempfile::TempDir;

use super::super::Sink;
use super::{ROOT, Staged, all_changes, wait};
use crate::clock::wait_until;
use crate::config::{ConflictPolicy, WriteBackConfig, WriteConfig};

/// Longer than any test takes: nothing is uploaded before [`Staged::upload`].
const LONG: Duration = Duration::from_secs(600);

impl Staged {
    pub(super) fn write_back() -> Self {
        Self::write_back_with(all_changes())
    }

    pub(super) fn write_back_with(write: WriteConfig) -> Self {
        let mount = Self::new(&[]);
        Self::next(TempDir::new().unwrap(), mount.bucket, write)
    }

    fn next(directory: TempDir, bucket: Arc<SimClient>, write: WriteConfig) -> Self {
        let write_back = WriteBackConfig {
            delay: LONG,
            drain_timeout: LONG,
            is_exclusive: false,
        };
        let config = (write, Some(write_back));
        Self::on(directory, bucket, config, ConflictPolicy::Fail)
    }

    /// The next mount, behind a kill of this one.
    pub(super) fn killed(self) -> Self {
        let found = TempDir::new().unwrap();
        copy(self.directory.path(), found.path());
        Self::next(found, self.bucket, self.write)
    }

    pub(super) fn upload(&self) {
        let staging = self.fs.staging().unwrap();
        assert!(wait(staging.drain(LONG)).is_empty());
        wait(self.fs.drained());
    }

    /// Writes a new file, and closes it.
    pub(super) fn make(&self, name: &str, content: &str) {
        let (_, handle) = self.create(ROOT, name);
        self.write(handle, 0, content).unwrap();
        self.close(handle).unwrap();
    }

    fn content(&self, name: &str) -> String {
        let handle = self.open_to_read(name);
        let content = self.read(handle).unwrap();
        self.close(handle).unwrap();
        content
    }

    /// The bucket has these files in the end, and no other one.
    #[track_caller]
    fn check_bucket(&self, files: &[(&str, &str)], context: &str) {
        self.upload();
        let keys: Vec<_> = files.iter().map(|(key, _)| (*key).to_owned()).collect();
        assert_eq!(self.bucket.keys(), keys, "{context}");
        for (key, content) in files {
            assert_eq!(self.stored(key).unwrap(), *content, "{context}");
        }
        assert_eq!(self.kept(), 0, "{context}");
    }
}

/// Copies the regular files below `from`, as a kill leaves them. Data files come before the journal
/// (`files` before `journal`): one that is removed meanwhile has no record in the journal's copy.
fn copy(from: &Path, to: &Path) {
    let entries = fs::read_dir(from).unwrap().map(Result::unwrap);
    let mut entries: Vec<_> = entries.collect();
    entries.sort_by_key(DirEntry::file_name);
    for entry in entries {
        let to = to.join(entry.file_name());
        let kind = match entry.file_type() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            kind => kind.unwrap(),
        };
        if kind.is_dir() {
            fs::create_dir(&to).unwrap();
            fs::set_permissions(&to, Permissions::from_mode(0o700)).unwrap();
            copy(&entry.path(), &to);
        } else if kind.is_file() {
            let file = match File::open(entry.path()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file.unwrap(),
            };
            let len = file.metadata().unwrap().len();
            let mut copied = File::create(to).unwrap();
            // The room that a segment of the journal claims is empty behind its first records.
            io::copy(&mut file.take(1 << 20), &mut copied).unwrap();
            copied.set_len(len).unwrap();
        }
    }
}

/// A file is replaced as git replaces a branch: a lock file is written, closed, and renamed over
/// it. Kills and uploads come behind those of these steps that the bits say.
fn replace(kills: usize, uploads: usize) {
    let context = format!("kills {kills:04b}, uploads {uploads:04b}");
    let mut mount = Staged::write_back();
    let behind = |mount: Staged, step: usize| {
        if uploads & (1 << step) != 0 {
            mount.upload();
        }
        match kills & (1 << step) {
            0 => mount,
            _ => mount.killed(),
        }
    };
    for (version, steps) in [("first", [0, 1]), ("second", [2, 3])] {
        mount.make("main.lock", version);
        mount = behind(mount, steps[0]);
        // The kernel looks a name up before it renames it.
        mount.walk("main.lock");
        let renamed = mount.rename((ROOT, "main.lock"), (ROOT, "main"));
        renamed.unwrap_or_else(|error| panic!("{context}, {version}: {error}"));
        mount = behind(mount, steps[1]);
        assert_eq!(mount.content("main"), version, "{context}");
    }
    mount.check_bucket(&[("main", "second")], &context);
}

#[test]
fn a_file_that_replaces_another_outlives_kills_at_each_step() {
    for kills in [0, 1, 2, 4, 8, 15] {
        for uploads in [0, 1, 2, 4, 8] {
            replace(kills, uploads);
        }
    }
}

/// A file that is renamed before its close is lost by a kill, as is what was not closed of any. The
/// file that it replaces is not: one of them is there.
#[test]
fn a_file_that_is_not_closed_replaces_no_other_one_before() {
    for is_uploaded in [false, true] {
        for is_closed in [false, true] {
            let context = format!("{is_uploaded} {is_closed}");
            let mount = Staged::write_back();
            mount.make("f", "old");
            if is_uploaded {
                mount.upload();
            }
            let (_, handle) = mount.create(ROOT, "f.tmp");
            mount.write(handle, 0, "new").unwrap();
            mount.rename((ROOT, "f.tmp"), (ROOT, "f")).unwrap();
            assert_eq!(mount.content("f"), "new", "{context}");
            let expected = match is_closed {
                true => "new",
                false => "old",
            };
            if is_closed {
                mount.close(handle).unwrap();
            }
            let next = mount.killed();
            next.check_bucket(&[("f", expected)], &context);
        }
    }
}

/// The kernel has never looked the file up, and S3 has listed the directory without it.
#[test]
fn a_file_that_is_stored_while_its_directory_is_read_is_shown() {
    let mount = Staged::write_back();
    mount.make("f", "content");
    let mount = mount.killed();
    let handle = wait(mount.fs.open_directory(ROOT)).unwrap();
    let read = |offset, room| {
        let mut sink = Sink::new(room);
        wait(mount.fs.read_directory(handle, offset, false, &mut sink)).unwrap();
        sink.entries
    };
    let mut last = read(0, 1);
    mount.upload();
    let namespace = &mount.fs.parts.namespace;
    wait_until("the end of the upload", || {
        namespace.written_below(ROOT).is_empty()
    });
    let mut names = Vec::new();
    while let Some(entry) = last.last() {
        names.extend(last.iter().map(|entry| entry.name.clone()));
        last = read(entry.next_offset, 10);
    }
    assert_eq!(names, [".", "..", "f"]);
    mount.fs.release_directory(handle);
    assert_eq!(mount.fs.inode_count(), 0, "it is forgotten");
}
