//! The contents against a model of plain bytes.

use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;

use super::{Contents, DataFileNo, Snapshot, Source};

/// A step of a staged file's life.
#[derive(Clone, Debug)]
enum Step {
    Write(u64, u64),
    SetLen(u64),
    Zero(u64, u64),
    BeginStore,
    EndStore(bool),
    DropStored,
}

/// A staged file and the bytes that it must have.
struct Model {
    contents: Contents,
    /// The data files.
    files: [Vec<u8>; 2],
    base: Vec<u8>,
    expected: Vec<u8>,
    /// The store in progress, and the bytes that it must send.
    storing: Option<(Arc<Snapshot>, Vec<u8>)>,
    is_changed: bool,
    /// Whether it was changed since the store in progress began.
    is_changed_since: bool,
    next_byte: u8,
}

const SIZE_MAX: u64 = 40;

fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

fn indexes(range: &Range<u64>) -> Range<usize> {
    index(range.start)..index(range.end)
}

impl Model {
    fn new(base: Option<u64>) -> Self {
        let base_len = base.unwrap_or(0);
        let base_bytes: Vec<u8> = (0..base_len)
            .map(|at| u8::try_from(200 + at).unwrap())
            .collect();
        Self {
            contents: base.map_or_else(Contents::new, Contents::over),
            files: [(); 2].map(|()| vec![255; 2 * index(SIZE_MAX)]),
            expected: base_bytes.clone(),
            base: base_bytes,
            storing: None,
            is_changed: base.is_none(),
            is_changed_since: false,
            next_byte: 0,
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Write(start, len) => self.write(start..start + len),
            Step::SetLen(len) => {
                if len != self.contents.size() {
                    self.change();
                }
                self.contents.set_len(len);
                self.expected.resize(index(len), 0);
            }
            Step::Zero(start, len) => {
                let range = start..(start + len).min(self.contents.size());
                self.contents.zero(&(start..start + len));
                if range.start < range.end {
                    self.expected[indexes(&range)].fill(0);
                    self.change();
                }
            }
            Step::BeginStore if self.storing.is_none() => {
                self.storing = Some((self.contents.begin_store(), self.expected.clone()));
                self.is_changed_since = false;
            }
            Step::BeginStore => {}
            Step::EndStore(is_stored) => {
                if let Some((_, sent)) = self.storing.take() {
                    self.contents.end_store(is_stored);
                    if is_stored {
                        self.base = sent;
                        self.is_changed = self.is_changed_since;
                    }
                }
            }
            Step::DropStored => {
                for (range, file) in self.contents.drop_stored() {
                    self.file(file)[indexes(&range)].fill(254);
                }
            }
        }
    }

    fn write(&mut self, range: Range<u64>) {
        self.next_byte = (self.next_byte + 1) % 100;
        let mut at = range.start;
        for (piece, file) in self.contents.places(&range) {
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
                Source::Sent | Source::Copied(_) => unreachable!("nothing was sent"),
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

    fn check(&mut self) {
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
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let offset = 0..SIZE_MAX;
    let len = 1..10_u64;
    let step = prop_oneof![
        6 => (offset.clone(), len.clone()).prop_map(|(start, len)| Step::Write(start, len)),
        2 => (0..SIZE_MAX).prop_map(Step::SetLen),
        2 => (offset, len).prop_map(|(start, len)| Step::Zero(start, len)),
        2 => Just(Step::BeginStore),
        2 => any::<bool>().prop_map(Step::EndStore),
        1 => Just(Step::DropStored),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn every_byte_is_where_the_contents_say(
        base in prop::option::of(0..SIZE_MAX),
        steps in steps(),
    ) {
        let mut model = Model::new(base);
        model.check();
        for step in &steps {
            model.take(step);
            model.check();
        }
    }
}

/// The first copy of at least `least` bytes, where `changed` ranges of 100 bytes were written.
#[track_caller]
fn check_next(changed: &[(u64, u64)], at: u64, least: u64, expected: Option<u64>) {
    let mut contents = Contents::over(100);
    for (start, end) in changed {
        contents.wrote(*start..*end, DataFileNo::First);
    }
    let found = contents.now().next_copied(at, 100, least);
    assert_eq!(found, expected, "{changed:?} {at} {least}");
}

#[test]
fn copies_begin_where_enough_is_unchanged() {
    check_next(&[], 0, 100, Some(0));
    check_next(&[], 1, 100, None);
    check_next(&[(0, 1)], 0, 99, Some(1));
    check_next(&[(40, 50)], 0, 41, Some(50));
    check_next(&[(40, 50), (60, 61)], 0, 41, None);
    check_next(&[(40, 50), (60, 61)], 20, 39, Some(61));
    check_next(&[(0, 100)], 0, 1, None);
    check_next(&[(0, 200)], 0, 1, None);
}

#[test]
fn a_file_that_is_as_it_was_needs_no_store() {
    let mut contents = Contents::over(10);
    contents.set_len(10);
    contents.zero(&(10..20));
    assert!(!contents.is_changed());
    contents.touch();
    assert!(contents.is_changed());
    assert!(Contents::new().is_changed(), "an empty object is missing");
}

#[test]
fn neighbours_that_were_stored_are_one_range() {
    let mut contents = Contents::new();
    for at in 0..50 {
        contents.begin_store();
        contents.wrote(at..at + 1, DataFileNo::First);
        contents.end_store(true);
    }
    assert!(contents.range_count() <= 3, "{}", contents.range_count());
}
