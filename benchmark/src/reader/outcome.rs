//! What a workload did and how long it took.

use std::time::Duration;

use anyhow::Result;

use crate::clock::Stopwatch;
use crate::histogram::Histogram;

/// A workload that was carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) elapsed: Duration,
    /// Reads, files, or entries listed.
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    /// Of one operation; not there for commands.
    pub(crate) latency_p50: Option<Duration>,
    pub(crate) latency_p99: Option<Duration>,
}

/// What one thread did, or several.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) operations: u64,
    pub(super) bytes: u64,
    /// Of each operation; empty for commands.
    pub(super) latency: Histogram,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.latency.merge(&other.latency);
    }

    /// Times one operation, which returns the bytes that it read.
    pub(super) fn timed(&mut self, operation: impl FnOnce() -> Result<u64>) -> Result<()> {
        let started = Stopwatch::start();
        self.bytes += operation()?;
        self.latency.record(started.elapsed());
        self.operations += 1;
        Ok(())
    }

    pub(super) fn outcome(&self, elapsed: Duration) -> Outcome {
        Outcome {
            elapsed,
            operations: self.operations,
            bytes: self.bytes,
            latency_p50: self.latency.quantile(0.5),
            latency_p99: self.latency.quantile(0.99),
        }
    }
}
