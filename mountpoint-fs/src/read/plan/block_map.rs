//! Blocks that one reader holds, by their range in the object.
//!
//! A sorted list of disjoint ranges with their blocks. Knows neither bytes nor requests. An open
//! file holds the parts of its windows, some dozens, so a list is faster than a tree.
//!
//! Invariant: ranges are sorted, not empty and disjoint.

use std::ops::Range;

/// Blocks by range. `T` represents a block.
#[derive(Debug)]
pub(in crate::read) struct BlockMap<T> {
    blocks: Vec<(Range<u64>, T)>,
}

impl<T> Default for BlockMap<T> {
    fn default() -> Self {
        Self { blocks: Vec::new() }
    }
}

impl<T> BlockMap<T> {
    /// Whether the map has no block.
    pub(in crate::read) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Adds a block. Panics if it overlaps another.
    pub(in crate::read) fn insert(&mut self, range: Range<u64>, block: T) {
        assert!(range.start < range.end);
        let place = self.first_behind(range.start);
        assert!(
            self.blocks
                .get(place)
                .is_none_or(|(next, _)| range.end <= next.start)
        );
        self.blocks.insert(place, (range, block));
    }

    /// The blocks that overlap `range`, in order.
    pub(in crate::read) fn overlapping(
        &self,
        range: Range<u64>,
    ) -> impl Iterator<Item = (&Range<u64>, &T)> {
        let from = self.first_behind(range.start);
        self.blocks[from..]
            .iter()
            .take_while(move |(held, _)| held.start < range.end)
            .map(|(held, block)| (held, block))
    }

    /// Whether blocks cover all of `range`.
    pub(in crate::read) fn holds(&self, range: Range<u64>) -> bool {
        let mut end = range.start;
        for (held, _) in self.overlapping(range.clone()) {
            if held.start > end {
                return false;
            }
            end = held.end;
        }
        end >= range.end
    }

    /// The parts of `range` that no block covers, in order.
    pub(in crate::read) fn gaps(&self, range: Range<u64>) -> Vec<Range<u64>> {
        without(
            range.clone(),
            self.overlapping(range).map(|(held, _)| held.clone()),
        )
    }

    /// Moves the blocks that lie wholly inside `range` to `removed`.
    pub(in crate::read) fn remove_inside(&mut self, range: &Range<u64>, removed: &mut Vec<T>) {
        let from = self
            .blocks
            .partition_point(|(held, _)| held.start < range.start);
        let count = self.blocks[from..].partition_point(|(held, _)| held.end <= range.end);
        removed.extend(
            self.blocks
                .drain(from..from + count)
                .map(|(_, block)| block),
        );
    }

    /// Moves the blocks inside `range` for which `is_unwanted` returns `true` to `removed`.
    pub(in crate::read) fn remove_inside_if(
        &mut self,
        range: &Range<u64>,
        mut is_unwanted: impl FnMut(&Range<u64>) -> bool,
        removed: &mut Vec<T>,
    ) {
        let from = self
            .blocks
            .partition_point(|(held, _)| held.start < range.start);
        let count = self.blocks[from..].partition_point(|(held, _)| held.end <= range.end);
        let unwanted = self
            .blocks
            .extract_if(from..from + count, |(held, _)| is_unwanted(held));
        removed.extend(unwanted.map(|(_, block)| block));
    }

    /// Moves the blocks for which `is_unwanted` returns `true` to `removed`.
    pub(in crate::read) fn remove_if(
        &mut self,
        mut is_unwanted: impl FnMut(&Range<u64>, &T) -> bool,
        removed: &mut Vec<T>,
    ) {
        let unwanted = self
            .blocks
            .extract_if(.., |(held, block)| is_unwanted(held, block));
        removed.extend(unwanted.map(|(_, block)| block));
    }

    /// Index of the first block that ends behind `offset`.
    fn first_behind(&self, offset: u64) -> usize {
        self.blocks.partition_point(|(held, _)| held.end <= offset)
    }
}

/// The parts of `range` outside `holes`, which are sorted by their start.
pub(in crate::read) fn without(
    range: Range<u64>,
    holes: impl Iterator<Item = Range<u64>>,
) -> Vec<Range<u64>> {
    let mut rest = Vec::new();
    let mut from = range.start;
    for hole in holes {
        if from < hole.start.min(range.end) {
            rest.push(from..hole.start.min(range.end));
        }
        from = from.max(hole.end);
    }
    if from < range.end {
        rest.push(from..range.end);
    }
    rest
}

#[cfg(test)]
#[expect(
    clippy::single_range_in_vec_init,
    reason = "lists of one range are meant"
)]
mod tests {
    use super::*;

    fn map(ranges: &[Range<u64>]) -> BlockMap<u64> {
        let mut map = BlockMap::default();
        for range in ranges {
            map.insert(range.clone(), range.start);
        }
        map
    }

    #[test]
    fn gaps_are_what_no_block_holds() {
        #[track_caller]
        fn check(blocks: &[Range<u64>], range: Range<u64>, gaps: &[Range<u64>]) {
            assert_eq!(map(blocks).gaps(range), gaps);
        }
        check(&[], 3..7, &[3..7]);
        check(&[0..3, 7..9], 3..7, &[3..7]);
        check(&[7..9, 0..4], 3..8, &[4..7]);
        check(&[4..5], 3..7, &[3..4, 5..7]);
        check(&[0..10], 3..7, &[]);
        check(&[3..5, 5..7], 3..7, &[]);
    }

    #[test]
    fn only_blocks_wholly_inside_are_removed() {
        #[track_caller]
        fn check(range: Range<u64>, removed: &[u64]) {
            let mut map = map(&[0..4, 4..6, 6..8, 8..12]);
            let mut out = Vec::new();
            map.remove_inside(&range, &mut out);
            assert_eq!(out, removed);
            assert_eq!(map.blocks.len(), 4 - removed.len());
        }
        check(0..12, &[0, 4, 6, 8]);
        check(1..11, &[4, 6]);
        check(4..6, &[4]);
        check(5..8, &[6]);
        check(1..3, &[]);
        check(20..30, &[]);
    }

    #[test]
    fn holes_may_overlap_each_other_and_the_edges() {
        assert_eq!(
            without(10..20, [0..12, 11..13, 15..16, 19..30, 40..50].into_iter()),
            [13..15, 16..19]
        );
        assert_eq!(without(10..20, [40..50].into_iter()), [10..20]);
    }
}
