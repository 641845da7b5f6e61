//! Which bytes of a version are there, in memory.
//!
//! The object is divided into chunks of [`CHUNK`] bytes, the last one shorter. An extent is a range
//! inside one chunk that has one checksum: it is read and compared as a whole. Where all is fetched
//! as whole chunks, each costs 6 bytes here; chunks of which nothing is there cost nothing.

use std::collections::BTreeMap;
use std::ops::Range;

use super::whole_chunks::{GROUP_BYTES, WholeChunks};

/// Bytes that have one checksum, if they were fetched together. Small enough that a random read of
/// 4 KiB out of it stays cheap, large enough that the index of 10 GiB is 4 MiB.
pub(in crate::cache) const CHUNK: u64 = 64 << 10;

/// Most extents of one chunk: sixteen reads of a page each. Further bytes make one extent with
/// their neighbours, or take the place of a shorter one.
const EXTENTS_PER_CHUNK_MAX: usize = 16;

/// Bytes that are there, inside one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) struct Extent {
    /// First byte of the object.
    pub(in crate::cache) start: u64,
    pub(in crate::cache) len: u32,
    /// CRC32C of its bytes.
    pub(in crate::cache) crc: u32,
}

impl Extent {
    /// Its bytes of the object.
    pub(in crate::cache) fn range(&self) -> Range<u64> {
        self.start..self.start.saturating_add(u64::from(self.len))
    }
}

/// The extent that missing bytes of one chunk become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cache) struct Placement {
    /// The missing bytes.
    pub(in crate::cache) piece: Range<u64>,
    /// They and their neighbours, if these become one extent with them.
    pub(in crate::cache) extent: Range<u64>,
    /// The extents that have the other bytes of `extent`.
    pub(in crate::cache) neighbours: Vec<Extent>,
}

/// The extents of one version.
#[derive(Clone, Debug)]
pub(in crate::cache) struct Extents {
    size: u64,
    /// Chunks that are one extent.
    whole: WholeChunks,
    /// The extents of other chunks, by start; they may overlap.
    parts: BTreeMap<u64, Vec<Extent>>,
    /// Memory of `parts`, in bytes.
    parts_memory: u64,
    /// Bytes that are there.
    bytes: u64,
}

impl Extents {
    /// None of an object of `size` bytes.
    pub(in crate::cache) fn new(size: u64) -> Self {
        Self {
            size,
            whole: WholeChunks::default(),
            parts: BTreeMap::new(),
            parts_memory: 0,
            bytes: 0,
        }
    }

    /// Bytes that are there.
    pub(in crate::cache) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of memory that the extents take.
    pub(in crate::cache) fn memory(&self) -> u64 {
        self.whole.memory() + self.parts_memory
    }

    /// Whether all bytes are there.
    pub(in crate::cache) fn is_whole(&self) -> bool {
        self.bytes == self.size
    }

    /// Adds an extent. `false` if it lies outside the object or crosses chunks; nothing is added
    /// then. An extent that tells nothing new is not added either. Those that it contains go; in a
    /// chunk with too many the shortest goes, if it is shorter.
    pub(in crate::cache) fn add(&mut self, extent: Extent) -> bool {
        let range = extent.range();
        let number = extent.start / CHUNK;
        let chunk = self.chunk(number);
        if range.is_empty() || range.end > chunk.end {
            return false;
        }
        if self.covers(&range) {
            return true;
        }
        let before = self.covered_of(number);
        if range == chunk {
            let parts = self.parts.remove(&number);
            self.parts_memory -= parts.as_ref().map_or(0, memory_of);
            self.whole.insert(number, extent.crc);
        } else {
            let parts = self.parts.entry(number).or_default();
            let before = if parts.is_empty() {
                0
            } else {
                memory_of(parts)
            };
            insert(parts, extent);
            self.parts_memory = self.parts_memory - before + memory_of(parts);
        }
        self.bytes = self.bytes - before + self.covered_of(number);
        true
    }

