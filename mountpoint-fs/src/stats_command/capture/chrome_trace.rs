//! Records as a trace of the Trace Event Format, which Perfetto and Chrome open.
//!
//! A process of the trace is a program, or the mount itself; a track has bars that do not
//! overlap. A request of the kernel is a bar with its waits inside, a request to S3 is a bar
//! among those of the mount, and an arrow leads from the first to the second. Times are
//! microseconds.

use std::collections::HashMap;
use std::io;

use serde_json::{Map, Value, json};

use super::output::{CaptureEnd, CaptureOutput};
use super::tracks::{TrackGroup, Tracks};
use crate::metrics::capture::{AttemptRecord, CallRecord, CaptureRecord, LevelRecord, WaitRecord};
use crate::mount::{MountDescription, safe_line};

/// A trace that is being written.
#[derive(Debug)]
pub(super) struct ChromeTrace {
    mount: MountDescription,
    tracks: Tracks,
    /// Numbers of processes in the trace, by the processes of the system.
    processes: HashMap<u32, u64>,
    has_begun: bool,
}

/// A bar.
#[derive(Debug)]
struct Bar<'a> {
    name: &'a str,
    category: &'static str,
    began: u64,
    end: u64,
    place: BarPlace,
    /// Set if arrows begin (`flow_out`) or end (`flow_in`) here: the request of the kernel.
    arrow: Option<(u64, &'static str)>,
}

/// Where a bar is shown.
#[derive(Clone, Copy, Debug)]
struct BarPlace {
    process: u64,
    track: u64,
}

impl BarPlace {
    fn bar<'a>(self, name: &'a str, category: &'static str, (began, end): (u64, u64)) -> Bar<'a> {
        Bar {
            name,
            category,
            began,
            end,
            place: self,
            arrow: None,
        }
    }
}

impl ChromeTrace {
    /// A trace of `mount`.
    pub(super) fn new(mount: &MountDescription) -> Self {
        Self {
            mount: mount.clone(),
            tracks: Tracks::default(),
            processes: HashMap::new(),
            has_begun: false,
        }
    }

