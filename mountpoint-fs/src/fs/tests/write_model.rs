//! Random writing, in the mount and behind its back, against a model of the semantics.
//!
//! What must hold after each step: an object has the bytes of a whole version, as they were when a file was stored or as
//! somebody else made it; what succeeded is stored; what somebody else made meanwhile is replaced only by who asked for
//! that; a failure is final. At the end nothing is left: no name, no inode, no memory, no upload.

use std::collections::BTreeMap;

use mountpoint_client::{ErrorKind, ObjectClient as _};
use proptest::prelude::*;

use super::*;
use crate::config::WriteConfig;
use crate::operation::{AttributeChange, RenameMode, Stop, WriteOptions};

const ROOT: InodeNo = InodeNo::ROOT;

#[derive(Clone, Debug)]
enum Step {
    /// Opens for writing, as `open(2)` does: looks up, creates what is not there.
    Open(usize, How),
    Write(usize, u8),
    /// A write that is not the next bytes.
    Misplaced(usize),
    /// `ftruncate` to nothing of a file that was not changed since it was opened.
    Cut(usize),
    Sync(usize),
    Close(usize, Closer, Others),
    Release(usize),
    Read(usize),
    Unlink(usize),
    Rename(usize, usize),
    Theirs(usize, u8),
    TheirDelete(usize),
    /// The next request of this kind fails.
    Fault(Operation),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Plain,
    Truncate,
    Append,
}

/// A file that is open for writing.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what was done to a file in any order"
)]
struct Open {
    name: &'static str,
    ino: InodeNo,
    handle: HandleNo,
    content: Vec<u8>,
    /// It was opened without `O_TRUNC`, and its first change is to say what becomes of it.
    is_unchanged: bool,
    /// Bytes, or the file itself, that were not stored.
    is_dirty: bool,
    /// What the bucket must hold when it is stored.
    condition: Condition,
    was_written: bool,
    has_failed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    Absent,
    Any,
    Holds(Vec<u8>),
}

struct Model {
    mount: Mount,
    truth: BTreeMap<&'static str, Vec<u8>>,
    open: Vec<Open>,
    lookups: BTreeMap<InodeNo, u64>,
    /// A request may fail that no model foresees.
    has_fault: bool,
    written: u8,
    opened: u32,
}

const NAMES: [&str; 3] = ["a", "b", "c"];

impl Model {
    fn new() -> Self {
        let write = WriteConfig {
            allow_delete: true,
            allow_overwrite: true,
            allow_append: true,
            allow_rename: true,
            ..WriteConfig::default()
        };
        Self {
            mount: Mount::with_write(SimOptions::default(), "", &[], write),
            truth: BTreeMap::new(),
            open: Vec::new(),
            lookups: BTreeMap::new(),
            has_fault: false,
            written: 0,
            opened: 0,
        }
    }

