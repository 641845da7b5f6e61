//! `mount-s3 staged list|status|flush|export|discard DIRECTORY`: looks after files that mounts with
//! `--staging DIRECTORY` have not stored, while such a mount runs or when none does.
//!
//! Knows neither the format nor the folders, which are those of `file`. Runs on the main thread of
//! its own process.

mod answer_wait;
mod arguments;
mod base;
mod flush;
mod report;
mod run;

use crate::cli::Helper;

/// The helper command `staged`.
pub const HELPER: Helper = Helper {
    name: "staged",
    command: <arguments::StagedArguments as clap::CommandFactory>::command,
    run: run::run,
};
