//! Random writes, in the mount and by other clients, against a model of the semantics.
//!
//! After each step an object must have the bytes of a whole version, as a file stored them or
//! another client wrote them; successful files are stored; another client's new object is replaced
//! only by an open that asks for that; a failure is final. At the end nothing may be left: no name,
//! no inode, no memory, no upload.

use std::collections::BTreeMap;
use std::fmt;

use mountpoint_client::testing::sim::{Fault, FaultRule, When};
use mountpoint_client::{ErrorKind, ObjectClient as _};
use proptest::prelude::*;

use super::*;
use crate::config::WriteConfig;
use crate::config::limits::{UPLOAD_PART_MIN, WRITE_SIZE_MAX};
use crate::operation::{RenameMode, Stop, WriteOptions};

const ROOT: InodeNo = InodeNo::ROOT;

#[derive(Clone, Debug)]
enum Step {
    /// Opens for writing, as `open(2)` does: looks up, and creates a missing file.
    Open(usize, How),
    Write(usize, u8),
    /// Writes of more than a part, each as large as the kernel sends them.
    WriteMuch(usize),
    /// A write at an earlier offset.
    Misplaced(usize),
    /// A write that leaves a gap of one byte.
    Gap(usize),
    Sync(usize),
    Close(usize, Closer, OtherDescriptors),
    Release(usize),
    Read(usize),
    Unlink(usize),
    Rename(usize, usize),
    Theirs(usize, u8),
    TheirDelete(usize),
    /// The fault of the next request of this kind.
    Trouble(Operation, Trouble),
}

/// A fault of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Denied,
    /// 503 for as long as the client tries.
    Busy,
    /// 409 for as long as the client tries.
    Contested,
    /// The request is done, and its answer is lost: it is sent again.
    Lost,
    /// The request is done, and its answer is lost to a 409.
    LostToConflict,
    /// The request is done, and every answer is 503.
    DoneAndBusy,
    /// 409, and the upload is gone.
    UploadEnds,
}

impl Trouble {
    fn fault(self) -> Fault {
        match self {
            Self::Denied => Fault::Fail(ErrorKind::Denied),
            Self::Busy => Fault::Fail(ErrorKind::Throttled),
            Self::Contested => Fault::Fail(ErrorKind::Conflict),
            Self::Lost => Fault::Repeat,
            Self::LostToConflict => Fault::Conflict,
            Self::DoneAndBusy => Fault::FailAfterwards(ErrorKind::Throttled),
            Self::UploadEnds => Fault::ConflictEndsUpload,
        }
    }

    /// Errors that the application may get. A lost answer causes none, unless the bucket cannot be
    /// asked.
    fn told(self) -> &'static [ErrorKind] {
        match self {
            Self::Denied => &[ErrorKind::Denied],
            Self::Busy => &[ErrorKind::Throttled],
            Self::Contested => &[ErrorKind::Conflict],
            Self::Lost | Self::LostToConflict => &[ErrorKind::Transient],
            Self::DoneAndBusy => &[ErrorKind::Throttled, ErrorKind::Transient],
            Self::UploadEnds => &[ErrorKind::NoSuchUpload, ErrorKind::Transient],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Plain,
    Truncate,
    Append,
    /// `O_EXCL`: the kernel opens no existing file.
    Exclusive,
}

impl How {
    fn options(self) -> WriteOptions {
        WriteOptions {
            truncate: self == Self::Truncate,
            append: self == Self::Append,
            exclusive: self == Self::Exclusive,
            ..WriteOptions::default()
        }
    }
}

/// A file that is open for writing.
#[expect(
    clippy::struct_excessive_bools,
    reason = "what was done to a file in any order"
)]
struct Open {
    name: &'static str,
    ino: InodeNo,
    handle: HandleNo,
    how: How,
    content: Vec<u8>,
    /// The file is another host's object: every later write must fail.
    is_adopted: bool,
    /// Another handle has stored this inode since this one began to write or stored it: every later
    /// write must fail.
    is_overtaken: bool,
    /// Bytes, or the file itself, that are not stored.
    is_dirty: bool,
    /// The required state of the bucket when it is stored.
    condition: Condition,
    /// The file extends the object.
    is_appending: bool,
    was_written: bool,
    has_failed: bool,
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let holds = match &self.condition {
            Condition::Holds(content) => Some(shown(content)),
            Condition::Absent | Condition::Any => None,
        };
        f.debug_struct("Open")
            .field("name", &self.name)
            .field("how", &self.how)
            .field("content", &shown(&self.content))
            .field("is_adopted", &self.is_adopted)
            .field("is_overtaken", &self.is_overtaken)
            .field("holds", &holds)
            .field("is_dirty", &self.is_dirty)
            .field("is_appending", &self.is_appending)
            .field("was_written", &self.was_written)
            .field("has_failed", &self.has_failed)
            .finish_non_exhaustive()
    }
}