    fn begin(&mut self, to: &mut CaptureOutput) -> io::Result<()> {
        if !std::mem::replace(&mut self.has_begun, true) {
            to.write(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n")?;
            let title = format!("mount-s3 {} ({})", self.mount.directory, self.mount.pid);
            to.write(process_name(THE_MOUNT, &title).to_string().as_bytes())?;
        }
        Ok(())
    }

    fn event(to: &mut CaptureOutput, event: &Value) -> io::Result<()> {
        to.write(b",\n")?;
        to.write(event.to_string().as_bytes())
    }

    fn call(&mut self, call: &CallRecord, to: &mut CaptureOutput) -> io::Result<()> {
        let known = self.processes.len() as u64;
        // The first one is the mount.
        let process = *self.processes.entry(call.process).or_insert(known + 2);
        if process == known + 2 {
            let title = match call.program.as_str() {
                "" => "(unknown)".to_owned(),
                program => format!("{program} ({})", call.process),
            };
            Self::event(to, &process_name(process, &title))?;
        }
        let title = match call.thread {
            0 => "(unknown thread)".to_owned(),
            thread => format!("thread {thread}"),
        };
        let end = call.began.saturating_add(call.took);
        let times = (call.began, end);
        let place = self.place(process, title, times, to)?;
        let name = call.operation.to_uppercase();
        let mut whole = place.bar(&name, "kernel", times);
        whole.arrow = call.causes.then_some((call.call, "flow_out"));
        Self::event(to, &whole.event(arguments_of_call(call)))?;
        for (cause, began, end) in waits_inside(call, end) {
            let title = cause.replace('_', " ");
            let wait = place.bar(&title, "wait", (began, end));
            Self::event(to, &wait.event(Map::new()))?;
        }
        Ok(())
    }

    fn attempt(&mut self, attempt: &AttemptRecord, to: &mut CaptureOutput) -> io::Result<()> {
        let (began, end) = (attempt.began, attempt.began.saturating_add(attempt.took));
        let title = attempt.operation.to_string();
        let place = self.place(THE_MOUNT, title, (began, end), to)?;
        let mut whole = place.bar(&attempt.operation, "s3", (began, end));
        whole.arrow = (attempt.call != 0).then_some((attempt.call, "flow_in"));
        Self::event(to, &whole.event(arguments_of_attempt(attempt)))?;
        if let Some(first) = attempt.first_byte {
            let first = began.saturating_add(first).min(end);
            for (name, times) in [("first byte", (began, first)), ("body", (first, end))] {
                let phase = place.bar(name, "s3", times);
                Self::event(to, &phase.event(Map::new()))?;
            }
        }
        Ok(())
    }

    fn level(level: &LevelRecord, to: &mut CaptureOutput) -> io::Result<()> {
        let event = json!({
            "name": level.name, "ph": "C", "ts": micros(level.at), "pid": THE_MOUNT,
            "args": { "value": level.value },
        });
        Self::event(to, &event)
    }

    /// Where a bar is shown.
    fn place(
        &mut self,
        process: u64,
        title: String,
        (began, end): (u64, u64),
        to: &mut CaptureOutput,
    ) -> io::Result<BarPlace> {
        let group = TrackGroup { process, title };
        let placed = self.tracks.place(&group, began, end);
        match placed.is_new {
            None => {}
            Some(1) => {
                let name = track_name(process, placed.number, &group.title);
                Self::event(to, &name)?;
            }
            Some(number) => {
                let title = format!("{} +{}", group.title, number - 1);
                let name = track_name(process, placed.number, &title);
                Self::event(to, &name)?;
            }
        }
        Ok(BarPlace {
            process,
            track: placed.number,
        })
    }
}

impl ChromeTrace {
    /// Writes a record.
    pub(super) fn add(&mut self, record: &CaptureRecord, to: &mut CaptureOutput) -> io::Result<()> {
        self.begin(to)?;
        match record {
            CaptureRecord::Call(call) => self.call(call, to),
            CaptureRecord::Attempt(attempt) => self.attempt(attempt, to),
            CaptureRecord::Level(level) => Self::level(level, to),
        }
    }

    /// Writes the end of the file.
    pub(super) fn end(&mut self, end: CaptureEnd, to: &mut CaptureOutput) -> io::Result<()> {
        self.begin(to)?;
        let about = json!({
            "program": "mount-s3",
            "version": self.mount.version,
            "bucket": self.mount.bucket,
            "prefix": self.mount.prefix,
            "directory": self.mount.directory,
            "seconds": end.seconds,
            "dropped": end.dropped,
            "left_out": end.left_out,
        });
        to.write(format!("\n],\"otherData\":{about}}}\n").as_bytes())
    }
}

impl Bar<'_> {
    fn event(&self, arguments: Map<String, Value>) -> Value {
        let mut event = json!({
            "name": self.name, "cat": self.category, "ph": "X", "ts": micros(self.began),
            "dur": micros(self.end - self.began), "pid": self.place.process, "tid": self.place.track,
            "args": arguments,
        });
        if let Some((call, direction)) = self.arrow {
            event["bind_id"] = call.into();
            event[direction] = true.into();
        }
        event
    }
}

/// The waits of a call as bars that do not overlap, all within it. Time without a recorded wait
/// gets the cause that has most of the time that is left.
fn waits_inside(call: &CallRecord, call_end: u64) -> Vec<(&str, u64, u64)> {
    let mut waits: Vec<_> = call.waits.iter().collect();
    waits.sort_by_key(|wait| wait.began);
    let mut rest: HashMap<&str, u64> = HashMap::new();
    for WaitRecord { cause, took, .. } in &call.waited {
        rest.insert(cause, *took);
    }
    let mut bars = Vec::new();
    let mut since = call.began;
    for wait in waits {
        let began = wait.began.clamp(since, call_end);
        let end = wait.began.saturating_add(wait.took).clamp(began, call_end);
        if let Some(rest) = rest.get_mut(&*wait.cause) {
            *rest = rest.saturating_sub(wait.took);
        }
        bars.push((&*wait.cause, began, end));
        since = end;
    }
    let of_gaps = rest.into_iter().max_by_key(|(_, took)| *took);
    if let Some((cause, _)) = of_gaps.filter(|(_, took)| *took >= GAP_MIN) {
        let ends = bars.iter().map(|(_, _, end)| *end);
        let begins: Vec<_> = std::iter::once(call.began).chain(ends).collect();
        let next = bars.iter().map(|(_, began, _)| *began);
        let ends: Vec<_> = next.chain([call_end]).collect();
        let gaps = begins.into_iter().zip(ends);
        bars.extend(
            gaps.filter(|(began, end)| end.saturating_sub(*began) >= GAP_MIN)
                .map(|(began, end)| (cause, began, end)),
        );
    }
    bars.retain(|(_, began, end)| end > began);
    bars
}

