//! A CPU profile of a mount while it is measured, by `perf`.

mod cause;
mod shares;

pub(crate) use cause::Cause;
pub(crate) use shares::Shares;

use std::fs;
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

/// How long perf may take to begin.
const START_TIME_MAX: Duration = Duration::from_secs(5);
const START_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A profile that is being taken.
#[derive(Debug)]
pub(crate) struct Profile {
    recorder: Child,
    data: PathBuf,
}

impl Profile {
    /// Begins to record the process `pid`, with a file in `folder` until it ends. Fails if perf
    /// does not begin soon: the profile would be empty.
    pub(crate) fn start(folder: &Path, pid: u32) -> Result<Self> {
        let data = folder.join("profile.data");
        let mut recorder = Command::new("perf")
            .args([
                "record",
                "--quiet",
                "-F",
                FREQUENCY,
                // Callers count in the kernel only: outside there are no frame pointers.
                "-g",
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
        Ok(Self { recorder, data })
    }

    /// Ends the recording and counts its samples.
    pub(crate) fn finish(mut self) -> Result<Shares> {
        let recorder = Pid::from_raw(i32::try_from(self.recorder.id())?);
        kill(recorder, Signal::SIGINT).context("perf has ended early")?;
        self.recorder.wait()?;
        let output = Command::new("perf")
            .args(["script", "--no-inline", "-F", "comm,ip,sym,dso", "-i"])
            .arg(&self.data)
            .stderr(Stdio::null())
            .output()?;
        fs::remove_file(&self.data)?;
        ensure!(
            output.status.success(),
            "perf script ended with {}",
            output.status
        );
        Ok(Shares::of(&String::from_utf8_lossy(&output.stdout)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_cannot_be_recorded_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        // No process has this number: the kernel's largest is below 2^22.
        let error = Profile::start(folder.path(), 1 << 30).unwrap_err();
        assert!(error.to_string().contains("perf"), "{error:#}");
    }
}
