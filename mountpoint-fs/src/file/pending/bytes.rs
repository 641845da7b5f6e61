//! The local bytes of a version that waits for its upload.

use std::fs::File;
use std::io;
use std::ops::Range;

use crate::file::kept::{KeptPlace, read_files};

/// The local bytes of a version.
#[derive(Debug)]
pub(crate) enum PendingBytes {
    /// Ranges in order, one behind the other, in the record.
    Inline(Vec<Range<u64>>, Vec<u8>),
    /// The data files, where they are.
    Files([Option<File>; 2]),
}

impl PendingBytes {
    /// The bytes of `range`, which is in one place.
    pub(crate) fn read(&self, place: KeptPlace, range: &Range<u64>) -> io::Result<Vec<u8>> {
        let (ranges, bytes) = match self {
            Self::Files(files) => return read_files(files, place, range),
            Self::Inline(ranges, bytes) => (ranges, bytes),
        };
        let missing = || io::Error::new(io::ErrorKind::NotFound, "the record lacks its bytes");
        let mut before = 0;
        for its in ranges {
            if its.start <= range.start && range.end <= its.end {
                let start = before + (range.start - its.start);
                let end = start + (range.end - range.start);
                let place = usize::try_from(start).ok().zip(usize::try_from(end).ok());
                let found = place.and_then(|(start, end)| bytes.get(start..end));
                return found.map(<[u8]>::to_vec).ok_or_else(missing);
            }
            before += its.end - its.start;
        }
        Err(missing())
    }
}
