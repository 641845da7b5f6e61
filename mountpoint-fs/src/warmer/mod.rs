//! `mount-s3 warm BUCKET/PREFIX --cache DIR` fills a mount's cache before the mount reads.
//!
//! `sources` finds the objects, `filler` fetches the ranges that the cache lacks, `tally` counts
//! and `progress` displays the counts. Pure: `patterns`, `glob`, `bandwidth`, `rate`. Knows neither
//! the cache's format nor the division of listings.

mod arguments;
mod bandwidth;
mod filler;
mod glob;
mod patterns;
mod progress;
mod rate;
mod run;
mod sources;
mod tally;

use crate::cli::Helper;

/// The helper command `warm`.
pub const HELPER: Helper = Helper {
    name: "warm",
    command: <arguments::WarmArguments as clap::CommandFactory>::command,
    run: run::run,
};
