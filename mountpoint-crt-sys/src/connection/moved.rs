//! Counters of bytes that were read to their destination and written from their place, for tests.

use parking_lot::Mutex;

static PIECES: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

pub(crate) fn note(start: *const u8, len: usize) {
    PIECES.lock().push((start.addr(), len));
}

/// Bytes of this memory that were, and forgets them.
pub(crate) fn take(start: *const u8, len: usize) -> usize {
    let memory = start.addr()..start.addr() + len;
    let pieces = &mut *PIECES.lock();
    let ours = pieces.extract_if(.., |(start, _)| memory.contains(start));
    ours.map(|(_, len)| len).sum()
}
