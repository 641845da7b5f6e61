//! A system under test while it is mounted.
//!
//! Invariant: whatever happens, dropping a [`Mounted`] leaves neither mount nor process. The
//! directory is removed without its content, so a mount that could not be undone is never deleted
//! from.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::mount::{MntFlags, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::address::{Address, LocalFolder};
use super::catalog::System;
use crate::clock::Stopwatch;

/// How long a system may take until its mount is there.
const MOUNT_TIME_MAX: Duration = Duration::from_secs(30);
/// How long it may take to end after it was unmounted, and again after SIGTERM.
const END_TIME_MAX: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Lines of its output that a failure shows.
const OUTPUT_LINES_MAX: usize = 5;

/// A running system and its mount.
#[derive(Debug)]
pub(crate) struct Mounted {
    child: Child,
    directory: PathBuf,
}

impl Mounted {
    /// Starts `system`, with `folder` of the local disk if the workload is about one, and waits
    /// until it is mounted below `scratch`.
    pub(crate) fn start(
        system: &System,
        address: &Address<'_>,
        scratch: &Path,
        folder: Option<LocalFolder<'_>>,
    ) -> Result<Self> {
        let directory = scratch.join("mount");
        let command = system.mount_command(&directory, address, folder);
        Self::start_at(system, command, directory, scratch)
    }

    fn start_at(
        system: &System,
        mut command: Command,
        directory: PathBuf,
        scratch: &Path,
    ) -> Result<Self> {
        fs::create_dir_all(&directory)?;
        let output_path = scratch.join("output");
        let output = File::create(&output_path)?;
        command.stdout(output.try_clone()?).stderr(output);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", system.name))?;
        let mut mounted = Self { child, directory };
        let started = Stopwatch::start();
        while !is_mounted(&mounted.directory)? {
            if let Some(status) = mounted.child.try_wait()? {
                bail!(
                    "{} ended with {status}: {}",
                    system.name,
                    last_lines(&output_path)
                );
            }
            if started.elapsed() > MOUNT_TIME_MAX {
                bail!("{} has not mounted within {MOUNT_TIME_MAX:?}", system.name);
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(mounted)
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn stop(&mut self) {
        if is_mounted(&self.directory).unwrap_or(true) {
            unmount(&self.directory);
        }
        if !self.ends_within(END_TIME_MAX) {
            let _not_there = kill(pid_of(self.child.id()), Signal::SIGTERM);
            if !self.ends_within(END_TIME_MAX) {
                let _not_there = self.child.kill();
                let _not_there = self.child.wait();
            }
        }
        let _busy = fs::remove_dir(&self.directory);
    }

    fn ends_within(&mut self, limit: Duration) -> bool {
        let started = Stopwatch::start();
        while matches!(self.child.try_wait(), Ok(None)) {
            if started.elapsed() > limit {
                return false;
            }
            thread::sleep(POLL_INTERVAL);
        }
        true
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Ends a process at once; the kernel then fails everything that waits for its mount.
pub(crate) fn kill_now(pid: u32) {
    let _not_there = kill(pid_of(pid), Signal::SIGKILL);
}

fn pid_of(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).expect("the kernel's process ids are positive i32"))
}

fn is_mounted(directory: &Path) -> Result<bool> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("/proc/self/mountinfo")?;
    let directory = directory.to_string_lossy();
    Ok(mounts
        .lines()
        .any(|line| line.split(' ').nth(4) == Some(&*directory)))
}

fn unmount(directory: &Path) {
    // Lazily, because a reader that was given up may still hold a file.
    if umount2(directory, MntFlags::MNT_DETACH).is_err() {
        let mut helper = Command::new("fusermount3");
        helper
            .arg("-uz")
            .arg(directory)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let _not_mounted = helper.status();
    }
}

fn last_lines(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    lines[lines.len().saturating_sub(OUTPUT_LINES_MAX)..].join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_that_ends_at_once_is_an_error_with_its_words() {
        let scratch = tempfile::tempdir().unwrap();
        let program = scratch.path().join("program");
        fs::write(&program, "#!/bin/sh\necho no such bucket >&2\nexit 1\n").unwrap();
        let mut permissions = fs::metadata(&program).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
        fs::set_permissions(&program, permissions).unwrap();
        let directory = scratch.path().join("mount");
        let system = System::product(&program);
        let error = Mounted::start_at(&system, Command::new(program), directory, scratch.path());
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("exit status: 1") && error.contains("no such bucket"),
            "{error}"
        );
        assert!(!scratch.path().join("mount").exists());
    }

    #[test]
    fn the_root_is_mounted_and_a_new_directory_is_not() {
        let scratch = tempfile::tempdir().unwrap();
        assert!(is_mounted(Path::new("/")).unwrap());
        assert!(!is_mounted(scratch.path()).unwrap());
    }
}
