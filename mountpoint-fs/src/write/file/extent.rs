//! How long a file is, and where it has gaps.

use crate::operation::FsError;

/// The length of a file that is written.
#[derive(Debug)]
pub(in crate::write) struct Extent {
    /// Bytes taken so far: where the next write begins.
    pub(in crate::write) end: u64,
    /// End of the last bytes that the application wrote; behind it are zeros of a gap whose own
    /// write has not come yet.
    pub(in crate::write) written: u64,
    /// The length that was set; 0 if none was.
    pub(in crate::write) len_set: u64,
    /// Zeros that were taken for gaps.
    pub(in crate::write) zeros: u64,
    /// Whether gaps are filled: not where the file is appended to.
    pub(in crate::write) takes_gaps: bool,
    /// Whether the file was opened for reading, too.
    pub(in crate::write) is_for_both: bool,
    /// Why a length could not be set, until bytes are written.
    pub(in crate::write) refused_len: Option<FsError>,
}

impl Extent {
    /// Of a file that begins with `end` bytes.
    pub(in crate::write) fn new(end: u64, takes_gaps: bool) -> Self {
        Self {
            end,
            written: end,
            len_set: 0,
            zeros: 0,
            takes_gaps,
            is_for_both: false,
            refused_len: None,
        }
    }

    /// The length of the file.
    pub(in crate::write) fn len(&self) -> u64 {
        self.end.max(self.len_set)
    }

    /// `len` bytes were taken at the end.
    pub(in crate::write) fn advance(&mut self, len: u64) {
        self.restart(self.end + len);
    }

    /// All bytes before `end` were taken, and none behind.
    pub(in crate::write) fn restart(&mut self, end: u64) {
        (self.end, self.written) = (end, end);
    }

    /// Whether a write of `len` bytes at `offset` leaves a gap that is filled with zeros.
    pub(in crate::write) fn is_gap(&self, offset: u64, len: usize) -> bool {
        // A program that makes a readable file long by its last byte is about to map it
        // (`numpy.memmap`).
        let is_to_be_mapped =
            self.is_for_both && self.end == 0 && offset > self.len_set && len == 1;
        offset > self.end && len > 0 && self.takes_gaps && !is_to_be_mapped
    }
}
