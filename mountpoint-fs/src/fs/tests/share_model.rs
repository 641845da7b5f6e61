//! Two mounts of one bucket that write, append, copy, rename, cut and read at random, while requests fail, answers are lost
//! and somebody else changes the objects.
//!
//! What must hold after each step: an object changes only as the step allows, to all that some file has taken (or, where
//! parts are appended, to a longer beginning of it), and never over what its writer did not mean to replace; what was said
//! to be stored is stored; a failure is final; who reads sees one version, the newest at its open, also in the pages that
//! the kernel was told to keep. `PROPTEST_CASES` says how many runs there are.

use std::collections::BTreeMap;

use mountpoint_client::sim::{Fault, FaultRule, When};
use mountpoint_client::{ErrorKind, ObjectClient as _};
use proptest::prelude::*;

use super::*;
use crate::operation::{AttributeChange, Opened, RenameMode, Stop, TimeChange, WriteOptions};

const ROOT: InodeNo = InodeNo::ROOT;
const NAMES: [&str; 3] = ["a", "b", "c"];
/// A part of an upload, and more: the rest is behind it.
const LARGE: usize = (5 << 20) + 3;
const PIECE: usize = 1 << 20;

#[derive(Clone, Debug)]
enum Step {
    /// By a process on this mount, as `open(2)` does: looked up, and made if it is not there.
    Open(usize, usize, How),
    Write(usize, Len),
    Misplaced(usize),
    Cut(usize),
    Sync(usize),
    Close(usize, Closer, Others),
    Release(usize),
    Read(usize, usize),
    /// Opens for reading, and stays open.
    Hold(usize, usize),
    ReadHeld(usize),
    Drop(usize),
    /// `copy_file_range` from a file that is open for reading.
    Copy(usize, usize),
    Touch(usize, usize),
    Truncate(usize, usize, usize),
    Unlink(usize, usize),
    /// Of names that are looked up before, or that the kernel has still.
    Rename(usize, usize, usize, bool),
    Theirs(usize, Len),
    TheirDelete(usize),
    Fault(Operation, Fault),
    Later(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Plain,
    Truncate,
    Append,
    /// `O_RDWR`.
    Both,
}

#[derive(Clone, Copy, Debug)]
enum Len {
    Small(usize),
    Large,
}

/// A file that is open for writing.
#[derive(Debug)]
struct Open {
    mount: usize,
    name: &'static str,
    ino: InodeNo,
    handle: HandleNo,
    /// All that it has taken, with what it goes on behind.
    content: Vec<u8>,
    /// What its object may replace.
    replaces: Replaces,
    is_unchanged: bool,
    /// There is something to store.
    is_dirty: bool,
    was_written: bool,
    has_failed: bool,
    /// It was opened or begun to append.
    is_behind: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Replaces {
    Nothing,
    Anything,
    Content(Vec<u8>),
}

/// A file that is open for reading.
#[derive(Debug)]
struct Held {
    mount: usize,
    ino: InodeNo,
    opened: Opened,
    content: Vec<u8>,
    /// Its file was cut through its mount: it has no more bytes than that.
    was_cut: bool,
}

struct Model {
    mounts: [Mount; 2],
    /// Whether parts are appended, and to new files as well.
    appends: bool,
    grows: bool,
    truth: BTreeMap<&'static str, Vec<u8>>,
    open: Vec<Open>,
    held: Vec<Held>,
    /// What the kernel has of each inode.
    pages: BTreeMap<(usize, InodeNo), Vec<u8>>,
    lookups: BTreeMap<(usize, InodeNo), u64>,
    has_fault: bool,
    /// An upload may be left: its abort failed, or the answer to its beginning was lost.
    may_leave: bool,
    written: u8,
    opened: u32,
    /// The file that the step is about: others may have taken the same bytes, if these are none.
    acting: Option<(usize, HandleNo)>,
}

impl Model {
    fn new(directory_bucket: bool, incremental: bool) -> Self {
        let write = WriteConfig {
            allow_delete: true,
            allow_overwrite: true,
            allow_append: true,
            allow_rename: true,
            incremental_upload: incremental,
            part_size: Some(5 << 20),
            ..WriteConfig::default()
        };
        let options = SimOptions {
            directory_bucket,
            ..SimOptions::default()
        };
        let first = Mount::with_write(options, "", &[], write.clone());
        let second = first.beside(write);
        Self {
            mounts: [first, second],
            appends: directory_bucket,
            grows: directory_bucket && incremental,
            truth: BTreeMap::new(),
            open: Vec::new(),
            held: Vec::new(),
            pages: BTreeMap::new(),
            lookups: BTreeMap::new(),
            has_fault: false,
            may_leave: false,
            written: 0,
            opened: 0,
            acting: None,
        }
    }