    /// The extent that the missing bytes `piece`, which lie in one chunk, become; `None` if they
    /// would not be remembered.
    pub(in crate::cache) fn place(&self, piece: Range<u64>) -> Option<Placement> {
        let extents = match self.parts.get(&(piece.start / CHUNK)) {
            Some(extents) if extents.len() >= EXTENTS_PER_CHUNK_MAX => &extents[..],
            _ => &[],
        };
        let mut extent = piece.clone();
        let mut neighbours: Vec<Extent> = Vec::new();
        while let Some(next) = extents.iter().find(|other| {
            let range = other.range();
            let touches = range.start <= extent.end && range.end >= extent.start;
            touches && (range.start < extent.start || range.end > extent.end)
        }) {
            extent = extent.start.min(next.start)..extent.end.max(next.range().end);
            neighbours.push(*next);
        }
        let is_long = |other: &Extent| u64::from(other.len) >= piece.end - piece.start;
        let has_room = extents.is_empty() || !extents.iter().all(is_long);
        (has_room || !neighbours.is_empty()).then_some(Placement {
            piece,
            extent,
            neighbours,
        })
    }

    /// Whether all bytes of `range` are there.
    pub(in crate::cache) fn covers(&self, range: &Range<u64>) -> bool {
        self.first_gap(range).is_none()
    }

    /// The extents that together have all bytes of `range`, in order; `None` if some are missing.
    /// Neighbours may overlap.
    pub(in crate::cache) fn of(&self, range: &Range<u64>) -> Option<Vec<Extent>> {
        let mut found = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let extent = self.longest_at(at)?;
            at = extent.range().end;
            found.push(extent);
        }
        Some(found)
    }

    /// Divides `range` where bytes that are there meet bytes that are not: ranges in order, each
    /// with whether it is there.
    pub(in crate::cache) fn divide(&self, range: &Range<u64>) -> Vec<(Range<u64>, bool)> {
        let mut parts = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let gap = self
                .first_gap(&(at..range.end))
                .unwrap_or(range.end..range.end);
            if at < gap.start {
                parts.push((at..gap.start, true));
            }
            if gap.start < gap.end {
                parts.push((gap.clone(), false));
            }
            at = gap.end;
        }
        parts
    }

    /// The bytes of `range` to store so that all are there: ranges in order. Bytes that are
    /// there are among them only in chunks that have no place for the extents between theirs.
    pub(in crate::cache) fn to_store(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut found: Vec<Range<u64>> = Vec::new();
        let gaps = self.divide(range).into_iter();
        for (gap, _) in gaps.filter(|(_, is_there)| !is_there) {
            let first = self.chunk_to_store(gap.start / CHUNK, range);
            let last = self.chunk_to_store((gap.end - 1) / CHUNK, range);
            let start = first.map_or(gap.start, |chunk| chunk.start);
            let end = last.map_or(gap.end, |chunk| chunk.end);
            match found.last_mut() {
                Some(before) if start <= before.end => before.end = end,
                _ => found.push(start..end),
            }
        }
        found
    }

    /// The bytes of a chunk in `range` that has too many extents for others between them.
    fn chunk_to_store(&self, number: u64, range: &Range<u64>) -> Option<Range<u64>> {
        let chunk = self.chunk(number);
        let parts = self.parts.get(&number);
        let is_crowded = parts.is_some_and(|parts| 2 * parts.len() + 1 > EXTENTS_PER_CHUNK_MAX);
        (is_crowded && range.start <= chunk.start && chunk.end <= range.end).then_some(chunk)
    }

    /// The first bytes of `range` that are not there.
    fn first_gap(&self, range: &Range<u64>) -> Option<Range<u64>> {
        if self.is_whole() && range.end <= self.size {
            return None;
        }
        let mut at = self.end_of_whole_chunks(range);
        while at < range.end {
            let Some(extent) = self.longest_at(at) else {
                return Some(at..self.next_start(at, range.end));
            };
            at = self.end_of_whole_chunks(&(extent.range().end..range.end));
        }
        None
    }

    /// Where the chunks end that are one extent each, without a gap from the start of `range` on;
    /// its start if there are none. May lie behind `range`.
    fn end_of_whole_chunks(&self, range: &Range<u64>) -> u64 {
        let first = range.start / CHUNK;
        match self.whole.end_of_run(first) {
            end if end == first => range.start,
            end => end.saturating_mul(CHUNK).min(self.size),
        }
    }

    /// Where the first extent behind `at` begins, at most `end`.
    fn next_start(&self, at: u64, end: u64) -> u64 {
        let whole = self.whole.next((at / CHUNK).saturating_add(1));
        let whole = whole.map_or(end, |number| number * CHUNK);
        let parts = self.parts.range(at / CHUNK..);
        let mut starts = parts.flat_map(|(_, parts)| parts.iter().map(|extent| extent.start));
        let part = starts.find(|start| *start > at).unwrap_or(end);
        whole.min(part).min(end)
    }

    /// The extent with byte `at` that reaches furthest.
    fn longest_at(&self, at: u64) -> Option<Extent> {
        let number = at / CHUNK;
        if let Some(crc) = self.whole.get(number) {
            let Range { start, end } = self.chunk(number);
            let len = u32::try_from(end - start).expect("a chunk is small");
            return (at < end).then_some(Extent { start, len, crc });
        }
        let parts = self.parts.get(&number)?.iter();
        let have = parts.filter(|extent| extent.range().contains(&at));
        have.max_by_key(|extent| extent.range().end).copied()
    }

    /// Bytes of a chunk that are there.
    fn covered_of(&self, number: u64) -> u64 {
        if self.whole.get(number).is_some() {
            let Range { start, end } = self.chunk(number);
            return end - start;
        }
        let (mut covered, mut end) = (0, 0);
        for extent in self.parts.get(&number).into_iter().flatten() {
            let range = extent.range();
            covered += range.end.saturating_sub(range.start.max(end));
            end = end.max(range.end);
        }
        covered
    }

    /// The bytes of a chunk.
    fn chunk(&self, number: u64) -> Range<u64> {
        let start = number.saturating_mul(CHUNK).min(self.size);
        start..start.saturating_add(CHUNK).min(self.size)
    }
}

