//! Where the numbers of a mount go: the log, a collector of OpenTelemetry, whoever asks over HTTP.
//!
//! All sinks read one [`MetricsRegistry`] and share one thread, so that none can slow the mount
//! down. A sink that fails at the start ends the start; later its failure is a line in the log.

mod collector;
mod http;
mod log;
mod otlp;
mod prometheus;
mod service;

pub(super) use collector::MeasuredParts;
pub(super) use log::TARGET as LOG_TARGET;
pub use otlp::OtlpEndpoint;
pub use prometheus::name as prometheus_name;
pub(super) use service::{MetricsService, RunningMetrics};

use std::time::Duration;

use crate::cli::ListenAddress;

/// What is measured, and for whom.
#[derive(Clone, Debug, Default)]
pub struct MetricsConfig {
    /// Whether a summary is logged.
    pub logs: bool,
    /// The collector of OpenTelemetry.
    pub otlp: Option<OtlpEndpoint>,
    /// The address that Prometheus asks.
    pub listen: Option<ListenAddress>,
    /// Requests of the kernel that take longer are logged.
    pub slow: Option<Duration>,
}

impl MetricsConfig {
    /// Whether anybody is told. If not, nothing is measured.
    fn is_used(&self) -> bool {
        self.logs || self.otlp.is_some() || self.listen.is_some() || self.slow.is_some()
    }
}

/// What the numbers are of.
#[derive(Clone, Debug)]
pub(super) struct MountDescription {
    /// The bucket.
    pub(super) bucket: String,
    /// The prefix of all keys; empty for the whole bucket.
    pub(super) prefix: String,
    /// The mount point.
    pub(super) directory: String,
    /// The process.
    pub(super) pid: u32,
}
