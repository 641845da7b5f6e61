//! Cases of the sweep, and their figures.

use std::time::Duration;

/// One way to commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Adaptive,
    /// A batch goes so many microseconds after its first writer came.
    Fixed(u64),
    /// Each writer syncs by itself.
    Each,
}

/// Writers and the length of their records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) writers: usize,
    pub(super) bytes: usize,
}

/// Results of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) way: Way,
    pub(super) load: Load,
    pub(super) figures: Figures,
}

/// Throughput and latency of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    pub(super) per_second: f64,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
}
