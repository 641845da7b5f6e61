//! What one mount takes at a moment, from `/proc`, its folder, its log and its own numbers.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use nix::unistd::Pid;

use super::policy::MEASURES;
use crate::metrics::stats::number;
use crate::soak::place::{Place, Process};
use crate::soak::program::Program;

/// Numbers in the order of [`MEASURES`].
pub(in crate::soak) type Sample = [f64; MEASURES.len()];

/// Descriptors and threads of a process.
#[derive(Clone, Copy, Debug)]
pub(in crate::soak) struct Handles {
    pub(in crate::soak) files: usize,
    pub(in crate::soak) sockets: usize,
    pub(in crate::soak) threads: usize,
}

/// The lines of a log so far.
#[derive(Default)]
pub(super) struct Tail {
    life: u64,
    offset: u64,
    lines: usize,
    /// The number of lines at each of the last samples.
    before: std::collections::VecDeque<usize>,
}

/// Samples of a minute.
const MINUTE: usize = 60;

impl Tail {
    /// Lines of the last minute.
    fn last_minute(&mut self, process: &Process) -> io::Result<usize> {
        if self.life != process.life {
            *self = Self {
                life: process.life,
                ..Self::default()
            };
        }
        let end = process.log.metadata()?.len();
        let mut bytes = vec![0; usize::try_from(end - self.offset).unwrap()];
        process.log.read_exact_at(&mut bytes, self.offset)?;
        self.offset = end;
        self.lines += bytes.iter().filter(|byte| **byte == b'\n').count();
        self.before.push_back(self.lines);
        if self.before.len() > MINUTE {
            self.before.pop_front();
        }
        Ok(self.lines - self.before[0])
    }

    pub(super) fn lines(&self) -> usize {
        self.lines
    }
}

/// Looks at a place; nothing while its mount is exchanged.
pub(super) fn sample(program: &Program, place: &Place, tail: &mut Tail) -> Option<(u64, Sample)> {
    let process = place.process()?;
    let status = status(process.pid)?;
    let handles = handles(process.pid)?;
    let document = program.stats(&process.directory)?;
    let number = |name| number(&document, name, "");
    assert!(
        number("process.panics") == 0.0,
        "{:?}: a thread of the mount has panicked",
        place.kind
    );
    let sample = [
        status.0,
        status.1,
        handles.files as f64,
        handles.sockets as f64,
        handles.threads as f64,
        number("fs.inodes"),
        occupied(place.folder.path()) as f64,
        tail.last_minute(&process).ok()? as f64,
        number("mem.bytes_reserved"),
    ];
    Some((process.life, sample))
}

/// Bytes of anonymous memory, and of files in memory.
fn status(pid: Pid) -> Option<(f64, f64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let number = line.trim().split(' ').next()?.parse::<f64>().ok()?;
        Some(number * 1024.0)
    };
    Some((bytes("RssAnon:")?, bytes("RssFile:")?))
}

pub(in crate::soak) fn handles(pid: Pid) -> Option<Handles> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.count();
    let mut handles = Handles {
        files: 0,
        sockets: 0,
        threads,
    };
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten() {
        // A descriptor may be closed meanwhile.
        let target = fs::read_link(entry.path()).unwrap_or_default();
        match target.to_string_lossy().starts_with("socket:") {
            true => handles.sockets += 1,
            false => handles.files += 1,
        }
    }
    Some(handles)
}

/// Bytes that files below a folder occupy. Files may go meanwhile.
fn occupied(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => occupied(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    entries.map(of).sum()
}
