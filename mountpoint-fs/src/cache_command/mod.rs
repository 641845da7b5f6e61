//! `mount-s3 cache stat|list|verify|evict|clear DIRECTORY`: looks after the cache of mounts with
//! `--cache DIRECTORY`, while they run or when none does.
//!
//! Knows neither the format nor the folders, which are `cache`'s. Touches nothing else in the
//! directory. Runs on the main thread of its own process.

mod arguments;
mod report;
mod run;

use crate::cli::Helper;

/// The helper command `cache`.
pub const HELPER: Helper = Helper {
    name: "cache",
    command: <arguments::CacheArguments as clap::CommandFactory>::command,
    run: run::run,
};
