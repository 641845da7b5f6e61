//! Going into the background, and telling the terminal how the start went.
//!
//! The parent waits on a pipe for one message of the child: [`MOUNTED`], or the reason why not. A child that dies
//! without a word closes the pipe, which the parent takes for a failure as well. Forks before any thread exists.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;

use mountpoint_crt_sys::process::{Fork, fork_child};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, pipe2, setsid};

use crate::config::limits;

/// The child's message that the directory is mounted; a reason is never this byte.
const MOUNTED: &[u8] = b"\0";

/// Which side of the fork this process is.
#[derive(Debug)]
pub(super) enum Side {
    /// The parent, after the child has told how it went.
    Parent(Result<(), String>),
    /// The child, which goes on and reports.
    Child(Reporter),
}

/// The child's end of the pipe.
#[derive(Debug)]
pub(super) struct Reporter(Option<File>);

impl Reporter {
    /// A reporter that nobody listens to: the process stays in the foreground.
    pub(super) fn foreground() -> Self {
        Self(None)
    }

    /// Whether the process is in the background.
    pub(super) fn is_daemon(&self) -> bool {
        self.0.is_some()
    }

    /// Tells the parent that the directory is mounted, and lets go of the terminal.
    pub(super) fn mounted(&mut self) -> io::Result<()> {
        let Some(mut pipe) = self.0.take() else {
            return Ok(());
        };
        pipe.write_all(MOUNTED)?;
        drop(pipe);
        let null = File::options().read(true).write(true).open("/dev/null")?;
        nix::unistd::dup2_stdin(&null)?;
        nix::unistd::dup2_stdout(&null)?;
        nix::unistd::dup2_stderr(&null)?;
        Ok(())
    }

    /// Tells the parent why not. Returns whether there was one to tell.
    pub(super) fn failed(&mut self, reason: &str) -> bool {
        self.0
            .take()
            .is_some_and(|mut pipe| pipe.write_all(reason.as_bytes()).is_ok())
    }
}

/// Forks; the child becomes leader of a session of its own and goes on, the parent waits for its report.
pub(super) fn daemonise() -> io::Result<Side> {
    let (reader, writer) = pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
    match fork_child()? {
        Fork::Parent { child_pid } => {
            drop(writer);
            Ok(Side::Parent(wait_for_report(
                File::from(reader),
                Pid::from_raw(child_pid),
            )))
        }
        Fork::Child => {
            drop(reader);
            setsid()?;
            Ok(Side::Child(Reporter(Some(File::from(writer)))))
        }
    }
}

fn wait_for_report(mut pipe: File, child: Pid) -> Result<(), String> {
    let timeout = PollTimeout::try_from(limits::START_TIMEOUT).unwrap_or(PollTimeout::MAX);
    let ready = poll(&mut [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)], timeout);
    if ready == Ok(0) {
        let killed = kill(child, Signal::SIGTERM);
        let seconds = limits::START_TIMEOUT.as_secs();
        return Err(format!(
            "not mounted after {seconds} s; the background process was ended{}. Run with --foreground --debug to see \
             what it waits for",
            killed
                .err()
                .map_or_else(String::new, |errno| format!(" ({errno})"))
        ));
    }
    let mut report = Vec::new();
    pipe.read_to_end(&mut report)
        .map_err(|error| format!("lost the background process: {error}"))?;
    match report.as_slice() {
        MOUNTED => Ok(()),
        [] => Err(
            "the background process died while mounting; run with --foreground --debug to see why"
                .to_owned(),
        ),
        reason => Err(String::from_utf8_lossy(reason).into_owned()),
    }
}

/// A file that holds the process number while the mount lives.
#[derive(Debug)]
pub(super) struct PidFile(std::path::PathBuf);

impl PidFile {
    /// Writes it.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        std::fs::write(path, format!("{}\n", std::process::id()))?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::warn!(
                "could not remove the PID file {}: {error}",
                self.0.display()
            );
        }
    }
}
