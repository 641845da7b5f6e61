//! The helper command `replay`: recorded reads, below a directory that a person names.

use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::Result;

use crate::clock::Stopwatch;
use crate::engine;
use crate::recorded::{Pace, Recorded};

/// The command line of `benchmark replay`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReplayOptions {
    /// A file of `mount-s3 trace`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A directory that has the files of the trace, such as the mount that was traced
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
    /// When the reads are issued
    #[arg(long, value_name = "PACE", value_enum, default_value_t)]
    pace: Pace,
}

/// Carries the reads out, and says how long they took.
pub(crate) fn run(options: &ReplayOptions) -> Result<()> {
    let recorded = Recorded::read(&options.file)?;
    let clock = Stopwatch::start();
    let tally = engine::replay::run(&recorded, options.pace, &options.directory)?;
    let outcome = tally.outcome(clock.elapsed());
    let time = outcome.elapsed.as_secs_f64();
    let (reads, bytes) = (outcome.operations, outcome.bytes);
    writeln!(io::stdout(), "{reads} reads, {bytes} bytes in {time:.3} s")?;
    Ok(())
}
