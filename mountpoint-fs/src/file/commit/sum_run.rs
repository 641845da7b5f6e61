//! Checksums of neighbouring blocks of a data file, as a record has them.

use serde::{Deserialize, Serialize};

use crate::file::local::{BLOCK_LEN, NotedSums};

/// Blocks one behind the other, of which all but the last one are whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::file) struct SumRun {
    /// The data file: 1 or 2.
    pub(super) place: u8,
    /// Bytes of a block.
    block: u64,
    /// The number of the first block.
    first: u64,
    /// The end of the bytes that are summed.
    end: u64,
    /// CRC32C of each block, eight digits each.
    sums: String,
}

impl SumRun {
    /// The runs of `noted`, which is in order.
    pub(super) fn of(place: u8, noted: &NotedSums) -> Vec<Self> {
        let mut runs: Vec<Self> = Vec::new();
        for (block, len, sum) in noted {
            let start = block * BLOCK_LEN;
            if runs.last().is_none_or(|run| run.end != start) {
                runs.push(Self {
                    place,
                    block: BLOCK_LEN,
                    first: *block,
                    end: start,
                    sums: String::new(),
                });
            }
            if let Some(run) = runs.last_mut() {
                run.end = start + len;
                run.sums.push_str(&format!("{sum:08x}"));
            }
        }
        runs
    }

    /// Bytes of the text of its sums.
    #[cfg(any(test, fuzzing))]
    pub(super) fn digits(&self) -> usize {
        self.sums.len()
    }

    /// The sums. None in a run of other blocks than those of this program.
    pub(super) fn noted(&self) -> NotedSums {
        let digits = self.sums.as_bytes().chunks(SUM_DIGITS);
        // Offsets of files have 63 bits.
        let end = self.end.min(i64::MAX.unsigned_abs());
        let blocks = self.first..=u64::MAX;
        let sums = digits.zip(blocks).filter_map(|(digits, block)| {
            let start = block.checked_mul(BLOCK_LEN)?;
            let len = end.checked_sub(start)?.min(BLOCK_LEN);
            let sum = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
            Some((block, len, sum))
        });
        match self.block == BLOCK_LEN {
            true => sums.collect(),
            false => NotedSums::new(),
        }
    }
}

const SUM_DIGITS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_come_back_in_runs() {
        let noted = vec![
            (0, BLOCK_LEN, 1),
            (1, BLOCK_LEN, u32::MAX),
            (2, 7, 0),
            (3, BLOCK_LEN, 9),
            (9, 1, 5),
        ];
        let runs = SumRun::of(2, &noted);
        assert_eq!(runs.len(), 3);
        let back: NotedSums = runs.iter().flat_map(SumRun::noted).collect();
        assert_eq!(back, noted);
        let other = SumRun {
            block: 5,
            ..runs[0].clone()
        };
        assert_eq!(other.noted(), []);
    }
}
