//! `main` without the exit: parses, goes into the background, mounts, serves, ends.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use super::daemon::{PidFile, Reporter, Side, daemonise};
use super::{Environment, MountConfig, MountedBucket, StartError, logging};
use crate::cli::{CliArgs, Invocation, man_page};

/// Runs `mount-s3` with these arguments. The exit code is 0 when the directory was mounted (in the background) or
/// was unmounted again (in the foreground), 1 when something failed, 2 when the command line is wrong.
#[must_use]
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let invocation = match Invocation::parse(arguments) {
        Ok(invocation) => invocation,
        Err(error) => {
            // `--help` and `--version` come this way as well, with code 0. Nobody is left to tell that telling failed.
            error.print().ok();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let result = match invocation {
        Invocation::Mount(args) => start(&args),
        Invocation::Completions(shell) => Ok(print(&shell.completions())),
        Invocation::Man => Ok(print(&man_page())),
        Invocation::Doctor(_) => Err(
            "this build has no doctor; a bucket of that name is mounted as s3://doctor".to_owned(),
        ),
    };
    match result {
        Ok(code) => code,
        Err(reason) => {
            complain(&reason);
            ExitCode::FAILURE
        }
    }
}

fn start(args: &CliArgs) -> Result<ExitCode, String> {
    let environment = Environment::read()?;
    let config = MountConfig::resolve(args, &environment)?;
    for warning in &config.warnings {
        complain(&format!("warning: {warning}"));
    }
    if args.foreground {
        return serve(args, &environment, &config, Reporter::foreground());
    }
    match daemonise().map_err(|error| format!("cannot go into the background: {error}"))? {
        Side::Parent(Ok(())) => {
            let (bucket, directory) = (&args.bucket.name, args.directory.display());
            // The mount is there even if nobody can read this.
            writeln!(
                std::io::stdout(),
                "bucket {bucket} is mounted at {directory}"
            )
            .ok();
            Ok(ExitCode::SUCCESS)
        }
        Side::Parent(Err(reason)) => Err(reason),
        Side::Child(reporter) => serve(args, &environment, &config, reporter),
    }
}

fn serve(
    args: &CliArgs,
    environment: &Environment,
    config: &MountConfig,
    mut reporter: Reporter,
) -> Result<ExitCode, String> {
    let mounted = logging::start(&args.logging, environment, reporter.is_daemon())
        .map_err(StartError::from)
        .and_then(|()| MountedBucket::start(config));
    let mounted = match mounted {
        Ok(mounted) => mounted,
        Err(error) if reporter.is_daemon() => {
            tracing::error!("{error}");
            // The parent prints the reason.
            reporter.failed(&error.to_string());
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => return Err(error.to_string()),
    };
    let pid_file = environment
        .pid_file
        .as_deref()
        .map(|path| PidFile::create(Path::new(path)))
        .transpose();
    let pid_file = pid_file.map_err(|error| format!("cannot write the PID file: {error}"));
    let pid_file = match pid_file {
        Ok(pid_file) => pid_file,
        Err(reason) => {
            mounted.end();
            return if reporter.failed(&reason) {
                Ok(ExitCode::FAILURE)
            } else {
                Err(reason)
            };
        }
    };
    if !reporter.is_daemon() {
        let (bucket, directory) = (&args.bucket.name, args.directory.display());
        writeln!(
            std::io::stdout(),
            "bucket {bucket} is mounted at {directory}; Ctrl-C unmounts it"
        )
        .ok();
    }
    if let Err(error) = reporter.mounted() {
        tracing::warn!("mounted, but cannot tell the terminal: {error}");
    }
    mounted.serve();
    drop(pid_file);
    Ok(ExitCode::SUCCESS)
}

/// Prints a generated text. A reader that closes the pipe early (`| head`) has had enough.
fn print(text: &[u8]) -> ExitCode {
    std::io::stdout().write_all(text).ok();
    ExitCode::SUCCESS
}

/// One line for what went wrong, and what to do about it.
fn complain(reason: &str) {
    writeln!(std::io::stderr(), "mount-s3: {reason}").ok();
}
