//! Copies of long ranges out of a mapped file, and other backward reads without a gap.
//!
//! Pure. The C library touches both ends of a long range before it copies the bytes between them,
//! forwards or backwards, depending on the addresses. So page faults read at the head and at the
//! tail, and then continue from one of them towards the other. The bytes between will be read soon;
//! those behind the tail will not.
//!
//! Invariant: read-ahead ends at the reader and begins behind the head, if there is one.

use std::mem;
use std::ops::Range;

use crate::config::limits::PART_MIN;
use crate::read::plan::window::WINDOW_INITIAL_MAX;

/// The latest copy of one open file.
#[derive(Debug, Default)]
pub(super) struct MappedCopy {
    /// The latest read if it continued none; otherwise empty.
    latest: Range<u64>,
    /// The read before the tail if it lies below; otherwise empty.
    head: Range<u64>,
    /// The range read backwards from the tail, tail included.
    run: Range<u64>,
    /// Number of reads in the run.
    reads: usize,
    /// Start of the range before the run that was requested.
    ahead_start: u64,
    /// Read-ahead of the previous run that was not read.
    left: Range<u64>,
    /// Whether the previous copy was read from end to end.
    has_copied: bool,
}

/// A range to fetch behind a reader that goes backwards, and the length of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Behind {
    pub(super) range: Range<u64>,
    pub(super) part: u64,
}

impl MappedCopy {
    /// Shows a read that does not continue forwards. Returns the read-ahead, at most `ahead_max`
    /// bytes from the reader.
    pub(super) fn jump(
        &mut self,
        range: &Range<u64>,
        is_remote: bool,
        ahead_max: u64,
    ) -> Option<Behind> {
        if self.run.is_empty() || range.end != self.run.start {
            self.begin(range);
            return None;
        }
        self.run.start = range.start;
        self.ahead_start = self.ahead_start.min(range.start);
        self.reads += 1;
        if !self.is_sure() {
            return None;
        }
        let reach_max = if is_remote {
            REACH_MAX
        } else {
            WINDOW_INITIAL_MAX
        };
        self.ask(reach_max.min(ahead_max))
    }

    /// Shows a read that continues an earlier one. Returns whether it completes a copy.
    pub(super) fn go_on(&mut self, range: &Range<u64>) -> bool {
        self.latest = 0..0;
        let is_between = self.head.end <= range.start && range.start < self.run.start;
        let is_last = !self.head.is_empty() && is_between && self.run.start <= range.end;
        if is_last {
            *self = Self {
                has_copied: true,
                ..Self::default()
            };
        }
        is_last
    }

    /// Expected end of a forward copy that began at `start` and has reached `end`.
    pub(super) fn end_of(&self, start: u64, end: u64) -> Option<u64> {
        let is_copied = start <= self.head.start && (self.head.end..self.run.start).contains(&end);
        (!self.head.is_empty() && is_copied).then_some(self.run.start)
    }

    /// Whether the latest read is probably the tail of a copy: no byte behind it will be read.
    pub(super) fn is_at_tail(&self) -> bool {
        self.is_likely() && self.reads == 1
    }

    /// Whether the reader goes backwards without a gap.
    pub(super) fn is_sure(&self) -> bool {
        let reads_min = if self.is_likely() {
            READS_MIN_LIKELY
        } else {
            READS_MIN
        };
        self.reads >= reads_min
    }

    /// Ranges that were requested ahead and not read yet.
    pub(super) fn asked_ahead(&self) -> impl Iterator<Item = Range<u64>> {
        let ahead = self.ahead_start..self.run.start;
        let asked = [ahead, self.left.clone()];
        asked.into_iter().filter(|range| !range.is_empty())
    }

    /// Stops the read-ahead, because memory is short.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// Whether the reads look like the previous copy, which was read from end to end.
    fn is_likely(&self) -> bool {
        self.has_copied && !self.head.is_empty()
    }

    fn begin(&mut self, range: &Range<u64>) {
        // The reader has left the previous run.
        self.has_copied &= !self.is_sure();
        let ahead = self.ahead_start..self.run.start;
        if !ahead.is_empty() {
            self.left = ahead;
        }
        let before = mem::replace(&mut self.latest, range.clone());
        let is_head = !before.is_empty() && before.end < range.start;
        self.head = if is_head { before } else { 0..0 };
        self.run = range.clone();
        self.reads = 1;
        self.ahead_start = range.start;
    }

    fn ask(&mut self, reach_max: u64) -> Option<Behind> {
        let run = self.run.end - self.run.start;
        let runs = if self.is_likely() { RUNS_LIKELY } else { 1 };
        let reach = run.saturating_mul(runs).min(reach_max);
        let until = self.run.start.saturating_sub(reach).max(self.head.end);
        let is_worth =
            until == self.head.end || self.ahead_start - until.min(self.ahead_start) >= reach / 4;
        if until >= self.ahead_start || !is_worth {
            return None;
        }
        let range = until..mem::replace(&mut self.ahead_start, until);
        self.left = 0..0;
        let part = (reach / 4).clamp(PART_MIN, PART_BEHIND_MAX);
        Some(Behind {
            range,
            part: 1 << part.ilog2(),
        })
    }
}

