//! How an object is cut into extents, and where a range lies in the stored form of one.
//!
//! Pure. An extent is a multiple of the planner's parts, so that a part lies within one extent. The
//! stored form is the extent's chunks in order, each with a trailer behind it
//! ([`frame`](super::frame)).

use std::ops::Range;

/// One extent of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cache::shared) struct ExtentPlace {
    /// Its number in the object, from 0.
    pub(in crate::cache::shared) number: u64,
    /// Its bytes of the object.
    pub(in crate::cache::shared) range: Range<u64>,
}

impl ExtentPlace {
    /// The extent with the byte at `offset` of an object of `size` bytes.
    pub(in crate::cache::shared) fn at(offset: u64, size: u64) -> Self {
        assert!(offset < size);
        let number = (offset / EXTENT_LEN).min(count(size) - 1);
        let start = number * EXTENT_LEN;
        let is_last = number + 1 == count(size);
        let end = if is_last { size } else { start + EXTENT_LEN };
        Self {
            number,
            range: start..end,
        }
    }

    /// Its length.
    pub(in crate::cache::shared) fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Bytes of its stored form.
    pub(in crate::cache::shared) fn stored_len(&self) -> u64 {
        self.len() + self.len().div_ceil(CHUNK_LEN) * TRAILER_LEN
    }

    /// The bytes of its stored form that hold `wanted`, which lies within it: whole chunks with
    /// their trailers.
    pub(in crate::cache::shared) fn stored_range(&self, wanted: &Range<u64>) -> Range<u64> {
        assert!(self.range.start <= wanted.start);
        assert!(wanted.end <= self.range.end);
        let first = (wanted.start - self.range.start) / CHUNK_LEN;
        let end = (wanted.end - self.range.start).div_ceil(CHUNK_LEN);
        first * FRAME_LEN..(end * FRAME_LEN).min(self.stored_len())
    }
}

/// `range` of an object of `size` bytes, divided where one extent ends and the next begins.
pub(in crate::cache::shared) fn divide(range: &Range<u64>, size: u64) -> Vec<Range<u64>> {
    let mut parts = Vec::new();
    let mut from = range.start;
    while from < range.end {
        let end = ExtentPlace::at(from, size).range.end.min(range.end);
        parts.push(from..end);
        from = end;
    }
    parts
}

/// Extents of an object. A rest below a quarter of an extent belongs to the extent before, as the
/// planner has it with parts.
fn count(size: u64) -> u64 {
    let rest = u64::from(size % EXTENT_LEN >= EXTENT_LEN / 4);
    (size / EXTENT_LEN + rest).max(1)
}

/// Bytes of an extent: the longest part of a stream, so that an extent costs no more requests than
/// its bytes cost without a cache, and 128 PUTs fill a GiB.
pub(in crate::cache::shared) const EXTENT_LEN: u64 = 8 << 20;

/// Bytes with a checksum of their own: what a read of a few bytes fetches.
pub(in crate::cache::shared) const CHUNK_BYTES: usize = 16 << 10;
pub(in crate::cache::shared) const CHUNK_LEN: u64 = CHUNK_BYTES as u64;

/// Bytes behind each chunk.
pub(in crate::cache::shared) const TRAILER_BYTES: usize = 24;
const TRAILER_LEN: u64 = TRAILER_BYTES as u64;

/// A chunk with its trailer.
pub(in crate::cache::shared) const FRAME_BYTES: usize = CHUNK_BYTES + TRAILER_BYTES;
const FRAME_LEN: u64 = FRAME_BYTES as u64;

/// Most bytes of a stored form: an extent with the rest behind it, and its trailers.
pub(in crate::cache::shared) const STORED_LEN_MAX: u64 =
    (EXTENT_LEN + EXTENT_LEN / 4) / CHUNK_LEN * FRAME_LEN;

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[track_caller]
    fn check(size: u64, expected: &[Range<u64>]) {
        assert_eq!(divide(&(0..size), size), expected, "{size}");
        for (number, range) in expected.iter().enumerate() {
            for offset in [range.start, range.end - 1] {
                let place = ExtentPlace::at(offset, size);
                assert_eq!(place.number, number as u64, "{offset} of {size}");
                assert_eq!(place.range, *range, "{offset} of {size}");
            }
        }
    }

    #[test]
    fn objects_are_cut_as_parts_are() {
        check(1, std::slice::from_ref(&(0..1)));
        check(8 * MIB, std::slice::from_ref(&(0..8 * MIB)));
        check(10 * MIB - 1, std::slice::from_ref(&(0..10 * MIB - 1)));
        check(10 * MIB, &[0..8 * MIB, 8 * MIB..10 * MIB]);
        check(17 * MIB, &[0..8 * MIB, 8 * MIB..17 * MIB]);
        check(
            18 * MIB,
            &[0..8 * MIB, 8 * MIB..16 * MIB, 16 * MIB..18 * MIB],
        );
    }

    #[test]
    fn a_range_is_divided_at_extents_only() {
        assert_eq!(divide(&(5..9), 100), std::slice::from_ref(&(5..9)));
        let across = 8 * MIB - 1..16 * MIB + 1;
        let parts = [
            8 * MIB - 1..8 * MIB,
            8 * MIB..16 * MIB,
            16 * MIB..16 * MIB + 1,
        ];
        assert_eq!(divide(&across, 100 * MIB), parts);
    }

    #[test]
    fn a_few_bytes_cost_a_chunk() {
        let place = ExtentPlace::at(8 * MIB, 18 * MIB);
        let at =
            |range: Range<u64>| place.stored_range(&(8 * MIB + range.start..8 * MIB + range.end));
        assert_eq!(at(0..1), 0..FRAME_LEN);
        assert_eq!(at(CHUNK_LEN - 1..CHUNK_LEN + 1), 0..2 * FRAME_LEN);
        assert_eq!(at(CHUNK_LEN..CHUNK_LEN + 1), FRAME_LEN..2 * FRAME_LEN);
        assert_eq!(at(0..8 * MIB), 0..place.stored_len());
        assert_eq!(place.stored_len(), 8 * MIB + 512 * TRAILER_LEN);
        let longest = ExtentPlace::at(0, 10 * MIB - 1);
        assert_eq!(longest.stored_len(), STORED_LEN_MAX - 1);
        let short = ExtentPlace::at(0, CHUNK_LEN + 5);
        assert_eq!(
            short.stored_range(&(CHUNK_LEN..CHUNK_LEN + 5)).end,
            short.stored_len()
        );
    }
}