    fn bucket(&self) -> &SimClient {
        &self.mounts[0].bucket
    }

    fn actual(&self, name: &str) -> Option<Vec<u8>> {
        Some(self.bucket().object(name)?.content.to_vec())
    }

    /// Bytes that no other step has.
    fn bytes(&mut self, len: Len) -> Vec<u8> {
        self.written = self.written.wrapping_add(1);
        let len = match len {
            Len::Small(len) => len,
            Len::Large => LARGE,
        };
        vec![self.written; len]
    }

    fn lookup(&mut self, mount: usize, name: &str) -> Result<InodeNo, FsError> {
        let ino = self.mounts[mount].lookup(ROOT, name)?.attributes.ino;
        *self.lookups.entry((mount, ino)).or_default() += 1;
        Ok(ino)
    }

    fn index(&mut self, index: usize) -> Option<usize> {
        let index = (!self.open.is_empty()).then(|| index % self.open.len())?;
        let open = &self.open[index];
        self.acting = Some((open.mount, open.handle));
        Some(index)
    }

    /// Takes in what has changed: each change must be what a file that is open may have stored.
    #[track_caller]
    fn settle(&mut self, what: &str) {
        for name in NAMES {
            let (old, new) = (self.truth.get(name).cloned(), self.actual(name));
            if old == new {
                continue;
            }
            let new = new.unwrap_or_else(|| panic!("{what}: {name} is gone"));
            let appends = self.appends;
            let grows = self.grows;
            let may_store = |open: &Open| {
                let may_replace = match &open.replaces {
                    Replaces::Nothing => old.is_none(),
                    Replaces::Anything => true,
                    Replaces::Content(content) => old.as_ref() == Some(content),
                };
                let is_part = grows || (appends && open.is_behind);
                let is_its = open.content == new || (is_part && open.content.starts_with(&new));
                open.name == name && may_replace && is_its
            };
            let last = |open: &Open| Some((open.mount, open.handle)) != self.acting;
            let mut open: Vec<&mut Open> = self.open.iter_mut().collect();
            open.sort_by_key(|open| last(open));
            let stored_by = open.into_iter().find(|open| may_store(open));
            let Some(open) = stored_by else {
                panic!(
                    "{what}: {name} of {:?} bytes has become {} bytes that nobody meant: {:?}",
                    old.map(|old| old.len()),
                    new.len(),
                    self.open
                        .iter()
                        .map(|it| (it.name, it.content.len()))
                        .collect::<Vec<_>>()
                );
            };
            open.is_dirty = open.content.len() > new.len();
            open.replaces = Replaces::Content(new.clone());
            self.truth.insert(name, new);
        }
    }

    /// The object `name` may have become `new` by this step, or be as it was.
    fn may_become(&mut self, name: &'static str, new: Option<Vec<u8>>) {
        if self.actual(name) == new {
            match new {
                Some(new) => drop(self.truth.insert(name, new)),
                None => drop(self.truth.remove(name)),
            }
        }
    }

