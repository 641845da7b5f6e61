//! The file that a capture is written to.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// How a capture has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct CaptureEnd {
    /// Its time, in seconds.
    pub(super) seconds: f64,
    /// Records that the mount had no room for.
    pub(super) dropped: u64,
    /// Records that the file has no room for.
    pub(super) left_out: u64,
}

/// The file.
#[derive(Debug)]
pub(super) struct CaptureOutput {
    file: BufWriter<File>,
    written: u64,
}

impl CaptureOutput {
    /// Makes or replaces the file at `path`, for this user alone: it has names of files.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        Ok(Self {
            file: BufWriter::new(options.open(path)?),
            written: 0,
        })
    }

    /// Bytes so far.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Writes all of `text`.
    pub(super) fn write(&mut self, text: &[u8]) -> io::Result<()> {
        self.written += text.len() as u64;
        self.file.write_all(text)
    }

    /// Writes the bytes that are still in memory to the file.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
