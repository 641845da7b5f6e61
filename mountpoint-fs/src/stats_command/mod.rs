//! `mount-s3 stats [DIRECTORY]`: shows the work of running mounts and their waits; `trace`
//! writes each request of one mount to a file.
//!
//! Each mount answers over a socket of its own with all its numbers; everything shown is derived
//! here. Changes nothing. Runs on the main thread of its own process.

mod activity;
mod arguments;
mod capture;
mod draw;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod mounts;
mod run;
mod screen;
mod sockets;
mod view;

pub use capture::TRACE_HELPER;

use crate::cli::Helper;

/// The helper command `stats`.
pub const HELPER: Helper = Helper {
    name: "stats",
    command: <arguments::StatsArguments as clap::CommandFactory>::command,
    run: run::run,
};
