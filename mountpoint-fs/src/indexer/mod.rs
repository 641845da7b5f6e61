//! `mount-s3 index BUCKET -o FILE`: the names of a bucket in one file, for `mount-s3 --index FILE`.
//!
//! Lists the bucket as a mount would, several ranges of keys at once, or reads an inventory of S3,
//! and shows how far it is.
//! Knows neither the file's format, which is `index`'s, nor how a listing is cut.

mod arguments;
mod inventory;
mod progress;
mod run;

use crate::cli::Helper;
#[cfg(any(test, fuzzing))]
pub(crate) use inventory::fuzz;

/// The helper command `index`.
pub const HELPER: Helper = Helper {
    name: "index",
    command: <arguments::IndexArguments as clap::CommandFactory>::command,
    run: run::run,
};
