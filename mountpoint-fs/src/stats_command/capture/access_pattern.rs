//! Records as a pattern of accesses, which the benchmark carries out again: lines of JSON.

use std::collections::HashMap;
use std::io;

use serde_json::{Map, Value, json};

use super::name_hash::NameHash;
use super::output::{CaptureEnd, CaptureFormat, CaptureOutput};
use crate::metrics::capture::{CallRecord, CaptureRecord};
use crate::mount::MountDescription;

/// A pattern that is being written.
#[derive(Debug)]
pub(super) struct AccessPattern {
    /// Begin of all keys, which is not written.
    prefix: String,
    version: String,
    hash: Option<NameHash>,
    has_begun: bool,
    files: HashMap<u64, KnownFile>,
    /// Small numbers for handles and threads, in the order of their first use.
    handles: HashMap<u64, usize>,
    threads: HashMap<u32, usize>,
}

/// A file that has been described.
#[derive(Debug)]
struct KnownFile {
    number: usize,
    size: Option<u64>,
}

impl AccessPattern {
    /// A pattern of `mount`, with the names as they are or as hashes.
    pub(super) fn new(mount: &MountDescription, hash: Option<NameHash>) -> Self {
        Self {
            prefix: mount.prefix.clone(),
            version: mount.version.clone(),
            hash,
            has_begun: false,
            files: HashMap::new(),
            handles: HashMap::new(),
            threads: HashMap::new(),
        }
    }

    fn line(to: &mut CaptureOutput, line: &Value) -> io::Result<()> {
        to.write(format!("{line}\n").as_bytes())
    }

    fn begin(&mut self, to: &mut CaptureOutput) -> io::Result<()> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Ok(());
        }
        let names = match self.hash {
            Some(_) => "hashed",
            None => "plain",
        };
        let line = json!({
            "format": FORMAT, "version": FORMAT_VERSION, "program": self.version, "names": names,
        });
        Self::line(to, &line)
    }

    /// The number of the file, which is described at its first use, and when its size is another.
    fn file(&mut self, call: &CallRecord, inode: u64, to: &mut CaptureOutput) -> io::Result<usize> {
        let next = self.files.len() + 1;
        if let Some(known) = self.files.get_mut(&inode) {
            if call.size.is_some() && call.size != known.size {
                known.size = call.size;
                let line = json!({ "file": known.number, "size": call.size });
                Self::line(to, &line)?;
            }
            return Ok(known.number);
        }
        let key = call.key.as_deref();
        let name = key.map(|key| key.strip_prefix(self.prefix.as_str()).unwrap_or(key));
        let name = match (name, &self.hash) {
            // It is open and was removed.
            (None, _) => format!("removed-{next}"),
            (Some(name), Some(hash)) => hash.of(name),
            (Some(name), None) => name.to_owned(),
        };
        let known = KnownFile {
            number: next,
            size: call.size,
        };
        self.files.insert(inode, known);
        let mut line = Map::new();
        line.insert("file".to_owned(), next.into());
        line.insert("name".to_owned(), name.into());
        if let Some(size) = call.size {
            line.insert("size".to_owned(), size.into());
        }
        Self::line(to, &line.into())?;
        Ok(next)
    }

    /// Writes a call, if it is one of those that can be replayed.
    fn call(&mut self, call: &CallRecord, to: &mut CaptureOutput) -> io::Result<bool> {
        let operation = match &*call.operation {
            operation @ ("open" | "create" | "read" | "write") => operation,
            "release" => "close",
            _ => return Ok(false),
        };
        // A new file has no number in its request, which names its directory.
        let inode = match operation {
            "create" => call.found.unwrap_or(call.inode),
            _ => call.inode,
        };
        let file = self.file(call, inode, to)?;
        let mut line = Map::new();
        let mut add = |name: &str, value: Value| line.insert(name.to_owned(), value);
        add("op", operation.into());
        add("file", file.into());
        add("at", (call.began / 1000).into());
        add("took", (call.took / 1000).into());
        add("thread", number(&mut self.threads, call.thread).into());
        if let Some(handle) = call.handle {
            add("handle", number(&mut self.handles, handle).into());
        }
        if let Some(offset) = call.offset {
            add("offset", offset.into());
        }
        if let Some(len) = call.len {
            add("len", len.into());
        }
        if let Some(flags) = call.flags {
            add("mode", mode(flags).into());
        }
        if let Some(errno) = &call.errno {
            add("error", errno.as_str().into());
        }
        if call.is_unfinished {
            add("unfinished", true.into());
        }
        Self::line(to, &line.into())?;
        Ok(true)
    }
}

