//! The chunks of a version that are one extent each: a checksum and a bit for each.

use std::collections::BTreeMap;

/// Checksums of whole chunks, by their number.
#[derive(Clone, Debug, Default)]
pub(super) struct WholeChunks {
    groups: BTreeMap<u64, Group>,
    /// Checksums that the groups have room for.
    capacity: usize,
}

/// The whole chunks among [`GROUP`] neighbours.
#[derive(Clone, Debug, Default)]
struct Group {
    /// Bit `n` is set if chunk `n` of the group is whole.
    present: u64,
    /// Their checksums, in order.
    checksums: Vec<u32>,
}

impl WholeChunks {
    /// The checksum of a chunk, if it is whole.
    pub(super) fn get(&self, number: u64) -> Option<u32> {
        let group = self.groups.get(&(number / GROUP))?;
        let bit = 1 << (number % GROUP);
        (group.present & bit != 0).then(|| group.checksums[group.rank(bit)])
    }

    /// Adds a chunk that is not whole yet.
    pub(super) fn insert(&mut self, number: u64, checksum: u32) {
        let group = self.groups.entry(number / GROUP).or_default();
        let bit = 1 << (number % GROUP);
        assert!(group.present & bit == 0, "it is whole already");
        let before = group.checksums.capacity();
        group.checksums.insert(group.rank(bit), checksum);
        group.present |= bit;
        self.capacity += group.checksums.capacity() - before;
    }

    /// The first chunk from `number` on that is not whole.
    pub(super) fn end_of_run(&self, mut number: u64) -> u64 {
        while let Some(group) = self.groups.get(&(number / GROUP)) {
            let run = (group.present >> (number % GROUP)).trailing_ones();
            number = number.saturating_add(u64::from(run));
            if run == 0 || !number.is_multiple_of(GROUP) {
                break;
            }
        }
        number
    }

    /// The first chunk from `number` on that is whole.
    pub(super) fn next(&self, number: u64) -> Option<u64> {
        let first = number / GROUP;
        self.groups.range(first..).find_map(|(at, group)| {
            let skipped = if *at == first { number % GROUP } else { 0 };
            let present = group.present >> skipped;
            let next = at * GROUP + skipped + u64::from(present.trailing_zeros());
            (present != 0).then_some(next)
        })
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> u64 {
        self.groups.len() as u64 * GROUP_BYTES + (self.capacity * size_of::<u32>()) as u64
    }
}

impl Group {
    /// How many whole chunks lie before that of `bit`.
    fn rank(&self, bit: u64) -> usize {
        (self.present & (bit - 1)).count_ones() as usize
    }
}

/// Chunks of a group: 4 MiB of the object. A group that is whole takes 6 bytes a chunk, one with a
/// single chunk less than a map's entry for each.
const GROUP: u64 = 64;

/// Memory of a group besides its checksums: its place in a map whose nodes are half full, and what
/// the allocator needs for the checksums.
pub(super) const GROUP_BYTES: u64 = 112;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whole_chunks_are_a_map(added in prop::collection::btree_map(0u64..200, any::<u32>(), 0..150), asked in 0u64..210) {
            let mut chunks = WholeChunks::default();
            for (number, checksum) in added.iter().rev() {
                chunks.insert(*number, *checksum);
            }
            let expected: BTreeMap<u64, u32> = added;
            prop_assert_eq!(chunks.get(asked), expected.get(&asked).copied());
            prop_assert_eq!(chunks.next(asked), expected.range(asked..).next().map(|(number, _)| *number));
            let gap = (asked..).find(|number| !expected.contains_key(number));
            prop_assert_eq!(Some(chunks.end_of_run(asked)), gap);
        }
    }

    #[test]
    fn a_large_version_in_whole_chunks_takes_six_bytes_a_chunk() {
        let mut chunks = WholeChunks::default();
        (0..1 << 16).for_each(|number| chunks.insert(number, 1));
        assert_eq!(
            chunks.memory(),
            (1 << 16) / GROUP * (GROUP_BYTES + 4 * GROUP)
        );
        assert!(chunks.memory() <= 6 << 16);
    }
}
