//! The command lines of `mount-s3 trace` and `mount-s3 record`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser};

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
    #[command(flatten)]
    pub(super) common: CaptureArguments,
}

/// Write what programs read and write in a mount, as a pattern without data.
///
/// The file has a line of JSON for each open, read, write and close: which file, where, how much,
/// when. `make bench WORKLOAD=replay BENCH_ARGS='--replay FILE'` carries out the same reads. What
/// the kernel answers from its page cache, the mount does not see.
/// /usr/share/doc/mountpoint-fs/TRACES.md has the format.
#[derive(Clone, Debug, Parser)]
#[command(name = "mount-s3 record", bin_name = "mount-s3 record", max_term_width = 110, after_help = RECORD_EXAMPLES)]
pub(super) struct RecordArguments {
    #[command(flatten)]
    pub(super) common: CaptureArguments,

    /// Write a hash for each part of a name; its key is thrown away. Which files are in the same
    /// directory, and have the same extension, can still be seen
    #[arg(long)]
    pub(super) hash_names: bool,
}

/// The arguments of both commands.
#[derive(Clone, Debug, Args)]
pub(super) struct CaptureArguments {
    /// A directory in the mount
    #[arg(value_name = "DIRECTORY")]
    pub(super) directory: PathBuf,

    /// For how long; Ctrl-C ends it earlier
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_time)]
    pub(super) seconds: Duration,

    /// The file, which is replaced
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: PathBuf,
}

impl TraceArguments {
    /// Parses the arguments after the word `trace`.
    pub(super) fn of(arguments: Vec<OsString>) -> Result<Self, clap::Error> {
        let name = OsString::from("mount-s3 trace");
        Self::try_parse_from(std::iter::once(name).chain(arguments))
    }
}

impl RecordArguments {
    /// Parses the arguments after the word `record`.
    pub(super) fn of(arguments: Vec<OsString>) -> Result<Self, clap::Error> {
        let name = OsString::from("mount-s3 record");
        Self::try_parse_from(std::iter::once(name).chain(arguments))
    }
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok();
    let seconds = seconds.filter(|seconds| (SECONDS_MIN..=CAPTURE_SECONDS_MAX).contains(seconds));
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| {
        format!("it is a number of seconds from {SECONDS_MIN} to {CAPTURE_SECONDS_MAX}")
    })
}

/// Shortest time, in seconds.
const SECONDS_MIN: f64 = 0.1;

const TRACE_EXAMPLES: &str = "\
Examples:
  mount-s3 trace /mnt/data -o job.json                the next 10 s
  mount-s3 trace /mnt/data --seconds 60 -o job.json   a minute, or until Ctrl-C
  sudo mount-s3 trace /mnt/data -o job.json           of a mount of another user

How to read the file: /usr/share/doc/mountpoint-fs/TRACES.md. A bucket that is called trace is mounted with
`mount-s3 s3://trace DIRECTORY`.";

const RECORD_EXAMPLES: &str = "\
Examples:
  mount-s3 record /mnt/data --seconds 60 -o job.jsonl      what programs do for a minute
  mount-s3 record /mnt/data --hash-names -o job.jsonl      the same without names
  make bench WORKLOAD=replay BENCH_ARGS='--replay job.jsonl'
                                                           the same reads, in a checkout of the sources

The format: /usr/share/doc/mountpoint-fs/TRACES.md. A bucket that is called record is mounted with
`mount-s3 s3://record DIRECTORY`.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(line: &str) -> Result<RecordArguments, String> {
        let arguments = line.split_whitespace().map(OsString::from).collect();
        RecordArguments::of(arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn command_lines() {
        TraceArguments::command().debug_assert();
        RecordArguments::command().debug_assert();
        let parsed = parse("/mnt -o file --hash-names").unwrap();
        assert_eq!(parsed.common.seconds, Duration::from_secs(10));
        assert_eq!(parsed.common.directory, PathBuf::from("/mnt"));
        assert!(parsed.hash_names);
        let parsed = parse("/mnt --seconds 0.5 --output file").unwrap();
        assert_eq!(parsed.common.seconds, Duration::from_millis(500));
        assert!(!parsed.hash_names);
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
