//! `mount-s3 trace`: each request of a mount, for some seconds, in a file.
//!
//! The mount hands its records over by its socket, see [`crate::mount`]; this process writes the
//! file, so the mount needs no path of a user. The file is whole, however the capture ends.

mod arguments;
mod chrome_trace;
mod connection;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz;
mod output;
mod run;
mod tracks;

use arguments::TraceArguments;
use clap::CommandFactory;

use crate::cli::Helper;

/// The helper command `trace`.
pub const TRACE_HELPER: Helper = Helper {
    name: "trace",
    command: <TraceArguments as CommandFactory>::command,
    run: run::trace,
};