    fn actual(&self) -> BTreeMap<&'static str, Vec<u8>> {
        let content = |name: &'static str| {
            let object = self.mount.bucket.object(name)?;
            Some((name, object.content.to_vec()))
        };
        NAMES.into_iter().filter_map(content).collect()
    }

    /// Nothing but what the model knows has changed.
    fn check(&self, what: &str) {
        assert_eq!(self.actual(), self.truth, "{what}");
    }

    fn lookup(&mut self, name: &str) -> Result<InodeNo, FsError> {
        let entry = self.mount.lookup(ROOT, name)?;
        let ino = entry.attributes.ino;
        *self.lookups.entry(ino).or_default() += 1;
        Ok(ino)
    }

    fn handle_of(&self, index: usize) -> Option<usize> {
        (!self.open.is_empty()).then(|| index % self.open.len())
    }

    /// Whether a handle of `name` is open for writing.
    fn is_open(&self, name: &str) -> bool {
        self.open.iter().any(|open| open.name == name)
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Open(name, how) => self.open(NAMES[name], how),
            Step::Write(index, len) => self.write(index, len),
            Step::Misplaced(index) => self.misplaced(index),
            Step::Cut(index) => self.cut(index),
            Step::Sync(index) => {
                if let Some(index) = self.handle_of(index) {
                    let outcome = now(self.mount.fs.sync(self.open[index].handle));
                    self.stored(index, outcome);
                }
            }
            Step::Close(index, closer, others) => self.close(index, closer, others),
            Step::Release(index) => self.release(index),
            Step::Read(name) => self.read(NAMES[name]),
            Step::Unlink(name) => self.unlink(NAMES[name]),
            Step::Rename(from, to) => self.rename(NAMES[from], NAMES[to]),
            Step::Theirs(name, len) => {
                let content = self.bytes(len);
                self.mount.bucket.put_object(NAMES[name], content.clone());
                self.truth.insert(NAMES[name], content);
            }
            Step::TheirDelete(name) => {
                self.mount.bucket.remove(NAMES[name]);
                self.truth.remove(NAMES[name]);
            }
            Step::Fault(operation) => {
                self.mount.bucket.fail_next(operation, 1, ErrorKind::Denied);
                self.has_fault = true;
            }
        }
    }

    /// Bytes that no other step has.
    fn bytes(&mut self, len: u8) -> Vec<u8> {
        self.written = self.written.wrapping_add(1);
        vec![self.written; usize::from(len)]
    }

    fn open(&mut self, name: &'static str, how: How) {
        // Each by another process: one process may open what is empty twice.
        self.opened += 1;
        let opener = Opener {
            process: self.opened,
            started: 1,
        };
        let options = WriteOptions {
            truncate: how == How::Truncate,
            append: how == How::Append,
            ..WriteOptions::default()
        };
        let (ino, opened, content, condition) = match self.lookup(name) {
            Err(FsError::NotFound) => {
                assert!(!self.truth.contains_key(name), "{name}");
                let created = self
                    .mount
                    .fs
                    .create(ROOT, OsStr::new(name), options, opener);
                let (entry, opened) = created.unwrap();
                let ino = entry.attributes.ino;
                *self.lookups.entry(ino).or_default() += 1;
                (ino, opened, Vec::new(), Condition::Absent)
            }
            Err(error) => return assert!(self.has_fault, "{name}: {error}"),
            Ok(ino) => {
                let known = self.truth.get(name).cloned();
                match now(self.mount.fs.open_for_writing(ino, options, opener)) {
                    Ok(opened) => {
                        // A writer that was closed has stored its file first.
                        self.others_stored(name);
                        let there = self.truth.get(name).cloned().or(known);
                        let there = there.unwrap_or_default();
                        match how {
                            How::Truncate => (ino, opened, Vec::new(), Condition::Any),
                            How::Append => (ino, opened, there.clone(), Condition::Holds(there)),
                            How::Plain if self.is_unchanged(opened.handle) => {
                                (ino, opened, there.clone(), Condition::Holds(there))
                            }
                            // Of an empty file; of what it has become meanwhile nothing is lost.
                            How::Plain => (ino, opened, Vec::new(), Condition::Holds(Vec::new())),
                        }
                    }
                    Err(_) => {
                        self.others_stored(name);
                        return self.check("a refused open");
                    }
                }
            }
        };
        let is_dirty = matches!(condition, Condition::Absent | Condition::Any);
        self.open.push(Open {
            name,
            ino,
            is_unchanged: self.is_unchanged(opened.handle),
            handle: opened.handle,
            content,
            is_dirty,
            condition,
            was_written: false,
            has_failed: false,
        });
        self.check("an open");
    }

    /// Files that were closed may have been stored by what somebody else did with their names, or may have failed.
    fn others_stored(&mut self, name: &str) {
        for index in 0..self.open.len() {
            let open = &mut self.open[index];
            if open.name != name || !open.is_dirty {
                continue;
            }
            let file = self.mount.fs.files.get(open.handle).unwrap();
            let writer = &file.writing().unwrap().writer;
            if writer.failure().is_some() {
                open.has_failed = true;
            } else if !now(writer.is_open()) {
                self.stored(index, Ok(()));
            }
        }
    }

    fn would_store(&self, index: usize) -> bool {
        let open = &self.open[index];
        let there = self.truth.get(open.name);
        match &open.condition {
            Condition::Absent => there.is_none(),
            Condition::Any => true,
            Condition::Holds(content) => there == Some(content),
        }
    }

    fn is_unchanged(&self, handle: HandleNo) -> bool {
        self.mount
            .fs
            .files
            .get(handle)
            .unwrap()
            .unchanged()
            .is_some()
    }

    /// The first write of a file that was opened without `O_TRUNC`: it goes behind what is there, or changes nothing.
    fn write_first(&mut self, index: usize, offset: u64, data: &[u8]) {
        let open = &self.open[index];
        let (name, handle) = (open.name, open.handle);
        let is_alone = self.open.iter().filter(|open| open.name == name).count() == 1;
        let is_end = offset == open.content.len() as u64 && offset > 0;
        let is_as_opened = self.truth.get(name) == Some(&open.content);
        // What others have just written is known a second later: until then its end is another one.
        let is_known_end =
            || now(self.mount.fs.attributes(open.ino)).is_ok_and(|it| it.size == offset);
        let must_succeed = is_alone
            && is_end
            && is_as_opened
            && !open.has_failed
            && !self.has_fault
            && is_known_end();
        let written = now(self.mount.fs.write(handle, offset, data));
        self.others_stored(name);
        let base = match offset {
            0 => Vec::new(),
            _ => self.truth.get(name).cloned().unwrap_or_default(),
        };
        let is_unchanged = self.is_unchanged(handle);
        let open = &mut self.open[index];
        (open.was_written, open.is_unchanged) = (true, is_unchanged);
        match written {
            Ok(()) => {
                assert!(!open.has_failed, "a failure is final");
                assert_eq!(base.len() as u64, offset, "it is behind what is there");
                open.condition = Condition::Holds(base.clone());
                open.content = [&base[..], data].concat();
                open.is_dirty = true;
            }
            Err(error) => {
                assert!(!must_succeed, "{open:?}: {error}");
                open.has_failed = true;
            }
        }
        self.check("a first write");
    }

    fn cut(&mut self, index: usize) {
        let Some(index) = self.handle_of(index) else {
            return;
        };
        let open = &self.open[index];
        if !open.is_unchanged {
            return;
        }
        let (name, handle) = (open.name, open.handle);
        let change = AttributeChange {
            size: Some(0),
            handle: Some(handle),
            ..AttributeChange::default()
        };
        let outcome = now(self.mount.fs.set_attributes(open.ino, change));
        self.others_stored(name);
        let is_unchanged = self.is_unchanged(handle);
        let open = &mut self.open[index];
        // Not if it was empty.
        if outcome.is_ok() && !is_unchanged {
            assert!(!open.has_failed, "a failure is final");
            open.is_unchanged = false;
            (open.content, open.condition) = (Vec::new(), Condition::Any);
            open.is_dirty = true;
        }
        self.check("a cut");
    }

    fn write(&mut self, index: usize, len: u8) {
        let Some(index) = self.handle_of(index) else {
            return;
        };
        let data = self.bytes(len.max(1));
        if self.open[index].is_unchanged {
            let offset = self.open[index].content.len() as u64;
            return self.write_first(index, offset, &data);
        }
        let open = &mut self.open[index];
        let offset = open.content.len() as u64;
        let written = self.mount.fs.write_now(open.handle, offset, &data);
        open.was_written = true;
        match written.expect("there is memory") {
            Ok(()) => {
                assert!(!open.has_failed, "a failure is final");
                open.content.extend_from_slice(&data);
                open.is_dirty = true;
            }
            // It failed, or somebody reads what was stored of it.
            Err(error) => {
                let is_read = matches!(error, FsError::NotPermitted(_));
                assert!(open.has_failed || is_read, "{error}");
            }
        }
        self.check("a write");
    }

    fn misplaced(&mut self, index: usize) {
        let Some(index) = self.handle_of(index) else {
            return;
        };
        let offset = self.open[index].content.len() as u64 + 1;
        if self.open[index].is_unchanged {
            return self.write_first(index, offset, b"x");
        }
        let open = &mut self.open[index];
        let written = self.mount.fs.write_now(open.handle, offset, b"x");
        assert!(written.expect("it does not wait").is_err());
        (open.was_written, open.has_failed) = (true, true);
        self.check("a write in the wrong place");
    }

    /// The file at `index` was to be stored, with this outcome.
    fn stored(&mut self, index: usize, outcome: Result<(), FsError>) {
        let would_store = self.would_store(index);
        let open = &mut self.open[index];
        match outcome {
            Ok(()) => {
                assert!(!open.has_failed, "a failure is final");
                if open.is_dirty {
                    assert!(would_store, "{open:?} has replaced what is not its own");
                    self.truth.insert(open.name, open.content.clone());
                    open.condition = Condition::Holds(open.content.clone());
                    open.is_dirty = false;
                }
            }
            Err(error) => {
                let is_refused = open.is_dirty && !would_store;
                assert!(open.has_failed || is_refused || self.has_fault, "{error}");
                open.has_failed = true;
            }
        }
        self.check("a store");
    }

    fn close(&mut self, index: usize, closer: Closer, others: Others) {
        let Some(index) = self.handle_of(index) else {
            return;
        };
        let before = self.actual();
        let open = &self.open[index];
        let closing = Closes(closer, others);
        let outcome = now(self.mount.fs.flush(open.handle, &closing));
        let is_untouched = !open.was_written && (closer == Closer::Child || others == Others::Held);
        let may_not_store = closer == Closer::Child || is_untouched;
        if may_not_store && outcome.is_ok() && self.actual() == before {
            return self.check("a close that stores nothing");
        }
        assert!(!is_untouched || open.has_failed, "{open:?} was stored");
        self.stored(index, outcome);
    }

    fn release(&mut self, index: usize) {
        let Some(index) = self.handle_of(index) else {
            return;
        };
        let open = &self.open[index];
        let must_store = open.is_dirty && !open.has_failed;
        self.mount.fs.release(open.handle);
        if must_store {
            let is_stored = self.actual().get(open.name) == Some(&open.content);
            if is_stored && self.would_store(index) {
                self.stored(index, Ok(()));
            } else {
                let may_fail = self.has_fault || !self.would_store(index);
                assert!(may_fail, "{open:?} is lost");
            }
        }
        self.open.remove(index);
        self.check("a release");
    }

    fn read(&mut self, name: &'static str) {
        for attempt in 0..2 {
            let ino = match self.lookup(name) {
                Ok(ino) => ino,
                Err(FsError::NotFound) => {
                    return assert!(!self.truth.contains_key(name), "{name} is there");
                }
                Err(error) => return assert!(self.has_fault, "{name}: {error}"),
            };
            let opened = now(self.mount.fs.open(ino, READ));
            self.others_stored(name);
            match opened {
                Ok(opened) => {
                    let read = now(self.mount.fs.read(opened.handle, 0, 4096, false));
                    self.mount.fs.release(opened.handle);
                    let Ok(data) = read else {
                        return assert!(self.has_fault, "{name}");
                    };
                    assert_eq!(Some(&data.to_vec()), self.truth.get(name), "{name}");
                    return;
                }
                Err(FsError::Stale(_)) if attempt == 0 => {}
                Err(error) => {
                    let is_gone = !self.truth.contains_key(name);
                    let may_fail = self.is_open(name) || self.has_fault || is_gone;
                    return assert!(may_fail, "{name}: {error}");
                }
            }
        }
    }

    fn unlink(&mut self, name: &'static str) {
        self.lookup(name).ok();
        let outcome = now(self.mount.fs.unlink(ROOT, OsStr::new(name)));
        if outcome.is_err() {
            self.others_stored(name);
        } else {
            self.truth.remove(name);
            // Whoever still writes it does not bring it back.
            for open in self.open.extract_if(.., |open| open.name == name) {
                self.mount.fs.release(open.handle);
            }
        }
        self.check("an unlink");
    }

    fn rename(&mut self, from: &'static str, to: &'static str) {
        for name in [from, to] {
            self.lookup(name).ok();
        }
        // Whoever writes has to be done: what becomes of open writers is another test's.
        if from == to || self.is_open(from) || self.is_open(to) {
            return;
        }
        let (old, new) = ((ROOT, OsStr::new(from)), (ROOT, OsStr::new(to)));
        let outcome = now(self
            .mount
            .fs
            .rename(old, new, RenameMode::Replace, &Stop::never()));
        match outcome {
            Ok(()) => {
                let content = self.truth.remove(from).expect("there was one");
                self.truth.insert(to, content);
            }
            Err(error) => {
                let is_there = self.truth.contains_key(from);
                assert!(self.has_fault || !is_there, "{from} to {to}: {error}");
                // A copy whose original could not be deleted stays.
                if let Some(content) = self.truth.get(from).cloned()
                    && self.actual().get(to) == Some(&content)
                {
                    self.truth.insert(to, content);
                }
            }
        }
        self.check("a rename");
    }

    fn finish(mut self) {
        self.mount.bucket.clear_faults();
        while !self.open.is_empty() {
            self.release(0);
        }
        for name in NAMES {
            self.read(name);
        }
        for (ino, count) in std::mem::take(&mut self.lookups) {
            self.mount.fs.forget(ino, count);
        }
        assert_eq!(self.mount.fs.inode_count(), 0);
        assert_eq!(self.mount.fs.writing.bytes_held(), 0);
        assert!(now(self.mount.bucket.list_uploads("")).unwrap().is_empty());
    }
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    let handle = any::<usize>;
    let how = prop::sample::select(vec![How::Plain, How::Truncate, How::Append]);
    let closer = prop::sample::select(vec![Closer::Opener, Closer::Child, Closer::Heir]);
    let others = prop::sample::select(vec![Others::Held, Others::None, Others::Unknown]);
    let faults = [
        Operation::PutObject,
        Operation::HeadObject,
        Operation::GetObject,
        Operation::CopyObject,
        Operation::DeleteObject,
    ];
    prop_oneof![
        5 => (name(), how).prop_map(|(name, how)| Step::Open(name, how)),
        6 => (handle(), 0..9u8).prop_map(|(index, len)| Step::Write(index, len)),
        1 => handle().prop_map(Step::Misplaced),
        2 => handle().prop_map(Step::Cut),
        2 => handle().prop_map(Step::Sync),
        4 => (handle(), closer, others).prop_map(|(index, closer, others)| Step::Close(index, closer, others)),
        4 => handle().prop_map(Step::Release),
        3 => name().prop_map(Step::Read),
        1 => name().prop_map(Step::Unlink),
        1 => (name(), name()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => (name(), 0..9u8).prop_map(|(name, len)| Step::Theirs(name, len)),
        1 => name().prop_map(Step::TheirDelete),
        1 => prop::sample::select(faults.to_vec()).prop_map(Step::Fault),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn what_is_written_is_stored_whole_or_not_at_all(steps in prop::collection::vec(step(), 1..60)) {
        let mut model = Model::new();
        steps.iter().for_each(|step| model.run(step));
        model.finish();
    }
}
