//! `mount-s3`: mounts an S3 bucket as a local directory.

use std::process::ExitCode;

fn main() -> ExitCode {
    mountpoint_fs::mount::run(std::env::args_os(), mountpoint_fs::doctor::run)
}
