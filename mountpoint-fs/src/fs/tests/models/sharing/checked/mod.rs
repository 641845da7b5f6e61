//! The possible states of one bucket under two mounts, updated with every step.

use std::collections::BTreeMap;
use std::time::Duration;

use mountpoint_client::ObjectClient as _;
use mountpoint_client::testing::sim::{Fault, FaultRule, When};
use mountpoint_client::types::ETag;

use super::*;
use crate::clock::wait_until;
use crate::operation::{AttributeChange, Opened, RenameMode, Stop, TimeChange, WriteOptions};

mod names;

const ROOT: InodeNo = InodeNo::ROOT;
/// A part of an upload, and a rest.
const LARGE: usize = (5 << 20) + 3;
const PIECE: usize = 1 << 20;
const PIECE_LEN: u32 = 1 << 20;

/// A file that is open for writing.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what was done to a file in any order"
)]
struct Open {
    mount: usize,
    name: &'static str,
    handle: HandleNo,
    how: How,
    /// The file is another host's object: every later write must fail.
    is_adopted: bool,
    /// All bytes that the file has taken, with the ones that it extends.
    content: Vec<u8>,
    /// The state that its object may replace.
    replaces: Replaces,
    /// The file has unstored bytes.
    is_dirty: bool,
    was_written: bool,
    has_failed: bool,
    /// Whether its object got another ETag for equal content. A copy in parts does.
    was_retagged: bool,
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
    /// Its mount has cut the file, so it has no further bytes.
    was_cut: bool,
    /// Its mount has opened the file for writing: it reads what is written.
    is_written: bool,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "what the bucket is, and what has happened to it"
)]
pub(super) struct Model {
    mounts: [Mount; 2],
    /// Whether parts are appended, to new files as well.
    appends: bool,
    grows: bool,
    truth: BTreeMap<&'static str, Vec<u8>>,
    open: Vec<Open>,
    held: Vec<Held>,
    /// The kernel's pages of each inode.
    pages: BTreeMap<(usize, InodeNo), Vec<u8>>,
    lookups: BTreeMap<(usize, InodeNo), u64>,
    has_fault: bool,
    /// Whether an upload may be left, because its abort failed or its creation's answer was lost.
    may_leave: bool,
    written: u8,
    opened: u32,
    /// The file of the current step. Other files may have taken equal bytes, if these are none.
    acting: Option<(usize, HandleNo)>,
}

