//! `mount-s3`: mounts an S3 bucket as a local directory.

use std::process::ExitCode;

use mountpoint_fs::{cache_command, doctor, indexer, mount, staged_command, warmer};

fn main() -> ExitCode {
    mount::run(
        std::env::args_os(),
        doctor::run,
        indexer::run,
        cache_command::run,
        staged_command::run,
        warmer::run,
    )
}
