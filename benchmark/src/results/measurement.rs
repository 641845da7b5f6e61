//! Figures of one measurement, as `results.json` holds them.

use serde::Serialize;

use crate::profile::Shares;
use crate::server::Requests;

/// What one run used and did.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measurement {
    /// In the workload's unit.
    pub(crate) value: f64,
    pub(crate) elapsed_s: f64,
    pub(crate) operations: u64,
    /// Bytes that were read, or written.
    pub(crate) bytes: u64,
    /// Of one read, file or open; not there for commands.
    pub(crate) latency_p50_us: Option<f64>,
    pub(crate) latency_p99_us: Option<f64>,
    pub(crate) latency_p999_us: Option<f64>,
    /// CPU time of the system under test.
    pub(crate) mount_cpu_s: f64,
    /// The same and that of the reader, and of the server unless it is a given one.
    pub(crate) total_cpu_s: f64,
    /// Most memory the system had resident since it started.
    pub(crate) memory_peak_bytes: u64,
    /// `None` where the server does not count them.
    pub(crate) requests: Option<Requests>,
    /// Of the mount, if it was wanted.
    #[serde(skip)]
    pub(crate) profile: Option<Shares>,
}
