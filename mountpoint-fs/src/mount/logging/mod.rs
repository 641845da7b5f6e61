//! Destination and level of the log.
//!
//! In the foreground the log goes to standard output, in the background to syslog or files.
//! Standard error is for the reason of a failed start: operators of many mounts collect it
//! separately.
//!
//! Each SIGUSR2 makes the log one level more verbose, and after the last level quiet again; SIGUSR1
//! opens the log file anew, which another program may have moved. Threads: `log-signals` waits for
//! both.

mod files;
pub(super) mod format;
mod no_syslog;

use std::io::{self, IsTerminal as _};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::thread;

use signal_hook::consts::{SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use syslog_tracing::{Facility, Options, Syslog};
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use crate::cli::{CliArgs, LoggingFlags};
use crate::mount::Environment;
use crate::mount::metrics::LOG_TARGET;
use files::LogFiles;
use format::{NoForeignTrace, OneLine};

/// Starts logging. Returns a remark for the user, or nothing.
///
/// `in_background` means that there is no terminal. `state_directory` remembers what was remarked
/// since the machine's boot.
///
/// # Errors
/// A text for the user.
pub(in crate::mount) fn start(
    args: &CliArgs,
    environment: &Environment,
    in_background: bool,
    state_directory: Option<&Path>,
) -> Result<String, String> {
    let logs_metrics = args.metrics.log_metrics;
    let args = &args.logging;
    if args.no_log {
        return Ok(String::new());
    }
    let filter = filter(args, logs_metrics, environment)?;
    let level = filter.max_level_hint();
    let (filter, handle) = reload::Layer::new(filter);
    let files = open_files(args)?;
    let is_lost = files.is_none() && in_background && !is_syslog_there();
    let remark = match is_lost && no_syslog::is_first_of_boot(state_directory) {
        true => format!("{NO_SYSLOG}\n"),
        false => String::new(),
    };
    let layer = output(files.clone(), in_background)?;
    tracing_subscriber::registry()
        .with(filter)
        .with(layer)
        .with(NoForeignTrace)
        .init();
    obey_signals(handle, level, logs_metrics, files)
        .map_err(|error| format!("cannot take signals: {error}"))?;
    Ok(remark)
}

/// The files of `--log-directory`, if it is given.
fn open_files(args: &LoggingFlags) -> Result<Option<LogFiles>, String> {
    let Some(directory) = &args.log_directory else {
        return Ok(None);
    };
    let files = LogFiles::create(directory).map_err(|error| {
        format!(
            "cannot write a log file in {}: {error}; name a directory that you may write to with --log-directory",
            directory.display()
        )
    });
    files.map(Some)
}

/// The destination of log lines: log files, syslog or the terminal.
fn output(files: Option<LogFiles>, in_background: bool) -> Result<BoxedLayer, String> {
    let layer = fmt::layer().with_target(true).with_thread_names(true);
    let layer = if let Some(files) = files {
        layer
            .map_event_format(OneLine)
            .with_ansi(false)
            .with_writer(files)
            .boxed()
    } else if in_background {
        let syslog = Syslog::new(c"mount-s3", Options::LOG_PID, Facility::Daemon)
            .ok_or("syslog is in use already; log to files with --log-directory")?;
        layer
            .with_ansi(false)
            .without_time()
            .with_level(false)
            .map_event_format(OneLine)
            .with_writer(syslog)
            .boxed()
    } else {
        layer
            .map_event_format(OneLine)
            .with_ansi(io::stdout().is_terminal())
            .with_writer(io::stdout)
            .boxed()
    };
    Ok(layer)
}

type Filtered = tracing_subscriber::layer::Layered<reload::Layer<EnvFilter, Registry>, Registry>;
type BoxedLayer = Box<dyn Layer<Filtered> + Send + Sync>;

/// Shown on the terminal; lines are lost unless a syslog daemon starts later.
const NO_SYSLOG: &str = "there is no syslog here (/dev/log), so the log is lost; keep it in files with \
                         --log-directory DIRECTORY, or stay in the foreground";

/// Whether a process listens at `/dev/log`, for datagrams or a stream.
#[must_use]
pub fn is_syslog_there() -> bool {
    let connected = UnixDatagram::unbound().and_then(|socket| socket.connect("/dev/log"));
    !connected.is_err_and(|error| {
        matches!(
            error.kind(),
            io::ErrorKind::NotFound
                | io::ErrorKind::ConnectionRefused
                | io::ErrorKind::PermissionDenied
        )
    })
}

/// Advances the level with each SIGUSR2, from the one that the command line set, and opens the
/// files anew with each SIGUSR1.
fn obey_signals(
    handle: reload::Handle<EnvFilter, Registry>,
    chosen: Option<LevelFilter>,
    logs_metrics: bool,
    files: Option<LogFiles>,
) -> io::Result<()> {
    let mut signals = Signals::new([SIGUSR1, SIGUSR2])?;
    let mut level = chosen.and_then(LevelFilter::into_level);
    let obey = move || {
        for signal in signals.forever() {
            if signal == SIGUSR1 {
                if let Some(Err(error)) = files.as_ref().map(LogFiles::reopen) {
                    tracing::warn!("the log file cannot be opened anew: {error}");
                }
                continue;
            }
            let next = after(level);
            let directives = with_metrics(directives(next), logs_metrics);
            match handle.reload(EnvFilter::new(directives)) {
                Ok(()) => announce(next),
                Err(error) => tracing::warn!("the log level cannot be changed: {error}"),
            }
            level = Some(next);
        }
    };
    thread::Builder::new()
        .name("log-signals".to_owned())
        .spawn(obey)
        .map(drop)
}

/// The next level: more verbose, and quiet after the last.
fn after(level: Option<Level>) -> Level {
    match level {
        Some(Level::ERROR) => Level::WARN,
        Some(Level::WARN) => Level::INFO,
        Some(Level::INFO) => Level::DEBUG,
        Some(Level::DEBUG) => Level::TRACE,
        Some(_) | None => Level::ERROR,
    }
}

/// The filter for `level`: foreign libraries stay quieter than ours.
fn directives(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => WARN,
        Level::INFO => "info,aws_config=error,aws_smithy_http_client=error",
        Level::DEBUG => DEBUG,
        _ => "info,mountpoint_fs=trace,mountpoint_client=trace,mount_s3=trace,crt=debug",
    }
}

