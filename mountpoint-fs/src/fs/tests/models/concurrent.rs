//! Parallel operations in virtual time, against the history of the bucket.
//!
//! Requests are answered in any order and may fail, operations are interrupted, the bucket changes
//! meanwhile, and the kernel forgets at any time. The model is the history of each path. An answer
//! must have been true at a time that doc/SEMANTICS.md allows; the table must have every inode that
//! the kernel knows; and when the kernel has forgotten all inodes, the table must be empty.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::pin::Pin;
use std::time::Duration;

use futures::future::BoxFuture;
use mountpoint_client::ErrorKind;
use proptest::prelude::*;

use super::*;
use crate::config::limits::FILE_TTL;
use crate::namespace::bounds::LISTING_AGE_MAX;
use crate::operation::{Attributes, Opened};

#[derive(Clone, Debug)]
enum Step {
    Put(&'static str, u8),
    Delete(&'static str),
    Lookup(usize, &'static str),
    /// Looks a file up and opens it, by one system call.
    LookAndOpen(usize, &'static str),
    Attributes(usize),
    Open(usize),
    OpenDirectory(usize),
    /// Reads this number of further entries of an open directory.
    Read(usize, usize),
    /// Restarts an open directory at its beginning.
    Rewind(usize),
    Answer(usize),
    Fail(usize),
    Interrupt(usize),
    Close(usize),
    CloseDirectory(usize),
    /// Gives back some of the lookups of an inode.
    Forget(usize, u64),
    Wait(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Nothing,
    Directory,
    File(u64),
}

/// The outcome of an operation.
enum Outcome {
    Found(Result<Entry, FsError>),
    Attributes(Result<Attributes, FsError>),
    Opened(Result<Opened, FsError>),
    /// A directory's path, and whether its entries are read with their attributes.
    OpenedDirectory(Result<HandleNo, FsError>, String, bool),
    Listed(Result<(), FsError>, Vec<DirectoryEntry>),
}

/// The subject of an operation.
#[derive(Clone, Debug)]
enum About {
    Path(String),
    Inode(InodeNo),
    /// A directory's handle, and the offset that was read from.
    Directory(HandleNo, u64),
}

struct Operation {
    about: About,
    future: BoxFuture<'static, Outcome>,
    began: Duration,
    /// The number of the bucket's changes when it began.
    changes: usize,
    /// The system call of a lookup whose file is opened by the same call.
    call: Option<Call>,
}

/// A directory that is being read.
struct Reading {
    ino: InodeNo,
    path: String,
    plus: bool,
    offset: u64,
    /// The number of changes at the earliest start of its listing, and the time of that.
    changes: usize,
    since: Duration,
    names: Vec<(String, Is)>,
    is_seen: bool,
    is_busy: bool,
}

struct Model {
    mount: Mount,
    keys: BTreeMap<String, u64>,
    /// The state of all paths after each change, and its time.
    history: Vec<(Duration, BTreeMap<String, Is>)>,
    inodes: HashMap<InodeNo, (String, Is)>,
    counts: BTreeMap<InodeNo, u64>,
    /// Directories that were listed.
    listed: BTreeSet<String>,
    in_flight: Vec<Operation>,
    calls: u32,
    files: Vec<HandleNo>,
    directories: BTreeMap<HandleNo, Reading>,
}

impl Model {
    fn new(keys: &[&'static str]) -> Self {
        let mut model = Self {
            mount: Mount::manual(&[]),
            keys: BTreeMap::new(),
            history: vec![(Duration::ZERO, BTreeMap::new())],
            inodes: HashMap::from([(InodeNo::ROOT, (String::new(), Is::Directory))]),
            counts: BTreeMap::new(),
            listed: BTreeSet::new(),
            in_flight: Vec::new(),
            calls: 0,
            files: Vec::new(),
            directories: BTreeMap::new(),
        };
        for key in keys {
            model.put(key, 1);
        }
        model
    }

    fn put(&mut self, key: &str, size: u8) {
        self.mount
            .bucket
            .put_object(key, vec![b'x'; usize::from(size)]);
        self.keys.insert(key.to_owned(), u64::from(size));
        self.changed();
    }

    fn changed(&mut self) {
        let mut paths = BTreeMap::new();
        for (key, size) in &self.keys {
            for (slash, _) in key.match_indices('/') {
                paths.insert(key[..slash].to_owned(), Is::Directory);
            }
            if !key.ends_with('/') {
                paths.entry(key.clone()).or_insert(Is::File(*size));
            }
        }
        self.history.push((self.mount.clock.now(), paths));
    }

    /// All states of a path since a time or a change, whichever is earlier.
    fn was(&self, path: &str, since: Duration, changes: usize) -> Vec<Is> {
        let first_later = self.history.partition_point(|(at, _)| *at < since);
        let first = changes.min(first_later).saturating_sub(1);
        self.history[first..]
            .iter()
            .map(|(_, paths)| paths.get(path).copied().unwrap_or(Is::Nothing))
            .collect()
    }

    /// Checks that an operation may report this state of a path.
    #[track_caller]
    fn check(&self, path: &str, is: Is, operation: &Operation) {
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        // An absence is never older than the request.
        let age = match is {
            Is::Nothing => Duration::ZERO,
            _ if self.listed.contains(parent) => FILE_TTL + LISTING_AGE_MAX,
            _ => FILE_TTL,
        };
        let was = match is {
            Is::Nothing => self.was(path, Duration::MAX, operation.changes),
            _ => self.was(path, operation.began.saturating_sub(age), operation.changes),
        };
        // The path was looked up as a directory while it was a file, and as a file when it was a
        // directory.
        let is_torn = is != Is::Directory
            && was.contains(&Is::Directory)
            && was.iter().any(|was| *was != Is::Directory);
        assert!(
            was.contains(&is) || is_torn,
            "{path} is {is:?}, and was {was:?}"
        );
    }

    /// Records that the kernel got an entry.
    fn given(&mut self, path: &str, attributes: &Attributes) {
        let is = is(attributes);
        let known = self
            .inodes
            .entry(attributes.ino)
            .or_insert_with(|| (path.to_owned(), is));
        assert_eq!(*known, (path.to_owned(), is), "one version of one path");
        *self.counts.entry(attributes.ino).or_default() += 1;
    }

    fn begin(&mut self, about: About, future: BoxFuture<'static, Outcome>) {
        self.in_flight.push(Operation {
            about,
            future,
            began: self.mount.clock.now(),
            changes: self.history.len(),
            call: None,
        });
    }

    /// The system call of the ended `lookup` opens what that has found.
    fn open_found(&mut self, ino: InodeNo, lookup: &Operation) {
        let Some(call) = lookup.call else { return };
        let options = self.mount.read_by(ino, call);
        let fs = Arc::clone(&self.mount.fs);
        let future = async move { Outcome::Opened(fs.open(ino, options).await) };
        self.begin(About::Inode(ino), Box::pin(future));
        if let Some(open) = self.in_flight.last_mut() {
            (open.began, open.changes) = (lookup.began, lookup.changes);
        }
    }

    /// A directory that the kernel knows.
    fn directory(&self, index: usize) -> (InodeNo, String) {
        let known = self.counts.keys().copied();
        let known: Vec<InodeNo> = [InodeNo::ROOT]
            .into_iter()
            .chain(known)
            .filter(|ino| self.inodes[ino].1 == Is::Directory)
            .collect();
        let ino = known[index % known.len()];
        (ino, self.inodes[&ino].0.clone())
    }

    fn known(&self, index: usize) -> Option<InodeNo> {
        let count = self.counts.len();
        self.counts.keys().nth(index.checked_rem(count)?).copied()
    }

    fn run(&mut self, step: Step) {
        let fs = Arc::clone(&self.mount.fs);
        match step {
            Step::Put(key, size) => self.put(key, size),
            Step::Delete(key) => {
                self.mount.bucket.remove(key);
                self.keys.remove(key);
                self.changed();
            }
            Step::Lookup(parent, name) => {
                let (parent, path) = self.directory(parent);
                let future =
                    async move { Outcome::Found(fs.lookup(parent, OsStr::new(name)).await) };
                self.begin(About::Path(join(&path, name)), Box::pin(future));
            }
            Step::LookAndOpen(parent, name) => {
                let (parent, path) = self.directory(parent);
                self.calls += 1;
                let call = Call(self.calls);
                let future = async move {
                    Outcome::Found(fs.lookup_for(parent, OsStr::new(name), &call).await)
                };
                self.begin(About::Path(join(&path, name)), Box::pin(future));
                if let Some(lookup) = self.in_flight.last_mut() {
                    lookup.call = Some(call);
                }
            }
            Step::Attributes(index) => {
                if let Some(ino) = self.known(index) {
                    let future = async move { Outcome::Attributes(fs.attributes(ino).await) };
                    self.begin(About::Inode(ino), Box::pin(future));
                }
            }
            Step::Open(index) => {
                if let Some(ino) = self.known(index) {
                    let future = async move { Outcome::Opened(fs.open(ino, READ).await) };
                    self.begin(About::Inode(ino), Box::pin(future));
                }
            }
            Step::OpenDirectory(index) => self.open_directory(index),
            Step::Read(index, room) => self.read(index, room),
            Step::Rewind(index) => {
                if let Some(reading) = self.pick_directory(index) {
                    reading.offset = 0;
                }
            }
            Step::Answer(index) | Step::Fail(index) => {
                self.answer(index, matches!(step, Step::Fail(_)));
            }
            Step::Interrupt(index) => {
                if let Some(index) = index.checked_rem(self.in_flight.len()) {
                    let operation = self.in_flight.swap_remove(index);
                    self.is_done(&operation.about);
                }
            }
            Step::Close(index) => {
                if let Some(index) = index.checked_rem(self.files.len()) {
                    fs.release(self.files.swap_remove(index));
                }
            }
            Step::CloseDirectory(index) => {
                if let Some(handle) = self.idle_directory(index) {
                    self.directories.remove(&handle);
                    fs.release_directory(handle);
                }
            }
            Step::Forget(index, count) => self.forget(index, count),
            Step::Wait(millis) => self.mount.clock.advance(Duration::from_millis(millis)),
        }
        self.settle();
    }

    fn open_directory(&mut self, index: usize) {
        let (ino, path) = self.directory(index);
        let plus = index.is_multiple_of(2);
        let fs = Arc::clone(&self.mount.fs);
        let future = async move {
            let opened = fs.open_directory(ino).await;
            Outcome::OpenedDirectory(opened, path, plus)
        };
        self.begin(About::Inode(ino), Box::pin(future));
    }

    fn idle_directory(&self, index: usize) -> Option<HandleNo> {
        let idle: Vec<HandleNo> = self
            .directories
            .iter()
            .filter(|(_, reading)| !reading.is_busy)
            .map(|(handle, _)| *handle)
            .collect();
        idle.get(index.checked_rem(idle.len())?).copied()
    }

    fn pick_directory(&mut self, index: usize) -> Option<&mut Reading> {
        let handle = self.idle_directory(index)?;
        self.directories.get_mut(&handle)
    }

    fn read(&mut self, index: usize, room: usize) {
        let Some(handle) = self.idle_directory(index) else {
            return;
        };
        let changes = self.history.len();
        let Some(reading) = self.directories.get_mut(&handle) else {
            return;
        };
        reading.is_busy = true;
        let (offset, plus) = (reading.offset, reading.plus);
        if offset == 0 {
            reading.names.clear();
            // Before the first entry a rewind has no effect: answers to requests since `opendir`
            // are valid.
            if std::mem::take(&mut reading.is_seen) {
                reading.changes = changes;
                reading.since = Duration::MAX;
            }
        }
        let fs = Arc::clone(&self.mount.fs);
        let future = async move {
            let mut sink = Sink::new(room);
            let result = fs.read_directory(handle, offset, plus, &mut sink).await;
            Outcome::Listed(result, sink.entries)
        };
        self.begin(About::Directory(handle, offset), Box::pin(future));
    }

    fn answer(&mut self, index: usize, fails: bool) {
        let requests = self.mount.bucket.pending_requests();
        let requests = requests.into_iter().map(|request| request.id);
        let gets = self.mount.bucket.pending_gets();
        let all: Vec<_> = requests.chain(gets.into_iter().map(|get| get.id)).collect();
        let Some(index) = index.checked_rem(all.len()) else {
            return;
        };
        match fails {
            true => self.mount.bucket.fail(all[index], ErrorKind::Transient),
            false => self.mount.bucket.finish(all[index]),
        };
    }

    fn forget(&mut self, index: usize, count: u64) {
        let Some(ino) = self.known(index) else { return };
        // Linux forgets an inode only when none of its operations is in flight and no handle is
        // open on it.
        let is_used = |operation: &Operation| match &operation.about {
            About::Inode(other) => *other == ino,
            About::Path(path) => path.starts_with(&self.inodes[&ino].0),
            About::Directory(..) => false,
        };
        if self.in_flight.iter().any(is_used)
            || self.directories.values().any(|reading| reading.ino == ino)
        {
            return;
        }
        // A child keeps its directory in the kernel, even when the directory's name is gone.
        let below = format!("{}/", self.inodes[&ino].0);
        let mut others = self.counts.keys();
        let is_parent = others.any(|other| self.inodes[other].0.starts_with(&below));
        let left = self.counts.get_mut(&ino).unwrap();
        let count = count.min(*left - u64::from(is_parent));
        if count == 0 {
            return;
        }
        *left -= count;
        if *left == 0 {
            self.counts.remove(&ino);
        }
        self.mount.fs.forget(ino, count);
    }

    fn is_done(&mut self, about: &About) {
        if let About::Directory(handle, _) = about
            && let Some(reading) = self.directories.get_mut(handle)
        {
            reading.is_busy = false;
        }
    }

    /// Polls each operation, as the thread that delivers an answer would, and records the outcomes.
    fn settle(&mut self) {
        let mut index = 0;
        while index < self.in_flight.len() {
            let polled = Pin::new(&mut self.in_flight[index].future).now_or_never();
            let Some(outcome) = polled else {
                index += 1;
                continue;
            };
            let operation = self.in_flight.swap_remove(index);
            self.is_done(&operation.about);
            self.ended(&operation, outcome);
            // Its end may have woken others.
            index = 0;
        }
    }

    fn ended(&mut self, operation: &Operation, outcome: Outcome) {
        match (&operation.about, outcome) {
            (About::Path(path), Outcome::Found(Ok(entry))) => {
                self.check(path, is(&entry.attributes), operation);
                self.given(&path.clone(), &entry.attributes);
                self.open_found(entry.attributes.ino, operation);
            }
            (About::Path(path), Outcome::Found(Err(FsError::NotFound))) => {
                self.check(path, Is::Nothing, operation);
            }
            (About::Inode(ino), Outcome::Attributes(Ok(attributes))) => {
                let (path, known) = self.inodes[ino].clone();
                let shown = is(&attributes);
                assert_eq!(attributes.ino, *ino);
                if shown != known {
                    // It had lost its name, and is what has that now.
                    self.check(&path, shown, operation);
                    self.inodes.insert(*ino, (path, shown));
                }
            }
            (About::Inode(ino), Outcome::Opened(Ok(opened))) => {
                let (path, is) = self.inodes[ino].clone();
                // A directory may hide it by now; the version is the newest.
                let was = self.was(&path, Duration::MAX, operation.changes);
                assert!(
                    was.contains(&is) || was.contains(&Is::Directory),
                    "{path} is opened as {is:?}, and was {was:?}"
                );
                self.files.push(opened.handle);
            }
            (About::Inode(ino), Outcome::OpenedDirectory(Ok(handle), path, plus)) => {
                let reading = Reading {
                    ino: *ino,
                    path,
                    plus,
                    offset: 0,
                    changes: operation.changes,
                    // A walk may have come near it.
                    since: operation.began.saturating_sub(FILE_TTL),
                    names: Vec::new(),
                    is_seen: false,
                    is_busy: false,
                };
                self.directories.insert(handle, reading);
            }
            (About::Directory(handle, offset), Outcome::Listed(Ok(()), entries)) => {
                self.listed(*handle, *offset, &entries);
            }
            (_, Outcome::Listed(Err(error), entries)) => {
                assert!(
                    entries.is_empty() && matches!(error, FsError::Client(_)),
                    "{error}"
                );
            }
            (
                about,
                Outcome::Found(Err(error))
                | Outcome::Attributes(Err(error))
                | Outcome::Opened(Err(error))
                | Outcome::OpenedDirectory(Err(error), ..),
            ) => {
                let is_expected = matches!(
                    error,
                    FsError::Stale(_)
                        | FsError::NotFound
                        | FsError::IsADirectory
                        | FsError::Client(_)
                );
                assert!(is_expected, "{about:?}: {error}");
            }
            (about, _) => panic!("{about:?} cannot end so"),
        }
    }

    fn listed(&mut self, handle: HandleNo, offset: u64, entries: &[DirectoryEntry]) {
        let reading = self.directories.get_mut(&handle).unwrap();
        let (path, plus) = (reading.path.clone(), reading.plus);
        let (since, changes) = (reading.since, reading.changes);
        reading.is_seen = true;
        if let Some(last) = entries.last() {
            reading.offset = last.next_offset;
        }
        self.listed.insert(path.clone());
        for entry in entries {
            if matches!(&*entry.name, "." | "..") {
                continue;
            }
            let child = join(&path, &entry.name);
            let is = is(&entry.entry.attributes);
            // A listing is never older than its request.
            let was = self.was(&child, since, changes);
            // The known inode's version may be the newer one: its request was later.
            let is_newer = plus
                && self
                    .inodes
                    .get(&entry.entry.attributes.ino)
                    .is_some_and(|(_, known)| *known == is);
            assert!(
                was.contains(&is) || is_newer,
                "{child} is listed as {is:?}, and was {was:?}"
            );
            if plus {
                self.given(&child, &entry.entry.attributes);
            }
            let reading = self.directories.get_mut(&handle).unwrap();
            let is_new = reading.names.iter().all(|(name, _)| *name != entry.name);
            assert!(is_new, "{child} comes twice");
            reading.names.push((entry.name.clone(), is));
        }
        if entries.is_empty() && offset > 0 {
            self.listed_all(handle);
        }
    }

    /// Checks that every entry that existed all the time was listed.
    fn listed_all(&self, handle: HandleNo) {
        let reading = &self.directories[&handle];
        let names = self.history.iter().flat_map(|(_, paths)| paths.keys());
        let names: BTreeSet<&String> = names.collect();
        for path in names {
            let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
            if parent != reading.path {
                continue;
            }
            let was = self.was(path, reading.since, reading.changes);
            if was.iter().all(|is| *is != Is::Nothing) {
                let name = path.rsplit('/').next().unwrap();
                let is_listed = reading.names.iter().any(|(listed, _)| listed == name);
                assert!(
                    is_listed,
                    "{path} was {was:?} and is not listed: {:?}",
                    reading.names
                );
            }
        }
    }

    /// The kernel forgets all inodes, in any order.
    fn finish(mut self, order: &[usize]) {
        self.in_flight.clear();
        let fs = Arc::clone(&self.mount.fs);
        for handle in self.directories.keys() {
            fs.release_directory(*handle);
        }
        for handle in self.files.drain(..) {
            fs.release(handle);
        }
        for index in order.iter().cycle() {
            let Some(ino) = self.known(*index) else { break };
            // One lookup at a time, so that the counts of several inodes decrease together.
            let left = self.counts.get_mut(&ino).unwrap();
            *left -= 1;
            if *left == 0 {
                self.counts.remove(&ino);
            } else {
                assert!(fs.inode_count() > 0);
            }
            fs.forget(ino, 1);
        }
        assert_eq!(fs.inode_count(), 0);
        assert_eq!(fs.listing_pages_ahead(), 0);
    }
}

fn is(attributes: &Attributes) -> Is {
    match attributes.kind {
        FileKind::Directory => Is::Directory,
        FileKind::File | FileKind::SymbolicLink | FileKind::Pipe | FileKind::Socket => {
            Is::File(attributes.size)
        }
    }
}

fn join(directory: &str, name: &str) -> String {
    match directory {
        "" => name.to_owned(),
        _ => format!("{directory}/{name}"),
    }
}

/// Keys that shadow each other, are neighbours, and mark directories.
const KEYS: [&str; 10] = [
    "a", "a-", "a/a", "a/a/b", "a/b", "a/b!", "b", "b/", "b/a", "c/a/a/a",
];

fn step() -> impl Strategy<Value = Step> {
    let key = || prop::sample::select(&KEYS[..]);
    let name = || prop::sample::select(vec!["a", "a-", "b", "b!", "c"]);
    let index = any::<usize>;
    prop_oneof![
        4 => (key(), 1..9u8).prop_map(|(key, size)| Step::Put(key, size)),
        3 => key().prop_map(Step::Delete),
        8 => (index(), name()).prop_map(|(parent, name)| Step::Lookup(parent, name)),
        3 => index().prop_map(Step::Attributes),
        4 => index().prop_map(Step::Open),
        4 => (index(), name()).prop_map(|(parent, name)| Step::LookAndOpen(parent, name)),
        3 => index().prop_map(Step::OpenDirectory),
        8 => (index(), 1..6usize).prop_map(|(index, room)| Step::Read(index, room)),
        1 => index().prop_map(Step::Rewind),
        20 => index().prop_map(Step::Answer),
        1 => index().prop_map(Step::Fail),
        1 => index().prop_map(Step::Interrupt),
        1 => index().prop_map(Step::Close),
        1 => index().prop_map(Step::CloseDirectory),
        4 => (index(), 1..4u64).prop_map(|(index, count)| Step::Forget(index, count)),
        3 => prop::sample::select(vec![1, 90, 400, 1000, 11_000]).prop_map(Step::Wait),
    ]
}

proptest! {
    // `PROPTEST_CASES=100000` runs more.
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 8 * ProptestConfig::default().cases, ..ProptestConfig::default() })]

    #[test]
    fn answers_were_true_when_they_might(
        keys in prop::sample::subsequence(&KEYS[..], 0..KEYS.len()),
        steps in prop::collection::vec(step(), 1..150),
        order in prop::collection::vec(any::<usize>(), 1..16),
    ) {
        let mut model = Model::new(&keys);
        steps.into_iter().for_each(|step| model.run(step));
        model.finish(&order);
    }
}

#[test]
fn a_lookup_that_joins_an_older_one_finds_what_was_written_between() {
    let mount = Mount::manual(&[]);
    let lookup = || Box::pin(mount.fs.lookup(InodeNo::ROOT, OsStr::new("new")));
    let (mut older, mut younger) = (lookup(), lookup());
    waits(&mut older);
    // S3 has answered; no operation has read the answer yet.
    mount.bucket.deliver_all();
    mount.bucket.put_object("new", "new");
    // The younger operation reads an answer that is too old for it, and asks once more.
    waits(&mut younger);
    mount.bucket.deliver_all();
    assert_eq!(now(younger).unwrap().attributes.size, 3);
    assert!(matches!(now(older), Err(FsError::NotFound) | Ok(_)));
}