/// Bytes of memory of the extents of one chunk.
fn memory_of(parts: &Vec<Extent>) -> u64 {
    PARTS_BYTES + (parts.capacity() * size_of::<Extent>()) as u64
}

/// Adds an extent to those of a chunk, by start.
fn insert(extents: &mut Vec<Extent>, extent: Extent) {
    let range = extent.range();
    extents.retain(|other| other.start < range.start || other.range().end > range.end);
    if extents.len() >= EXTENTS_PER_CHUNK_MAX {
        let lens = extents.iter().map(|other| other.len).enumerate();
        match lens.min_by_key(|(_, len)| *len) {
            Some((shortest, len)) if len < extent.len => drop(extents.remove(shortest)),
            _ => return,
        }
    }
    let place = extents.partition_point(|other| other.start <= extent.start);
    extents.insert(place, extent);
}

/// Memory of a chunk's extents besides these: their place in a map whose nodes are half full, and
/// what the allocator needs.
const PARTS_BYTES: u64 = 96;

/// Most memory that one extent more takes: a group of chunks or of extents of its own, or twice as
/// much room as the others had.
pub(in crate::cache) const EXTENT_MEMORY_MAX: u64 = GROUP_BYTES + 128;

/// `range`, divided where chunks meet.
pub(in crate::cache) fn by_chunk(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let Range { mut start, end } = *range;
    std::iter::from_fn(move || {
        let piece = start..((start / CHUNK + 1) * CHUNK).min(end);
        start = piece.end;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: u64 = 3 * CHUNK + 1000;

    fn extent(start: u64, len: u32) -> Extent {
        Extent { start, len, crc: 1 }
    }

    #[test]
    fn extents_outside_a_chunk_are_refused() {
        let mut extents = Extents::new(SIZE);
        for (start, len) in [
            (0, 0),
            (CHUNK - 1, 2),
            (SIZE, 1),
            (3 * CHUNK, 1001),
            (u64::MAX, 1),
        ] {
            assert!(!extents.add(extent(start, len)), "{start} {len}");
        }
        assert_eq!(extents.bytes(), 0);
    }

    #[test]
    fn the_last_chunk_is_short() {
        let mut extents = Extents::new(SIZE);
        assert!(extents.add(extent(3 * CHUNK, 1000)));
        assert_eq!(extents.bytes(), 1000);
        assert_eq!(
            extents.of(&(SIZE - 1..SIZE)).unwrap(),
            [extent(3 * CHUNK, 1000)]
        );
    }

    #[test]
    fn ranges_divide_where_bytes_begin_and_end() {
        let mut extents = Extents::new(SIZE);
        extents.add(extent(4096, 4096));
        extents.add(extent(CHUNK, 65536));
        let parts = extents.divide(&(0..3 * CHUNK));
        let expected = [
            (0..4096, false),
            (4096..8192, true),
            (8192..CHUNK, false),
            (CHUNK..2 * CHUNK, true),
            (2 * CHUNK..3 * CHUNK, false),
        ];
        assert_eq!(parts, expected);
    }

    #[test]
    fn a_chunk_of_many_extents_is_stored_as_a_whole() {
        let mut extents = Extents::new(SIZE);
        for number in 0..7 {
            extents.add(extent(CHUNK + number * 8192, 100));
        }
        let first = CHUNK + 100..CHUNK + 8192;
        assert_eq!(extents.to_store(&(CHUNK..2 * CHUNK))[0], first);
        extents.add(extent(CHUNK + 7 * 8192, 100));
        let all = 0..SIZE;
        assert_eq!(extents.to_store(&all), [all]);
        let whole = CHUNK..2 * CHUNK;
        assert_eq!(extents.to_store(&whole), [whole]);
        let part = CHUNK..2 * CHUNK - 1;
        assert_eq!(extents.to_store(&part)[0], first);
    }

    #[test]
    fn a_crowded_chunk_joins_neighbours_and_drops_the_shortest() {
        let mut extents = Extents::new(SIZE);
        for number in 0..16 {
            assert_eq!(
                extents
                    .place(number * 4000..number * 4000 + 100)
                    .unwrap()
                    .neighbours,
                []
            );
            extents.add(extent(number * 4000, 100));
        }
        // Alone, and no longer than the others.
        assert_eq!(extents.place(200..300), None);
        assert!(extents.add(extent(200, 100)));
        assert!(!extents.covers(&(200..300)));
        // Between two others.
        let joined = extents.place(100..4000).unwrap();
        assert_eq!(joined.extent, 0..4100);
        assert_eq!(joined.neighbours, [extent(0, 100), extent(4000, 100)]);
        assert!(extents.add(extent(0, 4100)));
        assert_eq!(extents.of(&(0..4100)).unwrap(), [extent(0, 4100)]);
        // There is one place now; behind that a longer one takes that of the shortest.
        assert!(extents.add(extent(CHUNK - 1000, 300)));
        assert_eq!(extents.bytes(), 4100 + 14 * 100 + 300);
        assert_eq!(extents.place(5000..5200).unwrap().extent, 5000..5200);
        assert!(extents.add(extent(5000, 200)));
        assert_eq!(extents.bytes(), 4100 + 13 * 100 + 300 + 200);
        assert!(!extents.covers(&(8000..8100)));
    }

    #[test]
    fn a_range_has_pieces_by_chunk() {
        let pieces: Vec<_> = by_chunk(&(100..2 * CHUNK + 5)).collect();
        assert_eq!(
            pieces,
            [100..CHUNK, CHUNK..2 * CHUNK, 2 * CHUNK..2 * CHUNK + 5]
        );
        assert_eq!(by_chunk(&(5..5)).count(), 0);
    }

    proptest! {
        /// Extents equal a set of bytes, as long as no chunk has too many of them.
        #[test]
        fn extents_are_a_set_of_bytes(added in prop::collection::vec((0..SIZE, 1u32..40_000), 0..12), asked in (0..SIZE, 0..SIZE)) {
            let mut extents = Extents::new(SIZE);
            let mut bytes = vec![false; usize::try_from(SIZE).unwrap()];
            for (start, len) in added {
                if extents.add(extent(start, len)) {
                    for byte in start..start + u64::from(len) {
                        bytes[usize::try_from(byte).unwrap()] = true;
                    }
                }
            }
            let has = |range: &Range<u64>| bytes[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()].iter().all(|has| *has);
            let count = bytes.iter().filter(|has| **has).count() as u64;
            prop_assert_eq!(extents.bytes(), count);
            let range = asked.0.min(asked.1)..asked.0.max(asked.1);
            prop_assert_eq!(extents.covers(&range), has(&range));
            prop_assert_eq!(extents.of(&range).is_some(), has(&range));
            let mut filled = extents.clone();
            for part in extents.to_store(&(0..SIZE)) {
                for piece in by_chunk(&part) {
                    let len = u32::try_from(piece.end - piece.start).unwrap();
                    prop_assert!(filled.add(extent(piece.start, len)));
                }
            }
            prop_assert!(filled.is_whole());
            let parts = extents.divide(&range);
            let mut at = range.start;
            for (part, is_there) in parts {
                prop_assert_eq!(part.start, at);
                prop_assert!(part.start < part.end);
                let there: Vec<bool> = part.clone().map(|byte| bytes[usize::try_from(byte).unwrap()]).collect();
                prop_assert!(there.iter().all(|there| *there == is_there));
                at = part.end;
            }
            prop_assert_eq!(at, range.end);
        }
    }
}
