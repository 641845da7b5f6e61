//! `mount-s3 trace` from its arguments to its exit code.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar};

use super::arguments::TraceArguments;
use super::chrome_trace::ChromeTrace;
use super::connection::{CaptureConnection, Received};
use super::output::{CaptureEnd, CaptureOutput};
use crate::clock::Clock;
use crate::fuse::Coverage;
use crate::mount::{
    CaptureLine, StatsDocument, parse_helper, progress_bar, run_helper, safe_line, stop_on_signals,
};
use crate::stats_command::mounts::SelectedMounts;
use crate::stats_command::sockets::AnsweringMount;

/// Runs `mount-s3 trace` with the arguments after that word.
///
/// The exit code is 0 if there is a file, 1 if there is none, 2 for a wrong command line.
#[must_use]
pub(super) fn trace(arguments: Vec<OsString>) -> ExitCode {
    run_helper("trace", parse_helper(arguments), |arguments| {
        let text = capture(arguments)?.text();
        let lines = text.lines().map(safe_line).collect::<Vec<_>>().join("\n");
        // A failure to print cannot be reported.
        writeln!(io::stdout(), "{lines}").ok();
        Ok(true)
    })
}

/// A file that was written.
#[derive(Debug)]
struct Written {
    path: String,
    /// Records in it.
    count: u64,
    end: CaptureEnd,
    /// Why it is shorter than was asked for, if it is.
    is_short: Option<String>,
}

impl Written {
    fn text(&self) -> String {
        let (path, count) = (&self.path, HumanCount(self.count));
        let mut text = format!(
            "{path}: {count} records of {:.1} s; open it at https://ui.perfetto.dev",
            self.end.seconds
        );
        if let Some(reason) = &self.is_short {
            text.push_str(&format!("\nIt ended early: {reason}."));
        }
        if self.end.dropped > 0 {
            let dropped = HumanCount(self.end.dropped);
            text.push_str(&format!(
                "\n{dropped} records are missing: this command did not take them in time."
            ));
        }
        if self.end.left_out > 0 {
            let left_out = HumanCount(self.end.left_out);
            text.push_str(&format!(
                "\n{left_out} records are left out: a file has at most {} records and {} MiB.",
                HumanCount(RECORDS_MAX),
                FILE_MAX >> 20
            ));
        }
        text
    }
}

/// Records the mount for the time that is asked for, and writes the trace.
fn capture(arguments: &TraceArguments) -> Result<Written, String> {
    let mount = the_mount(&arguments.directory)?;
    let path = &arguments.output;
    let no_file = |error: io::Error| format!("{}: {error}", path.display());
    let cut = |error: io::Error| format!("{}: {error}: the file is not whole", path.display());
    if is_within(&mount.document, path) {
        return Err(format!(
            "{} is in the mount itself, which would be busy with it: name a file elsewhere",
            path.display()
        ));
    }
    let mut trace = ChromeTrace::new(&mount.document.mount);
    let is_stopped = stop_on_signals(true)?;
    let mut connection = CaptureConnection::begin(&mount, arguments.seconds)?;
    let mut output = CaptureOutput::create(path).map_err(no_file)?;
    let mut run = CaptureRun {
        asked: arguments.seconds,
        count: 0,
        end: CaptureEnd::default(),
        clock: Clock::monotonic(),
        progress: progress_bar(
            arguments.seconds.as_secs(),
            "{spinner} {pos} of {len} s, {msg} records; Ctrl-C ends it",
        ),
    };
    let began = run.clock.now();
    let ended = run.take_all(&mut connection, &is_stopped, &mut trace, &mut output);
    run.progress.finish_and_clear();
    let is_short = ended.map_err(cut)?;
    let time = run.clock.now().saturating_sub(began);
    run.end.seconds = time.min(arguments.seconds).as_secs_f64();
    let finished = trace.end(run.end, &mut output);
    finished.and_then(|()| output.flush()).map_err(cut)?;
    Ok(Written {
        path: path.display().to_string(),
        count: run.count,
        end: run.end,
        is_short,
    })
}

/// The one mount that shows `directory`.
fn the_mount(directory: &Path) -> Result<AnsweringMount, String> {
    let mut mounts = SelectedMounts::new(Some(directory)).find()?;
    match mounts.len() {
        1 => Ok(mounts.remove(0)),
        count => Err(format!(
            "{count} mounts show {}: name a directory in the newest one",
            directory.display()
        )),
    }
}

/// Whether `path` leads into the mount.
fn is_within(document: &StatsDocument, path: &Path) -> bool {
    let coverage = document.mount.device.as_deref();
    match coverage.and_then(Coverage::of_named) {
        Some(coverage) => coverage.covers(path),
        None => std::path::absolute(path).is_ok_and(|it| it.starts_with(&document.mount.directory)),
    }
}

/// A capture while it runs.
struct CaptureRun {
    asked: Duration,
    /// Records in the file.
    count: u64,
    end: CaptureEnd,
    clock: Clock,
    progress: ProgressBar,
}

impl CaptureRun {
    /// Writes the records until the mount says that they are all. Returns the reason if that comes
    /// too early.
    fn take_all(
        &mut self,
        connection: &mut CaptureConnection,
        is_stopped: &AtomicBool,
        trace: &mut ChromeTrace,
        output: &mut CaptureOutput,
    ) -> io::Result<Option<String>> {
        let began = self.clock.now();
        let mut stopped_at = None;
        loop {
            let now = self.clock.now();
            let asked = self.asked;
            if stopped_at.is_none() && is_stopped.load(Ordering::Relaxed) {
                stopped_at = Some(now);
                connection.stop();
            }
            let last = stopped_at.unwrap_or(began + asked);
            if now > last + REST_MAX {
                return Ok(Some("the mount does not answer any more".to_owned()));
            }
            self.show(now.saturating_sub(began));
            match connection.receive() {
                Ok(Received::Line(CaptureLine::Record(record))) => {
                    if self.count < RECORDS_MAX && output.written() < FILE_MAX {
                        trace.add(&record, output)?;
                        self.count += 1;
                    } else {
                        self.end.left_out += 1;
                    }
                }
                Ok(Received::Line(CaptureLine::Ended { dropped })) => {
                    self.end.dropped = dropped;
                    return Ok(stopped_at.map(|_| "a signal came".to_owned()));
                }
                Ok(Received::Nothing)
                | Ok(Received::Line(CaptureLine::Began | CaptureLine::Refused(_))) => {}
                Ok(Received::Gone) => return Ok(Some(GONE.to_owned())),
                Err(error) => return Ok(Some(error.to_string())),
            }
        }
    }

    fn show(&self, time: Duration) {
        let time = time.min(self.asked);
        self.progress.set_position(time.as_secs());
        self.progress
            .set_message(HumanCount(self.count).to_string());
    }
}

/// Why a mount sends no more.
const GONE: &str = "the mount has ended, or has waited too long for this command";
/// Records of one file. Perfetto opens some millions, slowly.
const RECORDS_MAX: u64 = 1_000_000;
/// Bytes of a file from which on records are left out: a browser opens no more.
const FILE_MAX: u64 = 1 << 30;
/// Longest wait for the last lines, after the time that was asked for.
const REST_MAX: Duration = Duration::from_secs(15);
