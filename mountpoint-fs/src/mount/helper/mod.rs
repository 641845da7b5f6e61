//! The frame of helper commands: from the arguments to the exit code, signals, a connection,
//! output.
//!
//! Runs on the main thread of a process of its own.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use mountpoint_client::crt_client::CrtClientOptions;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tokio::runtime::Runtime;

use super::connect::{Connected, connect};
use super::environment::Environment;
use super::logging::format::safe_line;
use crate::index::IndexFile;

/// Parses the arguments after the command's word.
///
/// # Errors
/// What clap says of them, or shows instead, as help.
pub fn parse_helper<A: Parser>(arguments: Vec<OsString>) -> Result<A, clap::Error> {
    let program = OsString::from("mount-s3");
    A::try_parse_from(std::iter::once(program).chain(arguments))
}

/// Has `work` done with the arguments of the command `name`.
///
/// The exit code is 2 for a wrong command line, 1 if `work` fails or was not all done.
#[must_use]
pub fn run_helper<A>(
    name: &str,
    arguments: Result<A, clap::Error>,
    work: impl FnOnce(&A) -> Result<bool, String>,
) -> ExitCode {
    let arguments = match arguments {
        Ok(arguments) => arguments,
        Err(error) => {
            // A failure to print cannot be reported.
            error.print().ok();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match work(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            tell(name, &reason);
            ExitCode::FAILURE
        }
    }
}

/// Writes a line of the command `name` to standard error.
pub fn tell(name: &str, text: &str) {
    let line = safe_line(&format!("mount-s3 {name}: {text}"));
    // A failure to print cannot be reported.
    writeln!(io::stderr(), "{line}").ok();
}

/// Writes `document` to standard output as a line of JSON, or `lines`.
///
/// # Errors
/// Standard output takes no more.
pub fn print(document: &impl Serialize, lines: &[String], is_json: bool) -> io::Result<()> {
    let mut text = String::new();
    if is_json {
        text = serde_json::to_string(document).map_err(io::Error::other)?;
        text.push('\n');
    } else {
        for line in lines {
            text.push_str(&safe_line(line));
            text.push('\n');
        }
    }
    io::stdout().write_all(text.as_bytes())
}

/// A flag that a signal sets, so that the command ends at its next safe point. A second signal ends
/// the process at once where the command `has_safe_points` only far apart.
///
/// # Errors
/// A text for the user.
pub fn stop_on_signals(has_safe_points: bool) -> Result<Arc<AtomicBool>, String> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let mut registered = Ok(());
        if !has_safe_points {
            let ends =
                signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop));
            registered = ends.map(drop);
        }
        registered
            .and_then(|()| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| format!("cannot take signals: {error}"))?;
    }
    Ok(stop)
}

/// Starts a runtime, and connects to a bucket as a mount does.
///
/// # Errors
/// A text for the user.
pub fn connect_helper(
    environment: &Environment,
    options: &CrtClientOptions,
    prefix: &str,
    index: Option<&Arc<IndexFile>>,
) -> Result<(Runtime, Connected), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(RUNTIME_THREADS)
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    match connect(
        &runtime,
        options,
        prefix,
        index,
        environment.start_time_max(),
    ) {
        Ok(connected) => Ok((runtime, connected)),
        Err(error) => {
            // A name lookup may still run.
            runtime.shutdown_background();
            Err(error.to_string())
        }
    }
}

/// A bar on standard error, which is hidden where that is no terminal.
#[must_use]
pub fn progress_bar(len: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(len);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Threads of requests and timers. The client's threads move the bytes.
const RUNTIME_THREADS: usize = 2;