    fn run(&mut self, step: &Step) {
        self.mounts[0]
            .clock
            .advance(std::time::Duration::from_millis(1));
        match *step {
            Step::Open(mount, name, how) => self.open(mount, NAMES[name], how),
            Step::Write(index, len) => self.write(index, len),
            Step::Misplaced(index) => self.misplaced(index),
            Step::Cut(index) => self.cut(index),
            Step::Sync(index) => self.sync(index),
            Step::Close(index, closer, others) => self.close(index, closer, others),
            Step::Release(index) => self.release(index),
            Step::Read(mount, name) => {
                if let Some(held) = self.hold(mount, NAMES[name]) {
                    self.mounts[mount].fs.release(held.opened.handle);
                }
            }
            Step::Hold(mount, name) => {
                if let Some(held) = self.hold(mount, NAMES[name]) {
                    self.held.push(held);
                }
            }
            Step::ReadHeld(index) => {
                if !self.held.is_empty() {
                    let index = index % self.held.len();
                    let mut held = self.held.remove(index);
                    self.read_held(&mut held);
                    self.held.push(held);
                }
            }
            Step::Drop(index) => {
                if !self.held.is_empty() {
                    let held = self.held.remove(index % self.held.len());
                    self.mounts[held.mount].fs.release(held.opened.handle);
                }
            }
            Step::Copy(from, to) => self.copy(from, to),
            Step::Touch(mount, name) => self.touch(mount, NAMES[name]),
            Step::Truncate(mount, name, len) => self.truncate(mount, NAMES[name], len),
            Step::Unlink(mount, name) => self.unlink(mount, NAMES[name]),
            Step::Rename(mount, from, to, is_known) => {
                self.rename(mount, (NAMES[from], NAMES[to]), is_known);
            }
            Step::Theirs(name, len) => {
                let content = self.bytes(len);
                self.bucket().put_object(NAMES[name], content.clone());
                self.truth.insert(NAMES[name], content);
            }
            Step::TheirDelete(name) => {
                self.bucket().remove(NAMES[name]);
                self.truth.remove(NAMES[name]);
            }
            Step::Fault(operation, ref fault) => {
                let is_lost = matches!(fault, Fault::FailAfterwards(_) | Fault::Repeat);
                self.has_fault = true;
                self.may_leave |= operation == Operation::AbortMultipartUpload
                    || (operation == Operation::CreateMultipartUpload && is_lost);
                self.bucket().add_fault(FaultRule {
                    operation: Some(operation),
                    when: When::Next(1),
                    fault: fault.clone(),
                });
            }
            Step::Later(seconds) => {
                let later = std::time::Duration::from_secs(seconds);
                self.mounts[0].clock.advance(later);
            }
        }
        self.settle(&format!("{step:?}"));
        self.acting = None;
    }

    fn open(&mut self, mount: usize, name: &'static str, how: How) {
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
        let found = self.lookup(mount, name);
        let fs = Arc::clone(&self.mounts[mount].fs);
        let (ino, opened, replaces, content) = match found {
            Err(FsError::NotFound) => {
                let created = fs.create(ROOT, OsStr::new(name), options, opener);
                let Ok((entry, opened)) = created else { return };
                let ino = entry.attributes.ino;
                *self.lookups.entry((mount, ino)).or_default() += 1;
                (ino, opened, Replaces::Nothing, Vec::new())
            }
            Err(error) => return assert!(self.has_fault, "{name}: {error}"),
            Ok(ino) => {
                let opened = match how {
                    How::Both => now(fs.open_for_both(ino, READ, options, opener)),
                    How::Plain | How::Truncate | How::Append => {
                        now(fs.open_for_writing(ino, options, opener))
                    }
                };
                self.settle("an open");
                let Ok(opened) = opened else { return };
                let there = self.truth.get(name).cloned().unwrap_or_default();
                let is_unchanged = fs.files.get(opened.handle).unwrap().unchanged().is_some();
                let (replaces, content) = match how {
                    How::Truncate => (Replaces::Anything, Vec::new()),
                    How::Append => (Replaces::Content(there.clone()), there),
                    How::Plain | How::Both if is_unchanged => {
                        (Replaces::Content(there.clone()), there)
                    }
                    How::Plain => (Replaces::Content(Vec::new()), Vec::new()),
                    How::Both => {
                        // It is only read: the file was synchronised, and is followed.
                        fs.release(opened.handle);
                        return;
                    }
                };
                (ino, opened, replaces, content)
            }
        };
        let file = fs.files.get(opened.handle).unwrap();
        if how == How::Both && !opened.direct_io && !opened.keep_cache {
            self.pages.remove(&(mount, ino));
        }
        self.open.push(Open {
            mount,
            name,
            ino,
            handle: opened.handle,
            is_dirty: !matches!(replaces, Replaces::Content(_)),
            content,
            is_behind: matches!(replaces, Replaces::Content(_)),
            replaces,
            is_unchanged: file.unchanged().is_some(),
            was_written: false,
            has_failed: false,
        });
    }

    fn write(&mut self, index: usize, len: Len) {
        let Some(index) = self.index(index) else {
            return;
        };
        let data = self.bytes(len);
        for piece in data.chunks(PIECE) {
            self.write_piece(index, self.open[index].content.len(), piece);
            self.settle("a write");
        }
    }

    fn misplaced(&mut self, index: usize) {
        if let Some(index) = self.index(index) {
            self.write_piece(index, self.open[index].content.len() + 1, b"x");
        }
    }

