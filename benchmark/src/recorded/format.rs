//! Files of `mount-s3 trace`, of which the opens and reads of programs are kept.
//!
//! Such a file has a first line, an event in each line, and a last line about the mount.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mountpoint_client::testing::server::synthetic_bytes;
use serde::Deserialize;

use super::REPLAYED;

/// The reads of a trace.
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

/// A request of the kernel in a trace.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Event {
    name: String,
    cat: String,
    /// Microseconds.
    ts: f64,
    dur: f64,
    args: Arguments,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Arguments {
    key: Option<String>,
    inode: u64,
    handle: u64,
    offset: u64,
    length: u64,
    file_size: Option<u64>,
    errno: Option<String>,
    thread: u64,
}

/// The last line of a trace.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ending {
    other_data: About,
}

#[derive(Debug, Deserialize)]
struct About {
    /// Of all keys; the mount does not show it.
    prefix: String,
}

impl Event {
    /// Whether it is a read that succeeded.
    fn is_read(&self) -> bool {
        self.name == "READ" && self.args.errno.is_none()
    }

    /// Whether it opened a file.
    fn opens(&self) -> bool {
        matches!(self.name.as_str(), "OPEN" | "CREATE") && self.args.errno.is_none()
    }

    /// Begin and end.
    fn times(&self) -> (u64, u64) {
        (micros(self.ts), micros(self.ts + self.dur))
    }
}

/// Whole microseconds.
fn micros(time: f64) -> u64 {
    let time = Duration::try_from_secs_f64(time / 1e6).unwrap_or_default();
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A file, as the requests describe it.
#[derive(Debug, Default)]
struct Described {
    key: Option<String>,
    size: Option<u64>,
    /// End of the last range that was read or written.
    read_to: u64,
}

impl Described {
    fn learn(&mut self, arguments: &Arguments) {
        if self.key.is_none() {
            self.key.clone_from(&arguments.key);
        }
        self.size = self.size.max(arguments.file_size);
        let end = arguments.offset.saturating_add(arguments.length);
        self.read_to = self.read_to.max(end);
    }
}

impl Recorded {
    /// Reads the trace at `path`.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let context = || format!("the trace {}", path.display());
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
        let mut events = Vec::new();
        let mut prefix = String::new();
        let mut is_trace = false;
        for (number, line) in (1..).zip(lines) {
            let line = line?;
            let line = line.trim_end_matches(',');
            if number == 1 {
                is_trace = line == FIRST_LINE;
                continue;
            }
            if let Some(ending) = line.strip_prefix("],") {
                let ending: Ending = serde_json::from_str(&format!("{{{ending}"))
                    .with_context(|| format!("line {number}"))?;
                prefix = ending.other_data.prefix;
                continue;
            }
            let event: Event =
                serde_json::from_str(line).with_context(|| format!("line {number}"))?;
            if event.cat != "kernel" {
                continue;
            }
            let len = event.args.length;
            ensure!(len <= READ_MAX, "line {number}: a read of {len} bytes");
            // A CREATE names the directory.
            if matches!(event.name.as_str(), "OPEN" | "READ" | "WRITE") {
                files
                    .entry(event.args.inode)
                    .or_default()
                    .learn(&event.args);
            }
            if event.is_read() || event.opens() {
                events.push(event);
            }
            ensure!(
                events.len() <= CALLS_MAX,
                "it has more than {CALLS_MAX} calls"
            );
        }
        ensure!(is_trace, "it is no file of mount-s3 trace");
        Self::of(&files, &prefix, events)
    }

    fn of(files: &HashMap<u64, Described>, prefix: &str, mut events: Vec<Event>) -> Result<Self> {
        let read = events.iter().filter(|event| event.is_read());
        let read: HashMap<u64, u64> = read
            .map(|event| (event.args.handle, event.args.inode))
            .collect();
        events.sort_by_key(Event::times);
        let mut recorded = Self::default();
        let (mut indices, mut handles) = (HashMap::new(), HashMap::new());
        let mut first = None;
        for event in events {
            let Some(inode) = read.get(&event.args.handle) else {
                continue;
            };
            let described = files.get(inode).context("a read names no file")?;
            let name = match &described.key {
                Some(key) => key.strip_prefix(prefix).unwrap_or(key).to_owned(),
                // It is open and was removed.
                None => format!("removed-{inode}"),
            };
            check_name(&name)?;
            // A file that was not stored yet has no size.
            let size = described.size.unwrap_or(described.read_to);
            let next = recorded.files.len();
            let file = *indices.entry(name.clone()).or_insert(next);
            if file == next {
                recorded.files.push(RecordedFile {
                    name,
                    size,
                    seed: SEED.wrapping_add(next as u64),
                });
            }
            // A file that was replaced has its name twice.
            recorded.files[file].size = recorded.files[file].size.max(size);
            let (began, end) = event.times();
            let first = *first.get_or_insert(began);
            let next = handles.len();
            recorded.calls.push(RecordedCall {
                file,
                handle: *handles.entry(event.args.handle).or_insert(next),
                thread: event.args.thread,
                began: began - first,
                end: end - first,
                range: event
                    .is_read()
                    .then_some((event.args.offset, event.args.length)),
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

/// The first line of a trace.
const FIRST_LINE: &str = r#"{"displayTimeUnit":"ms","traceEvents":["#;
/// A trace has a million requests at most; another program's file may be anything.
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

    pub(in crate::recorded) const SAMPLE: &str = include_str!("sample.json");

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
                (0, 0, 11, 0, 50, None),
                (0, 0, 11, 60, 160, Some((0, 131_072))),
                (0, 0, 11, 70, 270, Some((131_072, 131_072))),
                (1, 1, 12, 100, 200, Some((262_144, 131_072))),
                (0, 0, 11, 300, 310, Some((900_000, 131_072))),
            ]
        );
    }

    #[test]
    fn other_files_are_refused() {
        let read = |arguments: &str| {
            let arguments = format!("\"handle\":1,{arguments}");
            format!(
                "{FIRST_LINE}\n{{\"cat\":\"kernel\",\"name\":\"READ\",\"args\":{{{arguments}}}}}"
            )
        };
        for (text, expected) in [
            ("", "no file of mount-s3 trace"),
            ("{}", "no file of mount-s3 trace"),
            (FIRST_LINE, "it has no reads"),
            (&format!("{FIRST_LINE}\nnothing"), "line 2"),
            (
                &read("\"inode\":1,\"key\":\"../../etc/passwd\""),
                "no name of a file",
            ),
            (&read("\"length\":1000000000"), "a read of"),
        ] {
            let error = parse(text).expect_err(text);
            let error = format!("{error:#}");
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
