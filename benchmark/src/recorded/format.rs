//! Files of `mount-s3 record`: a header, lines about files, and lines about calls. doc/TRACES.md
//! has the format.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use mountpoint_client::testing::server::synthetic_bytes;
use serde::Deserialize;

use super::REPLAYED;

/// The reads of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// Files that are read.
    pub(crate) files: Vec<RecordedFile>,
    /// Opens and reads, in the order in which they began.
    pub(crate) calls: Vec<RecordedCall>,
}

/// A file that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordedFile {
    /// Path below the mount.
    pub(crate) name: String,
    pub(crate) size: u64,
    /// Of its content.
    pub(crate) seed: u64,
}

/// An open or a read. Times are microseconds since the first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordedCall {
    /// Index of its file.
    pub(crate) file: usize,
    /// The open file, from 0.
    pub(crate) handle: usize,
    pub(crate) thread: u64,
    pub(crate) began: u64,
    pub(crate) end: u64,
    /// Offset and length of a read; `None` for an open.
    pub(crate) range: Option<(u64, u64)>,
}

impl RecordedCall {
    pub(crate) fn is_read(&self) -> bool {
        self.range.is_some()
    }
}

impl RecordedFile {
    /// Key of its object.
    pub(crate) fn key(&self) -> String {
        format!("{REPLAYED}/{}", self.name)
    }

    /// The bytes of its object at `offset`.
    pub(crate) fn content(&self, offset: u64, len: u64) -> Vec<u8> {
        synthetic_bytes(self.seed, offset..(offset + len).min(self.size))
    }
}

/// Any line of a record.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line {
    format: Option<String>,
    version: u32,
    file: Option<u64>,
    name: Option<String>,
    size: Option<u64>,
    op: Option<String>,
    at: u64,
    took: u64,
    thread: u64,
    handle: Option<u64>,
    offset: Option<u64>,
    len: Option<u64>,
    error: Option<String>,
}

impl Line {
    /// Whether it is a read that succeeded.
    fn is_read(&self) -> bool {
        self.op.as_deref() == Some("read") && self.error.is_none()
    }

    /// Whether it opened a file.
    fn opens(&self) -> bool {
        matches!(self.op.as_deref(), Some("open" | "create")) && self.error.is_none()
    }
}

/// A file, as the lines of the record describe it.
#[derive(Debug, Default)]
struct Described {
    name: String,
    size: Option<u64>,
    /// End of the last range that was read or written.
    read_to: u64,
}

impl Recorded {
    /// Reads the record at `path`.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let context = || format!("the record {}", path.display());
        let file = File::open(path).with_context(context)?;
        let lines = BufReader::new(file).lines();
        Self::parse(lines.map(|line| Ok(line?))).with_context(context)
    }

    /// The time that the reads took when they were recorded.
    pub(crate) fn time(&self) -> Duration {
        let ends = self.calls.iter().map(|call| call.end);
        Duration::from_micros(ends.max().unwrap_or_default())
    }

    /// Reads among the calls.
    pub(crate) fn reads(&self) -> usize {
        self.calls.iter().filter(|call| call.is_read()).count()
    }

    /// Threads that made them.
    pub(crate) fn threads(&self) -> usize {
        let threads: HashSet<_> = self.calls.iter().map(|call| call.thread).collect();
        threads.len()
    }

    fn parse(lines: impl Iterator<Item = Result<String>>) -> Result<Self> {
        let mut files: HashMap<u64, Described> = HashMap::new();
        let mut calls = Vec::new();
        for (number, line) in (1..).zip(lines) {
            let line = line?;
            let parsed: Line =
                serde_json::from_str(&line).with_context(|| format!("line {number}"))?;
            if number == 1 {
                let is_known = parsed.format.as_deref() == Some(FORMAT) && parsed.version == 1;
                ensure!(is_known, "it is no file of mount-s3 record, version 1");
                continue;
            }
            match (parsed.op.is_some(), parsed.file) {
                (false, Some(file)) => {
                    let known = files.entry(file).or_default();
                    if let Some(name) = parsed.name {
                        check_name(&name).with_context(|| format!("line {number}"))?;
                        known.name = name;
                    }
                    known.size = known.size.max(parsed.size);
                }
                (true, Some(file)) => {
                    let (offset, len) = (parsed.offset.unwrap_or(0), parsed.len.unwrap_or(0));
                    ensure!(len <= READ_MAX, "line {number}: a read of {len} bytes");
                    let end = offset.saturating_add(len);
                    let known = files.entry(file).or_default();
                    known.read_to = known.read_to.max(end);
                    calls.push(parsed);
                }
                (_, None) => {}
            }
            ensure!(
                calls.len() <= CALLS_MAX,
                "it has more than {CALLS_MAX} calls"
            );
        }
        Self::of(&files, calls)
    }

    fn of(files: &HashMap<u64, Described>, calls: Vec<Line>) -> Result<Self> {
        let read = calls.iter().filter(|call| call.is_read());
        let read: HashSet<_> = read.map(|call| call.handle).collect();
        let mut calls: Vec<_> = calls
            .into_iter()
            .filter(|call| call.is_read() || (call.opens() && read.contains(&call.handle)))
            .collect();
        calls.sort_by_key(|call| (call.at, call.took));
        let mut recorded = Self::default();
        let (mut indices, mut handles) = (HashMap::new(), HashMap::new());
        let first = calls.first().map_or(0, |call| call.at);
        for call in calls {
            let (Some(number), Some(handle)) = (call.file, call.handle) else {
                bail!("a call names no file or no handle");
            };
            let described = files.get(&number).filter(|file| !file.name.is_empty());
            let described = described.context("a call names an unknown file")?;
            // A file that was not stored yet has no size.
            let size = described.size.unwrap_or(described.read_to);
            let file = *indices.entry(described.name.as_str()).or_insert_with(|| {
                recorded.files.push(RecordedFile {
                    name: described.name.clone(),
                    size,
                    seed: SEED.wrapping_add(number),
                });
                recorded.files.len() - 1
            });
            // A file that was replaced has its name twice.
            recorded.files[file].size = recorded.files[file].size.max(size);
            let next = handles.len();
            let range = match call.op.as_deref() {
                Some("read") => Some((
                    call.offset.unwrap_or_default(),
                    call.len.unwrap_or_default(),
                )),
                _ => None,
            };
            recorded.calls.push(RecordedCall {
                file,
                handle: *handles.entry(handle).or_insert(next),
                thread: call.thread,
                began: call.at - first,
                end: (call.at - first).saturating_add(call.took),
                range,
            });
        }
        ensure!(
            recorded.calls.iter().any(RecordedCall::is_read),
            "it has no reads"
        );
        Ok(recorded)
    }
}

