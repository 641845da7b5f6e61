//! Reads at a constant distance: strided, skipping and backward ones.
//!
//! Pure. A run is a range that was read without a gap, by one read or several. Runs of one length
//! at one distance, forwards or backwards, are a stride. After three equal steps the next run is
//! read ahead, and one more with each further step, so that waste never exceeds gain. Within a
//! stride no byte behind the expected end of the run is read ahead.
//!
//! Invariant: read-ahead lies within the object and within the given bound.

use std::ops::Range;

/// The latest runs of one open file.
#[derive(Debug, Default)]
pub(super) struct Stride {
    run: Range<u64>,
    /// Distance between the beginnings of two runs.
    step: i64,
    /// Length of a run.
    len: u64,
    /// Number of equal steps in a row.
    steps: usize,
    /// Beginnings of the runs that were read ahead.
    ahead: Vec<u64>,
}

impl Stride {
    /// Shows a read that continues a run. Ends the stride if the run is now longer than earlier
    /// ones.
    pub(super) fn go_on(&mut self, range: &Range<u64>) {
        if range.start == self.run.end {
            self.run.end = range.end;
        }
        if self.is_sure() && self.run.end - self.run.start > self.len {
            self.end();
        }
    }

    /// Shows a read that begins a run. Returns the ranges to read ahead, nearest first: the rest of
    /// this run and the next runs, at most `ahead_max` bytes in total.
    pub(super) fn begin(
        &mut self,
        range: &Range<u64>,
        size: u64,
        ahead_max: u64,
    ) -> Vec<Range<u64>> {
        let len = self.run.end - self.run.start;
        let step = range.start.cast_signed() - self.run.start.cast_signed();
        let is_same = step != 0 && step == self.step && len == self.len;
        let is_new = self.run.is_empty();
        self.run = range.clone();
        if is_new || !is_same {
            self.end();
            (self.step, self.len) = (step, len);
            self.steps = usize::from(!is_new && step != 0);
            return Vec::new();
        }
        self.steps += 1;
        self.ahead.retain(|start| *start != range.start);
        if !self.is_sure() {
            return Vec::new();
        }
        if range.end - range.start > self.len {
            self.end();
            return Vec::new();
        }
        self.plan(range, size, ahead_max)
    }

    fn plan(&mut self, range: &Range<u64>, size: u64, ahead_max: u64) -> Vec<Range<u64>> {
        let mut asked = Vec::new();
        let run_end = (self.run.start + self.len).min(size);
        if range.end < run_end && run_end - range.end <= ahead_max {
            asked.push(range.end..run_end);
        }
        let depth = (self.steps - STEPS_MIN + 1).min(STRIDE_RUNS_MAX);
        let mut bytes = asked
            .iter()
            .map(|range| range.end - range.start)
            .sum::<u64>();
        let mut start = self.run.start;
        for _ in 0..depth {
            let Some(next) = start
                .checked_add_signed(self.step)
                .filter(|next| *next < size)
            else {
                break;
            };
            start = next;
            bytes += self.len;
            if bytes > ahead_max {
                break;
            }
            if !self.ahead.contains(&next) {
                self.ahead.push(next);
                asked.push(next..(next + self.len).min(size));
            }
        }
        asked
    }

    /// Expected end of the run that begins at `start`, if there is a stride.
    pub(super) fn run_end(&self, start: u64) -> Option<u64> {
        (self.is_sure() && self.run.start == start).then(|| start + self.len)
    }

    /// Ranges that were requested ahead and not read yet: the rest of this run, and the next runs.
    pub(super) fn asked_ahead(&self) -> impl Iterator<Item = Range<u64>> {
        let run = self.run.end..self.run.start + self.len;
        let run = Some(run).filter(|run| self.is_sure() && run.start < run.end);
        let next = self.ahead.iter().map(|&start| start..start + self.len);
        run.into_iter().chain(next)
    }

