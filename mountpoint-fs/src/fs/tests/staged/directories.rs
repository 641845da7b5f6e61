//! New directories whose markers wait for their upload.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use proptest::test_runner::Config;

use super::{ROOT, Staged, all_changes, wait};
use crate::config::WriteConfig;
use crate::operation::{
    AttributeChange, Attributes, FsError, InodeNo, PosixAttributes, SetMode, TimeChange,
};

/// A mount with an empty directory `d` of its own.
fn mount() -> (Staged, InodeNo) {
    let (mount, directory) = mount_with(true);
    assert_eq!(mount.bucket.keys(), ["d/"]);
    (mount, directory)
}

/// A mount with an empty directory `d` of its own, where `mkdir` makes `directory_markers`.
fn mount_with(directory_markers: bool) -> (Staged, InodeNo) {
    let mount = Staged::write_back_with(WriteConfig {
        directory_markers,
        posix_metadata: true,
        ..all_changes()
    });
    let directory = mount.make_directory(ROOT, "d", DEFAULT_MODE);
    mount.requests();
    (mount, directory)
}

/// The mode of directories without a marker.
const DEFAULT_MODE: u16 = 0o755;

impl Staged {
    fn is_absent(&self, parent: InodeNo, name: &str) -> bool {
        let found = wait(self.fs.lookup(parent, OsStr::new(name)));
        matches!(found, Err(FsError::NotFound))
    }

    /// Makes a directory, as the kernel does.
    fn make_directory(&self, parent: InodeNo, name: &str, mode: u16) -> InodeNo {
        assert!(self.is_absent(parent, name));
        let made = wait(self.fs.make_directory(parent, OsStr::new(name), mode));
        let made = made.unwrap().attributes;
        assert_eq!(made.mode & 0o777, mode);
        made.ino
    }

    /// Sets mode and time, as `tar` does.
    fn set(&self, ino: InodeNo, mode: u16, seconds: i64) {
        let mode = AttributeChange {
            mode: Some(mode),
            ..AttributeChange::default()
        };
        let time = TimeChange::At { seconds, nanos: 0 };
        let time = AttributeChange {
            mtime: Some(time),
            ..AttributeChange::default()
        };
        for change in [mode, time] {
            wait(self.fs.set_attributes(ino, change)).unwrap();
        }
    }

    fn attributes(&self, path: &str) -> Attributes {
        let ino = self.walk(path);
        wait(self.fs.attributes(ino)).unwrap()
    }

    fn remove_directory(&self, parent: InodeNo, name: &str) -> Result<(), FsError> {
        wait(self.fs.remove_directory(parent, OsStr::new(name)))
    }

    /// Mode and time in the object that marks a directory.
    fn marked(&self, key: &str) -> Option<(u16, SystemTime)> {
        let object = self.bucket.object(key)?;
        let posix = PosixAttributes::of(&object.headers.metadata);
        Some((posix.mode.unwrap() & 0o777, posix.mtime.unwrap()))
    }

