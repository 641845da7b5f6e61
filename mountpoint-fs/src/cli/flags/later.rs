//! Flags of a shared cache and of metrics: known, checked, and without effect in this version.
//!
//! Such flags change the speed of a mount and the knowledge about it, never its permissions, so a
//! volume that asks for them starts. [`LaterFlags::warnings`] names the actual behaviour for each
//! flag that was given.

use clap::{Args, value_parser};

use crate::cli::{BucketArg, BucketArgError};

/// Flags under "Not in this version".
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Not in this version: checked, and without effect but a warning")]
pub struct LaterFlags {
    /// Keep content in this bucket of S3 Express One Zone
    #[arg(long, value_name = "BUCKET", value_parser = parse_cache_bucket)]
    pub cache_xz: Option<BucketArg>,

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
            ("cache-xz", self.cache_xz.is_some(), NO_CACHE),
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

const NO_CACHE: &str = "keeps content on a local disk only (--cache)";
const NO_METRICS: &str = "has no metrics; --debug logs what the mount does";

fn parse_cache_bucket(text: &str) -> Result<BucketArg, String> {
    let bucket: BucketArg = text
        .parse()
        .map_err(|error: BucketArgError| error.to_string())?;
    if bucket.prefix.is_empty() {
        Ok(bucket)
    } else {
        Err("a cache is a whole bucket, without a prefix".to_owned())
    }
}
