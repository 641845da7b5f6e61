//! A staged file as plain bytes, beside its contents.

use std::ops::Range;
use std::sync::Arc;

use mountpoint_client::types::{ETag, Key};

use super::{Contents, DataFileNo, LastCommit, Snapshot, Source};
use crate::write::CopiedRange;

/// A step of a staged file's life.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Write(u64, u64),
    SetLen(u64),
    Zero(u64, u64),
    BeginStore,
    EndStore(bool),
    DropStored,
    /// Bytes that would change before the offset are those of a store; those behind it come later.
    BeginStoreUntil(u64),
    /// An upload has got what was written of a range, and the data files lose it.
    MarkSent(u64, u64),
    /// Copies so many bytes of an object to an offset.
    Copy(u64, u64, u64),
    /// The bytes become those of a commit.
    Commit,
    /// An upload of the last commit begins.
    BeginStoreOfCommit,
    /// A full disk has no more room for bytes of the last commit beside those that change.
    EndSparing,
}

/// A staged file and the bytes that it must have.
pub(super) struct Model {
    contents: Contents,
    /// The data files.
    files: [Vec<u8>; 2],
    base: Vec<u8>,
    /// The bytes that an upload has.
    sent: Vec<u8>,
    expected: Vec<u8>,
    /// The store in progress, and the bytes that it must send.
    storing: Option<(Arc<Snapshot>, Vec<u8>)>,
    is_changed: bool,
    /// Whether it was changed since the store in progress began.
    is_changed_since: bool,
    /// The bytes of the last commit, and whether they were changed since.
    committed: Option<(Vec<u8>, bool)>,
    next_byte: u8,
}

pub(super) const SIZE_MAX: u64 = 40;

fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

fn indexes(range: &Range<u64>) -> Range<usize> {
    index(range.start)..index(range.end)
}

impl Model {
    pub(super) fn new(base: Option<u64>) -> Self {
        let base_len = base.unwrap_or(0);
        let base_bytes: Vec<u8> = (0..base_len)
            .map(|at| u8::try_from(200 + at).unwrap())
            .collect();
        Self {
            contents: base.map_or_else(Contents::new, Contents::over),
            files: [(); 2].map(|()| vec![255; 2 * index(SIZE_MAX)]),
            expected: base_bytes.clone(),
            base: base_bytes,
            sent: vec![253; 2 * index(SIZE_MAX)],
            storing: None,
            is_changed: base.is_none(),
            is_changed_since: false,
            committed: None,
            next_byte: 0,
        }
    }

    pub(super) fn take(&mut self, step: &Step) {
        match *step {
            Step::Write(start, len) => self.write(start..start + len),
            Step::SetLen(len) => {
                self.leave_commit();
                if len != self.contents.size() {
                    self.change();
                }
                self.contents.set_len(len);
                self.expected.resize(index(len), 0);
            }
            Step::Zero(start, len) => {
                self.leave_commit();
                let range = start..(start + len).min(self.contents.size());
                self.contents.zero(&(start..start + len));
                if range.start < range.end {
                    self.expected[indexes(&range)].fill(0);
                    self.change();
                }
            }
            Step::BeginStore => self.begin_store(u64::MAX),
            Step::BeginStoreUntil(limit) => self.begin_store(limit),
            Step::EndStore(is_stored) => {
                if let Some((_, sent)) = self.storing.take() {
                    self.contents.end_store(is_stored);
                    if is_stored {
                        self.base = sent;
                        self.is_changed = self.is_changed_since;
                    }
                }
            }
            Step::MarkSent(start, len) => self.mark_sent(&(start..start + len)),
            Step::Copy(at, from, len) => self.copy(at, from, len),
            Step::Commit => {
                self.contents.committed();
                self.committed = Some((self.expected.clone(), false));
            }
            Step::BeginStoreOfCommit => self.begin_store_of_commit(),
            Step::EndSparing => {
                self.contents.end_sparing();
            }
            // A record may need them.
            Step::DropStored if self.committed.is_some() => {}
            Step::DropStored => {
                for (range, file) in self.contents.drop_stored() {
                    self.file(file)[indexes(&range)].fill(254);
                }
            }
        }
    }

    fn begin_store(&mut self, limit: u64) {
        if self.storing.is_some() {
            return;
        }
        let size = self.contents.size();
        // Files that grow have no commits.
        let limit = if self.committed.is_some() {
            u64::MAX
        } else {
            limit
        };
        let limit = limit.max(self.contents.now().base_len());
        let snapshot = match limit < size {
            true => self.contents.begin_store_until(limit),
            false => {
                let committed = self.committed.as_ref();
                let is_committed = committed.is_some_and(|(_, is_changed)| !is_changed);
                self.contents.begin_store(is_committed)
            }
        };
        let len = index(limit.min(size));
        self.storing = Some((snapshot, self.expected[..len].to_vec()));
        self.is_changed_since = limit < size;
        self.is_changed |= limit < size;
    }

