//! Size of the reads of one open, learned from the first few of them.
//!
//! Makes no choice and owns no lock. Any thread.

use std::sync::atomic::{AtomicU32, Ordering};

use super::history::{FileId, ProgramId};
use super::policy::ReadSize;

/// The first reads of one open of a large file.
#[derive(Debug)]
pub struct ReadWatch {
    pub(super) file: FileId,
    pub(super) program: ProgramId,
    pub(super) is_direct: bool,
    /// Number of reads so far.
    reads: AtomicU32,
    /// Number of small reads among them.
    small: AtomicU32,
}

impl ReadWatch {
    pub(super) fn new(file: FileId, program: ProgramId, is_direct: bool) -> Self {
        Self {
            file,
            program,
            is_direct,
            reads: AtomicU32::new(0),
            small: AtomicU32::new(0),
        }
    }

    /// Observes a read of the file. Returns the size of its program's reads, once that is known.
    ///
    /// `fills_cache` tells that the kernel reads for its page cache, not the application itself;
    /// `readahead` is the kernel's, in bytes.
    pub(super) fn observe(
        &self,
        offset: u64,
        size: u32,
        fills_cache: bool,
        readahead: u32,
    ) -> Option<ReadSize> {
        // After the first few reads only this load remains.
        if self.reads.load(Ordering::Relaxed) >= READS_WATCHED {
            return None;
        }
        let number = self.reads.fetch_add(1, Ordering::Relaxed) + 1;
        match (self.is_direct, fills_cache) {
            (true, true) => {
                self.reads.store(READS_WATCHED, Ordering::Relaxed);
                Some(ReadSize::Mapped)
            }
            (true, false) => self.observe_direct(number, size),
            (false, true) if number == 1 => {
                self.reads.store(READS_WATCHED, Ordering::Relaxed);
                size_of_reader(offset, size, readahead)
            }
            // The application has set O_DIRECT after the open.
            (false, _) => None,
        }
    }

    fn observe_direct(&self, number: u32, size: u32) -> Option<ReadSize> {
        if size < DIRECT_READ_MIN {
            self.small.fetch_add(1, Ordering::Relaxed);
        }
        let is_small = self.small.load(Ordering::Relaxed) > READS_WATCHED / 2;
        (number == READS_WATCHED).then_some(if is_small {
            ReadSize::Small
        } else {
            ReadSize::Large
        })
    }
}

/// The size of the application's reads, derived from the first READ for the page cache.
///
/// At the beginning of a file Linux reads two to four times the application's size, or its whole
/// read-ahead if the application reads more than a quarter of that (`get_init_ra_size` in
/// mm/readahead.c). Anywhere else it reads the application's size.
fn size_of_reader(offset: u64, size: u32, readahead: u32) -> Option<ReadSize> {
    if offset == 0 {
        return Some(if size >= readahead {
            ReadSize::Large
        } else {
            ReadSize::Small
        });
    }
    if size >= readahead {
        Some(ReadSize::Large)
    } else {
        (size < DIRECT_READ_MIN).then_some(ReadSize::Small)
    }
}

/// Number of reads to observe in a direct open.
pub(super) const READS_WATCHED: u32 = 16;

/// Size from which direct reads are as fast as cached ones. Measured: 64 KiB.
const DIRECT_READ_MIN: u32 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u32 = 1 << 10;

    #[test]
    fn the_first_read_ahead_tells_the_size_of_reads() {
        for (offset, kib, expected) in [
            (0, 16, Some(ReadSize::Small)),
            (0, 128, Some(ReadSize::Small)),
            (0, 512, Some(ReadSize::Large)),
            (4096, 4, Some(ReadSize::Small)),
            (4096, 128, None),
            (4096, 512, Some(ReadSize::Large)),
        ] {
            assert_eq!(
                size_of_reader(offset, kib * KIB, 512 * KIB),
                expected,
                "{kib} KiB at {offset}"
            );
        }
    }
}
