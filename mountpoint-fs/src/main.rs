//! `mount-s3`: mounts an S3 bucket as a local directory.

use std::process::ExitCode;

use mountpoint_fs::cli::Helper;
use mountpoint_fs::{
    bench_command, cache_command, doctor, indexer, mount, staged_command, stats_command, warmer,
};

/// The commands of the program besides mounting.
const HELPERS: [Helper; 9] = [
    doctor::HELPER,
    bench_command::HELPER,
    indexer::HELPER,
    warmer::HELPER,
    cache_command::HELPER,
    staged_command::HELPER,
    stats_command::HELPER,
    stats_command::TRACE_HELPER,
    stats_command::RECORD_HELPER,
];

fn main() -> ExitCode {
    mount::run(std::env::args_os(), &HELPERS)
}
