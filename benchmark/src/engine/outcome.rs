//! The outcome of a workload: its operations, bytes and time.

use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::histogram::Histogram;
use crate::clock::Stopwatch;

/// A workload that was carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) elapsed: Duration,
    /// Reads, files, or entries listed.
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    /// Latencies of one operation; none for commands.
    pub(crate) latency_p50: Option<Duration>,
    pub(crate) latency_p99: Option<Duration>,
    /// Not there either for `fio` and scripts, which do not tell it.
    pub(crate) latency_p999: Option<Duration>,
}

/// The operations and bytes of one thread, or of several.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    /// Latency of each operation; empty for commands.
    pub(crate) latency: Histogram,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.latency.merge(&other.latency);
    }

    /// Times one operation, which returns the bytes that it read.
    pub(crate) fn timed(&mut self, operation: impl FnOnce() -> Result<u64>) -> Result<()> {
        let started = Stopwatch::start();
        let bytes = operation()?;
        self.record(bytes, started.elapsed());
        Ok(())
    }

    /// Counts one operation.
    pub(crate) fn record(&mut self, bytes: u64, duration: Duration) {
        self.bytes += bytes;
        self.latency.record(duration);
        self.operations += 1;
    }

    pub(crate) fn outcome(&self, elapsed: Duration) -> Outcome {
        Outcome {
            elapsed,
            operations: self.operations,
            bytes: self.bytes,
            latency_p50: self.latency.quantile(0.5),
            latency_p99: self.latency.quantile(0.99),
            latency_p999: self.latency.quantile(0.999),
        }
    }
}
