//! Flags of what a mount measures, and for whom.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use super::values::seconds;

/// Flags under "Metrics options".
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Metrics options")]
pub struct MetricsFlags {
    /// Log a summary of metrics every 5 s
    #[arg(long)]
    pub log_metrics: bool,

    /// Send metrics to this OpenTelemetry collector, as http://localhost:4318
    #[arg(long, value_name = "ENDPOINT")]
    pub otlp_endpoint: Option<String>,

    /// How often metrics are sent
    #[arg(long, value_name = "SECONDS", requires = "otlp_endpoint", value_parser = seconds(1..=u64::MAX))]
    pub otlp_export_interval: Option<u64>,

    /// Show metrics to Prometheus: port of this machine, IP address with port, or Unix socket
    #[arg(long, value_name = "ADDRESS")]
    pub metrics_listen: Option<ListenAddress>,

    /// Log each request of the kernel that takes longer than this, with what it waited for
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub log_slow: Option<Duration>,

    /// Measure nothing: `mount-s3 stats` cannot show this mount
    #[arg(long, conflicts_with_all = ["log_metrics", "otlp_endpoint", "metrics_listen", "log_slow"])]
    pub no_metrics: bool,
}

/// Seconds, with a fraction if need be.
fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0);
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| "it is a number of seconds above 0, as 10 or 0.5".to_owned())
}

/// Where a mount shows its numbers: `PORT`, `ADDRESS:PORT`, or the path of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return Ok(Self::Unix(PathBuf::from(text)));
        }
        if let Ok(port) = text.parse::<u16>() {
            return Ok(Self::Tcp((Ipv4Addr::LOCALHOST, port).into()));
        }
        let text = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => text.to_owned(),
        };
        text.parse().map(Self::Tcp).map_err(|_| {
            "it is a port (of this machine alone), an IP address with a port, as 0.0.0.0:9464, or the path of a Unix \
             socket"
                .to_owned()
        })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_local_unless_told_otherwise() {
        for (text, expected) in [
            ("9464", "127.0.0.1:9464"),
            ("localhost:9464", "127.0.0.1:9464"),
            ("0.0.0.0:9464", "0.0.0.0:9464"),
            ("[::1]:9464", "[::1]:9464"),
            ("/run/mount.sock", "/run/mount.sock"),
        ] {
            let address: ListenAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), expected);
        }
        for text in ["", "host", "host:80", "70000", ":80"] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }
}
