//! What the detectors of patterns propose for a read, and which proposal is taken.
//!
//! Pure. Each detector sees every read and proposes by itself; [`arbiter`] is the only place that
//! knows of all of them.

use std::ops::Range;

/// What a read begins or goes on with, as one detector sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Proposal {
    /// The first read of the file, at its beginning: fetch a small file whole, or its head.
    Beginning,
    /// The read lies within a run of a stride: fetch nothing behind the end of the run.
    WithinRun,
    /// The reader skips over short gaps: fetch as in sequence, so many bytes ahead at first.
    Scan(u64),
    /// The reader goes backwards: fetch this range, its end first, in parts of so many bytes.
    Backward(Range<u64>, u64),
    /// The read belongs to a stride: fetch these ranges, most urgent first.
    Stride(Vec<Range<u64>>),
    /// The reader stays wherever it begins: fetch as in sequence, so many bytes ahead at first.
    Run(u64),
    /// The read continues the one before: fetch as in sequence.
    Stream,
}

impl Proposal {
    /// A detector with a lower rank knows more of what comes next.
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

/// The proposal to follow; `None` if the read is to be fetched exactly.
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
