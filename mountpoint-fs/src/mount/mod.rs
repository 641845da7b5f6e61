//! The process: from the command line to a mounted directory, and to its end.

mod client_options;
mod config;
mod connect;
mod drain;
mod environment;
mod helper;
mod index;
mod logging;
mod metrics;
mod parts;
mod process;
mod run;
mod serve;
mod shared_cache;
mod start_error;
mod start_log;
mod target;

pub use client_options::{client_options, read_part_size, store_options};
pub use config::{FuseTuning, MountConfig, memory_target};
pub use connect::{Connected, connect};
pub use environment::{AwsFiles, Environment};
pub use helper::{
    connect_helper, parse_helper, print, progress_bar, run_helper, stop_on_signals, tell,
};
pub use index::open_index;
pub(crate) use logging::format::safe_line;
pub use logging::is_syslog_there;
pub use metrics::{
    CAPTURE_FORMAT, CAPTURE_SECONDS_MAX, CaptureLine, CaptureRequest, MetricDocument,
    MetricsConfig, MountDescription, NumberDocument, OtlpEndpoint, SOCKET_PREFIX, STATS_FORMAT,
    StatsDocument, prometheus_name,
};
pub use parts::store_id;
pub use process::control_group::{MemoryGroup, memory_groups};
pub use run::run;
pub use serve::MountedBucket;
pub use shared_cache::SharedCacheSource;
pub use start_error::StartError;
pub use target::MountTarget;
