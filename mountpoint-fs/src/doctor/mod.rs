//! `mount-s3 doctor [BUCKET [DIRECTORY]]`: can this machine mount this bucket, and with which
//! flags?
//!
//! Each area of checks is a file with facts and a pure `judge` from facts to findings. The facts
//! come from files under `/proc` and `/sys`, and from requests that change nothing;
//! `server::write_trial` writes, if that is asked for. `recommendation` makes the command line.
//! Resolves flags as a mount does, but mounts nothing.
//!
//! Invariant: without `--check-writes` no request that writes is ever sent; every step has a time
//! limit, and the whole has one (`DOCTOR_*`). Runs on the main thread of its own process.

mod arguments;
mod error_text;
mod finding;
mod machine;
mod recommendation;
mod report;
mod run;
mod server;

use crate::cli::Helper;

/// The helper command `doctor`.
pub const HELPER: Helper = Helper {
    name: "doctor",
    command: arguments::command,
    run: run::run,
};