fn arguments_of_call(call: &CallRecord) -> Map<String, Value> {
    let mut waited = Map::new();
    for wait in &call.waited {
        waited.insert(wait.cause.to_string(), micros(wait.took).into());
    }
    present([
        ("key", call.key.clone().map(Value::from)),
        ("inode", Some(call.inode.into())),
        ("found_inode", call.found.map(Value::from)),
        ("handle", call.handle.map(Value::from)),
        ("offset", call.offset.map(Value::from)),
        ("length", call.len.map(Value::from)),
        ("bytes", call.done.map(Value::from)),
        ("file_size", call.size.map(Value::from)),
        ("errno", call.errno.clone().map(Value::from)),
        ("program", Some(call.program.clone().into())),
        ("process", Some(call.process.into())),
        ("thread", Some(call.thread.into())),
        ("request", Some(call.call.into())),
        ("waited_us", (!waited.is_empty()).then(|| waited.into())),
        ("unfinished", call.is_unfinished.then(|| true.into())),
    ])
}

fn arguments_of_attempt(attempt: &AttemptRecord) -> Map<String, Value> {
    let failure = attempt.failure.as_deref().map(safe_line);
    present([
        ("key", Some(attempt.target.clone().into())),
        ("range", attempt.range.clone().map(Value::from)),
        ("status", attempt.status.map(Value::from)),
        ("request_id", attempt.request_id.clone().map(Value::from)),
        ("attempt", Some(attempt.number.into())),
        ("failure", failure.map(Value::from)),
        ("bytes_received", Some(attempt.received.into())),
        ("bytes_sent", Some(attempt.sent.into())),
        (
            "caused_by",
            (attempt.call != 0).then(|| attempt.call.into()),
        ),
    ])
}

fn present<const N: usize>(fields: [(&str, Option<Value>); N]) -> Map<String, Value> {
    let present = fields.into_iter();
    let present = present.filter_map(|(name, value)| Some((name.to_owned(), value?)));
    present.collect()
}

fn process_name(process: u64, name: &str) -> Value {
    json!({ "name": "process_name", "ph": "M", "pid": process, "args": { "name": name } })
}

fn track_name(process: u64, track: u64, name: &str) -> Value {
    json!({
        "name": "thread_name", "ph": "M", "pid": process, "tid": track, "args": { "name": name },
    })
}

fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1000.0
}