impl CaptureFormat for AccessPattern {
    fn add(&mut self, record: &CaptureRecord, to: &mut CaptureOutput) -> io::Result<bool> {
        self.begin(to)?;
        match record {
            CaptureRecord::Call(call) => self.call(call, to),
            CaptureRecord::Attempt(_) | CaptureRecord::Level(_) => Ok(false),
        }
    }

    fn end(&mut self, end: CaptureEnd, to: &mut CaptureOutput) -> io::Result<()> {
        self.begin(to)?;
        let line = json!({ "end": {
            "seconds": end.seconds, "dropped": end.dropped, "left_out": end.left_out,
        } });
        Self::line(to, &line)
    }
}

/// The small number of `key`, from 1.
fn number<K: std::hash::Hash + Eq>(numbers: &mut HashMap<K, usize>, key: K) -> usize {
    let next = numbers.len() + 1;
    *numbers.entry(key).or_insert(next)
}

/// How a file is opened.
fn mode(flags: u32) -> &'static str {
    match flags.cast_signed() & libc::O_ACCMODE {
        libc::O_RDONLY => "r",
        libc::O_WRONLY => "w",
        _ => "rw",
    }
}

/// The first line's name of the format. The benchmark reads it.
const FORMAT: &str = "mount-s3 record";
/// Version of the format: new fields do not change it.
const FORMAT_VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(records: &[CallRecord]) -> Vec<Value> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("record");
        let mut output = CaptureOutput::create(&path).unwrap();
        let mount = MountDescription {
            prefix: "data/".to_owned(),
            ..MountDescription::default()
        };
        let mut pattern = AccessPattern::new(&mount, None);
        let mut used = 0;
        for record in records {
            let record = CaptureRecord::Call(Box::new(record.clone()));
            used += usize::from(pattern.add(&record, &mut output).unwrap());
        }
        pattern.end(CaptureEnd::default(), &mut output).unwrap();
        output.flush().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let parsed = text.lines().map(serde_json::from_str);
        let lines: Vec<Value> = parsed.collect::<Result<_, _>>().unwrap();
        let calls = lines.iter().filter(|line| line.get("op").is_some());
        assert_eq!(calls.count(), used);
        lines
    }

    #[test]
    fn files_are_described_once_and_calls_in_order() {
        let call = |operation: &str, offset: Option<u64>| CallRecord {
            operation: operation.to_owned().into(),
            began: 5_000_000,
            took: 2_000,
            inode: 77,
            key: Some("data/a/b".to_owned()),
            handle: Some(900),
            offset,
            len: offset.map(|_| 4096),
            size: Some(10_000),
            thread: 4711,
            ..CallRecord::default()
        };
        let opened = CallRecord {
            flags: Some(libc::O_RDWR.cast_unsigned()),
            ..call("open", None)
        };
        let grown = CallRecord {
            size: Some(20_000),
            ..call("read", Some(8192))
        };
        let found = lines(&[
            opened,
            call("getattr", None),
            call("read", Some(4096)),
            grown,
            CallRecord {
                size: None,
                ..call("release", None)
            },
        ]);
        let expected = [
            json!({"file": 1, "name": "a/b", "size": 10_000}),
            json!({"op": "open", "file": 1, "at": 5000, "took": 2, "thread": 1, "handle": 1, "mode": "rw"}),
            json!({"op": "read", "file": 1, "at": 5000, "took": 2, "thread": 1, "handle": 1, "offset": 4096, "len": 4096}),
            json!({"file": 1, "size": 20_000}),
            json!({"op": "read", "file": 1, "at": 5000, "took": 2, "thread": 1, "handle": 1, "offset": 8192, "len": 4096}),
            json!({"op": "close", "file": 1, "at": 5000, "took": 2, "thread": 1, "handle": 1}),
        ];
        assert_eq!(found[0]["format"], FORMAT);
        assert_eq!(found[0]["version"], 1);
        assert_eq!(found[1..=expected.len()], expected);
        assert_eq!(found.last().unwrap()["end"]["dropped"], 0);
    }
}
