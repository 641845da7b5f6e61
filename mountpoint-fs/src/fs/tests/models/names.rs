//! Random operations against a model of the semantics.
//!
//! The model is a set of keys. An operation's answer must be true now, or have been true within the
//! validity; the absence of a name, `open`, and a listing that no walk has asked for ahead must
//! always be true now. An inode number must name one version of one path for ever, and when the
//! kernel has forgotten all inodes the table must be empty.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::config::limits::FILE_TTL;
use crate::operation::Attributes;

#[derive(Clone, Debug)]
enum Step {
    Put(String, u8),
    Delete(String),
    Stat(String),
    Open(String),
    List(String, usize, bool),
    Attributes(usize),
    Close(usize),
    Forget(usize),
    Wait(u64),
}

/// The kind of a name. A file's size identifies its version here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Nothing,
    Directory,
    File(u64),
}

impl Is {
    fn of(attributes: &Attributes) -> Self {
        match attributes.kind {
            FileKind::Directory => Self::Directory,
            FileKind::File | FileKind::SymbolicLink | FileKind::Pipe | FileKind::Socket => {
                Self::File(attributes.size)
            }
        }
    }
}

struct Model {
    mount: Mount,
    keys: BTreeMap<String, u64>,
    /// Former states of paths, and the times of their ends.
    was: HashMap<String, Vec<(Is, Duration)>>,
    /// Every inode number that was ever seen, with its path and state.
    inodes: HashMap<InodeNo, (String, Is)>,
    /// The kernel's lookup counts.
    counts: BTreeMap<InodeNo, u64>,
    open: Vec<HandleNo>,
}

impl Model {
    fn new() -> Self {
        Self {
            mount: Mount::immediate(&[]),
            keys: BTreeMap::new(),
            was: HashMap::new(),
            inodes: HashMap::from([(InodeNo::ROOT, (String::new(), Is::Directory))]),
            counts: BTreeMap::new(),
            open: Vec::new(),
        }
    }

    fn truth(&self, path: &str) -> Is {
        let below = format!("{path}/");
        if self
            .keys
            .range(below.clone()..)
            .next()
            .is_some_and(|(key, _)| key.starts_with(&below))
        {
            return Is::Directory;
        }
        self.keys
            .get(path)
            .map_or(Is::Nothing, |size| Is::File(*size))
    }

    fn children(&self, directory: &str) -> BTreeMap<String, Is> {
        let names = self
            .keys
            .keys()
            .filter_map(|key| key.strip_prefix(directory));
        let names = names.map(|rest| rest.split('/').next().unwrap().to_owned());
        let visible = names.filter(|name| !name.is_empty() && name != "." && name != "..");
        visible
            .map(|name| {
                let is = self.truth(&format!("{directory}{name}"));
                (name, is)
            })
            .collect()
    }

    fn may_be(&self, path: &str, answer: Is) -> bool {
        let now = self.mount.clock.now();
        let was = self.was.get(path).is_some_and(|was| {
            was.iter()
                .any(|(is, until)| *is == answer && now < *until + FILE_TTL)
        });
        self.truth(path) == answer || was
    }

    /// Records that `key` and the paths that lead to it are about to change.
    fn changes(&mut self, key: &str) {
        let now = self.mount.clock.now();
        let ends = key.match_indices('/').map(|(end, _)| end);
        for end in ends.chain([key.len()]) {
            let is = self.truth(&key[..end]);
            self.was
                .entry(key[..end].to_owned())
                .or_default()
                .push((is, now));
        }
    }

    /// Records that the kernel got an entry.
    fn given(&mut self, path: &str, entry: &Entry) {
        let attributes = entry.attributes;
        let is = Is::of(&attributes);
        let known = self
            .inodes
            .entry(attributes.ino)
            .or_insert_with(|| (path.to_owned(), is));
        assert_eq!(
            known,
            &mut (path.to_owned(), is),
            "an inode is one version of one path"
        );
        *self.counts.entry(attributes.ino).or_default() += 1;
    }

