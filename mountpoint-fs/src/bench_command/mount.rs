//! Reads through a mount, which is a process of its own.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::arguments::BenchArguments;
use super::figures::Figures;
use super::machine::CpuTicks;
use super::objects::Target;
use crate::cli::{Flag, mount_arguments};
use crate::clock::Clock;

/// A mount for the time of the measurement.
pub(super) struct MountBench {
    process: Child,
    directory: PathBuf,
    /// Prefix of the mount: names are keys without it.
    prefix: String,
    clock: Clock,
    step: Duration,
}

impl MountBench {
    /// Mounts with the flags of the command line.
    ///
    /// # Errors
    /// A text for the user: the reason of the mount.
    pub(super) fn begin(
        arguments: &BenchArguments,
        directory: &Path,
        prefix: &str,
        clock: &Clock,
    ) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let is_ours = |flag: &&Flag| !OWN_MOUNT_FLAGS.contains(&flag.name.as_str());
        let flags: Vec<_> = arguments.flags.iter().filter(is_ours).cloned().collect();
        let shown = directory.to_string_lossy();
        let mut process = Command::new(program)
            .args(mount_arguments(&arguments.bucket, &shown, &flags))
            .arg("--foreground")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start the mount: {error}"))?;
        let (stdout, stderr) = (process.stdout.take(), process.stderr.take());
        let (Some(stdout), Some(mut stderr)) = (stdout, stderr) else {
            return Err("the mount has no output".to_owned());
        };
        let mut log = BufReader::new(stdout);
        let mut line = String::new();
        loop {
            line.clear();
            match log.read_line(&mut line) {
                Ok(len) if len > 0 && line.contains("is mounted at") => break,
                Ok(len) if len > 0 => {}
                _ => {
                    let mut reason = String::new();
                    stderr.read_to_string(&mut reason).ok();
                    process.wait().ok();
                    return Err(reason.trim().to_owned());
                }
            }
        }
        // A pipe that nobody reads would stop the mount at some point.
        drain(log, "mount-log");
        drain(stderr, "mount-errors");
        Ok(Self {
            process,
            directory: directory.to_owned(),
            prefix: prefix.to_owned(),
            clock: clock.clone(),
            step: arguments.step,
        })
    }

    /// Reads `targets` from their beginning to their end with `readers` threads, each a part of
    /// them.
    pub(super) fn sequential(&self, targets: &[Target], readers: usize) -> Figures {
        self.with_threads(readers, |reader, begun| {
            let mut figures = Figures::default();
            let mut buffer = vec![0; READ_BYTES];
            for target in targets.iter().skip(reader).step_by(readers) {
                if !self.read_file(target, &mut buffer, begun, &mut figures) {
                    break;
                }
            }
            figures
        })
    }

    /// Opens, reads and closes small files with `readers` threads.
    pub(super) fn small(&self, targets: &[Target], readers: usize) -> Figures {
        self.with_threads(readers, |reader, begun| {
            let mut figures = Figures::default();
            for target in targets.iter().skip(reader).step_by(readers) {
                let opened = self.clock.now();
                if opened.saturating_sub(begun) > self.step {
                    break;
                }
                match std::fs::read(self.path(target)) {
                    Ok(content) => {
                        let took = self.clock.now().saturating_sub(opened);
                        figures.succeeded(content.len() as u64, took);
                    }
                    Err(error) => figures.failed(error.to_string()),
                }
            }
            figures
        })
    }

    /// Names and attributes of the directories from the mount's root on, breadth first.
    pub(super) fn names(&self) -> Figures {
        let begun = self.clock.now();
        let mut figures = Figures::default();
        let mut waiting = std::collections::VecDeque::from([self.directory.clone()]);
        'all: while let Some(directory) = waiting.pop_front() {
            let entries = match std::fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(error) => {
                    figures.failed(error.to_string());
                    continue;
                }
            };
            for entry in entries.flatten() {
                let asked = self.clock.now();
                if asked.saturating_sub(begun) > self.step {
                    break 'all;
                }
                match entry.metadata() {
                    Ok(attributes) => {
                        figures.succeeded(0, self.clock.now().saturating_sub(asked));
                        if attributes.is_dir() && waiting.len() < DIRECTORIES_MAX {
                            waiting.push_back(entry.path());
                        }
                    }
                    Err(error) => figures.failed(error.to_string()),
                }
            }
        }
        figures.elapsed = self.clock.now().saturating_sub(begun);
        figures
    }

    /// Reads one file. Returns whether there is time for another.
    fn read_file(
        &self,
        target: &Target,
        buffer: &mut [u8],
        begun: Duration,
        figures: &mut Figures,
    ) -> bool {
        let mut file = match File::open(self.path(target)) {
            Ok(file) => file,
            Err(error) => {
                figures.failed(error.to_string());
                return true;
            }
        };
        // Bytes that an earlier step has read must not count again.
        posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).ok();
        loop {
            let asked = self.clock.now();
            if asked.saturating_sub(begun) > self.step {
                return false;
            }
            match file.read(buffer) {
                Ok(0) => return true,
                Ok(len) => {
                    let took = self.clock.now().saturating_sub(asked);
                    figures.succeeded(len as u64, took);
                }
                Err(error) => {
                    figures.failed(error.to_string());
                    return true;
                }
            }
        }
    }

    fn path(&self, target: &Target) -> PathBuf {
        let key = target.key.as_str();
        let name = key.strip_prefix(&self.prefix).unwrap_or(key);
        self.directory.join(name)
    }

    fn with_threads(
        &self,
        count: usize,
        work: impl Fn(usize, Duration) -> Figures + Sync,
    ) -> Figures {
        let (begun, ticks) = (self.clock.now(), CpuTicks::now());
        let mut figures = Figures::default();
        let work = &work;
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..count)
                .map(|number| scope.spawn(move || work(number, begun)))
                .collect();
            for thread in threads {
                match thread.join() {
                    Ok(of_thread) => figures.add(of_thread),
                    Err(_) => figures.failed("a reader failed".to_owned()),
                }
            }
        });
        figures.elapsed = self.clock.now().saturating_sub(begun);
        let after = CpuTicks::now();
        figures.busy = ticks.zip(after).and_then(|(a, b)| b.busy_since(a));
        figures
    }
}

impl Drop for MountBench {
    fn drop(&mut self) {
        if let Ok(process) = i32::try_from(self.process.id()) {
            // It unmounts, and ends within the time of a mount's end.
            kill(Pid::from_raw(process), Signal::SIGTERM).ok();
        }
        self.process.wait().ok();
    }
}

/// Reads an output to its end, on a thread of its own.
fn drain(mut output: impl std::io::Read + Send + 'static, name: &str) {
    let thread = std::thread::Builder::new().name(name.to_owned());
    let drained = thread.spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    // Without the thread a long log stops the mount, and the measurement with it: it has an end.
    drained.ok();
}

/// Flags of a mount that this process sets.
const OWN_MOUNT_FLAGS: [&str; 1] = ["--foreground"];

/// Bytes of each read.
const READ_BYTES: usize = 1 << 20;

/// Directories that wait to be listed.
const DIRECTORIES_MAX: usize = 10_000;
