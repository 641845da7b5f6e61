//! The rule that chooses between the page cache and direct replies.
//!
//! Measured on two cores (doc/BENCHMARKING.md): direct replies cost a third less CPU time than the
//! page cache if an application reads 256 KiB or more at once, the same at 64 to 128 KiB, and
//! several times as much below 32 KiB, because each call is then a round trip. And bytes that
//! bypass the page cache are fetched again for each read. So direct replies are for large files
//! that cannot stay in memory anyway, read by programs that have read in large pieces. Unknown
//! files and programs use the page cache.

use crate::config::ReadMode;

/// Size of an application's reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadSize {
    /// Large enough that a round trip for each read does not matter.
    Large,
    /// So small that the page cache is faster.
    Small,
    /// The file was mapped, so that its bytes are in the page cache anyway.
    Mapped,
}

/// Records of a file that is being opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// Size of the reads of this file, at the last open.
    pub(super) file: Option<ReadSize>,
    /// Size of the opening program's reads of its last large file.
    pub(super) program: Option<ReadSize>,
    /// Number of current opens of this file.
    pub(super) opens: u32,
    /// Bytes that the mount has read since the last read of this file.
    pub(super) since_read: Option<u64>,
    /// Whether many large files are read again while the page cache could still hold them.
    pub(super) rereads: bool,
    /// Bytes that the mount has read in total.
    pub(super) consumed: u64,
    /// Memory that the page cache may take, in bytes.
    pub(super) memory: u64,
}

/// Whether replies bypass the page cache.
///
/// `known` is called only if the records matter.
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

/// Whether the page cache could still hold a file, after the mount has read `since` further bytes.
pub(super) fn is_reread(since: Option<u64>, memory: u64) -> bool {
    since.is_some_and(|bytes| bytes < memory / 2)
}

/// Share of the memory above which a file gets direct replies at its first read. One in so many
/// bytes.
const DIRECT_MEMORY_SHARE: u64 = 32;

/// Smallest file whose replies may bypass the page cache by the mount's choice. A smaller one gains
/// nothing.
pub(super) const DIRECT_FILE_MIN: u64 = 8 << 20;

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
