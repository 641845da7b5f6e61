//! Backward reads without a gap.
//!
//! Pure. Read-ahead never exceeds what was read so.
//!
//! Invariant: read-ahead ends at the reader.

use std::mem;
use std::ops::Range;

use crate::config::limits::PART_MIN;
use crate::read::plan::window::WINDOW_INITIAL_MAX;

/// The latest backward reads of one open file.
#[derive(Debug, Default)]
pub(super) struct BackwardRun {
    /// The range read backwards.
    run: Range<u64>,
    /// Number of reads in the run.
    reads: usize,
    /// Start of the range before the run that was requested.
    ahead_start: u64,
    /// Read-ahead of the previous run that was not read.
    left: Range<u64>,
}

/// A range to fetch behind a reader that goes backwards, and the length of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Behind {
    pub(super) range: Range<u64>,
    pub(super) part: u64,
}

impl BackwardRun {
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

    /// Whether the reader goes backwards without a gap.
    pub(super) fn is_sure(&self) -> bool {
        self.reads >= READS_MIN
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

    fn begin(&mut self, range: &Range<u64>) {
        let ahead = self.ahead_start..self.run.start;
        if !ahead.is_empty() {
            self.left = ahead;
        }
        self.run = range.clone();
        self.reads = 1;
        self.ahead_start = range.start;
    }

    fn ask(&mut self, reach_max: u64) -> Option<Behind> {
        let reach = (self.run.end - self.run.start).min(reach_max);
        let until = self.run.start.saturating_sub(reach);
        let is_worth = until == 0 || self.ahead_start - until.min(self.ahead_start) >= reach / 4;
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
    fn asked(run: &mut BackwardRun, reads: &[(u64, u64)], is_remote: bool) -> Vec<Range<u64>> {
        let reads = reads.iter().filter_map(|&(from, to)| {
            let behind = run.jump(&(from * KIB..to * KIB), is_remote, 256 * MIB)?;
            Some(behind.range.start / KIB..behind.range.end / KIB)
        });
        reads.collect()
    }

    #[test]
    fn backward_reads_are_believed_the_fourth_time() {
        let mut run = BackwardRun::default();
        let reads = [(9000, 9100), (8900, 9000), (8800, 8900), (8700, 8800)];
        assert_eq!(asked(&mut run, &reads, false), [8300..8700]);
        // After a jump the old read-ahead stays until the next run has its own: reads may arrive
        // out of order.
        assert_eq!(asked(&mut run, &[(100, 200)], false), []);
        let ahead: Vec<_> = run.asked_ahead().collect();
        assert_eq!(ahead, [8300 * KIB..8700 * KIB]);
    }

    #[test]
    fn the_window_of_a_near_store_is_small() {
        let mut run = BackwardRun::default();
        let reads = (1..100).rev().map(|read| (read * 512, read * 512 + 512));
        let mut farthest = 0;
        for read in reads {
            asked(&mut run, &[read], false);
            let ahead = run.asked_ahead().next();
            let ahead = ahead.map_or(0, |ahead| ahead.end - ahead.start);
            farthest = farthest.max(ahead);
        }
        assert_eq!(farthest, WINDOW_INITIAL_MAX);
    }
}