    #[track_caller]
    fn check_shown(&self, path: &str, mode: u16, seconds: u64) {
        let shown = self.attributes(path);
        assert_eq!((shown.mode & 0o777, shown.mtime), (mode, at(seconds)));
    }
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

#[test]
fn a_tree_is_made_without_requests_and_each_marker_is_uploaded_once() {
    let (mount, directory) = mount();
    let below = mount.make_directory(directory, "e", 0o700);
    let deepest = mount.make_directory(below, "f", 0o700);
    mount.set(deepest, 0o750, 1_000);
    mount.set(below, 0o711, 2_000);
    let name = OsStr::new("user.a");
    let set = mount
        .fs
        .set_extended_attribute(below, name, b"b", SetMode::Any);
    wait(set).unwrap();
    let got = wait(mount.fs.extended_attribute(below, name));
    assert_eq!(got.unwrap().unwrap(), b"b");
    assert_eq!(mount.requests(), 0);
    mount.check_shown("d/e", 0o711, 2_000);
    mount.check_shown("d/e/f", 0o750, 1_000);
    mount.upload();
    assert_eq!(mount.requests(), 4, "a HEAD and a PUT each");
    assert_eq!(mount.marked("d/e/"), Some((0o711, at(2_000))));
    assert_eq!(mount.marked("d/e/f/"), Some((0o750, at(1_000))));
    mount.check_shown("d/e", 0o711, 2_000);
    mount.set(below, 0o700, 3_000);
    assert_eq!(mount.marked("d/e/"), Some((0o700, at(3_000))));
    let got = wait(mount.fs.extended_attribute(below, name));
    assert_eq!(got.unwrap().unwrap(), b"b");
}

#[test]
fn a_directory_outlives_a_kill_with_its_attributes() {
    for is_set in [false, true] {
        let (mount, directory) = mount();
        let below = mount.make_directory(directory, "e", 0o700);
        if is_set {
            mount.set(below, 0o711, 2_000);
        }
        let made = mount.attributes("d/e");
        let mut mount = mount.killed();
        for _ in 0..2 {
            let shown = mount.attributes("d/e");
            assert_eq!((shown.mode, shown.mtime), (made.mode, made.mtime));
            assert_eq!(mount.bucket.keys(), ["d/"]);
            mount = mount.killed();
        }
        mount.upload();
        assert_eq!(mount.bucket.keys(), ["d/", "d/e/"]);
        assert_eq!(mount.marked("d/e/"), Some((made.mode & 0o777, made.mtime)));
        let mount = mount.killed();
        mount.upload();
        assert_eq!(mount.attributes("d/e").mode, made.mode);
        assert_eq!(mount.kept(), 0);
    }
}

/// S3 was asked by the look-up, and keeps nothing of a directory of the default mode anyway.
#[test]
fn without_markers_a_mode_waits_below_a_directory_that_others_know() {
    let (mount, directory) = mount_with(false);
    mount.set(directory, 0o711, 1_000);
    mount.upload();
    let mount = mount.killed();
    let directory = mount.walk("d");
    mount.requests();
    let below = mount.make_directory(directory, "e", 0o700);
    mount.set(below, 0o711, 2_000);
    assert_eq!(mount.requests(), 1, "the look-up");
    mount.upload();
    assert_eq!(mount.marked("d/e/"), Some((0o711, at(2_000))));
}

#[test]
fn the_first_attribute_of_a_directory_without_a_marker_is_uploaded_later() {
    let (mount, directory) = mount_with(false);
    let below = mount.make_directory(directory, "e", DEFAULT_MODE);
    let (_, handle) = mount.create(below, "f");
    mount.close(handle).unwrap();
    mount.upload();
    assert_eq!(mount.bucket.keys(), ["d/e/f"]);
    mount.requests();
    for (ino, seconds) in [(below, 1_000), (directory, 2_000), (below, 3_000)] {
        mount.set(ino, 0o711, seconds);
    }
    assert_eq!(mount.requests(), 0);
    mount.check_shown("d/e", 0o711, 3_000);
    let mount = mount.killed();
    mount.check_shown("d/e", 0o711, 3_000);
    mount.upload();
    assert_eq!(mount.bucket.keys(), ["d/", "d/e/", "d/e/f"]);
    assert_eq!(mount.marked("d/"), Some((0o711, at(2_000))));
    assert_eq!(mount.marked("d/e/"), Some((0o711, at(3_000))));
    assert_eq!(mount.kept(), 0);
}

/// The bucket has a marker of each by then, which a new one would replace.
#[test]
fn a_directory_that_has_a_marker_gets_no_other_one() {
    let (mount, directory) = mount_with(false);
    let below = mount.make_directory(directory, "e", DEFAULT_MODE);
    let deepest = mount.make_directory(below, "f", 0o700);
    mount.set(below, 0o711, 1_000);
    mount.upload();
    let name = OsStr::new("user.a");
    for ino in [below, deepest] {
        let set = mount
            .fs
            .set_extended_attribute(ino, name, b"b", SetMode::Any);
        wait(set).unwrap();
        mount.set(ino, 0o750, 2_000);
    }
    mount.remove_directory(below, "f").unwrap();
    mount.set(below, 0o700, 3_000);
    mount.upload();
    assert_eq!(mount.bucket.keys(), ["d/e/"]);
    assert_eq!(mount.marked("d/e/"), Some((0o700, at(3_000))));
    let got = wait(mount.fs.extended_attribute(below, name));
    assert_eq!(got.unwrap().unwrap(), b"b");
    assert_eq!(mount.kept(), 0);
}

/// Both objects are empty: their metadata tell whose it is, also behind a kill.
#[test]
fn an_attribute_of_a_directory_that_another_host_has_made_meanwhile_is_a_conflict() {
    for (mode, kills) in [DEFAULT_MODE, 0o700]
        .into_iter()
        .flat_map(|mode| (0..4).map(move |kills| (mode, kills)))
    {
        let (mut mount, directory) = mount_with(false);
        let below = mount.make_directory(directory, "e", mode);
        if mode == DEFAULT_MODE {
            mount.set(below, 0o711, 1_000);
        }
        if kills & 1 != 0 {
            mount = mount.killed();
        }
        mount.bucket.put_object("d/e/", "");
        if kills & 2 != 0 {
            mount.set(mount.walk("d/e"), 0o750, 2_000);
        }
        mount.upload();
        assert_eq!(mount.kept(), 1, "{mode:o} {kills:02b}");
        let theirs = mount.bucket.object("d/e/").unwrap();
        assert_eq!(theirs.headers.metadata, [], "{mode:o} {kills:02b}");
    }
}

/// The journal may have released what was uploaded a moment ago, or not.
#[test]
fn attributes_that_are_set_around_an_upload_outlive_kills() {
    for path in ["d/e", "d/f"] {
        for kills in 0..8 {
            let (mut mount, directory) = mount();
            mount.make_directory(directory, "e", 0o700);
            let (_, handle) = mount.create(directory, "f");
            mount.write(handle, 0, "x").unwrap();
            mount.close(handle).unwrap();
            mount.upload();
            for (step, mode) in [0o711, 0o750, 0o755].into_iter().enumerate() {
                if kills & (1 << step) != 0 {
                    mount = mount.killed();
                }
                let ino = mount.walk(path);
                mount.set(ino, mode, 1_000 + i64::from(mode));
            }
            mount = mount.killed();
            assert_eq!(mount.attributes(path).mode & 0o777, 0o755, "{kills:03b}");
            mount.upload();
            let shown = mount.attributes(path);
            assert_eq!(shown.mode & 0o777, 0o755, "{path} {kills:03b}");
            let key = match path {
                "d/e" => "d/e/",
                _ => path,
            };
            let marked = mount.marked(key);
            assert_eq!(marked, Some((0o755, at(1_000 + 0o755))), "{kills:03b}");
            assert_eq!(mount.kept(), 0);
        }
    }
}

#[test]
fn a_directory_that_is_removed_at_once_is_never_sent() {
    let (mount, directory) = mount();
    let below = mount.make_directory(directory, "e", 0o700);
    mount.make_directory(below, "f", 0o700);
    let removed = mount.remove_directory(directory, "e");
    assert!(matches!(removed, Err(FsError::NotEmpty)), "{removed:?}");
    mount.remove_directory(below, "f").unwrap();
    mount.remove_directory(directory, "e").unwrap();
    assert!(mount.is_absent(directory, "e"));
    let mount = mount.killed();
    mount.upload();
    let directory = mount.walk("d");
    assert!(mount.is_absent(directory, "e"));
    assert_eq!(mount.bucket.keys(), ["d/"]);
    assert_eq!(mount.kept(), 0);
}

#[test]
fn a_directory_that_was_uploaded_is_removed_from_the_bucket() {
    let (mount, directory) = mount();
    mount.make_directory(directory, "e", 0o700);
    mount.upload();
    mount.remove_directory(directory, "e").unwrap();
    assert_eq!(mount.bucket.keys(), ["d/"]);
    mount.make_directory(directory, "e", 0o711);
    let mount = mount.killed();
    mount.upload();
    assert_eq!(mount.attributes("d/e").mode & 0o777, 0o711);
    assert_eq!(mount.marked("d/e/").unwrap().0, 0o711);
}

#[test]
fn a_rename_takes_markers_along() {
    let (mount, directory) = mount();
    let below = mount.make_directory(directory, "e", 0o700);
    mount.make_directory(below, "f", 0o711);
    mount.rename((ROOT, "d"), (ROOT, "g")).unwrap();
    assert_eq!(mount.bucket.keys(), ["g/", "g/e/", "g/e/f/"]);
    assert_eq!(mount.attributes("g/e").mode & 0o777, 0o700);
    let (from, to) = ((mount.walk("g"), "e"), (ROOT, "h"));
    mount.rename(from, to).unwrap();
    let mount = mount.killed();
    mount.upload();
    assert_eq!(mount.bucket.keys(), ["g/", "h/", "h/f/"]);
    assert_eq!(mount.attributes("h/f").mode & 0o777, 0o711);
    assert_eq!(mount.kept(), 0);
}

/// The keys below a directory show it before its marker is there.
#[test]
fn the_mode_stays_when_the_bucket_shows_the_directory_without_its_marker() {
    let (mount, directory) = mount();
    let below = mount.make_directory(directory, "e", 0o700);
    mount.set(below, 0o711, 2_000);
    mount.bucket.put_object("d/e/theirs", "x");
    // The next mount knows no directory as its own.
    let mount = mount.killed();
    for _ in 0..2 {
        mount.check_shown("d/e", 0o711, 2_000);
    }
    mount.upload();
    assert_eq!(mount.marked("d/e/"), Some((0o711, at(2_000))));
}

#[test]
fn a_directory_that_another_host_has_made_meanwhile_is_theirs() {
    let (mount, directory) = mount();
    let below = mount.make_directory(directory, "e", DEFAULT_MODE);
    mount.bucket.put_object("d/e/", "");
    mount.upload();
    assert_eq!(mount.kept(), 0);
    let theirs = mount.bucket.object("d/e/").unwrap();
    assert_eq!(theirs.headers.metadata, []);
    mount.set(below, 0o711, 2_000);
    assert_eq!(mount.marked("d/e/"), Some((0o711, at(2_000))));
}

#[test]
fn below_a_directory_that_others_know_the_bucket_is_asked() {
    let (mount, _) = mount();
    let mount = mount.killed();
    let directory = mount.walk("d");
    mount.make_directory(directory, "e", 0o700);
    assert_eq!(mount.bucket.keys(), ["d/", "d/e/"]);
}

#[derive(Clone, Debug)]
enum Step {
    Make(usize, u8, u16),
    Remove(usize),
    Rename(usize, usize, u8),
    Set(usize, u16),
    Upload,
    Kill,
}

fn step() -> impl Strategy<Value = Step> {
    let place = 0..8_usize;
    let mode = prop_oneof![Just(0o700_u16), Just(0o755), Just(0o711)];
    prop_oneof![
        8 => (place.clone(), 0..3_u8, mode.clone())
            .prop_map(|(place, name, mode)| Step::Make(place, name, mode)),
        4 => place.clone().prop_map(Step::Remove),
        2 => (place.clone(), place.clone(), 0..3_u8)
            .prop_map(|(from, to, name)| Step::Rename(from, to, name)),
        4 => (place, mode).prop_map(|(place, mode)| Step::Set(place, mode)),
        1 => Just(Step::Upload),
        1 => Just(Step::Kill),
    ]
}

/// The directories that there have to be.
struct Tree {
    mount: Staged,
    directories: BTreeMap<String, Expected>,
    /// Whether each `mkdir` makes a marker.
    has_markers: bool,
    steps: i64,
}

#[derive(Clone, Copy, Debug)]
struct Expected {
    mode: u16,
    /// Whether the directory outlives a kill by itself.
    is_marked: bool,
}

impl Tree {
    /// With the directory that `mount` has.
    fn new(mount: Staged, has_markers: bool) -> Self {
        let expected = Expected {
            mode: DEFAULT_MODE,
            is_marked: has_markers,
        };
        Self {
            mount,
            directories: BTreeMap::from([("d".to_owned(), expected)]),
            has_markers,
            steps: 0,
        }
    }

