//! Detectors of reads that are no plain sequence: strides, sparse scans, short runs and backward
//! reads.
//!
//! Pure. The detectors know nothing of each other, of windows or of blocks. [`Patterns`] shows each
//! read to all of them and collects their proposals.

mod backward_run;
mod run_length;
mod sparse_scan;
mod stride;

use std::mem;
use std::ops::Range;

use self::backward_run::{BackwardRun, Behind};
use self::run_length::RunLengthPredictor;
use self::sparse_scan::SparseScan;
pub use self::stride::STRIDE_RUNS_MAX;
use self::stride::Stride;
use super::access::AccessKind;
use super::proposal::Proposal;

/// One read, as the detectors see it.
#[derive(Debug)]
pub(super) struct SeenRead<'a> {
    pub(super) range: &'a Range<u64>,
    /// Start of the range that was read without a gap up to this read.
    pub(super) run_start: u64,
    /// Relation of the read to earlier ones.
    pub(super) kind: AccessKind,
    /// Whether no other read of the file waits for its bytes.
    pub(super) is_alone: bool,
    /// Whether the latency of a GET is known to be that of the network.
    pub(super) is_remote: bool,
    /// Start and length of the stream that the reader left for this read.
    pub(super) left: Option<(u64, u64)>,
    /// Size of the object.
    pub(super) size: u64,
    /// Largest number of bytes to read ahead.
    pub(super) ahead_max: u64,
}

/// The detectors' conclusions from a read.
#[derive(Debug, Default)]
pub(super) struct Observation {
    pub(super) proposals: [Option<Proposal>; 4],
    /// Whether a detector gave up its read-ahead.
    pub(super) has_given_up: bool,
}

/// The detectors of one open file.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    /// Boxed and created when a stream is left: most files are read from end to end.
    run_lengths: Option<Box<RunLengthPredictor>>,
    /// Boxed and created at the second jump: most files are read from end to end.
    jumps: Option<Box<JumpPatterns>>,
}

/// Detectors of patterns in reads that continue none.
#[derive(Debug, Default)]
struct JumpPatterns {
    stride: Stride,
    scan: SparseScan,
    backward: BackwardRun,
}

impl Patterns {
    /// Shows a read to all detectors.
    pub(super) fn observe(&mut self, read: &SeenRead<'_>) -> Observation {
        if read.kind == AccessKind::GoesOn {
            self.observe_continued(read)
        } else {
            self.observe_jump(read)
        }
    }

    fn observe_continued(&mut self, read: &SeenRead<'_>) -> Observation {
        if let Some(run_lengths) = &mut self.run_lengths {
            run_lengths.resumed(read.run_start);
        }
        let Some(jumps) = &mut self.jumps else {
            return Observation::default();
        };
        jumps.scan.go_on(read.range);
        let run_end = jumps.stride.run_end(read.run_start);
        jumps.stride.go_on(read.range);
        let is_within = run_end.is_some_and(|end| read.range.end <= end);
        Observation {
            proposals: [is_within.then_some(Proposal::WithinRun), None, None, None],
            has_given_up: false,
        }
    }

    fn observe_jump(&mut self, read: &SeenRead<'_>) -> Observation {
        let scan = self.observe_scan(read);
        if scan.is_some() {
            self.run_lengths = None;
        } else {
            self.observe_run(read);
        }
        let (backward, is_backward) = self.observe_backward(read);
        let (stride, has_given_up) = if !read.is_alone || scan.is_some() || is_backward {
            // A reader at several places at once needs no read-ahead of a stride.
            (None, self.end_stride())
        } else if read.kind == AccessKind::First {
            (None, false)
        } else {
            self.observe_stride(read)
        };
        let run = self.run_that_begins(read).filter(|_| !is_backward);
        Observation {
            proposals: [scan, backward, stride, run],
            has_given_up,
        }
    }

    fn observe_scan(&mut self, read: &SeenRead<'_>) -> Option<Proposal> {
        if read.kind == AccessKind::First {
            return None;
        }
        let jumps = self.jumps.get_or_insert_default();
        if !read.is_alone {
            jumps.scan = SparseScan::default();
        }
        jumps.scan.begin(read.range);
        let is_worth = read.is_remote && !jumps.stride.is_sure();
        let run = jumps.scan.run().filter(|_| is_worth);
        run.map(Proposal::Scan)
    }

    /// The proposal behind a reader that goes backwards, and whether it does.
    fn observe_backward(&mut self, read: &SeenRead<'_>) -> (Option<Proposal>, bool) {
        // A reader at several places at once is none that goes backwards.
        if read.kind == AccessKind::First || !read.is_alone {
            return (None, false);
        }
        let backward = &mut self.jumps.get_or_insert_default().backward;
        let behind = backward.jump(read.range, read.is_remote, read.ahead_max);
        let proposal = behind.map(|Behind { range, part }| Proposal::Backward(range, part));
        (proposal, backward.is_sure())
    }

    /// Learns from the stream that was left, unless it had reached the end of the object.
    fn observe_run(&mut self, read: &SeenRead<'_>) {
        if let Some((start, len)) = read.left.filter(|(start, len)| start + len < read.size) {
            self.run_lengths.get_or_insert_default().left(start, len);
        }
        if let Some(run_lengths) = &mut self.run_lengths {
            run_lengths.began();
        }
    }

    fn run_that_begins(&self, read: &SeenRead<'_>) -> Option<Proposal> {
        let run_lengths = self.run_lengths.as_ref().filter(|_| read.is_alone)?;
        let Range { start, end } = *read.range;
        run_lengths
            .begins_runs()
            .then(|| Proposal::Run(run_lengths.reach(start, end) - start))
    }

    fn observe_stride(&mut self, read: &SeenRead<'_>) -> (Option<Proposal>, bool) {
        let stride = &mut self.jumps.get_or_insert_default().stride;
        let had_ahead = stride.has_ahead();
        let asked = stride.begin(read.range, read.size, read.ahead_max);
        let has_given_up = had_ahead && !stride.has_ahead();
        let proposal = (!asked.is_empty()).then_some(Proposal::Stride(asked));
        (proposal, has_given_up)
    }

    /// Ends the read-ahead behind a reader that goes backwards.
    pub(super) fn end_backward(&mut self) {
        if let Some(jumps) = &mut self.jumps {
            jumps.backward.end();
        }
    }

    /// Ends the stride. Returns whether it had read-ahead.
    pub(super) fn end_stride(&mut self) -> bool {
        let jumps = self.jumps.as_mut();
        let stride = jumps.map(|jumps| mem::take(&mut jumps.stride));
        stride.is_some_and(|stride| stride.has_ahead())
    }

    /// Forgets the jumps, but not the lengths of runs.
    pub(super) fn forget_jumps(&mut self) {
        self.jumps = None;
    }

    /// Limit of the read-ahead of a stream that began at `start` and has reached `end`.
    pub(super) fn reach(&self, start: u64, end: u64) -> u64 {
        let run_lengths = self.run_lengths.as_ref();
        run_lengths.map_or(u64::MAX, |run_lengths| run_lengths.reach(start, end))
    }

    /// Ranges that were requested ahead for a stride or behind the reader and not read yet.
    pub(super) fn asked_ahead(&self) -> impl Iterator<Item = Range<u64>> {
        let jumps = self.jumps.iter();
        jumps.flat_map(|jumps| {
            jumps
                .stride
                .asked_ahead()
                .chain(jumps.backward.asked_ahead())
        })
    }
}
