//! Checksums of the blocks of a data file, kept up while it is written. Pure.
//!
//! Bytes that are written one behind the other are summed as they come, and a block that is written
//! as a whole anew is summed alone. A block that is changed in another way is read when its sum is
//! needed next.
//!
//! Invariant: the sum of a block covers all bytes of it that were ever written, from its first one.

use std::collections::BTreeMap;
use std::ops::Range;

use crc_fast::{CrcAlgorithm, Digest};

/// The sums of one data file.
#[derive(Debug, Default)]
pub(super) struct BlockSums {
    blocks: BTreeMap<u64, BlockLook>,
    /// The block that is written on, whose state in `blocks` is that of before.
    tail: Option<Tail>,
    /// Writes in progress.
    writes: Vec<RunningWrite>,
    next_write: u64,
}

/// The sum of a block, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockLook {
    /// Nothing: the block was not written, or by an older version of this program.
    Unknown,
    /// The sum.
    Summed(BlockSum),
    /// The block was changed, and is to be read.
    Changed,
}

/// The sum of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::file) struct BlockSum {
    /// Bytes that it covers, from the first one of the block.
    pub(in crate::file) len: u64,
    /// CRC32C of them.
    pub(in crate::file) sum: u32,
    /// Whether this process knows the bytes: it has written them, or compared them.
    pub(in crate::file) is_checked: bool,
}

/// A block whose bytes were written one behind the other.
#[derive(Clone, Copy, Debug)]
struct Tail {
    block: u64,
    len: u64,
    digest: Digest,
}

/// A write in progress.
#[derive(Debug)]
struct RunningWrite {
    id: WriteId,
    range: Range<u64>,
    /// Another write met it: nobody knows whose bytes are there.
    is_met: bool,
}

/// A write in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriteId(u64);

impl BlockSums {
    /// Sums that an earlier process has noted: the bytes are not compared yet.
    pub(super) fn noted(sums: impl IntoIterator<Item = (u64, u64, u32)>) -> Self {
        let blocks = sums.into_iter().map(|(block, len, sum)| {
            let is_checked = false;
            let sum = BlockSum {
                len,
                sum,
                is_checked,
            };
            (block, BlockLook::Summed(sum))
        });
        Self {
            blocks: blocks.collect(),
            ..Self::default()
        }
    }

    /// A write to `range` begins.
    pub(super) fn begin(&mut self, range: Range<u64>) -> WriteId {
        let mut is_met = false;
        for other in &mut self.writes {
            if other.range.start < range.end && range.start < other.range.end {
                other.is_met = true;
                is_met = true;
            }
        }
        let id = WriteId(self.next_write);
        self.next_write += 1;
        self.writes.push(RunningWrite { id, range, is_met });
        id
    }

    /// The write has ended. `data` are its bytes, if all of them were written.
    pub(super) fn end(&mut self, id: WriteId, data: Option<&[u8]>) {
        let Some(place) = self.writes.iter().position(|write| write.id == id) else {
            return;
        };
        let write = self.writes.swap_remove(place);
        match data.filter(|_| !write.is_met) {
            None => self.changed(&write.range),
            Some(data) => {
                let (mut at, mut rest) = (write.range.start, data);
                while !rest.is_empty() {
                    let left = usize::try_from(BLOCK_LEN - at % BLOCK_LEN).unwrap_or(usize::MAX);
                    let (piece, behind) = rest.split_at(left.min(rest.len()));
                    self.wrote(at, piece);
                    (at, rest) = (at + piece.len() as u64, behind);
                }
            }
        }
    }

    /// Notes bytes at `at`, all of one block.
    fn wrote(&mut self, at: u64, piece: &[u8]) {
        let (block, from, len) = (at / BLOCK_LEN, at % BLOCK_LEN, piece.len() as u64);
        if let Some(tail) = self.tail.as_mut().filter(|tail| tail.block == block) {
            if tail.len == from {
                tail.digest.update(piece);
                tail.len += len;
                self.end_tail(BLOCK_LEN);
                return;
            }
            self.end_tail(0);
        }
        let is_covered = len == BLOCK_LEN
            || match self.blocks.get(&block) {
                None | Some(BlockLook::Unknown) => true,
                Some(BlockLook::Summed(sum)) => sum.len <= len,
                Some(BlockLook::Changed) => false,
            };
        if from > 0 || !is_covered {
            self.blocks.insert(block, BlockLook::Changed);
            return;
        }
        self.end_tail(0);
        let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        digest.update(piece);
        self.tail = Some(Tail { block, len, digest });
        self.end_tail(BLOCK_LEN);
    }

