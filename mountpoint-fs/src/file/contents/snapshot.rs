//! The contents of a staged file at one moment: what a store sends.

use std::ops::Range;
use std::sync::Arc;

use rangemap::RangeMap;

use super::piece::{CopyPlace, DataFileNo, Piece, Source};
use crate::write::CopiedRange;

/// The place of changed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Data(DataFileNo),
    Zeros,
    /// An unfinished upload.
    Sent,
    /// Another object.
    Copied(CopyPlace),
}

impl Place {
    fn source(self) -> Source {
        match self {
            Self::Data(file) => Source::Local(file),
            Self::Zeros => Source::Zeros,
            Self::Sent => Source::Sent,
            Self::Copied(place) => Source::Copied(place),
        }
    }
}

/// A change of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) place: Place,
    /// Counts from 1; 0 for a range that was stored.
    pub(super) generation: u64,
}

/// A range that does not show the base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::file) struct LocalRange {
    pub(in crate::file) range: Range<u64>,
    /// A data file; `None` for zeros.
    pub(in crate::file) place: Option<DataFileNo>,
    /// Whether the base has the same bytes there.
    pub(in crate::file) is_in_base: bool,
}

/// The contents at one moment.
#[derive(Clone, Debug)]
pub(in crate::file) struct Snapshot {
    pub(super) size: u64,
    /// The base shows through below this offset where nothing was changed.
    pub(super) base_len: u64,
    /// Local ranges: changed ones, and those that the base has as well.
    pub(super) changes: RangeMap<u64, Change>,
    /// Changes of later generations are not part of it.
    pub(super) generation: u64,
    /// The base has the changes of this generation and of those before.
    pub(super) stored: u64,
    /// Objects that the server copies, each as a whole.
    pub(super) copied: Arc<Vec<CopiedRange>>,
}

impl Snapshot {
    /// Bytes of the file.
    pub(in crate::file) fn size(&self) -> u64 {
        self.size
    }

    /// The offset below which the base shows through where nothing was changed.
    pub(in crate::file) fn base_len(&self) -> u64 {
        self.base_len
    }

    /// All ranges that are local, in order.
    pub(in crate::file) fn local(&self) -> impl Iterator<Item = LocalRange> {
        let stored = self.stored;
        self.changes.iter().filter_map(move |(range, change)| {
            let place = match change.place {
                Place::Data(file) => Some(file),
                Place::Zeros => None,
                Place::Sent | Place::Copied(_) => return None,
            };
            Some(LocalRange {
                range: range.clone(),
                place,
                is_in_base: change.generation <= stored,
            })
        })
    }

    /// The data file with the byte at the beginning of `run`, if it is in one, and as much of
    /// `run` as is the same there.
    pub(super) fn data_at(&self, run: Range<u64>) -> (Option<DataFileNo>, Range<u64>) {
        let next = self.changes.overlapping(run.clone()).next();
        let Some((range, change)) = next else {
            return (None, run);
        };
        if range.start > run.start {
            return (None, run.start..range.start);
        }
        let place = match change.place {
            Place::Data(file) => Some(file),
            Place::Zeros | Place::Sent | Place::Copied(_) => None,
        };
        (place, run.start..range.end.min(run.end))
    }

    /// Whether an unfinished upload alone has some of the bytes.
    pub(in crate::file) fn has_sent(&self) -> bool {
        self.has_sent_in(0..self.size)
    }

    /// Whether an unfinished upload alone has some bytes of `range`.
    pub(in crate::file) fn has_sent_in(&self, range: Range<u64>) -> bool {
        let is_sent = |(_, change): (_, &Change)| change.place == Place::Sent;
        !range.is_empty() && self.changes.overlapping(range).any(is_sent)
    }

    /// Ranges that are local.
    pub(in crate::file) fn range_count(&self) -> usize {
        self.changes.len()
    }

    /// The pieces of `range`, in order and cut at the end of the file.
    pub(in crate::file) fn pieces(&self, range: Range<u64>) -> Vec<Piece> {
        let range = range.start..range.end.min(self.size);
        let mut pieces = Vec::new();
        let mut at = range.start;
        if range.start >= range.end {
            return pieces;
        }
        for (changed, change) in self.changes.overlapping(range.clone()) {
            let changed = changed.start.max(range.start)..changed.end.min(range.end);
            self.unchanged(at..changed.start, &mut pieces);
            at = changed.end;
            pieces.push(Piece {
                range: changed,
                source: change.place.source(),
                is_in_base: change.generation <= self.stored,
            });
        }
        self.unchanged(at..range.end, &mut pieces);
        pieces
    }

    /// Adds the pieces of a range without changes.
    fn unchanged(&self, range: Range<u64>, pieces: &mut Vec<Piece>) {
        let shown = range.start..range.end.min(self.base_len);
        let behind = range.start.max(self.base_len)..range.end;
        for (range, source) in [(shown, Source::Base), (behind, Source::Zeros)] {
            if range.start < range.end {
                pieces.push(Piece {
                    range,
                    source,
                    is_in_base: source == Source::Base,
                });
            }
        }
    }

    /// The end of the bytes from `at` on that the base has as well; `at` if there are none.
    pub(in crate::file) fn in_base_until(&self, at: u64) -> u64 {
        let limit = self.size.min(self.base_len);
        let later = at..limit.max(at);
        if later.is_empty() {
            return at;
        }
        let mut changes = self.changes.overlapping(later);
        let changed = changes.find(|(_, change)| change.generation > self.stored);
        changed.map_or(limit, |(range, _)| range.start.max(at))
    }

    /// The end of the bytes from `at` on that the server can copy at once: those that the base has
    /// as well, or those of another object. `at` if there are none.
    pub(in crate::file) fn copied_until(&self, at: u64) -> u64 {
        match self.changes.get_key_value(&at) {
            Some((range, change)) if matches!(change.place, Place::Copied(_)) => {
                range.end.min(self.size)
            }
            _ => self.in_base_until(at),
        }
    }

    /// The object of the bytes at `at`, as a whole, and their place in it; `None` if it is the
    /// base.
    pub(in crate::file) fn copied_at(&self, at: u64) -> Option<(&CopiedRange, CopyPlace)> {
        match self.changes.get(&at)?.place {
            Place::Copied(place) => Some((self.copied.get(place.object)?, place)),
            Place::Data(_) | Place::Zeros | Place::Sent => None,
        }
    }

    /// Objects that the server copies, each as a whole.
    pub(in crate::file) fn copied(&self) -> &Arc<Vec<CopiedRange>> {
        &self.copied
    }

    /// The start of the first range of `least` bytes or more that begins at `at` or behind it,
    /// before `end`, and that the server can copy.
    pub(in crate::file) fn next_copied(&self, at: u64, end: u64, least: u64) -> Option<u64> {
        let mut at = at;
        while at < end {
            let until = self.copied_until(at);
            if until - at >= least {
                return Some(at);
            }
            at = self.piece_end(until);
        }
        None
    }

    /// The end of the changed range that has `at`, or the beginning of the next one.
    fn piece_end(&self, at: u64) -> u64 {
        let behind = self.changes.overlapping(at..u64::MAX).next();
        behind.map_or(u64::MAX, |(range, _)| match range.start > at {
            true => range.start,
            false => range.end,
        })
    }
}
