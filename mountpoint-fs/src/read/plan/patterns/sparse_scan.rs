//! Reads that go forwards over short gaps of no one length: who lists an archive reads the head of
//! each member and skips its content.
//!
//! Pure. Each such read costs the store's distance, and nothing says where the next will be. So
//! after a number of them what lies between is worth fetching too, where the store is far and the
//! gaps are short: the reader is taken for one that reads in sequence. Steps of one length are a
//! [`Stride`](super::stride::Stride), which knows better.
//!
//! Invariant: nothing is sure before [`SCAN_READS_MIN`] reads in a row went forwards over short
//! gaps.

use std::ops::Range;

/// The latest reads of one open file.
#[derive(Debug, Default)]
pub(super) struct SparseScan {
    /// Where the latest read ended.
    end: u64,
    /// Where the first that counts began.
    from: u64,
    count: u8,
}

impl SparseScan {
    /// A read that continues the latest one.
    pub(super) fn go_on(&mut self, range: &Range<u64>) {
        if range.start <= self.end {
            self.end = self.end.max(range.end);
        } else {
            self.count = 0;
        }
    }

    /// A read that continues nothing.
    pub(super) fn begin(&mut self, range: &Range<u64>) {
        let gap = range.start.checked_sub(self.end);
        let is_head = range.end - range.start < HEAD_MAX;
        self.count = match gap.filter(|_| is_head) {
            Some(1..=GAP_MAX) => (self.count + 1).min(COUNT_MAX),
            // A long member among short ones.
            Some(0..=LONG_GAP_MAX) => self.count.saturating_sub(LONG_GAP_COSTS),
            _ => 0,
        };
        if self.count == 0 {
            self.from = range.start;
        }
        self.end = range.end;
    }

    /// How far it has come by skipping, if it is worth reading what it skips.
    pub(super) fn run(&self) -> Option<u64> {
        (self.count >= SCAN_READS_MIN).then(|| self.end - self.from)
    }
}

/// Reads of this length and longer are data, not heads, and asked for exactly whatever is between.
const HEAD_MAX: u64 = 64 << 10;

/// Longest gap that is read through: 512 KiB take 5 ms of one connection to S3, a GET of their own
/// 15 to 30.
const GAP_MAX: u64 = 512 << 10;

/// A longer gap counts against the short ones; beyond this the reader has gone elsewhere.
const LONG_GAP_MAX: u64 = 8 * GAP_MAX;
const LONG_GAP_COSTS: u8 = 2;

/// Skips in a row that are a scan; random reads make so many in a row once in a number of places to
/// the sixth.
const SCAN_READS_MIN: u8 = 6;

/// What it may remember beyond those: one long gap does not make it forget.
const COUNT_MAX: u8 = SCAN_READS_MIN + LONG_GAP_COSTS;

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    /// Reads as `(offset, len)` in KiB; whether they are a scan.
    #[track_caller]
    fn check(reads: &[(u64, u64)], is_sure: bool) {
        let mut scan = SparseScan::default();
        for (offset, len) in reads {
            scan.begin(&(offset * KIB..(offset + len) * KIB));
        }
        assert_eq!(scan.run().is_some(), is_sure, "{reads:?}");
    }

    /// Heads of 12 KiB with such gaps between them.
    fn heads(gaps: &[u64]) -> Vec<(u64, u64)> {
        let mut offset = 100_000;
        let mut reads = vec![(offset, 12)];
        for gap in gaps {
            offset += 12 + gap;
            reads.push((offset, 12));
        }
        reads
    }

    #[test]
    fn six_short_gaps_of_any_length_are_a_scan() {
        check(&heads(&[100, 50, 400, 3, 512, 7]), true);
        check(&heads(&[100, 50, 400, 3, 512]), false);
        check(&heads(&[100, 50, 400, 3, 513, 7, 8]), false);
    }

    #[test]
    fn a_long_gap_costs_two_and_a_very_long_one_all() {
        let eight = [10, 20, 30, 40, 50, 60, 70, 80];
        check(&heads(&[&eight[..], &[2000]].concat()), true);
        check(&heads(&[&eight[..], &[2000, 2000]].concat()), false);
        check(&heads(&[&eight[..], &[2000, 2000, 9, 9]].concat()), true);
        check(&heads(&[&eight[..], &[5000, 9, 9]].concat()), false);
    }

    #[test]
    fn data_is_no_head() {
        let reads: Vec<_> = (1..20).map(|number| (number * 200, 64)).collect();
        check(&reads, false);
    }

    #[test]
    fn going_back_is_no_skip() {
        let mut reads = heads(&[10, 20, 30, 40, 50, 60]);
        reads.push((0, 12));
        check(&reads, false);
    }

    #[test]
    fn a_read_in_sequence_belongs_to_the_one_before() {
        let mut scan = SparseScan::default();
        for start in (1..=7).map(|number| number * 200 * KIB) {
            scan.begin(&(start..start + 12 * KIB));
            scan.go_on(&(start + 12 * KIB..start + 44 * KIB));
        }
        assert_eq!(scan.run(), Some((7 * 200 + 12 + 32) * KIB));
        scan.go_on(&(0..KIB));
        assert_eq!(scan.run(), Some((7 * 200 + 12 + 32) * KIB));
        scan.go_on(&(9000 * KIB..9001 * KIB));
        assert_eq!(scan.run(), None);
    }
}