    /// Notes the sum of the tail, if it has `least` bytes.
    fn end_tail(&mut self, least: u64) {
        if let Some(tail) = self.tail.take_if(|tail| tail.len >= least) {
            self.blocks
                .insert(tail.block, BlockLook::Summed(tail.sum()));
        }
    }

    /// Notes that bytes of `range` have changed.
    pub(super) fn changed(&mut self, range: &Range<u64>) {
        for block in blocks_of(range) {
            self.tail.take_if(|tail| tail.block == block);
            self.blocks.insert(block, BlockLook::Changed);
        }
    }

    /// What is known of a block.
    pub(super) fn look(&self, block: u64) -> BlockLook {
        if let Some(tail) = self.tail.as_ref().filter(|tail| tail.block == block) {
            return BlockLook::Summed(tail.sum());
        }
        self.blocks
            .get(&block)
            .copied()
            .unwrap_or(BlockLook::Unknown)
    }

    /// Notes the sum of a block whose bytes were read, while nothing is written.
    pub(super) fn summed(&mut self, block: u64, sum: BlockSum) {
        self.blocks.insert(block, BlockLook::Summed(sum));
    }

    /// The blocks of `range` that were not compared with their sums, but for those that a write of
    /// it would replace as a whole, if it `is_written`.
    pub(super) fn unchecked(&self, range: &Range<u64>, is_written: bool) -> Vec<(u64, BlockSum)> {
        let blocks = blocks_of(range).filter_map(|block| match self.look(block) {
            BlockLook::Summed(sum) => Some((block, sum)),
            BlockLook::Unknown | BlockLook::Changed => None,
        });
        let unchecked = blocks.filter(|(block, sum)| {
            let its = block * BLOCK_LEN..block * BLOCK_LEN + sum.len;
            let is_replaced = is_written && range.start <= its.start && its.end <= range.end;
            !sum.is_checked && !is_replaced
        });
        unchecked.collect()
    }

    /// Whether a block still has the sum, and nobody writes to it.
    pub(super) fn is_current(&self, block: u64, sum: BlockSum) -> bool {
        let its = block * BLOCK_LEN..(block + 1) * BLOCK_LEN;
        let mut writes = self.writes.iter();
        let is_written = writes.any(|it| it.range.start < its.end && its.start < it.range.end);
        self.look(block) == BlockLook::Summed(sum) && !is_written
    }

    /// Notes that a block has the bytes of its sum.
    pub(super) fn checked(&mut self, block: u64, sum: BlockSum) {
        let is_checked = true;
        self.summed(block, BlockSum { is_checked, ..sum });
    }
}

impl BlockSum {
    /// The sum of a block's bytes, which this process knows.
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self {
            len: bytes.len() as u64,
            sum: sum_of(bytes),
            is_checked: true,
        }
    }
}

impl Tail {
    fn sum(&self) -> BlockSum {
        BlockSum {
            len: self.len,
            sum: crc(&self.digest),
            is_checked: true,
        }
    }
}

/// The blocks that have bytes of `range`.
pub(super) fn blocks_of(range: &Range<u64>) -> Range<u64> {
    match range.is_empty() {
        true => 0..0,
        false => range.start / BLOCK_LEN..range.end.div_ceil(BLOCK_LEN),
    }
}

/// CRC32C of `bytes`.
pub(in crate::file) fn sum_of(bytes: &[u8]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(bytes);
    crc(&digest)
}

fn crc(digest: &Digest) -> u32 {
    u32::try_from(digest.finalize()).expect("a CRC of 32 bits")
}