    /// One of the directories.
    fn path(&self, place: usize) -> String {
        let path = self.directories.keys().nth(place % self.directories.len());
        path.unwrap().clone()
    }

    fn is_empty(&self, path: &str) -> bool {
        let below = format!("{path}/");
        !self.directories.keys().any(|it| it.starts_with(&below))
    }

    fn make(&mut self, (parent, name): (InodeNo, &str), path: String, mode: u16) {
        self.mount.make_directory(parent, name, mode);
        let is_marked = self.has_markers || mode != DEFAULT_MODE;
        self.directories.insert(path, Expected { mode, is_marked });
    }

    fn take(mut self, step: &Step) -> Self {
        self.steps += 1;
        if self.directories.is_empty() {
            self.make((ROOT, "d"), "d".to_owned(), DEFAULT_MODE);
        }
        match step {
            Step::Make(place, name, mode) => {
                let (parent, name) = (self.path(*place), name.to_string());
                let path = format!("{parent}/{name}");
                if !self.directories.contains_key(&path) {
                    let parent = self.mount.walk(&parent);
                    self.make((parent, &name), path, *mode);
                }
            }
            Step::Remove(place) => {
                let path = self.path(*place);
                if let Some((parent, name)) = path.rsplit_once('/') {
                    let (parent, ino) = (self.mount.walk(parent), self.mount.walk(&path));
                    assert_ne!(parent, ino);
                    let removed = self.mount.remove_directory(parent, name);
                    assert_eq!(removed.is_ok(), self.is_empty(&path), "{path}: {removed:?}");
                    if removed.is_ok() {
                        self.directories.remove(&path);
                    }
                }
            }
            Step::Rename(from, to, name) => self.rename(*from, *to, *name),
            Step::Set(place, mode) => {
                let path = self.path(*place);
                let ino = self.mount.walk(&path);
                self.mount.set(ino, *mode, self.steps);
                let (mode, is_marked) = (*mode, true);
                self.directories.insert(path, Expected { mode, is_marked });
            }
            Step::Upload => self.mount.upload(),
            Step::Kill => return self.killed(),
        }
        self
    }