/// These libraries return the errors that they also log, and our callers report them.
const WARN: &str = "warn,aws_config=error,aws_smithy_http_client=error";
const DEBUG: &str = "info,mountpoint_fs=debug,mountpoint_client=debug,mount_s3=debug,crt=warn";

/// Logs the change at the new level, so that the line is visible.
fn announce(level: Level) {
    match level {
        Level::ERROR => tracing::error!("log level is now error (SIGUSR2)"),
        Level::WARN => tracing::warn!("log level is now warn (SIGUSR2)"),
        Level::INFO => tracing::info!("log level is now info (SIGUSR2)"),
        Level::DEBUG => tracing::debug!("log level is now debug (SIGUSR2)"),
        _ => tracing::trace!("log level is now trace (SIGUSR2)"),
    }
}

/// `directives`, and the summary of metrics if it is wanted.
fn with_metrics(directives: &str, is_wanted: bool) -> String {
    match is_wanted {
        true => format!("{directives},{LOG_TARGET}=info"),
        false => directives.to_owned(),
    }
}

fn filter(
    args: &LoggingFlags,
    logs_metrics: bool,
    environment: &Environment,
) -> Result<EnvFilter, String> {
    let directives = match (&environment.log_filter, args.debug, args.debug_crt) {
        (Some(filter), ..) => filter.clone(),
        (None, false, false) => WARN.to_owned(),
        (None, true, false) => DEBUG.to_owned(),
        (None, false, true) => "warn,crt=debug".to_owned(),
        (None, true, true) => {
            "info,mountpoint_fs=debug,mountpoint_client=debug,mount_s3=debug,crt=debug".to_owned()
        }
    };
    let directives = with_metrics(&directives, logs_metrics);
    EnvFilter::try_new(&directives)
        .map_err(|error| format!("MOUNTPOINT_LOG={directives} is no log filter: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_go_round() {
        let mut level = None;
        let mut seen = Vec::new();
        for _ in 0..6 {
            let next = after(level);
            seen.push(next);
            let hint = EnvFilter::new(directives(next)).max_level_hint();
            assert_eq!(hint, Some(LevelFilter::from_level(next)));
            level = Some(next);
        }
        let all = [
            Level::ERROR,
            Level::WARN,
            Level::INFO,
            Level::DEBUG,
            Level::TRACE,
        ];
        assert_eq!(seen[..5], all);
        assert_eq!(seen[5], Level::ERROR);
    }
}
