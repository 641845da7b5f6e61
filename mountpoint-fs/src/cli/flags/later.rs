//! Flags of metrics: known, checked, and without effect in this version.
//!
//! Such flags change the speed of a mount and the knowledge about it, never its permissions, so a
//! volume that asks for them starts. [`LaterFlags::warnings`] names the actual behaviour for each
//! flag that was given.

use clap::{Args, value_parser};

/// Flags under "Not in this version".
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Not in this version: checked, and without effect but a warning")]
pub struct LaterFlags {
    /// Log a summary of metrics every 5 s
    #[arg(long)]
    pub log_metrics: bool,

    /// Send metrics to this OpenTelemetry collector
    #[arg(long, value_name = "ENDPOINT")]
    pub otlp_endpoint: Option<String>,

    /// How often metrics are sent
    #[arg(long, value_name = "SECONDS", requires = "otlp_endpoint", value_parser = value_parser!(u64).range(1..))]
    pub otlp_export_interval: Option<u64>,
}

impl LaterFlags {
    /// One text for each flag that this version cannot honour.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let given = [
            ("log-metrics", self.log_metrics, NO_METRICS),
            ("otlp-endpoint", self.otlp_endpoint.is_some(), NO_METRICS),
            (
                "otlp-export-interval",
                self.otlp_export_interval.is_some(),
                NO_METRICS,
            ),
        ];
        given
            .into_iter()
            .filter(|(_, given, _)| *given)
            .map(|(flag, _, instead)| {
                format!("--{flag} has no effect: it is not in this version, which {instead}")
            })
            .collect()
    }
}

const NO_METRICS: &str = "has no metrics; --debug logs what the mount does";
