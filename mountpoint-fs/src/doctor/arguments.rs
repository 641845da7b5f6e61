//! The command line of the doctor: that of a mount, with optional bucket and directory.
//!
//! Made from the mount's command line, so that it takes every flag of a mount.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, Command, CommandFactory as _, Parser as _};

use crate::cli::{CliArgs, Flag, flags_given, mount_arguments, text_given};

/// The bucket and directory to examine, and the flags.
#[derive(Clone, Debug)]
pub(super) struct Arguments {
    /// The bucket as given; `None` to examine the machine only.
    pub(super) bucket: Option<String>,
    /// The directory as given.
    pub(super) directory: Option<PathBuf>,
    /// Every flag that was given, in the mount's own order.
    pub(super) flags: Vec<Flag>,
    /// Print JSON.
    pub(super) is_json: bool,
    /// Write to the bucket, and remove what was written.
    pub(super) checks_writes: bool,
    /// The mount's arguments; bucket and directory are placeholders where none was given.
    pub(super) mount: CliArgs,
}

impl Arguments {
    /// Parses the arguments after the word `doctor`.
    pub(super) fn parse(arguments: Vec<OsString>) -> Result<Self, clap::Error> {
        let command = command();
        let named = std::iter::once(OsString::from(NAME)).chain(arguments);
        let matches = command.clone().try_get_matches_from(named)?;
        let flags = flags_given(&command, &matches, &OWN_FLAGS);
        let bucket = text_given(&matches, BUCKET);
        let directory = text_given(&matches, DIRECTORY);
        let mount = mount_arguments(
            bucket.as_deref().unwrap_or(STAND_IN),
            directory.as_deref().unwrap_or("/"),
            &flags,
        );
        Ok(Self {
            directory: directory.map(PathBuf::from),
            bucket,
            flags,
            is_json: matches.get_flag(JSON),
            checks_writes: matches.get_flag(CHECK_WRITES),
            mount: CliArgs::try_parse_from(std::iter::once(OsString::from(NAME)).chain(mount))?,
        })
    }
}

pub(super) fn command() -> Command {
    let optional = |arg: Arg| arg.required(false);
    let json = Arg::new(JSON)
        .long(JSON)
        .action(ArgAction::SetTrue)
        .display_order(0)
        .help("Print the findings as JSON");
    let check_writes = Arg::new(CHECK_WRITES)
        .long(CHECK_WRITES)
        .action(ArgAction::SetTrue)
        .requires(BUCKET)
        .display_order(0)
        .help("Also write a few temporary objects (5 MiB in all) to the bucket, and remove them");
    CliArgs::command()
        .name(NAME)
        .bin_name(NAME)
        .about("Check whether this machine can mount a bucket, and say which command does it best")
        .long_about(
            "Check whether this machine can mount a bucket, and say which command does it best.\n\n\
             Looks at the kernel, limits, memory and network and, if a bucket is named, at credentials, region, \
             permissions and the server. Sends no request that changes anything, unless --check-writes is given. Takes the flags of a mount, and \
             recommends a command with them. The exit code is 0 if the bucket can be mounted, 1 if not.",
        )
        .after_help(EXAMPLES)
        .mut_arg(BUCKET, optional)
        .mut_arg(DIRECTORY, optional)
        .arg(json)
        .arg(check_writes)
}

const EXAMPLES: &str = "\
Examples:
  mount-s3 doctor                                       this machine alone
  mount-s3 doctor my-bucket                             and a bucket
  mount-s3 doctor my-bucket /mnt/data                   and a mount point
  mount-s3 doctor my-bucket --check-writes              and the server's behaviour at writes
  mount-s3 doctor my-bucket --endpoint-url http://127.0.0.1:9000 --json

A bucket that is called doctor is mounted with `mount-s3 s3://doctor DIRECTORY`.";

const NAME: &str = "mount-s3 doctor";
const BUCKET: &str = "bucket";
const DIRECTORY: &str = "directory";
const JSON: &str = "json";
const CHECK_WRITES: &str = "check-writes";
/// Flags of the doctor alone.
const OWN_FLAGS: [&str; 2] = [JSON, CHECK_WRITES];
/// Placeholder for a missing bucket; no request is sent for it.
const STAND_IN: &str = "no-bucket";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::parse(line.split_whitespace().map(OsString::from).collect())
    }

    /// Checks the parsed arguments, written as the mount's command line.
    #[track_caller]
    fn check(line: &str, expected: &str) {
        let arguments = parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let bucket = arguments.bucket.as_deref().unwrap_or("-");
        let directory = arguments
            .directory
            .as_ref()
            .map_or_else(|| "-".to_owned(), |path| path.display().to_string());
        let mount = mount_arguments(bucket, &directory, &arguments.flags);
        let shown = mount.join(std::ffi::OsStr::new(" "));
        assert_eq!(shown.to_str().unwrap(), expected, "{line}");
    }

    #[test]
    fn command_lines() {
        check("", "- -");
        check("b-1", "b-1 -");
        check("b-1 /mnt", "b-1 /mnt");
        check("--json b-1 /mnt", "b-1 /mnt");
        check("--region=r-1 b-1", "b-1 - --region r-1");
        check(
            "b-1 -f --no-sign-request",
            "b-1 - --foreground --no-sign-request",
        );
        check(
            "b-1 --bind eth0 --bind eth1",
            "b-1 - --bind eth0 --bind eth1",
        );
        check("--profile doctor b-1", "b-1 - --profile doctor");
        check("doctor", "s3://doctor -");
        check("man /mnt", "s3://man /mnt");
        check("s3://b-1/a/ /mnt", "s3://b-1/a/ /mnt");
        assert!(parse("--json").unwrap().is_json);
        assert!(!parse("b-1").unwrap().is_json);
        check("--check-writes b-1", "b-1 -");
        assert!(parse("--check-writes b-1").unwrap().checks_writes);
        assert!(!parse("b-1").unwrap().checks_writes);
    }

    #[test]
    fn wrong_command_lines() {
        for (line, text) in [
            ("/mnt", "bucket name"),
            ("b-1 /mnt more", "more"),
            ("--no-such-flag", "--no-such-flag"),
            ("--check-writes", "BUCKET"),
            ("b-1 --endpoint-url x", "http://x"),
        ] {
            let error = parse(line).expect_err(line).to_string();
            assert!(error.contains(text), "{line}: {error}");
        }
    }

    #[test]
    fn the_mount_takes_every_flag_of_the_doctor_but_its_own() {
        let mut command = command();
        command.build();
        command.clone().debug_assert();
        let mount = CliArgs::command();
        let more: Vec<_> = command
            .get_arguments()
            .filter_map(Arg::get_long)
            .filter(|long| {
                !mount
                    .get_arguments()
                    .any(|arg| arg.get_long() == Some(long))
            })
            .filter(|long| !matches!(*long, "help" | "version"))
            .collect();
        assert_eq!(more, OWN_FLAGS);
    }
}
