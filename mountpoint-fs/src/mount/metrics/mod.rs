//! Where the numbers of a mount go: the log, a collector of OpenTelemetry, Prometheus over HTTP,
//! `mount-s3 stats` over the mount's socket, which also hands out records of each request.
//!
//! All sinks read one [`MetricsRegistry`] and share one thread, so that none can slow the mount
//! down. A sink that fails at the start ends the start; later its failure is a line in the log.

mod capture;
mod collector;
mod document;
mod http;
mod kernel_queue;
mod log;
mod otlp;
mod prometheus;
mod service;
mod socket;
mod unix_socket;

pub use capture::{CAPTURE_FORMAT, CAPTURE_SECONDS_MAX, CaptureLine, CaptureRequest};
pub(super) use collector::MeasuredParts;
pub use document::{MetricDocument, MountDescription, NumberDocument, STATS_FORMAT, StatsDocument};
pub(super) use log::TARGET as LOG_TARGET;
pub use otlp::OtlpEndpoint;
pub use prometheus::name as prometheus_name;
pub(super) use service::{MetricsService, RunningMetrics};
pub use socket::SOCKET_PREFIX;

use std::time::Duration;

use crate::cli::ListenAddress;

/// The sinks of the metrics, and whether anything is measured.
#[derive(Clone, Debug, Default)]
pub struct MetricsConfig {
    /// Whether nothing is measured.
    pub is_off: bool,
    /// Whether a summary is logged.
    pub logs: bool,
    /// The collector of OpenTelemetry.
    pub otlp: Option<OtlpEndpoint>,
    /// The address that Prometheus asks.
    pub listen: Option<ListenAddress>,
    /// Requests of the kernel that take longer are logged.
    pub slow: Option<Duration>,
}
