//! The command line of `mount-s3 stats`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::cli::short_time;

/// Show what mounts do, and what they wait for.
///
/// Without --once the view is renewed until q or Ctrl-C; arrows and Enter choose a mount. Mounts of
/// this user are shown, to root those of all users; mounts with --no-metrics cannot be shown.
#[derive(Clone, Debug, Parser)]
#[command(name = "mount-s3 stats", bin_name = "mount-s3 stats", max_term_width = 110, after_help = EXAMPLES)]
pub(super) struct StatsArguments {
    /// A directory in the mount; without it, all mounts
    #[arg(value_name = "DIRECTORY")]
    pub(super) directory: Option<PathBuf>,

    /// Show the numbers since the mounts began, and end
    #[arg(long)]
    pub(super) once: bool,

    /// Print JSON, a line each time
    #[arg(long)]
    pub(super) json: bool,

    /// Time between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = short_time(INTERVAL_MIN..=INTERVAL_MAX), conflicts_with = "once")]
    pub(super) interval: Duration,
}

/// Shortest interval, in seconds: mounts shall not be busy with answers.
const INTERVAL_MIN: f64 = 0.1;
/// Longest interval, in seconds.
const INTERVAL_MAX: f64 = 3600.0;

const EXAMPLES: &str = "\
Examples:
  mount-s3 stats                             all mounts, a line for each
  mount-s3 stats /mnt/data                   one mount: what is slow, and why
  mount-s3 stats /mnt/data --once            the same since the mount began
  mount-s3 stats --json --interval 10        a line of JSON every 10 s, for programs

A bucket that is called stats is mounted with `mount-s3 s3://stats DIRECTORY`.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use std::ffi::OsString;

    use super::*;
    use crate::mount::parse_helper;

    fn parse(line: &str) -> Result<StatsArguments, String> {
        let arguments = line.split_whitespace().map(OsString::from).collect();
        parse_helper::<StatsArguments>(arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn command_lines() {
        StatsArguments::command().debug_assert();
        let parsed = parse("").unwrap();
        assert_eq!((parsed.directory, parsed.once), (None, false));
        assert_eq!(parsed.interval, Duration::from_secs(1));
        let parsed = parse("/mnt --json --interval 0.5").unwrap();
        assert_eq!(parsed.interval, Duration::from_millis(500));
        assert_eq!(parsed.directory, Some(PathBuf::from("/mnt")));
        for (line, text) in [
            ("/a /b", "unexpected"),
            ("--interval 0", "from 0.1 to 3600"),
            ("--interval nan", "from 0.1 to 3600"),
            ("--once --interval 2", "cannot be used with"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.contains(text), "{line}: {error}");
        }
    }
}
