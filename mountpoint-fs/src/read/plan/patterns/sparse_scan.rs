//! Forward reads over short gaps of varying length, such as a listing of an archive's members.
//!
//! Pure. Each such read costs a round trip, and the next one cannot be predicted. If the store is
//! far and the gaps are short, fetching the gaps is cheaper: after some such reads the reader is
//! treated as sequential. Gaps of one length are a [`Stride`](super::stride::Stride), which
//! predicts better.
//!
//! Invariant: no prediction before [`SCAN_READS_MIN`] reads in a row went forwards over short gaps.

use std::ops::Range;

/// The latest reads of one open file.
#[derive(Debug, Default)]
pub(super) struct SparseScan {
    /// End of the latest read.
    end: u64,
    /// Start of the first read that counts.
    from: u64,
    count: u8,
}

impl SparseScan {
    /// Shows a read that continues an earlier one.
    pub(super) fn go_on(&mut self, range: &Range<u64>) {
        if range.start <= self.end {
            self.end = self.end.max(range.end);
        } else {
            self.count = 0;
        }
    }

    /// Shows a read that continues none.
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

    /// Length of the scan so far, if fetching its gaps is worth it.
    pub(super) fn run(&self) -> Option<u64> {
        (self.count >= SCAN_READS_MIN).then(|| self.end - self.from)
    }
}

/// Reads of this length and more are data, not heads: their gaps are not fetched.
const HEAD_MAX: u64 = 64 << 10;

/// Longest gap to fetch: 512 KiB take 5 ms of one connection to S3, a separate GET 15 to 30.
const GAP_MAX: u64 = 512 << 10;

/// A longer gap counts against the short ones; beyond this limit the reader has jumped.
const LONG_GAP_MAX: u64 = 8 * GAP_MAX;
const LONG_GAP_COSTS: u8 = 2;

/// Skips in a row that make a scan. Random reads make that many once in a number of places to the
/// sixth power.
const SCAN_READS_MIN: u8 = 6;

/// Upper bound of the count, so that one long gap does not end a scan.
const COUNT_MAX: u8 = SCAN_READS_MIN + LONG_GAP_COSTS;

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    /// Shows reads, as `(offset, len)` in KiB, and checks whether they are a scan.
    #[track_caller]
    fn check(reads: &[(u64, u64)], is_sure: bool) {
        let mut scan = SparseScan::default();
        for (offset, len) in reads {
            scan.begin(&(offset * KIB..(offset + len) * KIB));
        }
        assert_eq!(scan.run().is_some(), is_sure, "{reads:?}");
    }

    /// Heads of 12 KiB with these gaps between them.
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
