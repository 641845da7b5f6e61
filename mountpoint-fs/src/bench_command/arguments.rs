//! The command line of `mount-s3 bench`: that of a mount, with an optional directory.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, Command, CommandFactory as _, Parser as _, value_parser};

use crate::cli::{BucketArg, CliArgs, Flag, flags_given, mount_arguments, text_given};

/// The bucket and directory to measure, and the flags of the mount.
#[derive(Clone, Debug)]
pub(super) struct BenchArguments {
    /// The bucket as the mount takes it.
    pub(super) bucket: String,
    /// An empty directory to mount on; `None` to measure the client alone.
    pub(super) directory: Option<PathBuf>,
    /// Every flag of a mount that was given.
    pub(super) flags: Vec<Flag>,
    /// Time of each step.
    pub(super) step: Duration,
    /// Print JSON.
    pub(super) is_json: bool,
    /// Write temporary objects, read those, and remove them.
    pub(super) writes: bool,
    /// The mount's arguments; the directory is a placeholder where none was given.
    pub(super) mount: CliArgs,
}

impl BenchArguments {
    /// Parses the arguments after the word `bench`.
    pub(super) fn of(arguments: Vec<OsString>) -> Result<Self, clap::Error> {
        let command = command();
        let named = std::iter::once(OsString::from(NAME)).chain(arguments);
        let matches = command.clone().try_get_matches_from(named)?;
        let flags = flags_given(&command, &matches, &OWN_FLAGS);
        let bucket = as_uri(&text_given(&matches, BUCKET).unwrap_or_default());
        let directory = text_given(&matches, DIRECTORY);
        let mount = mount_arguments(&bucket, directory.as_deref().unwrap_or("/"), &flags);
        let mount = std::iter::once(OsString::from(NAME)).chain(mount);
        Ok(Self {
            mount: CliArgs::try_parse_from(mount)?,
            bucket,
            directory: directory.map(PathBuf::from),
            flags,
            step: Duration::from_secs(matches.get_one(SECONDS).copied().unwrap_or(STEP_SECONDS)),
            is_json: matches.get_flag(JSON),
            writes: matches.get_flag(WRITE),
        })
    }
}

/// `BUCKET/PREFIX` as `s3://BUCKET/PREFIX/`; anything else as it is.
fn as_uri(bucket: &str) -> String {
    let is_plain = bucket.contains('/') && !bucket.starts_with('/') && !bucket.contains(':');
    match is_plain {
        true => format!("s3://{}/", bucket.trim_end_matches('/')),
        false => bucket.to_owned(),
    }
}

/// The command: that of a mount with flags of its own.
pub(super) fn command() -> Command {
    let flag = |name: &'static str, help: &'static str| {
        let flag = Arg::new(name).long(name).action(ArgAction::SetTrue);
        flag.display_order(0).help(help)
    };
    CliArgs::command()
        .name(NAME)
        .bin_name(NAME)
        .about("Measure how fast a bucket is from here, and say what bounds it")
        .long_about(
            "Measure how fast a bucket is from here, and say what bounds it and which flags would help.\n\n\
             Measures listing, first byte, throughput with 1, 4, 16 and 64 requests in flight and small files, \
             through the client alone and, if a directory is named, through a mount on it. Reads the objects that are \
             there and changes nothing, unless --write is given. Takes the flags of a mount. The exit code is 0 if \
             everything was measured, 1 if not, 2 for a wrong command line.",
        )
        .after_help(EXAMPLES)
        .mut_arg(BUCKET, |arg| {
            arg.value_parser(|text: &str| as_uri(text).parse::<BucketArg>())
        })
        .mut_arg(DIRECTORY, |arg| arg.required(false))
        .arg(flag(JSON, "Print the figures as JSON"))
        .arg(flag(
            WRITE,
            "Measure writes too: make temporary objects (132 MiB), read those, and remove them",
        ))
        .arg(
            Arg::new(SECONDS)
                .long(SECONDS)
                .value_name("N")
                .value_parser(value_parser!(u64).range(1..=STEP_SECONDS_MAX))
                .display_order(0)
                .help("Seconds of each of some ten steps [default: 2]"),
        )
}

const EXAMPLES: &str = "\
Examples:
  mount-s3 bench my-bucket                              the client alone, on the objects that are there
  mount-s3 bench my-bucket/imagenet /mnt/data           one prefix, and through a mount as well
  mount-s3 bench my-bucket --write                      on temporary objects
  mount-s3 bench my-bucket /mnt/data --endpoint-url http://127.0.0.1:9000 --force-path-style --json

A bucket that is called bench is mounted with `mount-s3 s3://bench DIRECTORY`.";

const NAME: &str = "mount-s3 bench";
const BUCKET: &str = "bucket";
const DIRECTORY: &str = "directory";
const JSON: &str = "json";
const WRITE: &str = "write";
const SECONDS: &str = "seconds";
/// Flags that a mount has not.
const OWN_FLAGS: [&str; 3] = [JSON, WRITE, SECONDS];
const STEP_SECONDS: u64 = 2;
const STEP_SECONDS_MAX: u64 = 600;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<BenchArguments, String> {
        let words = line.split_whitespace().map(OsString::from).collect();
        BenchArguments::of(words).map_err(|error| error.to_string())
    }

    /// Checks bucket and prefix.
    #[track_caller]
    fn check(line: &str, bucket: &str, prefix: &str) {
        let arguments = parse(line).unwrap();
        assert_eq!(arguments.mount.bucket.name, bucket);
        assert_eq!(arguments.mount.prefix().unwrap(), prefix);
    }

    #[test]
    fn command_lines() {
        command().debug_assert();
        check("my-bucket", "my-bucket", "");
        check("my-bucket/a/b", "my-bucket", "a/b/");
        check("my-bucket/a/", "my-bucket", "a/");
        check("s3://my-bucket/a/ /mnt --json", "my-bucket", "a/");
        check("my-bucket --prefix a/ --seconds 5", "my-bucket", "a/");
        let arguments = parse("my-bucket /mnt --write --seconds 5 --region r").unwrap();
        assert!(arguments.writes && !arguments.is_json);
        assert_eq!(arguments.step, Duration::from_secs(5));
        assert_eq!(arguments.directory, Some(PathBuf::from("/mnt")));
        assert_eq!(arguments.flags.len(), 1, "{:?}", arguments.flags);
        for (line, text) in [
            ("", "BUCKET"),
            ("my-bucket --seconds 0", "0 is not in 1..=600"),
            ("/mnt", "bucket"),
            ("my-bucket --no-such-flag", "--no-such-flag"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(text), "{line}: {error}");
        }
    }
}