    fn write_piece(&mut self, index: usize, at: usize, data: &[u8]) {
        let open = &self.open[index];
        let (mount, handle, name) = (open.mount, open.handle, open.name);
        let fs = Arc::clone(&self.mounts[mount].fs);
        let is_first = open.is_unchanged;
        let before = open.content.clone();
        // What it becomes if all is taken: the bucket may have the beginning of it before the answer.
        let is_placed = at == before.len();
        let has_failed = open.has_failed;
        let base = self.truth.get(name).cloned().unwrap_or_default();
        if is_placed && !is_first {
            self.open[index].content.extend_from_slice(data);
        }
        let outcome = now(fs.write(handle, at as u64, data));
        let is_unchanged = fs.files.get(handle).unwrap().unchanged().is_some();
        let open = &mut self.open[index];
        open.was_written = true;
        open.is_unchanged = is_unchanged;
        match outcome {
            Ok(()) => {
                assert!(is_placed && !has_failed, "{open:?}: a failure is final");
                if is_first {
                    let base = if at == 0 { Vec::new() } else { base };
                    assert_eq!(base.len(), at, "it goes on behind what is there");
                    open.content = [&base[..], data].concat();
                    open.replaces = Replaces::Content(base);
                    open.is_behind = true;
                }
                open.is_dirty = true;
            }
            Err(error) => {
                let is_read = matches!(error, FsError::NotPermitted(_));
                if is_first || !is_read {
                    open.has_failed = true;
                } else if is_placed {
                    open.content = before;
                }
            }
        }
    }

    fn cut(&mut self, index: usize) {
        let Some(index) = self.index(index) else {
            return;
        };
        let open = &self.open[index];
        let (mount, handle, ino) = (open.mount, open.handle, open.ino);
        if !open.is_unchanged {
            return;
        }
        let fs = Arc::clone(&self.mounts[mount].fs);
        let change = AttributeChange {
            size: Some(0),
            handle: Some(handle),
            ..AttributeChange::default()
        };
        let outcome = now(fs.set_attributes(ino, change));
        self.settle("a cut");
        let is_unchanged = fs.files.get(handle).unwrap().unchanged().is_some();
        let open = &mut self.open[index];
        if outcome.is_ok() && !is_unchanged {
            assert!(!open.has_failed, "a failure is final");
            open.is_unchanged = false;
            (open.content, open.replaces) = (Vec::new(), Replaces::Anything);
            (open.is_dirty, open.is_behind) = (true, false);
        }
    }

    /// The file at `index` was to be stored, with this outcome.
    #[track_caller]
    fn stored(&mut self, index: usize, before: &Open, outcome: Result<(), FsError>) {
        self.settle("a store");
        let open = &mut self.open[index];
        match outcome {
            Ok(()) => {
                assert!(!open.has_failed, "{open:?}: a failure is final");
                if before.is_dirty {
                    let there = self.truth.get(open.name);
                    assert!(there == Some(&open.content), "{}: it is lost", open.name);
                    open.is_dirty = false;
                    open.replaces = Replaces::Content(open.content.clone());
                }
            }
            Err(error) => {
                let there = self.truth.get(open.name);
                let is_as_meant = match &before.replaces {
                    Replaces::Nothing => there.is_none(),
                    Replaces::Anything => true,
                    Replaces::Content(content) => there == Some(content),
                };
                // What was made of parts has another tag when it was copied.
                let must_store = is_as_meant && open.content.len() < LARGE && before.is_dirty;
                let may_fail = open.has_failed || self.has_fault || !must_store;
                assert!(may_fail, "{}: {error}", open.name);
                open.has_failed = true;
            }
        }
    }

    fn sync(&mut self, index: usize) {
        let Some(index) = self.index(index) else {
            return;
        };
        let before = self.open[index].copy();
        if before.is_unchanged {
            return;
        }
        let outcome = now(self.mounts[before.mount].fs.sync(before.handle));
        self.stored(index, &before, outcome);
    }

    fn close(&mut self, index: usize, closer: Closer, others: Others) {
        let Some(index) = self.index(index) else {
            return;
        };
        let before = self.open[index].copy();
        let closing = Closes(closer, others);
        let outcome = now(self.mounts[before.mount].fs.flush(before.handle, &closing));
        self.settle("a close");
        if before.is_unchanged {
            return;
        }
        let is_untouched =
            !before.was_written && (closer == Closer::Child || others == Others::Held);
        let may_not_store = closer == Closer::Child || is_untouched;
        if !may_not_store || outcome.is_err() {
            self.stored(index, &before, outcome);
        }
    }

