//! The command line of `mount-s3 staged`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::cli::{StoreFlags, seconds};

/// Look after files that a mount with --staging has not stored.
///
/// A version is kept if another client changed the object meanwhile, or if S3 refused it or could
/// not be reached until the file was closed. It stays until it is discarded. With --write-back a
/// closed file is pending until it is uploaded: by the mount, or by the next one.
#[derive(Clone, Debug, Parser)]
#[command(name = "mount-s3 staged", bin_name = "mount-s3 staged", max_term_width = 110, after_help = EXAMPLES)]
pub(super) struct StagedArguments {
    #[command(subcommand)]
    pub(super) task: StagedTask,
}

/// The task.
#[derive(Clone, Debug, Subcommand)]
pub(super) enum StagedTask {
    /// Show each version, kept or pending: its name, its key, when and why it was not stored
    List(StagedPlace),
    /// Show the mount that uses the directory, its open files, and the kept and pending versions
    Status(StagedPlace),
    /// Have the mount upload pending files now, and wait until they are uploaded
    Flush {
        #[command(flatten)]
        place: StagedPlace,
        /// Longest wait
        #[arg(long, value_name = "SECONDS", value_parser = seconds(0..=u64::MAX))]
        timeout: Option<u64>,
    },
    /// Write a version to a new file; a pending one only while no mount uses the directory
    Export(Box<ExportArguments>),
    /// Remove versions; pending ones only by name, and while no mount uses the directory
    Discard {
        #[command(flatten)]
        place: StagedPlace,
        /// Names of the versions, as `list` shows them
        #[arg(value_name = "ID", required_unless_present = "all")]
        ids: Vec<String>,
        /// Remove all kept versions
        #[arg(long, conflicts_with = "ids")]
        all: bool,
    },
}

/// The directory, and the form of the answer.
#[derive(Clone, Debug, Args)]
pub(super) struct StagedPlace {
    /// The directory that the mount has after --staging
    #[arg(value_name = "DIRECTORY")]
    pub(super) directory: PathBuf,

    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// The version, the file, and the way to the bucket.
#[derive(Clone, Debug, Args)]
pub(super) struct ExportArguments {
    #[command(flatten)]
    pub(super) place: StagedPlace,

    /// Name of the version, as `list` shows it
    #[arg(value_name = "ID")]
    pub(super) id: String,

    /// File to write, which must not exist
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,

    /// Write local bytes alone, and zeros where the bytes were never fetched from the bucket
    #[arg(long)]
    pub(super) local_only: bool,

    /// The bucket, the credentials and the client.
    #[command(flatten)]
    pub(super) store: StoreFlags,
}

impl StagedArguments {
    pub(super) fn place(&self) -> &StagedPlace {
        match &self.task {
            StagedTask::List(place)
            | StagedTask::Status(place)
            | StagedTask::Flush { place, .. }
            | StagedTask::Discard { place, .. } => place,
            StagedTask::Export(arguments) => &arguments.place,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  mount-s3 staged list /var/staging                             what could not be stored?
  mount-s3 staged status /var/staging --json                    which mount uses it, and what is open
  mount-s3 staged export /var/staging 20261124-093000-1 a.bin   a version as a file
  mount-s3 staged discard /var/staging 20261124-093000-1        remove it
  mount-s3 staged flush /var/staging                            upload pending files now, and wait

A bucket that is called staged is mounted with `mount-s3 s3://staged DIRECTORY`.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use std::ffi::OsString;

    use super::*;
    use crate::mount::parse_helper;

    fn parse(line: &str) -> Result<StagedArguments, String> {
        let arguments = line.split_whitespace().map(OsString::from).collect();
        parse_helper::<StagedArguments>(arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn command_lines() {
        StagedArguments::command().debug_assert();
        for line in [
            "list /d",
            "status /d",
            "flush /d",
            "flush /d --timeout 9",
            "discard /d 1-1",
            "discard /d --all",
            "export /d 1-1 f",
            "export /d 1-1 f --local-only --region r",
        ] {
            assert!(!parse(line).unwrap().place().json);
            let parsed = parse(&format!("{line} --json")).unwrap();
            assert!(parsed.place().json);
            assert_eq!(parsed.place().directory.to_str(), Some("/d"));
        }
        for (line, text) in [
            ("list", "DIRECTORY"),
            ("/d", "unrecognized subcommand"),
            ("discard /d", "ID"),
            ("discard /d --all 1-1", "cannot be used with"),
            ("export /d 1-1", "FILE"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.contains(text), "{line}: {error}");
        }
    }
}
