//! The command line of `mount-s3 cache`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Parser, Subcommand};

/// Look after the cache of mounts with --cache.
///
/// Mounts may be using it: what they have open they go on serving, and what was removed they fetch
/// again. Nothing else in the directory is ever touched.
#[derive(Clone, Debug, Parser)]
#[command(name = "mount-s3 cache", bin_name = "mount-s3 cache", max_term_width = 110, after_help = EXAMPLES)]
pub(super) struct CacheArguments {
    #[command(subcommand)]
    pub(super) task: CacheTask,
}

/// The task.
#[derive(Clone, Debug, Subcommand)]
pub(super) enum CacheTask {
    /// Count the entries, their bytes, and the free space of the disk
    Stat(CachePlace),
    /// Show each entry: its object, how much of it is there, and when it was last used
    List(CachePlace),
    /// Read all bytes, compare them with their checksums, and remove damaged entries
    Verify(CachePlace),
    /// Remove entries, those first that a mount would evict first
    #[command(group = ArgGroup::new("which").args(["to", "older_than"]).required(true))]
    Evict {
        #[command(flatten)]
        place: CachePlace,
        /// Remove until this much is left, as 500M, 20G or 1T
        #[arg(long, value_name = "SIZE", value_parser = parse_size)]
        to: Option<u64>,
        /// Remove what was not used for so long, as 12h or 30d
        #[arg(long, value_name = "TIME", value_parser = parse_time)]
        older_than: Option<Duration>,
    },
    /// Remove all entries and, unless a mount uses the cache, its folders
    Clear(CachePlace),
}

/// The cache, and the form of the answer.
#[derive(Clone, Debug, Args)]
pub(super) struct CachePlace {
    /// The directory that mounts have after --cache
    #[arg(value_name = "DIRECTORY")]
    pub(super) directory: PathBuf,

    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl CacheArguments {
    pub(super) fn place(&self) -> &CachePlace {
        match &self.task {
            CacheTask::Stat(place)
            | CacheTask::List(place)
            | CacheTask::Verify(place)
            | CacheTask::Evict { place, .. }
            | CacheTask::Clear(place) => place,
        }
    }
}

/// Bytes: a number with K, M, G or T, each with `iB` if that is wanted, or none of them.
fn parse_size(text: &str) -> Result<u64, String> {
    let short = text.strip_suffix("iB").unwrap_or(text);
    let units = [("K", 10), ("M", 20), ("G", 30), ("T", 40)];
    let with_unit = |(unit, shift): &(&str, u32)| Some((short.strip_suffix(unit)?, *shift));
    let (number, shift) = units.iter().find_map(with_unit).unwrap_or((text, 0));
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let bytes = number.parse::<u64>().ok().filter(|_| is_number);
    let bytes = bytes.and_then(|bytes| bytes.checked_mul(1 << shift));
    bytes.ok_or_else(|| "a size is a number with K, M, G or T, as 20G".to_owned())
}

/// A time: a number with s, m, h or d.
fn parse_time(text: &str) -> Result<Duration, String> {
    let units = [('s', 1), ('m', 60), ('h', 60 * 60), ('d', 24 * 60 * 60)];
    let unit = units.iter().find(|(unit, _)| text.ends_with(*unit));
    let time = unit.and_then(|(unit, secs)| {
        let number = text.strip_suffix(*unit)?;
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        let count: u64 = number.parse().ok().filter(|_| is_number)?;
        count.checked_mul(*secs)
    });
    time.map(Duration::from_secs)
        .ok_or_else(|| "a time is a number with s, m, h or d, as 30d".to_owned())
}

const EXAMPLES: &str = "\
Examples:
  mount-s3 cache stat /mnt/nvme                       how much is there
  mount-s3 cache list /mnt/nvme --json                a JSON object a line for each entry
  mount-s3 cache verify /mnt/nvme                     are all bytes right?
  mount-s3 cache evict /mnt/nvme --to 20G             make room now
  mount-s3 cache evict /mnt/nvme --older-than 30d     remove what was not used for a month
  mount-s3 cache clear /mnt/nvme                      remove all of it

A bucket that is called cache is mounted with `mount-s3 s3://cache DIRECTORY`.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use std::ffi::OsString;

    use super::*;
    use crate::mount::parse_helper;

    fn parse(line: &str) -> Result<CacheArguments, String> {
        let arguments = line.split_whitespace().map(OsString::from).collect();
        parse_helper::<CacheArguments>(arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn command_lines() {
        CacheArguments::command().debug_assert();
        for task in ["stat", "list", "verify", "clear"] {
            let parsed = parse(&format!("{task} /d --json")).unwrap();
            assert!(parsed.place().json);
            assert_eq!(parsed.place().directory.to_str(), Some("/d"));
            assert!(!parse(&format!("{task} /d")).unwrap().place().json);
        }
        for (line, text) in [
            ("stat", "DIRECTORY"),
            ("/d", "unrecognized subcommand"),
            ("evict /d", "--to"),
            ("evict /d --to 1G --older-than 1d", "cannot be used with"),
            ("clear /d /e", "unexpected"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.contains(text), "{line}: {error}");
        }
    }

    #[test]
    fn sizes_and_times() {
        for (text, expected) in [
            ("0", Some(0)),
            ("4096", Some(4096)),
            ("1K", Some(1024)),
            ("20G", Some(20 << 30)),
            ("3MiB", Some(3 << 20)),
            ("2TiB", Some(2 << 40)),
            ("", None),
            ("G", None),
            ("1 G", None),
            ("+1G", None),
            ("1.5G", None),
            ("1iB", None),
            ("1GG", None),
            ("99999999T", None),
        ] {
            assert_eq!(parse_size(text).ok(), expected, "{text:?}");
        }
        for (text, expected) in [
            ("0s", Some(0)),
            ("90m", Some(5400)),
            ("12h", Some(43_200)),
            ("30d", Some(2_592_000)),
            ("30", None),
            ("d", None),
            ("-1d", None),
            ("1w", None),
            ("99999999999999999d", None),
        ] {
            let parsed = parse_time(text).ok().map(|time| time.as_secs());
            assert_eq!(parsed, expected, "{text:?}");
        }
    }
}
