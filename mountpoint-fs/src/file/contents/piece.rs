//! A range of a staged file with the place of its bytes.

use std::ops::Range;

/// One of the two data files of a staged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::file) enum DataFileNo {
    First,
    /// Takes writes over bytes of the first one that a store is about to send.
    Second,
}

impl DataFileNo {
    /// Both.
    pub(in crate::file) const ALL: [Self; 2] = [Self::First, Self::Second];
}

/// The place of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::file) enum Source {
    /// A data file, at their own offset.
    Local(DataFileNo),
    /// Nowhere: they are zeros.
    Zeros,
    /// The base, at their own offset.
    Base,
    /// A part that S3 has of an upload that is not completed: they cannot be read.
    Sent,
    /// Another object, which the server copies.
    Copied(CopyPlace),
}

/// The place of bytes in an object that the server copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::file) struct CopyPlace {
    /// The object's place among those of the file.
    pub(super) object: usize,
    /// The offset in the object less that in the file.
    pub(super) shift: i64,
}

impl CopyPlace {
    /// The object's place among those of the file.
    pub(in crate::file) fn object(self) -> usize {
        self.object
    }

    /// The range of the object that has `range` of the file.
    pub(in crate::file) fn of(self, range: &Range<u64>) -> Range<u64> {
        let at = |offset: u64| offset.saturating_add_signed(self.shift);
        at(range.start)..at(range.end)
    }
}

/// A range of bytes in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::file) struct Piece {
    pub(in crate::file) range: Range<u64>,
    pub(in crate::file) source: Source,
    /// Whether the base has the same bytes there.
    pub(in crate::file) is_in_base: bool,
}

impl Piece {
    /// Bytes in it.
    pub(in crate::file) fn len(&self) -> u64 {
        self.range.end - self.range.start
    }
}