    fn release(&mut self, index: usize) {
        let Some(index) = self.index(index) else {
            return;
        };
        let before = self.open[index].copy();
        self.mounts[before.mount].fs.release(before.handle);
        self.settle("a release");
        let open = self.open.remove(index);
        let is_there = self.truth.get(open.name) == Some(&open.content);
        let is_lost = open.is_dirty && !open.has_failed && !is_there;
        if is_lost && !self.has_fault && open.content.len() < LARGE {
            let there = self.truth.get(open.name);
            let is_as_meant = match &open.replaces {
                Replaces::Nothing => there.is_none(),
                Replaces::Anything => true,
                Replaces::Content(content) => there == Some(content),
            };
            assert!(!is_as_meant, "{} is lost", open.name);
        }
    }

    /// Opens a file for reading, and reads it.
    fn hold(&mut self, mount: usize, name: &'static str) -> Option<Held> {
        let fs = Arc::clone(&self.mounts[mount].fs);
        for attempt in 0..2 {
            let ino = match self.lookup(mount, name) {
                Ok(ino) => ino,
                Err(FsError::NotFound) => {
                    assert!(
                        self.has_fault || !self.truth.contains_key(name),
                        "{name} is there"
                    );
                    return None;
                }
                Err(error) => {
                    assert!(self.has_fault, "{name}: {error}");
                    return None;
                }
            };
            let opened = now(fs.open(ino, READ));
            self.settle("an open for reading");
            match opened {
                Ok(opened) => {
                    if !opened.direct_io && !opened.keep_cache {
                        self.pages.remove(&(mount, ino));
                    }
                    let there = self.truth.get(name).cloned();
                    let mut held = Held {
                        mount,
                        ino,
                        opened,
                        content: there.unwrap_or_default(),
                        was_cut: false,
                    };
                    let is_there = self.truth.contains_key(name);
                    let read = self.read_held(&mut held);
                    assert!(!read || is_there, "{name} is not there");
                    return Some(held);
                }
                Err(FsError::Stale(_)) if attempt == 0 => {}
                Err(error) => {
                    // A file that is being written may have been renamed since it was stored.
                    let is_open = self.open.iter().any(|open| open.mount == mount);
                    let is_gone = !self.truth.contains_key(name);
                    assert!(is_open || is_gone || self.has_fault, "{name}: {error}");
                    return None;
                }
            }
        }
        None
    }

    /// Reads all of a file that is open, through the kernel's pages. Whether that succeeded.
    fn read_held(&mut self, held: &mut Held) -> bool {
        let fs = Arc::clone(&self.mounts[held.mount].fs);
        let page = (held.mount, held.ino);
        let is_cached = !held.opened.direct_io;
        let data = match self.pages.get(&page).filter(|_| is_cached) {
            Some(pages) => pages.clone(),
            None => {
                let mut all = Vec::new();
                loop {
                    let read = fs.read(
                        held.opened.handle,
                        all.len() as u64,
                        PIECE as u32,
                        is_cached,
                    );
                    match now(read) {
                        Ok(data) if data.is_empty() => break,
                        Ok(data) => all.extend_from_slice(&data.to_vec()),
                        Err(_) => return false,
                    }
                }
                if is_cached {
                    self.pages.insert(page, all.clone());
                }
                all
            }
        };
        if held.opened.grows {
            assert!(
                data.starts_with(&held.content),
                "what is followed has changed"
            );
            held.content = data;
        } else if held.was_cut {
            let (one, two) = (&data, &held.content);
            assert!(one.starts_with(two) || two.starts_with(one));
        } else {
            assert!(
                data == held.content,
                "{} bytes that begin with {:?}, not {} with {:?}",
                data.len(),
                data.first(),
                held.content.len(),
                held.content.first()
            );
        }
        true
    }