    fn killed(self) -> Self {
        let outlives = |path: &str| {
            let below = format!("{path}/");
            let mut marked = self.directories.iter().filter(|(_, it)| it.is_marked);
            marked.any(|(it, _)| it == path || it.starts_with(&below))
        };
        let mut directories = self.directories.clone();
        directories.retain(|path, _| outlives(path));
        let mount = self.mount.killed();
        Self {
            mount,
            directories,
            ..self
        }
    }

    fn rename(&mut self, from: usize, to: usize, name: u8) {
        let (from, to) = (self.path(from), format!("{}/{name}", self.path(to)));
        let is_below = format!("{to}/").starts_with(&format!("{from}/"));
        let Some((old_parent, old_name)) = from.rsplit_once('/') else {
            return;
        };
        if is_below || self.directories.contains_key(&to) {
            return;
        }
        let (new_parent, new_name) = to.rsplit_once('/').unwrap();
        let (old_parent, new_parent) = (self.mount.walk(old_parent), self.mount.walk(new_parent));
        self.mount.walk(&from);
        assert!(self.mount.is_absent(new_parent, new_name));
        let renamed = self
            .mount
            .rename((old_parent, old_name), (new_parent, new_name));
        renamed.unwrap();
        let directories = std::mem::take(&mut self.directories).into_iter();
        let moved = directories.map(|(path, it)| match path.strip_prefix(&from) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => (format!("{to}{rest}"), it),
            Some(_) | None => (path, it),
        });
        self.directories = moved.collect();
    }

