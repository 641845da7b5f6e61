//! A CPU profile of a mount while it is measured, by `perf`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::clock::Stopwatch;

/// Samples in a second; a prime, so that nothing periodic hides.
const FREQUENCY: &str = "997";
/// Functions that are kept of a profile.
const ENTRIES_MAX: usize = 40;

/// How long perf may take to begin.
const START_TIME_MAX: Duration = Duration::from_secs(5);
const START_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A profile that is being taken.
#[derive(Debug)]
pub(crate) struct Profile {
    recorder: Child,
    data: PathBuf,
    text: PathBuf,
}

impl Profile {
    /// Begins to record the process `pid`; the text goes to `folder/NAME.txt`. Fails if perf does not begin soon: the
    /// profile would be empty.
    pub(crate) fn start(folder: &Path, name: &str, pid: u32) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let (data, text) = (
            folder.join(format!("{name}.data")),
            folder.join(format!("{name}.txt")),
        );
        let mut recorder = Command::new("perf")
            .args([
                "record",
                "--quiet",
                "-F",
                FREQUENCY,
                "-p",
                &pid.to_string(),
                "-o",
            ])
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start perf (Debian package linux-perf)")?;
        // It makes its file when it begins; a short workload would be over before.
        let started = Stopwatch::start();
        while !data.exists() {
            if let Some(status) = recorder.try_wait()? {
                bail!(
                    "perf cannot record process {pid} ({status}); `perf record -p {pid}` says why"
                );
            }
            if started.elapsed() >= START_TIME_MAX {
                recorder.kill()?;
                recorder.wait()?;
                bail!("perf has not begun to record process {pid} within {START_TIME_MAX:?}");
            }
            thread::sleep(START_POLL_INTERVAL);
        }
        Ok(Self {
            recorder,
            data,
            text,
        })
    }

    /// Ends the recording and writes its top entries.
    pub(crate) fn finish(mut self) -> Result<()> {
        let recorder = Pid::from_raw(i32::try_from(self.recorder.id())?);
        kill(recorder, Signal::SIGINT).context("perf has ended early")?;
        self.recorder.wait()?;
        let errors = File::create("/dev/null")?;
        let output = Command::new("perf")
            .args([
                "report",
                "--stdio",
                "--no-children",
                "--sort",
                "comm,dso,symbol",
                "-i",
            ])
            .arg(&self.data)
            .stderr(errors)
            .output()?;
        fs::remove_file(&self.data)?;
        ensure!(
            output.status.success(),
            "perf report ended with {}",
            output.status
        );
        fs::write(&self.text, top(&String::from_utf8_lossy(&output.stdout)))?;
        Ok(())
    }
}

/// The first entries of a report, one a line.
fn top(report: &str) -> String {
    let entries = report
        .lines()
        .filter(|line| line.contains('%') && !line.starts_with('#'));
    let mut text = String::new();
    for entry in entries.take(ENTRIES_MAX) {
        // Columns that this machine has no counters for are dashes.
        text.push_str(entry.trim_start().trim_end_matches(['-', ' ']));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_cannot_be_recorded_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        // No process has this number: the kernel's largest is below 2^22.
        let error = Profile::start(folder.path(), "nobody", 1 << 30).unwrap_err();
        assert!(error.to_string().contains("perf"), "{error:#}");
    }

    #[test]
    fn a_report_is_cut_to_its_entries() {
        let report = "# Overhead  Command\n# 5% of nothing\n\n    12.34%  fuse-0  [kernel]  [k] copy   -   - \n  1.00%  x  y  z\n";
        assert_eq!(
            top(report),
            "12.34%  fuse-0  [kernel]  [k] copy\n1.00%  x  y  z\n"
        );
    }
}