    fn begin_store_of_commit(&mut self) {
        if self.storing.is_some() {
            return;
        }
        match self.contents.last_commit() {
            LastCommit::Lost => self.contents.await_commit(),
            LastCommit::Apart(_) => {
                let snapshot = self.contents.begin_store_of_commit().unwrap();
                let (bytes, is_changed) = self.committed.clone().unwrap();
                self.storing = Some((snapshot, bytes));
                self.is_changed_since = is_changed;
            }
            _ => assert!(self.contents.begin_store_of_commit().is_none()),
        }
    }

    fn leave_commit(&mut self) {
        let was_newest = matches!(self.contents.last_commit(), LastCommit::Newest);
        assert_eq!(
            self.contents.leave_commit(self.next_byte % 8 == 7),
            was_newest
        );
    }

    fn mark_sent(&mut self, range: &Range<u64>) {
        // Files without a disk have no commits.
        if self.storing.is_some() || self.committed.is_some() {
            return;
        }
        for piece in self.contents.pieces(range.clone()) {
            if let Source::Local(_) = piece.source {
                let range = indexes(&piece.range);
                self.sent[range.clone()].copy_from_slice(&self.expected[range]);
                self.contents.mark_sent(&piece.range);
                for file in DataFileNo::ALL {
                    self.file(file)[indexes(&piece.range)].fill(252);
                }
            }
        }
    }

    fn copy(&mut self, at: u64, from: u64, len: u64) {
        let source = CopiedRange {
            key: Key::parse("object").unwrap(),
            etag: ETag::from_header("1"),
            object_size: OBJECT_SIZE + from % 2,
            range: from..from + len,
        };
        self.leave_commit();
        assert!(self.contents.copy(at, &source));
        let range = at..at + len;
        let size = self.expected.len().max(index(range.end));
        self.expected.resize(size, 0);
        for place in 0..len {
            self.expected[index(at + place)] = byte_of_object(source.object_size, from + place);
        }
        self.change();
    }

    fn write(&mut self, range: Range<u64>) {
        self.next_byte = (self.next_byte + 1) % 100;
        self.leave_commit();
        let mut at = range.start;
        let places = self.contents.places(&range);
        self.contents.write_over(&places);
        for (piece, file) in places {
            assert_eq!(piece.start, at, "places are in order and whole");
            at = piece.end;
            let byte = self.next_byte;
            self.file(file)[indexes(&piece)].fill(byte);
            self.contents.wrote(piece, file);
        }
        assert_eq!(at, range.end);
        let len = self.expected.len().max(index(range.end));
        self.expected.resize(len, 0);
        self.expected[indexes(&range)].fill(self.next_byte);
        self.change();
    }

    fn change(&mut self) {
        (self.is_changed, self.is_changed_since) = (true, true);
        if let Some((_, is_changed)) = &mut self.committed {
            *is_changed = true;
        }
    }

    fn file(&mut self, file: DataFileNo) -> &mut Vec<u8> {
        &mut self.files[usize::from(file == DataFileNo::Second)]
    }

    fn bytes(&mut self, snapshot: &Snapshot) -> Vec<u8> {
        let mut bytes = Vec::new();
        for piece in snapshot.pieces(0..u64::MAX) {
            let range = indexes(&piece.range);
            assert_eq!(range.start, bytes.len());
            let found = match piece.source {
                Source::Local(file) => self.file(file)[range.clone()].to_vec(),
                Source::Zeros => vec![0; range.len()],
                Source::Base => self.base[range.clone()].to_vec(),
                Source::Sent => self.sent[range.clone()].to_vec(),
                Source::Copied(place) => {
                    let (object, found) = snapshot.copied_at(piece.range.start).unwrap();
                    assert_eq!(found, place);
                    let places = place.of(&piece.range);
                    places
                        .map(|at| byte_of_object(object.object_size, at))
                        .collect()
                }
            };
            if piece.is_in_base {
                assert_eq!(found, self.base[range.clone()], "{piece:?}");
            }
            let until = snapshot.in_base_until(piece.range.start);
            assert_eq!(until > piece.range.start, piece.is_in_base, "{piece:?}");
            bytes.extend(found);
        }
        bytes
    }

    pub(super) fn check(&mut self) {
        assert_eq!(self.contents.size(), self.expected.len() as u64);
        let now = self.contents.now().clone();
        assert_eq!(self.bytes(&now), self.expected);
        assert_eq!(self.contents.is_changed(), self.is_changed);
        if !self.is_changed {
            assert_eq!(self.base, self.expected);
        }
        if let Some((snapshot, sent)) = self.storing.clone() {
            assert_eq!(self.bytes(&snapshot), sent, "a store sends what was there");
        }
        if let LastCommit::Apart(apart) = self.contents.last_commit() {
            let snapshot = Arc::clone(apart.snapshot());
            let (committed, _) = self.committed.clone().unwrap();
            assert_eq!(self.bytes(&snapshot), committed, "a commit stays as it was");
        }
    }
}

/// The bytes of the objects that are copied, by their size.
fn byte_of_object(size: u64, at: u64) -> u8 {
    assert!(at < size);
    u8::try_from(100 + at % 50 + size % 2 * 50).unwrap()
}

const OBJECT_SIZE: u64 = 40;