impl Model {
    pub(super) fn new(directory_bucket: bool, incremental: bool) -> Self {
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

    fn tag(&self, name: &str) -> Option<ETag> {
        Some(self.bucket().object(name)?.etag)
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

    /// Checks the changes of the bucket: each must be the content of an open file.
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
            let is_behind = |open: &Open| matches!(open.replaces, Replaces::Content(_));
            let may_store = |open: &Open| {
                let may_replace = match &open.replaces {
                    Replaces::Nothing => old.is_none(),
                    Replaces::Anything => true,
                    Replaces::Content(content) => old.as_ref() == Some(content),
                };
                // Behind a store that failed, the file may be based on an empty object, and another
                // host's empty one is the same version.
                let is_empty = open.has_failed && old.as_ref().is_some_and(Vec::is_empty);
                let may_replace = may_replace || is_empty;
                let is_part = grows || (appends && is_behind(open));
                let is_its = open.content == new || (is_part && open.content.starts_with(&new));
                open.name == name && may_replace && is_its && !open.is_adopted
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

    /// Records that the object `name` may become `new` in this step, or stay.
    fn may_become(&mut self, name: &'static str, new: Option<Vec<u8>>) {
        if self.actual(name) == new {
            match new {
                Some(new) => drop(self.truth.insert(name, new)),
                None => drop(self.truth.remove(name)),
            }
        }
    }

    pub(super) fn run(&mut self, step: &Step) {
        self.mounts[0].clock.advance(Duration::from_millis(1));
        match *step {
            Step::Open(mount, name, how) => self.open(mount, NAMES[name], how),
            Step::Write(index, len) => self.write(index, len),
            Step::Misplaced(index) => self.misplaced(index),
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
                let later = Duration::from_secs(seconds);
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
            exclusive: how == How::Exclusive,
            ..WriteOptions::default()
        };
        let is_its = |open: &Open| open.mount == mount && open.name == name;
        if self.open.iter().any(is_its) {
            // All handles share one file, which other tests cover.
            return;
        }
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
            Ok(_) if how == How::Exclusive => return,
            Ok(ino) => {
                let opened = match how {
                    How::Both => now(fs.open_for_both(ino, READ, options, opener)),
                    How::Plain | How::Truncate | How::Append | How::Exclusive => {
                        now(fs.open_for_writing(ino, options, opener))
                    }
                };
                self.settle("an open");
                let Ok(opened) = opened else { return };
                let there = self.truth.get(name).cloned().unwrap_or_default();
                let (replaces, content) = match how {
                    How::Truncate => (Replaces::Anything, Vec::new()),
                    How::Plain | How::Append | How::Exclusive | How::Both => {
                        (Replaces::Content(there.clone()), there)
                    }
                };
                (ino, opened, replaces, content)
            }
        };
        self.pages.remove(&(mount, ino));
        for held in &mut self.held {
            held.is_written |= (held.mount, held.ino) == (mount, ino);
        }
        self.open.push(Open {
            mount,
            name,
            handle: opened.handle,
            how,
            is_adopted: false,
            is_dirty: !matches!(replaces, Replaces::Content(_)),
            content,
            replaces,
            was_written: false,
            has_failed: false,
            was_retagged: false,
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

    /// A write at an earlier offset. One beyond the end would leave a gap, which is filled.
    fn misplaced(&mut self, index: usize) {
        let Some(index) = self.index(index) else {
            return;
        };
        if let Some(last) = self.open[index].content.len().checked_sub(1) {
            self.write_piece(index, last, b"x");
        }
    }

    fn write_piece(&mut self, index: usize, at: usize, data: &[u8]) {
        let open = &self.open[index];
        let (mount, handle) = (open.mount, open.handle);
        let fs = Arc::clone(&self.mounts[mount].fs);
        let before = open.content.clone();
        // The content if all bytes are taken: the bucket may have a prefix of it before the answer.
        let has_fault = self.has_fault;
        let content = &mut self.open[index].content;
        content.truncate(at);
        content.extend_from_slice(data);
        let outcome = now(fs.write(handle, at as u64, data));
        let open = &mut self.open[index];
        open.was_written = true;
        match outcome {
            Ok(()) => {
                if open.is_adopted {
                    // An empty object may be the one that a request with a lost answer has made.
                    assert!(has_fault, "{open:?}: it is not its own");
                    (open.is_adopted, open.replaces) = (false, Replaces::Content(Vec::new()));
                }
                open.is_dirty = true;
            }
            Err(_) => {
                open.has_failed = true;
                open.content = before;
            }
        }
    }

    /// Records the outcome of storing the file at `index`.
    #[track_caller]
    fn stored(&mut self, index: usize, before: &Open, outcome: Result<(), FsError>) {
        self.settle("a store");
        let open = &mut self.open[index];
        let adopts = before.is_dirty && open.adopts(self.truth.get(open.name));
        match outcome {
            Ok(()) => {
                if adopts {
                    (open.is_adopted, open.is_dirty) = (true, false);
                } else if before.is_dirty {
                    let there = self.truth.get(open.name);
                    assert!(there == Some(&open.content), "{}: it is lost", open.name);
                    (open.is_dirty, open.has_failed) = (false, false);
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
                let is_same = is_as_meant && !before.was_retagged;
                let must_store = is_same && open.content.len() < LARGE && before.is_dirty;
                let may_fail = open.has_failed || self.has_fault || !(must_store || adopts);
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
        let outcome = now(self.mounts[before.mount].fs.sync(before.handle));
        self.stored(index, &before, outcome);
    }

    fn close(&mut self, index: usize, closer: Closer, others: OtherDescriptors) {
        let Some(index) = self.index(index) else {
            return;
        };
        let before = self.open[index].copy();
        let closing = Closes(closer, others);
        let outcome = now(self.mounts[before.mount].fs.flush(before.handle, &closing));
        self.settle("a close");
        let is_untouched =
            !before.was_written && (closer == Closer::Child || others == OtherDescriptors::Held);
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
        now(self.mounts[before.mount].fs.drained());
        self.settle("a release");
        let open = self.open.remove(index);
        let is_there = self.truth.get(open.name) == Some(&open.content);
        let is_lost = open.is_dirty && !open.has_failed && !is_there;
        if is_lost && !self.has_fault && !open.was_retagged && open.content.len() < LARGE {
            let there = self.truth.get(open.name);
            let is_as_meant = match &open.replaces {
                Replaces::Nothing => there.is_none(),
                Replaces::Anything => true,
                Replaces::Content(content) => there == Some(content),
            };
            assert!(!is_as_meant, "{} is lost", open.name);
        }
    }

    pub(super) fn finish(mut self) {
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
            wait_until("free memory", || mount.fs.parts.writing.bytes_held() == 0);
        }
        let left = now(self.bucket().list_uploads("")).unwrap();
        assert!(left.is_empty() || self.may_leave, "{left:?}");
    }
}

impl Open {
    /// Whether the object `there`, which another host has made, stands for this file.
    fn adopts(&self, there: Option<&Vec<u8>>) -> bool {
        let may_be = match self.how {
            How::Exclusive => false,
            How::Truncate => there.is_some_and(Vec::is_empty),
            How::Plain | How::Append | How::Both => there.is_some(),
        };
        may_be && self.content.is_empty() && self.replaces == Replaces::Nothing
    }

    fn copy(&self) -> Self {
        Self {
            content: Vec::new(),
            replaces: self.replaces.clone(),
            ..*self
        }
    }
}
