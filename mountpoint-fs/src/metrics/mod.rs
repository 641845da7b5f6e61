//! Measurements of a mount: the names, and the one place where the numbers are kept.
//!
//! The layers above record through the `metrics` facade, by handles that they take once. The
//! [`MetricsRegistry`] is its recorder; sinks take [`Snapshot`]s of it and never change it. Without
//! a registry, handles do nothing and [`is_measured`] tells that no clock need be read. [`trace`]
//! has the waits of one operation, [`capture`] each operation while a command records them.

pub mod capture;
mod definitions;
mod histogram;
pub mod panics;
mod process;
pub mod programs;
mod registry;
mod snapshot;
pub mod trace;
mod wait;

pub use definitions::{METRICS, MetricDefinition, MetricKind, MetricUnit, names};
pub use histogram::{Histogram, HistogramCounts};
pub use registry::{MetricsRegistry, install, is_measured};
pub use snapshot::{Series, SeriesValue, Snapshot};
