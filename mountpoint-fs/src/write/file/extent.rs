//! The length of a file, and its gaps.

use crate::operation::FsError;

/// The length of a written file.
#[derive(Debug)]
pub(in crate::write) struct Extent {
    /// Bytes taken so far: the offset of the next write.
    pub(in crate::write) end: u64,
    /// End of the last bytes that the application wrote. Bytes behind it are zeros of a gap whose
    /// write has not come yet.
    pub(in crate::write) written: u64,
    /// The length set by the application; 0 without one.
    pub(in crate::write) len_set: u64,
    /// Zeros that fill gaps.
    pub(in crate::write) zeros: u64,
    /// Whether gaps are filled. Files that are appended to have none.
    pub(in crate::write) takes_gaps: bool,
    /// The error of a length that could not be set, until bytes are written.
    pub(in crate::write) refused_len: Option<FsError>,
}

impl Extent {
    /// The extent of a file that begins with `end` bytes.
    pub(in crate::write) fn new(end: u64, takes_gaps: bool) -> Self {
        Self {
            end,
            written: end,
            len_set: 0,
            zeros: 0,
            takes_gaps,
            refused_len: None,
        }
    }

    /// The length of the file.
    pub(in crate::write) fn len(&self) -> u64 {
        self.end.max(self.len_set)
    }

    /// Adds `len` bytes at the end.
    pub(in crate::write) fn advance(&mut self, len: u64) {
        self.restart(self.end + len);
    }

    /// Sets the end: all bytes before `end` were taken, and none behind.
    pub(in crate::write) fn restart(&mut self, end: u64) {
        (self.end, self.written) = (end, end);
    }

    /// Whether a write of `len` bytes at `offset` leaves a gap that is filled with zeros.
    pub(in crate::write) fn is_gap(&self, offset: u64, len: usize) -> bool {
        offset > self.end && len > 0 && self.takes_gaps
    }
}