/// Adjacent backward reads that rule out chance, because reads may arrive out of order.
const READS_MIN: usize = 4;
/// Adjacent backward reads that suffice if they look like the previous copy.
const READS_MIN_LIKELY: usize = 2;

/// Read-ahead in what looks like the previous copy, as a multiple of the run: as for forward
/// streams. Otherwise the read-ahead never exceeds the run.
const RUNS_LIKELY: u64 = 8;

/// Longest read-ahead from a far store: 40 ms of 12.5 Gbit/s.
const REACH_MAX: u64 = 64 << 20;

/// Longest GET: its last bytes are read first, and one connection to S3 takes 23 ms for it.
const PART_BEHIND_MAX: u64 = 2 << 20;

#[cfg(test)]
#[expect(
    clippy::single_range_in_vec_init,
    reason = "lists of one range are meant"
)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    /// Read-ahead of the reads: start and end, in KiB.
    fn asked(copy: &mut MappedCopy, reads: &[(u64, u64)], is_remote: bool) -> Vec<Range<u64>> {
        let reads = reads.iter().filter_map(|&(from, to)| {
            let behind = copy.jump(&(from * KIB..to * KIB), is_remote, 256 * MIB)?;
            Some(behind.range.start / KIB..behind.range.end / KIB)
        });
        reads.collect()
    }

    /// A backward copy of 8 MiB from `from` on, with a head at its beginning. Returns the
    /// read-ahead.
    fn copied(copy: &mut MappedCopy, from: u64) -> Vec<Range<u64>> {
        let (head, tail) = (from + 512, from + 8192);
        let mut faults = vec![(from, head), (tail, tail + 512)];
        faults.extend(
            (head / 256 + 2..tail / 256)
                .rev()
                .map(|n| (n * 256, n * 256 + 256)),
        );
        let asked = asked(copy, &faults, true);
        assert!(copy.go_on(&(head * KIB..(head / 256 + 2) * 256 * KIB)));
        assert_eq!(copy.asked_ahead().next(), None);
        asked
    }

    #[test]
    fn what_lies_between_head_and_reader_is_asked_for_once() {
        let mut copy = MappedCopy::default();
        for (from, first) in [
            (1024, 1024 / 256 + 8192 / 256 - 3),
            (65_536, 65_536 / 256 + 8192 / 256 - 1),
        ] {
            let asked = copied(&mut copy, from);
            assert_eq!(asked[0].end, first * 256, "{asked:?}");
            assert_eq!(asked.last().unwrap().start, from + 512);
            assert!(asked.windows(2).all(|pair| pair[1].end == pair[0].start));
        }
        // After a complete copy the read-ahead is many times the run.
        let asked = copied(&mut copy, 1 << 20);
        assert!(
            asked[0].end - asked[0].start >= 6 * (512 + 256),
            "{asked:?}"
        );
    }

    #[test]
    fn a_copy_that_goes_forwards_ends_at_its_tail() {
        let mut copy = MappedCopy::default();
        assert_eq!(asked(&mut copy, &[(1000, 1512), (9000, 9512)], true), []);
        assert_eq!(copy.end_of(1000 * KIB, 2000 * KIB), Some(9000 * KIB));
        assert_eq!(copy.end_of(1001 * KIB, 2000 * KIB), None);
        assert_eq!(copy.end_of(1000 * KIB, 9000 * KIB), None);
        assert!(!copy.is_at_tail());
        assert!(copy.go_on(&(8700 * KIB..9000 * KIB)));
        let faults = [(30_000, 30_512), (40_000, 40_512)];
        assert_eq!(asked(&mut copy, &faults, true), []);
        assert!(copy.is_at_tail());
    }

    #[test]
    fn backward_reads_are_believed_the_fourth_time() {
        let mut copy = MappedCopy::default();
        let reads = [(9000, 9100), (8900, 9000), (8800, 8900), (8700, 8800)];
        assert_eq!(asked(&mut copy, &reads, false), [8300..8700]);
        // After a jump the old read-ahead stays until the next run has its own: reads may arrive
        // out of order.
        assert_eq!(asked(&mut copy, &[(100, 200)], false), []);
        let ahead: Vec<_> = copy.asked_ahead().collect();
        assert_eq!(ahead, [8300 * KIB..8700 * KIB]);
    }

    #[test]
    fn the_window_of_a_near_store_is_small() {
        let mut copy = MappedCopy::default();
        let reads = (1..100).rev().map(|read| (read * 512, read * 512 + 512));
        let mut farthest = 0;
        for read in reads {
            asked(&mut copy, &[read], false);
            let ahead = copy.asked_ahead().next();
            let ahead = ahead.map_or(0, |ahead| ahead.end - ahead.start);
            farthest = farthest.max(ahead);
        }
        assert_eq!(farthest, WINDOW_INITIAL_MAX);
    }
}
