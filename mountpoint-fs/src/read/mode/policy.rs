//! The rule that chooses between the page cache and direct replies.
//!
//! Measured on two cores (doc/BENCHMARKING.md): direct replies cost a third less CPU than replies
//! through the page cache when an application reads 256 KiB or more at once, as much at 64 to 128
//! KiB, and several times as much below 32 KiB, since each call is then a round trip. And what
//! bypasses the page cache is fetched again when it is read again. So direct replies are for large
//! files that cannot stay in memory anyway, read by programs that have shown that they read in
//! large pieces. Unknown files and programs are cached.

use crate::config::ReadMode;
use crate::config::limits::{DIRECT_FILE_MIN, DIRECT_MEMORY_SHARE};

/// The size of an application's reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadSize {
    /// So large that a round trip for each is no matter.
    Large,
    /// So small that the page cache is faster.
    Small,
    /// The file was mapped: its bytes are in the page cache in any case.
    Mapped,
}

/// What is known of a file that is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// How this file was read the last time.
    pub(super) file: Option<ReadSize>,
    /// How the program that opens it read the last large file.
    pub(super) program: Option<ReadSize>,
    /// Opens of this file that have not ended.
    pub(super) opens: u32,
    /// Bytes that the mount has read since this file was last read.
    pub(super) since_read: Option<u64>,
    /// Many large files are read again while the page cache could still hold them.
    pub(super) rereads: bool,
    /// Bytes that the mount has read in all.
    pub(super) consumed: u64,
    /// Memory that the page cache may come to take, in bytes.
    pub(super) memory: u64,
}

/// Whether replies are to bypass the page cache.
///
/// `known` is asked only for files where it matters.
pub(super) fn choose(
    mode: ReadMode,
    is_asked_for: bool,
    size: u64,
    known: impl FnOnce() -> Known,
) -> bool {
    match mode {
        _ if is_asked_for => true,
        ReadMode::Direct => true,
        ReadMode::Cached => false,
        ReadMode::Auto if size < DIRECT_FILE_MIN => false,
        ReadMode::Auto => is_direct_better(size, &known()),
    }
}

fn is_direct_better(size: u64, known: &Known) -> bool {
    if known.opens > 0 || known.rereads || is_reread(known.since_read, known.memory) {
        return false;
    }
    let reads_large = match (known.file, known.program) {
        (Some(ReadSize::Mapped | ReadSize::Small), _) => false,
        (_, program) => program == Some(ReadSize::Large),
    };
    let is_too_large = size >= known.memory / DIRECT_MEMORY_SHARE;
    reads_large && (is_too_large || known.consumed >= known.memory)
}

/// Whether a file that was read `since` bytes of reads ago is one that the page cache could still
/// hold.
pub(super) fn is_reread(since: Option<u64>, memory: u64) -> bool {
    since.is_some_and(|bytes| bytes < memory / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    const KNOWN: Known = Known {
        file: None,
        program: Some(ReadSize::Large),
        opens: 0,
        since_read: None,
        rereads: false,
        consumed: 0,
        memory: 32 * GIB,
    };

    #[track_caller]
    fn check(size: u64, known: Known, is_direct: bool) {
        assert_eq!(choose(ReadMode::Auto, false, size, || known), is_direct);
    }

    #[test]
    fn flags_decide_before_history() {
        for (mode, is_asked_for, is_direct) in [
            (ReadMode::Cached, false, false),
            (ReadMode::Direct, false, true),
            (ReadMode::Cached, true, true),
            (ReadMode::Auto, true, true),
        ] {
            let unasked = || panic!("history was asked for nothing");
            assert_eq!(choose(mode, is_asked_for, 1, unasked), is_direct);
        }
    }

    #[test]
    fn what_is_not_known_is_cached() {
        check(
            GIB,
            Known {
                program: None,
                ..KNOWN
            },
            false,
        );
        assert!(!choose(ReadMode::Auto, false, 1 << 20, || KNOWN));
    }

    #[test]
    fn large_reads_of_what_memory_cannot_hold_are_direct() {
        check(GIB, KNOWN, true);
        check(GIB - 1, KNOWN, false);
        let many = Known {
            consumed: 32 * GIB,
            ..KNOWN
        };
        check(8 << 20, many, true);
        check((8 << 20) - 1, many, false);
    }

    #[test]
    fn small_reads_and_maps_are_cached() {
        for file in [ReadSize::Small, ReadSize::Mapped] {
            let known = Known {
                file: Some(file),
                ..KNOWN
            };
            check(GIB, known, false);
        }
        for program in [ReadSize::Small, ReadSize::Mapped] {
            let known = Known {
                program: Some(program),
                ..KNOWN
            };
            check(GIB, known, false);
        }
        let known = Known {
            file: Some(ReadSize::Large),
            ..KNOWN
        };
        check(GIB, known, true);
    }

    #[test]
    fn what_is_read_again_soon_or_by_two_at_once_is_cached() {
        check(GIB, Known { opens: 1, ..KNOWN }, false);
        for (since, is_direct) in [(0, false), (16 * GIB - 1, false), (16 * GIB, true)] {
            let file = Known {
                since_read: Some(since),
                ..KNOWN
            };
            check(GIB, file, is_direct);
        }
        let mount = Known {
            rereads: true,
            ..KNOWN
        };
        check(GIB, mount, false);
    }
}