    fn end(&mut self) {
        self.steps = 0;
        self.ahead = Vec::new();
    }

    /// Whether there are enough equal steps to rule out chance.
    pub(super) fn is_sure(&self) -> bool {
        self.steps >= STEPS_MIN
    }

    /// Whether runs are read ahead.
    pub(super) fn has_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }
}

/// Equal steps that make a stride. Random reads make three in a row once in a number of places
/// squared.
const STEPS_MIN: usize = 3;

/// Runs of a strided or backward reader that are fetched ahead.
///
/// At 20 ms a request, that is the rate of a machine that takes 1 ms for each.
pub const STRIDE_RUNS_MAX: usize = 16;

#[cfg(test)]
#[expect(
    clippy::single_range_in_vec_init,
    reason = "lists of one range are meant"
)]
mod tests {
    use super::*;

    const SIZE: u64 = 10_000;

    /// The read-ahead after each read, for runs of one read each.
    fn asked(reads: &[(u64, u64)]) -> Vec<Vec<Range<u64>>> {
        let mut stride = Stride::default();
        reads
            .iter()
            .map(|&(start, len)| stride.begin(&(start..start + len), SIZE, 1000))
            .collect()
    }

    #[test]
    fn one_more_run_is_asked_for_with_each_step_that_comes_true() {
        assert_eq!(
            asked(&[
                (100, 10),
                (200, 10),
                (300, 10),
                (400, 10),
                (500, 10),
                (600, 10)
            ]),
            [
                vec![],
                vec![],
                vec![],
                vec![500..510],
                vec![600..610, 700..710],
                vec![800..810, 900..910],
            ]
        );
    }

    #[test]
    fn backward_reads_are_a_stride() {
        assert_eq!(
            asked(&[
                (500, 100),
                (400, 100),
                (300, 100),
                (200, 100),
                (100, 100),
                (0, 100)
            ]),
            [vec![], vec![], vec![], vec![100..200], vec![0..100], vec![]]
        );
    }

    #[test]
    fn other_steps_and_other_lengths_are_none() {
        for reads in [
            [(100, 10), (200, 10), (310, 10), (410, 10), (510, 10)],
            [(100, 10), (200, 20), (300, 10), (400, 20), (500, 10)],
            [(100, 10), (100, 10), (100, 10), (100, 10), (100, 10)],
        ] {
            let asked = asked(&reads);
            assert!(asked.iter().all(Vec::is_empty), "{reads:?} {asked:?}");
        }
    }

    #[test]
    fn runs_of_several_reads_are_asked_for_whole() {
        let mut stride = Stride::default();
        for start in [1000, 2000, 3000] {
            assert_eq!(stride.begin(&(start..start + 50), SIZE, 1000), []);
            stride.go_on(&(start + 50..start + 100));
        }
        assert_eq!(
            stride.begin(&(4000..4050), SIZE, 1000),
            [4050..4100, 5000..5100]
        );
        assert_eq!(stride.run_end(4000), Some(4100));
        let ahead: Vec<_> = stride.asked_ahead().collect();
        assert_eq!(ahead, [4050..4100, 5000..5100]);
        stride.go_on(&(4050..4100));
        assert_eq!(stride.run_end(4000), Some(4100));
        // A run longer than the earlier ones ends the stride.
        stride.go_on(&(4100..4150));
        assert_eq!(stride.run_end(4000), None);
        assert_eq!(stride.asked_ahead().count(), 0);
    }

    #[test]
    fn asks_within_the_object_and_the_bound() {
        let mut stride = Stride::default();
        for start in (0..100).map(|run| run * 100) {
            for range in stride.begin(&(start..start + 60), SIZE, 130) {
                assert!(
                    range.end <= SIZE && range.end - range.start <= 60,
                    "{range:?}"
                );
            }
            assert!(stride.ahead.len() <= 2, "{:?}", stride.ahead);
        }
    }
}