/// Bytes of a block: those of the largest WRITE. A block that is written over in part is read once
/// for the next commit, which takes less time than its sync; 1 GiB has 8 KiB of sums in its record.
pub(in crate::file) const BLOCK_LEN: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 1 << 20;

    /// Writes one behind the other, and returns the blocks that are to be read.
    fn write(sums: &mut BlockSums, file: &mut Vec<u8>, at: usize, len: usize) {
        let data: Vec<u8> = (0..len)
            .map(|place| (place * 7 + at).to_le_bytes()[0] | 1)
            .collect();
        file.resize(file.len().max(at + len), 0);
        file[at..at + len].copy_from_slice(&data);
        let id = sums.begin(at as u64..(at + len) as u64);
        sums.end(id, Some(&data));
    }

    #[track_caller]
    fn check(sums: &BlockSums, file: &[u8], changed: &[u64]) {
        let mut unknown = Vec::new();
        for block in blocks_of(&(0..file.len() as u64)) {
            let sum = match sums.look(block) {
                BlockLook::Unknown => continue,
                BlockLook::Changed => {
                    unknown.push(block);
                    continue;
                }
                BlockLook::Summed(sum) => sum,
            };
            let start = usize::try_from(block).unwrap() * BLOCK;
            let end = start + usize::try_from(sum.len).unwrap();
            assert_eq!(sum.sum, sum_of(&file[start..end]), "block {block}");
            let behind = &file[end..file.len().min(start + BLOCK)];
            assert!(behind.iter().all(|byte| *byte == 0), "block {block}");
        }
        assert_eq!(unknown, changed);
    }

    #[test]
    fn bytes_in_order_need_no_read() {
        for len in [100, 4096, 65_536, BLOCK, BLOCK + 100] {
            let (mut sums, mut file) = (BlockSums::default(), Vec::new());
            for _ in 0..5 {
                let at = file.len();
                write(&mut sums, &mut file, at, len);
                check(&sums, &file, &[]);
            }
        }
    }

    #[test]
    fn whole_blocks_in_any_order_need_no_read() {
        let (mut sums, mut file) = (BlockSums::default(), Vec::new());
        for block in [3, 1, 0, 2, 1] {
            write(&mut sums, &mut file, block * BLOCK, BLOCK);
            check(&sums, &file, &[]);
        }
    }

    #[test]
    fn a_block_that_is_changed_in_another_way_is_read_once() {
        let (mut sums, mut file) = (BlockSums::default(), Vec::new());
        write(&mut sums, &mut file, 0, 3 * BLOCK);
        write(&mut sums, &mut file, BLOCK + 10, 10);
        check(&sums, &file, &[1]);
        sums.summed(1, BlockSum::of(&file[BLOCK..2 * BLOCK]));
        check(&sums, &file, &[]);
        // Behind a gap, and over the beginning of what is there.
        write(&mut sums, &mut file, 3 * BLOCK + 10, 10);
        write(&mut sums, &mut file, 0, 10);
        check(&sums, &file, &[0, 3]);
        write(&mut sums, &mut file, 0, BLOCK);
        check(&sums, &file, &[3]);
    }

    #[test]
    fn a_tail_that_was_left_is_covered_by_more_bytes_alone() {
        let (mut sums, mut file) = (BlockSums::default(), Vec::new());
        write(&mut sums, &mut file, 0, 1000);
        write(&mut sums, &mut file, BLOCK, 10);
        check(&sums, &file, &[]);
        write(&mut sums, &mut file, 0, 1000);
        check(&sums, &file, &[]);
        write(&mut sums, &mut file, 0, 999);
        check(&sums, &file, &[0]);
    }

    #[test]
    fn of_writes_that_meet_nobody_knows_the_sum() {
        let mut sums = BlockSums::default();
        let first = sums.begin(0..10);
        let second = sums.begin(5..15);
        let other = sums.begin(BLOCK_LEN..BLOCK_LEN + 10);
        sums.end(other, Some(&[1; 10]));
        sums.end(second, Some(&[1; 10]));
        sums.end(first, Some(&[2; 10]));
        assert_eq!(sums.look(0), BlockLook::Changed);
        assert!(matches!(sums.look(1), BlockLook::Summed(_)));
        let failed = sums.begin(BLOCK_LEN..BLOCK_LEN + 10);
        sums.end(failed, None);
        assert_eq!(sums.look(1), BlockLook::Changed);
    }

    #[test]
    fn noted_sums_are_compared_once() {
        let bytes = [7; 100];
        let mut sums = BlockSums::noted([(0, 100, sum_of(&bytes)), (1, 10, 5)]);
        let all = 0..2 * BLOCK_LEN;
        let [first, second] = sums.unchecked(&all, false)[..] else {
            panic!("{sums:?}")
        };
        assert!(sums.is_current(first.0, first.1));
        sums.checked(first.0, first.1);
        assert_eq!(sums.unchecked(&all, false), [second]);
        assert_eq!(sums.unchecked(&(BLOCK_LEN..BLOCK_LEN + 9), true), [second]);
        assert_eq!(sums.unchecked(&(BLOCK_LEN..BLOCK_LEN + 10), true), []);
        let id = sums.begin(BLOCK_LEN..BLOCK_LEN + 10);
        assert!(!sums.is_current(second.0, second.1));
        sums.end(id, Some(&[1; 10]));
        assert_eq!(sums.unchecked(&all, false), []);
    }
}