/// The number of bytes, and the first ones.
fn shown(content: &[u8]) -> (usize, &[u8]) {
    (content.len(), &content[..content.len().min(8)])
}

#[derive(Clone, PartialEq, Eq)]
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
    /// Errors that the application may get of requests with faults, past or future.
    told: Vec<ErrorKind>,
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
            part_size: Some(UPLOAD_PART_MIN),
            ..WriteConfig::default()
        };
        Self {
            mount: Mount::with_write(SimOptions::default(), "", &[], write),
            truth: BTreeMap::new(),
            open: Vec::new(),
            lookups: BTreeMap::new(),
            told: Vec::new(),
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

    /// Checks that the bucket has changed only as the model knows.
    fn check(&self, what: &str) {
        let actual = self.actual();
        for name in NAMES {
            let (actual, truth) = (actual.get(name), self.truth.get(name));
            let differ = (actual.map(|it| shown(it)), truth.map(|it| shown(it)));
            assert!(actual == truth, "{what} of {name}: {differ:?}");
        }
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
            Step::Write(index, len) => {
                let data = self.bytes(len.max(1));
                self.write(index, &data);
            }
            Step::WriteMuch(index) => {
                for _ in 0..=UPLOAD_PART_MIN / WRITE_SIZE_MAX as u64 {
                    let data = self.fresh(WRITE_SIZE_MAX);
                    self.write(index, &data);
                }
            }
            Step::Misplaced(index) => self.misplaced(index),
            Step::Gap(index) => self.gap(index),
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
            Step::Trouble(operation, trouble) => {
                self.mount.bucket.add_fault(FaultRule {
                    operation: Some(operation),
                    when: When::Next(1),
                    fault: trouble.fault(),
                });
                self.told.extend_from_slice(trouble.told());
            }
        }
    }

    /// Whether the application may get this error of a request with a fault.
    fn is_told(&self, error: &FsError) -> bool {
        match error {
            FsError::Denied(_) => self.told.contains(&ErrorKind::Denied),
            FsError::Client(error) => self.told.contains(&error.kind),
            _ => false,
        }
    }

    /// Records that the file at `index` has failed.
    ///
    /// The bucket may hold it nevertheless, if its outcome is unknown.
    fn may_be_stored(&mut self, index: usize) {
        let would_store = self.would_store(index);
        let open = &self.open[index];
        let is_stored = self.actual().get(open.name) == Some(&open.content);
        if open.is_dirty && would_store && is_stored && self.told.contains(&ErrorKind::Transient) {
            self.truth.insert(open.name, open.content.clone());
        }
    }

    /// Bytes that no other step has.
    fn bytes(&mut self, len: u8) -> Vec<u8> {
        self.fresh(usize::from(len))
    }

    fn fresh(&mut self, len: usize) -> Vec<u8> {
        self.written = self.written.wrapping_add(1);
        vec![self.written; len]
    }

    fn open(&mut self, name: &'static str, how: How) {
        // Each by another process: one process may open an empty file twice.
        self.opened += 1;
        let opener = Opener {
            process: self.opened,
            started: 1,
        };
        let options = how.options();
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
            Err(error) => return assert!(self.is_told(&error), "{name}: {error}"),
            Ok(_) if how == How::Exclusive => return,
            Ok(ino) => {
                let known = self.truth.get(name).cloned();
                match now(self.mount.fs.open_for_writing(ino, options, opener)) {
                    Ok(opened) => {
                        // A closed writer has stored its file first.
                        self.others_stored(name);
                        if self.is_in_place(opened.handle) {
                            self.mount.fs.release(opened.handle);
                            return self.check("an open that changes nothing");
                        }
                        let there = self.truth.get(name).cloned().or(known);
                        let there = there.unwrap_or_default();
                        match how {
                            How::Truncate => (ino, opened, Vec::new(), Condition::Any),
                            How::Append => (ino, opened, there.clone(), Condition::Holds(there)),
                            // The file is empty; bytes that it has got meanwhile are not lost.
                            How::Plain | How::Exclusive => {
                                (ino, opened, Vec::new(), Condition::Holds(Vec::new()))
                            }
                        }
                    }
                    Err(error) => {
                        let is_refused = matches!(
                            error,
                            FsError::NotPermitted(_) | FsError::Stale(_) | FsError::NotFound
                        );
                        assert!(is_refused || self.is_told(&error), "{name}: {error}");
                        self.others_stored(name);
                        return self.check("a refused open");
                    }
                }
            }
        };
        let is_dirty = matches!(condition, Condition::Absent | Condition::Any);
        let is_appending = how == How::Append && condition != Condition::Absent;
        self.open.push(Open {
            is_appending,
            name,
            ino,
            handle: opened.handle,
            how,
            content,
            is_adopted: false,
            is_overtaken: false,
            is_dirty,
            condition,
            was_written: false,
            has_failed: false,
        });
        self.check("an open");
    }

    /// Records that closed files may have been stored or may have failed. Other operations on their
    /// names store them.
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
                self.may_be_stored(index);
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

    /// Whether the file is written in place: other tests cover that.
    fn is_in_place(&self, handle: HandleNo) -> bool {
        self.mount.fs.files.get(handle).unwrap().staged().is_some()
    }

    /// Whether another host's object stands for the file at `index`, which has no bytes.
    fn adopts(&self, index: usize) -> bool {
        let open = &self.open[index];
        let is_blank = open.content.is_empty() && open.condition == Condition::Absent;
        let there = self.truth.get(open.name);
        let may_be = match open.how {
            How::Exclusive => false,
            How::Truncate => there.is_some_and(Vec::is_empty),
            How::Plain | How::Append => there.is_some(),
        };
        open.is_dirty && is_blank && may_be
    }

    /// Whether the file at `index` continues by a copy of an object that is gone. A write may
    /// report that.
    fn copies_what_is_gone(&self, index: usize) -> bool {
        let is_copied = match &self.open[index].condition {
            Condition::Holds(content) => content.len() as u64 >= UPLOAD_PART_MIN,
            Condition::Absent | Condition::Any => false,
        };
        is_copied && !self.would_store(index)
    }

    fn write(&mut self, index: usize, data: &[u8]) {
        let Some(index) = self.handle_of(index) else {
            return;
        };
        let open = &self.open[index];
        let offset = open.content.len() as u64;
        let written = now(self.mount.fs.write(open.handle, offset, data));
        let is_told = written.as_ref().is_err_and(|error| self.is_told(error));
        let is_copy_gone = self.copies_what_is_gone(index);
        let open = &mut self.open[index];
        open.was_written = true;
        match written {
            Ok(()) => {
                assert!(!open.has_failed, "a failure is final");
                assert!(!open.is_adopted, "it is not its own");
                assert!(!open.is_overtaken, "another handle has stored it");
                open.content.extend_from_slice(data);
                open.is_dirty = true;
            }
            Err(_) if is_told => open.has_failed = true,
            // The file failed, another one writes it, or another one has stored it since.
            Err(error) => {
                let is_read = matches!(error, FsError::NotPermitted(_));
                let is_gone = open.is_overtaken || open.is_adopted || is_copy_gone;
                let is_replaced = matches!(error, FsError::Stale(_)) && is_gone;
                assert!(open.has_failed || is_read || is_replaced, "{error}");
                open.has_failed |= is_replaced;
            }
        }
        self.check("a write");
    }

    fn misplaced(&mut self, index: usize) {
        let Some(index) = self.handle_of(index) else {
            return;
        };
        let len = self.open[index].content.len() as u64;
        let Some(offset) = len.checked_sub(1) else {
            return;
        };
        let open = &mut self.open[index];
        assert!(now(self.mount.fs.write(open.handle, offset, b"x")).is_err());
        (open.was_written, open.has_failed) = (true, true);
        self.check("a write in the wrong place");
    }

    fn gap(&mut self, index: usize) {
        let Some(index) = self.handle_of(index) else {
            return;
        };
        let open = &self.open[index];
        let offset = open.content.len() as u64 + 1;
        let written = now(self.mount.fs.write(open.handle, offset, b"x"));
        let is_told = written.as_ref().is_err_and(|error| self.is_told(error));
        let is_copy_gone = self.copies_what_is_gone(index);
        let open = &mut self.open[index];
        open.was_written = true;
        match written {
            Ok(()) => {
                let may_go_on = !open.has_failed && !open.is_appending && !open.is_adopted;
                assert!(may_go_on, "{open:?}");
                open.content.extend_from_slice(b"\0x");
                open.is_dirty = true;
            }
            Err(_) if is_told => open.has_failed = true,
            Err(error) => {
                let is_read = matches!(error, FsError::NotPermitted(_));
                let is_gone = open.is_overtaken || open.is_adopted || is_copy_gone;
                let is_replaced = matches!(error, FsError::Stale(_)) && is_gone;
                let is_expected = open.has_failed || open.is_appending || is_read || is_replaced;
                assert!(is_expected, "{open:?}: {error}");
                open.has_failed |= open.is_appending || is_replaced;
            }
        }
        self.check("a write behind a gap");
    }

    /// Records the outcome of storing the file at `index`.
    fn stored(&mut self, index: usize, outcome: Result<(), FsError>) {
        let would_store = self.would_store(index);
        let adopts = self.adopts(index);
        let is_told = outcome.as_ref().is_err_and(|error| self.is_told(error));
        let open = &mut self.open[index];
        match outcome {
            Ok(()) => {
                assert!(!open.has_failed, "a failure is final");
                if adopts {
                    (open.is_adopted, open.is_dirty) = (true, false);
                } else if open.is_dirty {
                    // In doubt about a request, the writer of equal bytes cannot be known.
                    let is_same = self.truth.get(open.name) == Some(&open.content);
                    let is_own = would_store || is_same && !self.told.is_empty();
                    assert!(is_own, "{open:?} has replaced what is not its own");
                    self.truth.insert(open.name, open.content.clone());
                    open.condition = Condition::Holds(open.content.clone());
                    open.is_dirty = false;
                    let (ino, handle) = (open.ino, open.handle);
                    for other in self.open.iter_mut().filter(|it| it.ino == ino) {
                        other.is_overtaken = other.handle != handle;
                    }
                }
            }
            Err(error) => {
                let is_refusal = matches!(error, FsError::Exists | FsError::Stale(_));
                let may_refuse = !would_store && (!adopts || !self.told.is_empty());
                let is_refused = open.is_dirty && may_refuse && is_refusal;
                let is_expected = open.has_failed || is_refused || is_told;
                assert!(is_expected, "{} {would_store}: {error}", open.name);
                open.has_failed = true;
                self.may_be_stored(index);
            }
        }
        self.check("a store");
    }

    fn close(&mut self, index: usize, closer: Closer, others: OtherDescriptors) {
        let Some(index) = self.handle_of(index) else {
            return;
        };
        let before = self.actual();
        let open = &self.open[index];
        let closing = Closes(closer, others);
        let outcome = now(self.mount.fs.flush(open.handle, &closing));
        let is_untouched =
            !open.was_written && (closer == Closer::Child || others == OtherDescriptors::Held);
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
                let may_fail = !self.told.is_empty() || !self.would_store(index);
                assert!(may_fail, "{} is lost", open.name);
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
                Err(error) => return assert!(self.is_told(&error), "{name}: {error}"),
            };
            let opened = now(self.mount.fs.open(ino, READ));
            self.others_stored(name);
            match opened {
                Ok(opened) => {
                    let read = now(self.mount.fs.read(opened.handle, 0, 4096, false));
                    self.mount.fs.release(opened.handle);
                    let data = match read {
                        Ok(data) => data.to_vec(),
                        Err(error) => return assert!(self.is_told(&error), "{name}: {error}"),
                    };
                    let truth = self.truth.get(name).expect(name);
                    let expected = &truth[..truth.len().min(4096)];
                    assert!(
                        data == expected,
                        "{name}: {:?}",
                        (shown(&data), shown(truth))
                    );
                    return;
                }
                Err(FsError::Stale(_)) if attempt == 0 => {}
                Err(error) => {
                    let is_gone = !self.truth.contains_key(name);
                    let may_fail = self.is_open(name) || self.is_told(&error) || is_gone;
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
            // Its other writers do not bring the file back.
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
        // No writer may be open: another test covers open writers.
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
                let is_expected = self.is_told(&error) || !is_there;
                assert!(is_expected, "{from} to {to}: {error}");
                // A copy stays if its source could not be deleted.
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
    let how = prop::sample::select(vec![How::Plain, How::Truncate, How::Append, How::Exclusive]);
    let closer = prop::sample::select(vec![Closer::Opener, Closer::Child, Closer::Heir]);
    let others = other_descriptors();
    use Trouble::*;
    let any_of = prop::sample::select::<Trouble>;
    let all = [
        Denied,
        Busy,
        Contested,
        Lost,
        LostToConflict,
        DoneAndBusy,
        UploadEnds,
    ];
    let troubles = prop_oneof![
        // An empty upload whose creation was not answered would stay.
        prop::sample::select(vec![
            Operation::HeadObject,
            Operation::GetObject,
            Operation::CreateMultipartUpload,
        ])
        .prop_flat_map(move |operation| (Just(operation), any_of(vec![Denied, Busy]))),
        (
            Just(Operation::CompleteMultipartUpload),
            any_of(all.to_vec())
        ),
        (Just(Operation::PutObject), any_of(all[..6].to_vec())),
        (Just(Operation::CopyObject), any_of(all[..6].to_vec())),
        (Just(Operation::DeleteObject), any_of(all[..4].to_vec())),
        (
            Just(Operation::UploadPartCopy),
            any_of(vec![Denied, Busy, Lost])
        ),
        (
            Just(Operation::UploadPart),
            any_of(vec![Denied, Busy, Lost])
        ),
    ];
    prop_oneof![
        5 => (name(), how).prop_map(|(name, how)| Step::Open(name, how)),
        6 => (handle(), 0..9u8).prop_map(|(index, len)| Step::Write(index, len)),
        1 => handle().prop_map(Step::Misplaced),
        1 => handle().prop_map(Step::Gap),
        2 => handle().prop_map(Step::Sync),
        4 => (handle(), closer, others).prop_map(|(index, closer, others)| Step::Close(index, closer, others)),
        4 => handle().prop_map(Step::Release),
        3 => name().prop_map(Step::Read),
        1 => name().prop_map(Step::Unlink),
        1 => (name(), name()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => (name(), 0..9u8).prop_map(|(name, len)| Step::Theirs(name, len)),
        1 => name().prop_map(Step::TheirDelete),
        2 => troubles.prop_map(|(operation, trouble)| Step::Trouble(operation, trouble)),
    ]
}

/// Steps with files of several parts, which the server copies when they are extended.
fn large_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => step(),
        1 => any::<usize>().prop_map(Step::WriteMuch),
    ]
}

fn run(steps: &[Step]) {
    let mut model = Model::new();
    steps.iter().for_each(|step| model.run(step));
    model.finish();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn what_is_written_is_stored_whole_or_not_at_all(steps in prop::collection::vec(step(), 1..60)) {
        run(&steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(20) })]

    #[test]
    fn what_is_written_in_parts_is_stored_whole_or_not_at_all(
        steps in prop::collection::vec(large_step(), 1..60)
    ) {
        run(&steps);
    }
}
