//! The command line of `mount-s3 trace`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::cli::short_time;
use crate::mount::CAPTURE_SECONDS_MAX;

/// Write each request of a mount, with what it waited for, as a trace.
///
/// The file opens at https://ui.perfetto.dev, which sends it nowhere, or in chrome://tracing. It
/// has a bar for each request of a program and, in it, its waits; a bar for each request to S3,
/// with its key, range, status and request id; arrows between them. It has names of files and
/// programs, and never what files hold. Only the mount's user and root may ask; a mount with
/// --no-metrics cannot be traced.
#[derive(Clone, Debug, Parser)]
#[command(name = "mount-s3 trace", bin_name = "mount-s3 trace", max_term_width = 110, after_help = TRACE_EXAMPLES)]
pub(super) struct TraceArguments {
    /// A directory in the mount
    #[arg(value_name = "DIRECTORY")]
    pub(super) directory: PathBuf,

    /// For how long; Ctrl-C ends it earlier
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = short_time(SECONDS_MIN..=CAPTURE_SECONDS_MAX))]
    pub(super) seconds: Duration,

    /// The file, which is replaced
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: PathBuf,
}

/// Shortest time, in seconds.
const SECONDS_MIN: f64 = 0.1;

const TRACE_EXAMPLES: &str = "\
Examples:
  mount-s3 trace /mnt/data -o job.json                the next 10 s
  mount-s3 trace /mnt/data --seconds 60 -o job.json   a minute, or until Ctrl-C
  sudo mount-s3 trace /mnt/data -o job.json           of a mount of another user
  make bench WORKLOAD=replay BENCH_ARGS='--replay job.json'
                                                      the same reads, in a checkout of the sources

How to read the file: /usr/share/doc/mountpoint-fs/TRACES.md. A bucket that is called trace is mounted with
`mount-s3 s3://trace DIRECTORY`.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use std::ffi::OsString;

    use super::*;
    use crate::mount::parse_helper;

    fn parse(line: &str) -> Result<TraceArguments, String> {
        let arguments = line.split_whitespace().map(OsString::from).collect();
        parse_helper::<TraceArguments>(arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn command_lines() {
        TraceArguments::command().debug_assert();
        let parsed = parse("/mnt -o file").unwrap();
        assert_eq!(parsed.seconds, Duration::from_secs(10));
        assert_eq!(parsed.directory, PathBuf::from("/mnt"));
        let parsed = parse("/mnt --seconds 0.5 --output file").unwrap();
        assert_eq!(parsed.seconds, Duration::from_millis(500));
        for (line, text) in [
            ("/mnt", "--output"),
            ("-o file", "DIRECTORY"),
            ("/mnt -o file --seconds 0", "from 0.1 to 86400"),
            ("/mnt -o file --seconds inf", "from 0.1 to 86400"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.contains(text), "{line}: {error}");
        }
    }
}