    fn check(&self) {
        for (path, expected) in &self.directories {
            let mode = self.mount.attributes(path).mode & 0o777;
            assert_eq!(mode, expected.mode, "{path}");
        }
    }
}

proptest! {
    #![proptest_config(Config { cases: 100, failure_persistence: None, ..Config::default() })]

    /// Whatever is done with directories outlives kills, and is in the bucket in the end.
    #[test]
    fn directories_agree_with_a_model(
        has_markers in any::<bool>(),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let (mount, _) = mount_with(has_markers);
        let mut tree = Tree::new(mount, has_markers);
        for step in &steps {
            tree = tree.take(step);
            tree.check();
        }
        tree.mount.upload();
        tree.check();
        let marked: Vec<_> = tree.mount.bucket.keys();
        let expected = tree.directories.iter().filter(|(_, it)| it.is_marked);
        let expected: Vec<_> = expected.map(|(path, it)| (format!("{path}/"), it.mode)).collect();
        let keys: Vec<_> = expected.iter().map(|(key, _)| key.clone()).collect();
        prop_assert_eq!(&marked, &keys);
        for (key, mode) in &expected {
            prop_assert_eq!(tree.mount.marked(key).unwrap().0, *mode, "{}", key);
        }
        prop_assert_eq!(tree.mount.kept(), 0);
    }
}

/// A listing shows a directory with a key below it, whose inode is another one from then on, before
/// its marker is uploaded.
#[test]
fn a_directory_that_a_listing_has_shown_has_the_mode_of_its_marker() {
    use Step::{Kill, Make, Remove, Rename};
    let steps = [
        Make(0, 1, 0o700),
        Make(2, 0, 0o700),
        Remove(7),
        Kill,
        Make(2, 0, 0o700),
        Make(2, 0, 0o700),
        Make(1, 2, 0o700),
        Kill,
        Rename(4, 6, 0),
        Make(3, 0, 0o700),
        Rename(5, 4, 0),
    ];
    let (mount, _) = mount_with(true);
    let mut tree = Tree::new(mount, true);
    for step in &steps {
        tree = tree.take(step);
        tree.check();
    }
}