/// A name leads to a file below the directory that it is looked up in.
fn check_name(name: &str) -> Result<()> {
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    let is_good = name.split('/').all(is_plain) && !name.contains('\0');
    ensure!(is_good, "{name:?} is no name of a file");
    Ok(())
}

/// The name of the format.
const FORMAT: &str = "mount-s3 record";
/// A record has a million lines at most; another program's file may be anything.
const CALLS_MAX: usize = 10_000_000;
/// Longest read: the kernel asks for 1 MiB at most.
const READ_MAX: u64 = 64 << 20;
/// Seeds of the contents, beyond those of the other files of the benchmark.
const SEED: u64 = 1_000_000_000;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::recorded) fn parse(text: &str) -> Result<Recorded> {
        Recorded::parse(text.lines().map(|line| Ok(line.to_owned())))
    }

    pub(in crate::recorded) const SAMPLE: &str = include_str!("sample.jsonl");

    #[test]
    fn opens_and_reads_are_kept_in_the_order_of_their_begin() {
        let recorded = parse(SAMPLE).unwrap();
        let names: Vec<_> = recorded
            .files
            .iter()
            .map(|it| (it.name.as_str(), it.size))
            .collect();
        // Files that are only written are left out; a size that grew is the greater one.
        assert_eq!(names, [("data/a.bin", 1_000_000), ("data/b.bin", 300_000)]);
        let calls: Vec<_> = recorded
            .calls
            .iter()
            .map(|it| (it.file, it.handle, it.thread, it.began, it.end, it.range))
            .collect();
        assert_eq!(
            calls,
            [
                (0, 0, 1, 0, 50, None),
                (0, 0, 1, 60, 160, Some((0, 131_072))),
                (0, 0, 1, 70, 270, Some((131_072, 131_072))),
                (1, 1, 2, 100, 200, Some((262_144, 131_072))),
                (0, 0, 1, 300, 310, Some((900_000, 131_072))),
            ]
        );
    }

    #[test]
    fn other_files_are_refused() {
        let header = r#"{"format":"mount-s3 record","version":1}"#;
        for (text, expected) in [
            ("", "it has no reads"),
            ("{}", "no file of mount-s3 record"),
            (r#"{"format":"mount-s3 record","version":2}"#, "version 1"),
            ("nothing", "line 1"),
            (
                &format!("{header}\n{{\"file\":1,\"name\":\"../../etc/passwd\",\"size\":1}}"),
                "no name of a file",
            ),
            (
                &format!("{header}\n{{\"op\":\"read\",\"file\":1,\"handle\":1}}"),
                "unknown file",
            ),
        ] {
            let error = parse(text).expect_err(text);
            let error = format!("{error:#}");
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
