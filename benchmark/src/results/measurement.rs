//! Figures of one measurement, as `results.json` holds them.

use serde::Serialize;

use crate::profile::Shares;
use crate::server::Requests;

/// The work of one system in one workload, and the resources that it used.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measurement {
    /// The result in the workload's unit.
    pub(crate) value: f64,
    pub(crate) elapsed_s: f64,
    pub(crate) operations: u64,
    /// Bytes that were read, or written.
    pub(crate) bytes: u64,
    /// Latency of one read, file or open; `None` for commands.
    pub(crate) latency_p50_us: Option<f64>,
    pub(crate) latency_p99_us: Option<f64>,
    pub(crate) latency_p999_us: Option<f64>,
    /// CPU time of the system under test.
    pub(crate) mount_cpu_s: f64,
    /// CPU time of the system, of the reader, and of the server unless its address was given.
    pub(crate) total_cpu_s: f64,
    /// Most memory the system had resident since it started.
    pub(crate) memory_peak_bytes: u64,
    /// `None` where the server does not count them.
    pub(crate) requests: Option<Requests>,
    /// The mount's CPU profile, if one was asked for.
    #[serde(skip)]
    pub(crate) profile: Option<Shares>,
}
