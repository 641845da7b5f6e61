//! Proposals of the pattern detectors for a read, and the choice between them.
//!
//! Pure. Each detector sees every read and proposes independently; only [`arbiter`] knows all
//! proposals.

use std::ops::Range;

/// A detector's prediction of what a read begins or continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Proposal {
    /// The first read, at the beginning of the file: fetch a small file whole, or the head of a
    /// large one.
    Beginning,
    /// The read lies within a run of a stride: fetch nothing behind the run.
    WithinRun,
    /// The reader skips short gaps: fetch sequentially, at first this number of bytes ahead.
    Scan(u64),
    /// The reader goes backwards: fetch this range from its end, in parts of this number of bytes.
    Backward(Range<u64>, u64),
    /// The read belongs to a stride: fetch these ranges, most urgent first.
    Stride(Vec<Range<u64>>),
    /// The reader begins a run: fetch sequentially, at first this number of bytes ahead.
    Run(u64),
    /// The read continues the one before: fetch sequentially.
    Stream,
}

impl Proposal {
    /// Rank of the proposal; a lower rank is based on more knowledge.
    fn rank(&self) -> u8 {
        match self {
            Self::Beginning => 0,
            Self::WithinRun => 1,
            Self::Scan(_) => 2,
            Self::Backward(..) => 3,
            Self::Stride(_) => 4,
            Self::Run(_) => 5,
            Self::Stream => 6,
        }
    }
}

/// The proposal to follow; `None` if only the read itself is fetched.
pub(super) fn arbiter(proposals: impl IntoIterator<Item = Option<Proposal>>) -> Option<Proposal> {
    let proposals = proposals.into_iter().flatten();
    proposals.min_by_key(Proposal::rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_detector_that_knows_most_is_followed() {
        let stride = || Some(Proposal::Stride(vec![7..9, 20..22]));
        for (proposals, taken) in [
            (vec![None, None], None),
            (vec![Some(Proposal::Stream), None], Some(Proposal::Stream)),
            (
                vec![Some(Proposal::Stream), Some(Proposal::WithinRun)],
                Some(Proposal::WithinRun),
            ),
            (vec![stride(), Some(Proposal::Run(5))], stride()),
            (
                vec![stride(), Some(Proposal::Backward(2..9, 4))],
                Some(Proposal::Backward(2..9, 4)),
            ),
            (
                vec![stride(), Some(Proposal::Scan(5))],
                Some(Proposal::Scan(5)),
            ),
            (
                vec![Some(Proposal::Stream), Some(Proposal::Beginning)],
                Some(Proposal::Beginning),
            ),
        ] {
            assert_eq!(arbiter(proposals), taken);
        }
    }
}