    /// Looks `path` up, name by name, as the kernel would.
    fn walk(&mut self, path: &str) -> Option<Entry> {
        let (mut parent, mut walked, mut found) = (InodeNo::ROOT, String::new(), None);
        for name in path.split('/') {
            let full = if walked.is_empty() {
                name.to_owned()
            } else {
                format!("{walked}/{name}")
            };
            match self.mount.lookup(parent, name) {
                Ok(entry) => {
                    self.given(&full, &entry);
                    let is = self.inodes[&entry.attributes.ino].1;
                    assert!(
                        self.may_be(&full, is),
                        "{full} is {:?}, not {is:?}",
                        self.truth(&full)
                    );
                    (parent, walked, found) = (entry.attributes.ino, full, Some(entry));
                }
                Err(FsError::NotFound) => {
                    assert_eq!(self.truth(&full), Is::Nothing, "{full}");
                    return None;
                }
                Err(FsError::NotADirectory) => {
                    assert_eq!(found?.attributes.kind, FileKind::File);
                    return None;
                }
                Err(error) => panic!("{full}: {error}"),
            }
        }
        found
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Put(key, size) => {
                self.changes(&key);
                self.mount
                    .bucket
                    .put_object(&key, vec![b'x'; usize::from(size)]);
                self.keys.insert(key, u64::from(size));
            }
            Step::Delete(key) => {
                self.changes(&key);
                assert_eq!(
                    self.mount.bucket.remove(&key),
                    self.keys.remove(&key).is_some()
                );
            }
            Step::Stat(path) => {
                self.walk(&path);
            }
            Step::Open(path) => self.open(&path),
            Step::List(path, batch, plus) => self.list(&path, batch, plus),
            Step::Attributes(index) => self.attributes(index),
            Step::Close(index) => {
                if !self.open.is_empty() {
                    self.mount
                        .fs
                        .release(self.open.remove(index % self.open.len()));
                }
            }
            Step::Forget(index) => {
                if let Some(ino) = self
                    .counts
                    .keys()
                    .nth(index % self.counts.len().max(1))
                    .copied()
                {
                    let count = self.counts.remove(&ino).unwrap();
                    self.mount.fs.forget(ino, count);
                }
            }
            Step::Wait(millis) => self.mount.clock.advance(Duration::from_millis(millis)),
        }
    }

    /// `open(2)`: the path is looked up, and again if the open returns a stale error.
    fn open(&mut self, path: &str) {
        for attempt in 0..2 {
            let Some(entry) = self.walk(path) else { return };
            if entry.attributes.kind == FileKind::Directory {
                return;
            }
            match now(self.mount.fs.open(entry.attributes.ino, READ)) {
                Ok(opened) => {
                    // A directory may hide it in the bucket by now, but the version is the newest.
                    let newest = self.keys.get(path).copied();
                    assert_eq!(newest, Some(entry.attributes.size), "{path}");
                    return self.open.push(opened.handle);
                }
                Err(FsError::Stale(_)) => assert!(attempt == 0, "{path} is stale twice"),
                Err(error) => panic!("{path}: {error}"),
            }
        }
    }

    fn list(&mut self, path: &str, batch: usize, plus: bool) {
        let Some(entry) = self
            .walk(path)
            .filter(|entry| entry.attributes.kind == FileKind::Directory)
        else {
            return;
        };
        let ahead = self.mount.fs.walk_stats().directories;
        let handle = now(self.mount.fs.open_directory(entry.attributes.ino)).unwrap();
        let entries = self.mount.list(handle, batch, plus);
        self.mount.fs.release_directory(handle);
        let directory = format!("{path}/");
        let names = entries[2..].iter();
        let names: BTreeMap<_, _> = names
            .map(|e| (e.name.to_string(), Is::of(&e.entry.attributes)))
            .collect();
        assert_eq!(names.len(), entries.len() - 2, "each name once");
        if self.mount.fs.walk_stats().directories == ahead {
            assert_eq!(names, self.children(&directory), "{directory}");
        } else {
            self.listed_ahead(&directory, names);
        }
        for entry in &entries[2..] {
            if plus {
                let path = format!("{directory}{}", entry.name);
                self.given(&path, &entry.entry);
            }
        }
    }

    /// A walk was shown `names`: each as it is or was within the validity, and a missing name was
    /// missing then. The look-ups that follow may be answered with them for as long again.
    fn listed_ahead(&mut self, directory: &str, names: BTreeMap<String, Is>) {
        for (name, is) in self.children(directory) {
            let path = format!("{directory}{name}");
            assert!(
                names.contains_key(&name) || self.may_be(&path, Is::Nothing),
                "{path} is {is:?} and was not listed"
            );
        }
        let now = self.mount.clock.now();
        for (name, is) in names {
            let path = format!("{directory}{name}");
            assert!(
                self.may_be(&path, is),
                "{path} is {:?}, not {is:?}",
                self.truth(&path)
            );
            self.was.entry(path).or_default().push((is, now));
        }
    }

    fn attributes(&mut self, index: usize) {
        let Some(ino) = self
            .counts
            .keys()
            .nth(index % self.counts.len().max(1))
            .copied()
        else {
            return;
        };
        let (path, was) = self.inodes[&ino].clone();
        match now(self.mount.fs.attributes(ino)) {
            Ok(attributes) => {
                let is = Is::of(&attributes);
                assert_eq!(attributes.ino, ino);
                // An inode that has lost its name is the object that has the name now.
                assert!(is == was || self.may_be(&path, is), "{path} is not {is:?}");
                self.inodes.insert(ino, (path, is));
            }
            Err(FsError::Stale(_) | FsError::NotFound) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// The kernel forgets all inodes.
    fn finish(mut self) {
        for handle in std::mem::take(&mut self.open) {
            self.mount.fs.release(handle);
        }
        for (ino, count) in std::mem::take(&mut self.counts) {
            self.mount.fs.forget(ino, count);
        }
        assert_eq!(self.mount.fs.inode_count(), 0);
    }
}

fn component() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "a-", "a!b", "b", "ü"]).prop_map(str::to_owned)
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(component(), 1..4).prop_map(|components| components.join("/"))
}

/// Keys, some of them hidden.
fn key() -> impl Strategy<Value = String> {
    let odd = (
        path(),
        prop::sample::select(vec!["/", "//a", "/.", "/../b", "/./a"]),
    );
    prop_oneof![4 => path(), 1 => odd.prop_map(|(path, odd)| format!("{path}{odd}"))]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (key(), 1..9u8).prop_map(|(key, size)| Step::Put(key, size)),
        2 => key().prop_map(Step::Delete),
        4 => path().prop_map(Step::Stat),
        3 => path().prop_map(Step::Open),
        3 => (path(), 1..5usize, any::<bool>()).prop_map(|(path, batch, plus)| Step::List(path, batch, plus)),
        2 => any::<usize>().prop_map(Step::Attributes),
        1 => any::<usize>().prop_map(Step::Close),
        2 => any::<usize>().prop_map(Step::Forget),
        1 => prop::sample::select(vec![1, 400, 1000]).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn answers_are_true(steps in prop::collection::vec(step(), 1..120)) {
        let mut model = Model::new();
        steps.into_iter().for_each(|step| model.run(step));
        model.finish();
    }
}
