//! Going into the background, and reporting the start to the terminal.
//!
//! The parent waits on a pipe for one message of the child: [`MOUNTED`] and remarks, or the reason
//! of a failure. A child that dies silently closes the pipe, which the parent takes for a failure
//! as well. Forks before any thread exists. Until the directory is mounted the child stays in its
//! parent's process group: Ctrl-C ends both, and an autofs that serves this group, as systemd's
//! does, lets the child mount over itself.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

use mountpoint_crt_sys::process::{Fork, fork_child};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, chdir, pipe2, setsid};

/// The child's message that the directory is mounted; a reason never begins with this byte.
const MOUNTED: u8 = 0;

/// The side of the fork of this process.
#[derive(Debug)]
pub(in crate::mount) enum Side {
    /// The parent, with the child's report: remarks, or the reason of a failure.
    Parent(Result<String, String>),
    /// The child, which goes on and reports.
    Child(Reporter),
}

/// The child's end of the pipe.
#[derive(Debug)]
pub(in crate::mount) struct Reporter {
    /// `None` in the foreground, and after the report.
    pipe: Option<File>,
    /// Whether the process leaves its working directory.
    moves_away: bool,
}

impl Reporter {
    /// A reporter without a parent: the process stays in the foreground.
    pub(in crate::mount) fn foreground() -> Self {
        Self {
            pipe: None,
            moves_away: false,
        }
    }

    /// Whether the process is in the background.
    pub(in crate::mount) fn is_daemon(&self) -> bool {
        self.pipe.is_some()
    }

    /// Goes into the background and reports the mount to the parent. The process detaches from the
    /// terminal and the working directory, and starts a session.
    ///
    /// The report is last, so that earlier failures can still be reported.
    ///
    /// # Errors
    /// If the process cannot go into the background, or if the parent has ended: its caller has
    /// given up.
    pub(in crate::mount) fn mounted(&mut self, remarks: &str) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else {
            return Ok(());
        };
        setsid()?;
        if self.moves_away {
            // The file system of the old working directory can then be unmounted.
            chdir("/")?;
        }
        let_go_of_terminal()?;
        pipe.write_all(&[&[MOUNTED], remarks.as_bytes()].concat())?;
        self.pipe = None;
        Ok(())
    }

    /// Reports a failure to the parent. Returns whether there was a parent.
    pub(in crate::mount) fn failed(&mut self, reason: &str) -> bool {
        let told = self
            .pipe
            .take()
            .is_some_and(|mut pipe| pipe.write_all(reason.as_bytes()).is_ok());
        // A reader of the terminal's output must not wait for the rest of this process.
        told && let_go_of_terminal().is_ok()
    }
}

fn let_go_of_terminal() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    nix::unistd::dup2_stdin(&null)?;
    nix::unistd::dup2_stdout(&null)?;
    nix::unistd::dup2_stderr(&null)?;
    Ok(())
}

/// Forks; the child continues, the parent waits for its report for at most `time_max`.
///
/// If `moves_away`, the child changes to `/` after the mount.
pub(in crate::mount) fn daemonise(time_max: Duration, moves_away: bool) -> io::Result<Side> {
    let (reader, writer) = pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
    match fork_child()? {
        Fork::Parent { child_pid } => {
            drop(writer);
            let child = Pid::from_raw(child_pid);
            Ok(Side::Parent(wait_for_report(
                File::from(reader),
                child,
                time_max,
            )))
        }
        Fork::Child => {
            drop(reader);
            let pipe = Some(File::from(writer));
            Ok(Side::Child(Reporter { pipe, moves_away }))
        }
    }
}

fn wait_for_report(mut pipe: File, child: Pid, time_max: Duration) -> Result<String, String> {
    let timeout = PollTimeout::try_from(time_max).unwrap_or(PollTimeout::MAX);
    let ready = poll(&mut [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)], timeout);
    if ready == Ok(0) {
        end(child);
        return Err(format!(
            "not mounted after {} s; the background process was ended. Run with --foreground --debug to see what it \
             waits for",
            time_max.as_secs()
        ));
    }
    let mut report = Vec::new();
    pipe.read_to_end(&mut report)
        .map_err(|error| format!("cannot watch the background process: {error}"))?;
    match report.split_first() {
        Some((&MOUNTED, remarks)) => Ok(String::from_utf8_lossy(remarks).into_owned()),
        None => Err(
            "the background process died while mounting; run with --foreground --debug to see why"
                .to_owned(),
        ),
        Some(_) => Err(String::from_utf8_lossy(&report).into_owned()),
    }
}

/// Ends a child that reports nothing. First by SIGTERM, so that it can unmount, then by SIGKILL.
fn end(child: Pid) {
    // Each of these fails only if the child has ended.
    kill(child, Signal::SIGTERM).ok();
    let polls = START_END_MAX.as_millis() / END_POLL.as_millis();
    for _ in 0..polls {
        if waitpid(child, Some(WaitPidFlag::WNOHANG)) != Ok(WaitStatus::StillAlive) {
            return;
        }
        std::thread::sleep(END_POLL);
    }
    kill(child, Signal::SIGKILL).ok();
}

/// Polling interval of a child that should end.
const END_POLL: Duration = Duration::from_millis(10);

/// How long a background process may take to end before it is killed.
const START_END_MAX: Duration = Duration::from_secs(2);