/// Number of the mount among the processes of a trace.
const THE_MOUNT: u64 = 1;
/// Shortest gap between two waits, in nanoseconds, that counts as a wait.
const GAP_MIN: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(cause: &str, began: u64, took: u64) -> WaitRecord {
        WaitRecord {
            cause: cause.to_owned().into(),
            began,
            took,
        }
    }

    #[test]
    fn waits_lie_within_their_call_and_beside_each_other() {
        let check = |waits: &[WaitRecord], waited: &[WaitRecord], expected: &[(&str, u64, u64)]| {
            let call = CallRecord {
                began: 100_000,
                took: 100_000,
                waits: waits.to_vec(),
                waited: waited.to_vec(),
                ..CallRecord::default()
            };
            assert_eq!(waits_inside(&call, 200_000), expected);
        };
        check(&[], &[], &[]);
        // Nothing was recorded one by one: the whole is of the greatest cause.
        let names = wait("names", 0, 99_000);
        check(&[], &[names], &[("names", 100_000, 200_000)]);
        // One begins before the call and one ends after it; they overlap.
        check(
            &[
                wait("body", 150_000, 90_000),
                wait("first_byte", 90_000, 70_000),
            ],
            &[],
            &[("first_byte", 100_000, 160_000), ("body", 160_000, 200_000)],
        );
        // The gap is the rest; the reply is recorded already.
        check(
            &[
                wait("memory", 110_000, 30_000),
                wait("reply", 195_000, 5_000),
            ],
            &[
                wait("memory", 0, 30_000),
                wait("change", 0, 55_000),
                wait("reply", 0, 5_000),
            ],
            &[
                ("memory", 110_000, 140_000),
                ("reply", 195_000, 200_000),
                ("change", 100_000, 110_000),
                ("change", 140_000, 195_000),
            ],
        );
    }

    fn written(records: &[CaptureRecord], end: CaptureEnd) -> Value {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        let mut output = CaptureOutput::create(&path).unwrap();
        let mut trace = ChromeTrace::new(&MountDescription::default());
        for record in records {
            trace.add(record, &mut output).unwrap();
        }
        trace.end(end, &mut output).unwrap();
        output.flush().unwrap();
        let text = std::fs::read(&path).unwrap();
        assert_eq!(output.written(), text.len() as u64);
        serde_json::from_slice(&text).unwrap()
    }

    #[test]
    fn requests_are_bars_and_arrows() {
        let call = CallRecord {
            call: 8,
            operation: "read".into(),
            began: 1_000,
            took: 50_000,
            key: Some("a\"b".to_owned()),
            offset: Some(0),
            thread: 12,
            process: 11,
            program: "cat".to_owned(),
            errno: Some("EIO".to_owned()),
            causes: true,
            ..CallRecord::default()
        };
        let attempt = AttemptRecord {
            operation: "GetObject".into(),
            target: "s3://bucket/a".to_owned(),
            began: 2_500,
            took: 9_000,
            first_byte: Some(4_000),
            status: Some(206),
            request_id: Some("id".to_owned()),
            failure: Some("aws_secret_access_key = hidden".to_owned()),
            number: 2,
            call: 8,
            ..AttemptRecord::default()
        };
        let end = CaptureEnd {
            seconds: 1.5,
            dropped: 3,
            left_out: 4,
        };
        let records = [
            CaptureRecord::Attempt(Box::new(attempt)),
            CaptureRecord::Call(Box::new(call)),
        ];
        let trace = written(&records, end);
        assert_eq!(trace["otherData"]["dropped"], 3);
        assert!(!trace.to_string().contains("hidden"), "{trace}");
        let events = trace["traceEvents"].as_array().unwrap();
        let of = |phase: &str, name: &str| {
            let found = |event: &&Value| event["ph"] == phase && event["name"] == name;
            events.iter().find(found).unwrap()
        };
        let (read, get) = (of("X", "READ"), of("X", "GetObject"));
        assert_eq!((&read["ts"], &read["dur"]), (&json!(1.0), &json!(50.0)));
        assert_eq!(read["args"]["key"], "a\"b");
        assert_eq!(read["args"]["errno"], "EIO");
        assert_eq!(get["args"]["request_id"], "id");
        assert_eq!(get["args"]["attempt"], 2);
        assert_eq!(get["args"]["caused_by"], read["args"]["request"]);
        assert_eq!(
            (&of("X", "first byte")["dur"], &of("X", "body")["dur"]),
            (&json!(4.0), &json!(5.0))
        );
        assert_eq!(
            (&read["bind_id"], &read["flow_out"]),
            (&json!(8), &json!(true))
        );
        assert_eq!(
            (&get["bind_id"], &get["flow_in"]),
            (&json!(8), &json!(true))
        );
        assert_eq!(of("M", "thread_name")["args"]["name"], "GetObject");
    }

    #[test]
    fn nothing_is_a_whole_file_too() {
        let trace = written(&[], CaptureEnd::default());
        assert_eq!(trace["traceEvents"].as_array().unwrap().len(), 1);
    }
}