    fn copy(&mut self, from: usize, to: usize) {
        let Some(index) = self.index(to).filter(|_| !self.held.is_empty()) else {
            return;
        };
        let from = from % self.held.len();
        let (mount, handle) = (self.held[from].mount, self.held[from].opened.handle);
        let open = &self.open[index];
        if open.mount != mount || open.is_unchanged {
            return;
        }
        let (at, to) = (open.content.len() as u64, open.handle);
        let fs = Arc::clone(&self.mounts[mount].fs);
        let copied = now(fs.copy_range((handle, 0), (to, at), u64::MAX >> 1));
        let source = self.held[from].content.clone();
        let open = &mut self.open[index];
        match copied {
            Ok(0) | Err(FsError::Unsupported(_)) => {}
            Ok(len) => {
                assert!(!open.has_failed, "a failure is final");
                let len = usize::try_from(len).unwrap();
                open.content.extend_from_slice(&source[..len]);
                (open.is_dirty, open.was_written) = (true, true);
            }
            Err(_) => (open.has_failed, open.was_written) = (true, true),
        }
    }

    fn touch(&mut self, mount: usize, name: &'static str) {
        let Ok(ino) = self.lookup(mount, name) else {
            return;
        };
        let change = AttributeChange {
            mtime: Some(TimeChange::Now),
            ..AttributeChange::default()
        };
        drop(now(self.mounts[mount].fs.set_attributes(ino, change)));
    }

    fn truncate(&mut self, mount: usize, name: &'static str, len: usize) {
        let Ok(ino) = self.lookup(mount, name) else {
            return;
        };
        let change = AttributeChange {
            size: Some(len as u64),
            ..AttributeChange::default()
        };
        let fs = Arc::clone(&self.mounts[mount].fs);
        let is_written = self.mounts[mount].fs.namespace.is_being_written(ino);
        let outcome = now(fs.set_attributes(ino, change));
        let mut shorter = self.truth.get(name).cloned().unwrap_or_default();
        if shorter.len() <= len {
            return;
        }
        shorter.truncate(len);
        if outcome.is_ok() && !is_written {
            assert!(
                self.actual(name).as_ref() == Some(&shorter),
                "{name} is not cut"
            );
        }
        for held in &mut self.held {
            held.was_cut |= (held.mount, held.ino) == (mount, ino);
        }
        match outcome {
            // The kernel does.
            Ok(_) => {
                self.pages
                    .entry((mount, ino))
                    .and_modify(|it| it.truncate(len));
            }
            Err(_) => drop(self.pages.remove(&(mount, ino))),
        }
        self.may_become(name, Some(shorter));
    }

    fn unlink(&mut self, mount: usize, name: &'static str) {
        if let Ok(ino) = self.lookup(mount, name) {
            now(self.mounts[mount].fs.finish_closed(ino)).ok();
            self.settle("before an unlink");
        }
        let outcome = now(self.mounts[mount].fs.unlink(ROOT, OsStr::new(name)));
        if outcome.is_ok() {
            assert!(self.actual(name).is_none(), "{name} is there still");
        }
        self.may_become(name, None);
    }

    fn rename(&mut self, mount: usize, (from, to): (&'static str, &'static str), is_known: bool) {
        let fs = Arc::clone(&self.mounts[mount].fs);
        let is_open = |open: &Open| open.mount == mount && [from, to].contains(&open.name);
        let looks_up = !is_known || self.open.iter().any(is_open);
        for name in [from, to].into_iter().filter(|_| looks_up) {
            if let Ok(ino) = self.lookup(mount, name) {
                now(fs.finish_closed(ino)).ok();
                self.settle("before a rename");
            }
        }
        if from == to {
            return;
        }
        let (old, new) = ((ROOT, OsStr::new(from)), (ROOT, OsStr::new(to)));
        let outcome = now(fs.rename(old, new, RenameMode::Replace, &Stop::never()));
        let moved = self.truth.get(from).cloned();
        let is_there = moved.is_some() && self.actual(to) == moved;
        if outcome.is_ok() {
            assert!(
                is_there && self.actual(from).is_none(),
                "{from} is not {to}"
            );
            for open in &mut self.open {
                if open.mount == mount && open.is_unchanged && open.name == from {
                    open.name = to;
                }
            }
        }
        if is_there {
            self.may_become(to, moved);
            self.may_become(from, None);
        }
    }

