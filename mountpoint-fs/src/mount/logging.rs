//! Where log lines go: the terminal in the foreground, syslog or files in the background.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, IsTerminal as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use syslog_tracing::{Facility, Options, Syslog};
use time::format_description::well_known::Rfc3339;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::Environment;
use crate::cli::LoggingFlags;

/// Starts logging. `in_background` tells that there is no terminal.
///
/// # Errors
/// A text for the user.
pub(super) fn start(
    args: &LoggingFlags,
    environment: &Environment,
    in_background: bool,
) -> Result<(), String> {
    if args.no_log {
        return Ok(());
    }
    let filter = filter(args, environment)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(true)
        .with_thread_names(true);
    if let Some(directory) = &args.log_directory {
        let file = create_log_file(directory).map_err(|error| {
            format!(
                "cannot write a log file in {}: {error}",
                directory.display()
            )
        })?;
        builder.with_ansi(false).with_writer(file).finish().init();
    } else if in_background {
        let syslog = Syslog::new(c"mount-s3", Options::LOG_PID, Facility::Daemon)
            .ok_or("syslog is in use already; log to files with --log-directory")?;
        builder
            .with_ansi(false)
            .without_time()
            .with_level(false)
            .with_writer(syslog)
            .finish()
            .init();
    } else {
        builder
            .with_ansi(io::stderr().is_terminal())
            .with_writer(io::stderr)
            .finish()
            .init();
    }
    Ok(())
}

fn filter(args: &LoggingFlags, environment: &Environment) -> Result<EnvFilter, String> {
    let directives = match (&environment.log_filter, args.debug, args.debug_crt) {
        (Some(filter), ..) => filter.clone(),
        (None, false, false) => "warn,aws_config=error".to_owned(),
        (None, true, false) => {
            "info,mountpoint_fs=debug,mountpoint_client=debug,mount_s3=debug,crt=warn".to_owned()
        }
        (None, false, true) => "warn,crt=debug".to_owned(),
        (None, true, true) => {
            "info,mountpoint_fs=debug,mountpoint_client=debug,mount_s3=debug,crt=debug".to_owned()
        }
    };
    EnvFilter::try_new(&directives)
        .map_err(|error| format!("MOUNTPOINT_LOG={directives} is no log filter: {error}"))
}

/// A new file, readable by its owner alone, in a directory that is made with the same rights if need be.
fn create_log_file(directory: &Path) -> io::Result<std::fs::File> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the name of a log file tells the time of day"
    )]
    let now = time::OffsetDateTime::from(std::time::SystemTime::now());
    let now = now
        .replace_nanosecond(0)
        .unwrap_or(now)
        .format(&Rfc3339)
        .map_err(io::Error::other)?;
    let name = format!(
        "mountpoint-s3-{}-{}.log",
        now.replace(':', "-"),
        std::process::id()
    );
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(directory.join(name))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn log_files_are_private() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("a/b");
        create_log_file(&directory).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&directory), 0o700);
        let file = std::fs::read_dir(&directory)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        assert_eq!(mode(&file), 0o600);
        assert!(
            file.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("mountpoint-s3-20")
        );
    }
}
