//! Flags that control how requests reach S3, and the resources they may take.

use std::path::PathBuf;

use clap::{Args, value_parser};

use super::values::{bytes, mebibytes, parse_interface, parse_user_agent};

/// Flags under "Client options".
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Client options")]
pub struct ClientFlags {
    /// Throughput to plan connections for, in Gbit/s [default: the EC2 instance's, or 10]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub maximum_throughput_gbps: Option<u64>,

    /// Most threads that take requests from the kernel; none of them ever waits for S3
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = value_parser!(u64).range(1..))]
    pub max_threads: u64,

    /// Memory for data that was read, read ahead or written, in MiB, at least 512 [default: a
    /// quarter of the machine's or the cgroup's, 256 MiB (at most half) to 8 GiB, or a 16th above
    /// 128 GiB, up to 32 GiB]
    #[arg(long, value_name = "MiB", value_parser = mebibytes(512..=MIB_MAX))]
    pub memory_target: Option<u64>,

    /// Largest range of one GET, and part size of uploads (at least 5 MiB), in bytes [default:
    /// 8388608]
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = bytes(PART_MIN..=PART_MAX),
        conflicts_with_all = ["read_part_size", "write_part_size"]
    )]
    pub part_size: Option<u64>,

    /// Largest range of one GET, in bytes [default: 8388608]
    #[arg(long, value_name = "SIZE", value_parser = bytes(PART_MIN..=PART_MAX))]
    pub read_part_size: Option<u64>,

    /// Network interface to send requests through; give it once for each. Needs Linux 5.7 or root
    #[arg(long, value_name = "NETWORK_INTERFACE", value_parser = parse_interface)]
    pub bind: Vec<String>,

    /// PEM file of certificates to trust instead of the system's [default: AWS_CA_BUNDLE]
    #[arg(long, value_name = "FILE")]
    pub ca_bundle: Option<PathBuf>,

    /// Text to put before the User-Agent header of every request
    #[arg(long, value_name = "PREFIX", value_parser = parse_user_agent)]
    pub user_agent_prefix: Option<String>,
}

impl ClientFlags {
    /// Largest range of one GET that a flag sets, in bytes.
    #[must_use]
    pub fn read_part_size(&self) -> u64 {
        self.read_part_size
            .or(self.part_size)
            .unwrap_or(PART_DEFAULT)
    }

    /// The part size of uploads that `--part-size` sets, in bytes.
    #[must_use]
    pub fn write_part_size(&self) -> Option<u64> {
        self.part_size
    }
}

/// mountpoint-s3's default.
const PART_DEFAULT: u64 = 8 << 20;
/// In smaller ranges a large file costs mostly request headers and latency.
const PART_MIN: u64 = 1 << 20;
/// S3's own limit of a part, and so of the values that mountpoint-s3 accepts.
pub(super) const PART_MAX: u64 = 5 << 30;
/// 1 PiB: far more than any machine has, far less than overflows as bytes.
const MIB_MAX: u64 = 1 << 30;