    fn finish(mut self) {
        self.bucket().clear_faults();
        while !self.open.is_empty() {
            self.release(0);
        }
        for held in std::mem::take(&mut self.held) {
            self.mounts[held.mount].fs.release(held.opened.handle);
        }
        for mount in 0..2 {
            for name in NAMES {
                if let Some(held) = self.hold(mount, name) {
                    self.mounts[mount].fs.release(held.opened.handle);
                }
            }
        }
        for ((mount, ino), count) in std::mem::take(&mut self.lookups) {
            self.mounts[mount].fs.forget(ino, count);
        }
        for mount in &self.mounts {
            assert_eq!(mount.fs.inode_count(), 0);
            assert_eq!(mount.fs.writing.bytes_held(), 0);
        }
        let left = now(self.bucket().list_uploads("")).unwrap();
        assert!(left.is_empty() || self.may_leave, "{left:?}");
    }
}

impl Open {
    fn copy(&self) -> Self {
        Self {
            content: Vec::new(),
            replaces: self.replaces.clone(),
            ..*self
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let mount = || 0..2_usize;
    let name = || 0..NAMES.len();
    let any_of = any::<usize>;
    let how = prop::sample::select(vec![How::Plain, How::Truncate, How::Append, How::Both]);
    let len = || prop_oneof![12 => (1..9_usize).prop_map(Len::Small), 1 => Just(Len::Large)];
    let closer = prop::sample::select(vec![
        Closer::Opener,
        Closer::Opener,
        Closer::Child,
        Closer::Heir,
    ]);
    let others = prop::sample::select(vec![Others::Held, Others::None, Others::Unknown]);
    let operations = prop::sample::select(vec![
        Operation::PutObject,
        Operation::PutObject,
        Operation::HeadObject,
        Operation::GetObject,
        Operation::CopyObject,
        Operation::DeleteObject,
        Operation::RenameObject,
        Operation::ListObjectsV2,
        Operation::CreateMultipartUpload,
        Operation::UploadPart,
        Operation::UploadPartCopy,
        Operation::CompleteMultipartUpload,
        Operation::AbortMultipartUpload,
    ]);
    let faults = prop::sample::select(vec![
        Fault::Fail(ErrorKind::Denied),
        Fault::Fail(ErrorKind::Transient),
        Fault::Fail(ErrorKind::NotFound),
        Fault::Fail(ErrorKind::PreconditionFailed),
        Fault::FailAfterwards(ErrorKind::Transient),
        Fault::Repeat,
        Fault::Repeat,
    ]);
    prop_oneof![
        7 => (mount(), name(), how).prop_map(|(mount, name, how)| Step::Open(mount, name, how)),
        8 => (any_of(), len()).prop_map(|(index, len)| Step::Write(index, len)),
        1 => any_of().prop_map(Step::Misplaced),
        2 => any_of().prop_map(Step::Cut),
        3 => any_of().prop_map(Step::Sync),
        4 => (any_of(), closer, others).prop_map(|(index, closer, others)| Step::Close(index, closer, others)),
        4 => any_of().prop_map(Step::Release),
        3 => (mount(), name()).prop_map(|(mount, name)| Step::Read(mount, name)),
        2 => (mount(), name()).prop_map(|(mount, name)| Step::Hold(mount, name)),
        2 => any_of().prop_map(Step::ReadHeld),
        2 => any_of().prop_map(Step::Drop),
        1 => (any_of(), any_of()).prop_map(|(from, to)| Step::Copy(from, to)),
        1 => (mount(), name()).prop_map(|(mount, name)| Step::Touch(mount, name)),
        1 => (mount(), name(), 0..9_usize).prop_map(|(mount, name, len)| Step::Truncate(mount, name, len)),
        1 => (mount(), name()).prop_map(|(mount, name)| Step::Unlink(mount, name)),
        2 => (mount(), name(), name(), any::<bool>())
            .prop_map(|(mount, from, to, is_known)| Step::Rename(mount, from, to, is_known)),
        1 => (name(), len()).prop_map(|(name, len)| Step::Theirs(name, len)),
        1 => name().prop_map(Step::TheirDelete),
        2 => (operations, faults).prop_map(|(operation, fault)| {
            // That an object is gone which is not is no failure but a lie.
            let is_lie = matches!(operation, Operation::DeleteObject | Operation::RenameObject)
                && fault == Fault::Fail(ErrorKind::NotFound);
            let denied = Fault::Fail(ErrorKind::Denied);
            Step::Fault(operation, if is_lie { denied } else { fault })
        }),
        1 => (0..3_u64).prop_map(Step::Later),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn two_mounts_store_what_they_say_and_nothing_else(
        directory_bucket in any::<bool>(),
        incremental in any::<bool>(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut model = Model::new(directory_bucket, incremental);
        steps.iter().for_each(|step| model.run(step));
        model.finish();
    }
}
