//! Measured figures. Pure.

use std::time::Duration;

/// The figures of one step.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    /// Operations that succeeded.
    pub(super) operations: u64,
    /// Operations that failed.
    pub(super) failures: u64,
    /// Bytes that they moved.
    pub(super) bytes: u64,
    /// Time of the step.
    pub(super) elapsed: Duration,
    /// Time of each operation, as many as are kept.
    pub(super) latencies: Vec<Duration>,
    /// Share of the machine's CPU that was busy, 0 to 1.
    pub(super) busy: Option<f64>,
    /// Text of one failure.
    pub(super) failure: Option<String>,
}

impl Figures {
    /// Counts an operation.
    pub(super) fn succeeded(&mut self, bytes: u64, latency: Duration) {
        self.operations += 1;
        self.bytes += bytes;
        if self.latencies.len() < LATENCIES_MAX {
            self.latencies.push(latency);
        }
    }

    /// Counts an operation that failed.
    pub(super) fn failed(&mut self, reason: String) {
        self.failures += 1;
        self.failure.get_or_insert(reason);
    }

    /// Adds those of another worker of the step.
    pub(super) fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.failures += other.failures;
        self.bytes += other.bytes;
        let room = LATENCIES_MAX - self.latencies.len().min(LATENCIES_MAX);
        self.latencies
            .extend(other.latencies.into_iter().take(room));
        if self.failure.is_none() {
            self.failure = other.failure;
        }
    }

    /// Bytes a second.
    pub(super) fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.elapsed.as_secs_f64().max(f64::EPSILON)
    }

    /// Operations a second.
    pub(super) fn operations_per_second(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64().max(f64::EPSILON)
    }

    /// The time that `percent` of 100 operations did not exceed.
    pub(super) fn quantile(&self, percent: usize) -> Option<Duration> {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100);
        sorted.get(rank.max(1) - 1).copied()
    }
}

/// The unit in which a step counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Bytes,
    /// Operations, or names.
    Count(&'static str),
    /// The time of an operation.
    Latency,
}

/// The way that a step took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Client,
    Mount,
}

/// A step of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) way: Way,
    pub(super) name: &'static str,
    /// Requests, readers or writers at once.
    pub(super) at_once: usize,
    pub(super) unit: Unit,
}

/// A step with its figures.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) step: Step,
    pub(super) figures: Figures,
}

/// Times that are kept of one step: 16 MB of memory.
const LATENCIES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_rates() {
        let mut figures = Figures {
            elapsed: Duration::from_secs(2),
            ..Figures::default()
        };
        assert_eq!(figures.quantile(50), None);
        for millis in [4, 1, 3, 2] {
            figures.succeeded(10, Duration::from_millis(millis));
        }
        figures.failed("no".to_owned());
        assert_eq!(figures.quantile(50), Some(Duration::from_millis(2)));
        assert_eq!(figures.quantile(99), Some(Duration::from_millis(4)));
        let mut sum = Figures::default();
        sum.add(figures.clone());
        sum.add(figures.clone());
        assert_eq!((sum.operations, sum.failures, sum.bytes), (8, 2, 80));
        assert!((figures.bytes_per_second() - 20.0).abs() < 1e-9);
        assert!((figures.operations_per_second() - 2.0).abs() < 1e-9);
    }
}
