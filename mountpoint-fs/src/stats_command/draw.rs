//! The view of one mount, and of many. Pure: lines of text, as wide as the terminal at most.

use std::collections::VecDeque;

use super::activity::{Activity, ProgramRow, Row};
use super::text::{byte_rate, bytes, count, dollars, share, sparkline, time, uptime};
use crate::metrics::names::*;

/// Rates of a mount at the last looks.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    read: VecDeque<f64>,
    written: VecDeque<f64>,
    requests: VecDeque<f64>,
}

impl History {
    /// Adds the rates of a look.
    pub(super) fn add(&mut self, activity: &Activity<'_>) {
        let rates = [
            (&mut self.read, activity.rate(FUSE_BYTES, &READ)),
            (&mut self.written, activity.rate(FUSE_BYTES, &WRITTEN)),
            (&mut self.requests, activity.rate(S3_REQUESTS, &[])),
        ];
        for (values, rate) in rates {
            values.push_back(rate);
            if values.len() > HISTORY_MAX {
                values.pop_front();
            }
        }
    }
}

/// Everything about one mount.
pub(super) fn one(activity: &Activity<'_>, history: &History, width: usize) -> Vec<String> {
    let mut lines = vec![title(activity)];
    lines.extend(throughput(activity, history));
    lines.push(String::new());
    lines.extend(table(
        "operation",
        activity.rows("fuse_request", FUSE_LATENCY, FUSE_ERRORS),
        activity,
    ));
    lines.push(String::new());
    lines.extend(table(
        "S3 request",
        activity.rows("s3_request", S3_LATENCY, S3_ERRORS),
        activity,
    ));
    lines.push(requests(activity));
    lines.push(String::new());
    lines.extend(resources(activity));
    lines.push(String::new());
    lines.extend(waits(activity));
    lines.push(String::new());
    lines.extend(programs(activity));
    cut(lines, width)
}

/// A line for each mount.
pub(super) fn many(activities: &[Activity<'_>], width: usize) -> Vec<String> {
    let head = format!(
        "{:>12} {:>12} {:>8} {:>8} {:>7} {:<12} {}",
        "read", "written", "ops/s", "S3/s", "errors", "waits for", "directory: bucket"
    );
    let line = |activity: &Activity<'_>| {
        let operations: u64 = activity
            .rows("fuse_request", FUSE_LATENCY, FUSE_ERRORS)
            .iter()
            .map(|row| row.latency.count())
            .sum();
        let mount = &activity.document.mount;
        format!(
            "{:>12} {:>12} {:>8} {:>8} {:>7} {:<12} {}: {}/{}",
            byte_rate(activity.rate(FUSE_BYTES, &READ)),
            byte_rate(activity.rate(FUSE_BYTES, &WRITTEN)),
            count(activity.per_second(operations)),
            count(activity.rate(S3_REQUESTS, &[])),
            count(activity.grown(S3_ERRORS, &[])),
            activity.verdict().name(),
            mount.directory,
            mount.bucket,
            mount.prefix
        )
    };
    cut(
        std::iter::once(head)
            .chain(activities.iter().map(line))
            .collect(),
        width,
    )
}

fn title(activity: &Activity<'_>) -> String {
    let document = activity.document;
    let mount = &document.mount;
    format!(
        "{}/{} at {}   process {}   up {}",
        mount.bucket,
        mount.prefix,
        mount.directory,
        mount.pid,
        uptime(document.uptime_ms)
    )
}

fn throughput(activity: &Activity<'_>, history: &History) -> Vec<String> {
    let line = |name: &str, labels: &[(&str, &str)], values: &VecDeque<f64>| {
        format!(
            "{name:<12}{:>14}   total {:>11}   {}",
            byte_rate(activity.rate(FUSE_BYTES, labels)),
            bytes(activity.total(FUSE_BYTES, labels)),
            sparkline(values.iter().copied(), HISTORY_MAX)
        )
    };
    vec![
        line("read", &READ, &history.read),
        line("written", &WRITTEN, &history.written),
        format!(
            "{:<12}{:>14}   total {:>11}   {}",
            "S3 requests",
            format!("{}/s", count(activity.rate(S3_REQUESTS, &[]))),
            count(activity.total(S3_REQUESTS, &[])),
            sparkline(history.requests.iter().copied(), HISTORY_MAX)
        ),
    ]
}

/// Kinds of operations, the most frequent ones.
fn table(name: &str, mut rows: Vec<Row>, activity: &Activity<'_>) -> Vec<String> {
    rows.truncate(ROWS_MAX);
    let head = format!(
        "{name:<24}{:>9}{:>10}{:>9}{:>9}{:>9}",
        "/s", "number", "median", "p99", "errors"
    );
    let line = |row: Row| {
        format!(
            "  {:<22}{:>9}{:>10}{:>9}{:>9}{:>9}",
            row.name,
            count(activity.per_second(row.latency.count())),
            row.latency.count(),
            time(row.latency.quantile(0.5)),
            time(row.latency.quantile(0.99)),
            count(row.errors)
        )
    };
    std::iter::once(head)
        .chain(rows.into_iter().map(line))
        .collect()
}

fn requests(activity: &Activity<'_>) -> String {
    let grown = |metric, labels: &[(&str, &str)]| count(activity.grown(metric, labels));
    format!(
        "  in flight {}   retries {}   slow down {}   hedges {}, of which faster {}   given up {}",
        count(activity.total(S3_IN_FLIGHT, &[])),
        grown(S3_RETRIES, &[]),
        grown(S3_THROTTLES, &[]),
        grown(HEDGES, &[("result", "sent")]),
        grown(HEDGES, &[("result", "won")]),
        grown(S3_CANCELED, &[])
    )
}

/// Memory, caches, uploads, files.
fn resources(activity: &Activity<'_>) -> Vec<String> {
    let total = |metric, labels: &[(&str, &str)]| activity.total(metric, labels);
    let area = |area| bytes(total(MEMORY_RESERVED, &[("area", area)]));
    let mut lines = vec![
        format!(
            "memory      {} of {}: reads {}, read-ahead {}, uploads {}; process {}",
            bytes(total(MEMORY_RESERVED, &[])),
            bytes(total(MEMORY_LIMIT, &[])),
            area("read"),
            area("prefetch"),
            area("upload"),
            bytes(total(PROCESS_MEMORY, &[]))
        ),
        format!(
            "uploads     {} in progress, {} not stored yet, journal {}",
            count(total(UPLOADS, &[])),
            bytes(total(WRITE_HELD, &[])),
            count(total(JOURNAL, &[]))
        ),
        format!(
            "files       {} open, {} inodes, {} streams read ahead, {} requests of the kernel in progress",
            count(total(OPEN_FILES, &[("type", "file")])),
            count(total(INODES, &[])),
            count(total(STREAMS, &[])),
            count(total(FUSE_WAITING, &[]))
        ),
    ];
    let hits = activity.grown(CACHE_READS, &[("result", "hit")]);
    let lookups = activity.grown(CACHE_READS, &[]);
    if total(CACHE_READS, &[]) + total(CACHE_SIZE, &[]) > 0.0 {
        lines.push(format!(
            "cache       {} hits, {} on the disk; read {}, stored {}, dropped {}, errors {}",
            share(hits, lookups),
            bytes(total(CACHE_SIZE, &[])),
            byte_rate(activity.rate(CACHE_BYTES, &[("type", "get")])),
            byte_rate(activity.rate(CACHE_BYTES, &[("type", "put")])),
            count(activity.grown(CACHE_DROPPED, &[])),
            count(activity.grown(CACHE_ERRORS, &[]))
        ));
    }
    lines
}

/// What the mount has cost since it began, and which programs caused that.
fn programs(activity: &Activity<'_>) -> Vec<String> {
    let prices = activity.document.mount.prices.as_deref();
    let cost = |what| dollars(activity.total(COST, &[("for", what)]));
    let mut lines = vec![match prices {
        Some(prices) => format!(
            "cost        {} so far: PUT and LIST {}, GET {}, DELETE {}, sent {}, received {}; prices: {prices}",
            dollars(activity.total(COST, &[])),
            cost("put"),
            cost("get"),
            cost("delete"),
            cost("sent"),
            cost("received")
        ),
        None => {
            "cost        not known: there are no prices of this store (--price-file)".to_owned()
        }
    }];
    let rows = activity.programs();
    if rows.is_empty() {
        return lines;
    }
    lines.push(format!(
        "{:<24}{:>9}{:>12}{:>12}{:>12}",
        "program, so far", "requests", "sent", "received", "cost"
    ));
    let cost = |row: &ProgramRow| match prices {
        Some(_) => dollars(row.cost),
        None => "-".to_owned(),
    };
    lines.extend(rows.iter().take(PROGRAMS_MAX).map(|row| {
        format!(
            "  {:<22}{:>9}{:>12}{:>12}{:>12}",
            row.name,
            count(row.requests),
            bytes(row.sent),
            bytes(row.received),
            cost(row)
        )
    }));
    lines
}

/// What requests of the kernel wait for, with the share of each cause.
fn waits(activity: &Activity<'_>) -> Vec<String> {
    let waits = activity.waits();
    let all: f64 = waits.iter().map(|(_, seconds)| seconds).sum();
    let verdict = activity.verdict();
    let mut lines = vec![format!(
        "waits for   {}: {}",
        verdict.name(),
        verdict.meaning()
    )];
    let longest = waits.first().map_or(0.0, |(_, seconds)| *seconds);
    for (cause, seconds) in waits {
        let bars = (1..=BAR_WIDTH)
            .take_while(|bar| f64::from(*bar) / f64::from(BAR_WIDTH) <= seconds / longest);
        lines.push(format!(
            "  {:<12}{:>6}{:>9}  {}",
            cause.name(),
            share(seconds, all),
            time(seconds * 1e6),
            "█".repeat(bars.count())
        ));
    }
    lines
}

/// Lines without what a terminal would obey, and not wider than it.
fn cut(lines: Vec<String>, width: usize) -> Vec<String> {
    let safe = |it: char| if it.is_control() { '?' } else { it };
    let cut = |line: String| line.chars().map(safe).take(width).collect::<String>();
    lines
        .into_iter()
        .map(|line| cut(line).trim_end().to_owned())
        .collect()
}

const READ: [(&str, &str); 1] = [("type", "read")];
const WRITTEN: [(&str, &str); 1] = [("type", "write")];

/// Looks that a sparkline shows.
const HISTORY_MAX: usize = 40;
/// Kinds of operations that are shown.
const ROWS_MAX: usize = 8;
/// Programs that are shown.
const PROGRAMS_MAX: usize = 10;
/// Width of the longest bar.
const BAR_WIDTH: u8 = 30;

#[cfg(test)]
mod tests {
    use super::super::activity::tests::document;
    use super::*;
    use crate::metrics::{HistogramCounts, SeriesValue};
    use crate::mount::StatsDocument;

    fn busy() -> StatsDocument {
        let latency = HistogramCounts {
            buckets: [vec![0; 40], vec![20]].concat(),
            sum: 20_000,
        };
        let (read, get) = ([("fuse_request", "read")], [("s3_request", "GetObject")]);
        let wait = |cause| [("fuse_request", "read"), ("cause", cause)];
        document(
            10,
            &[
                (FUSE_BYTES, &READ, SeriesValue::Counter(10 << 20)),
                (FUSE_LATENCY, &read, SeriesValue::Histogram(latency.clone())),
                (S3_LATENCY, &get, SeriesValue::Histogram(latency)),
                (S3_REQUESTS, &get, SeriesValue::Counter(20)),
                (S3_ERRORS, &get, SeriesValue::Counter(2)),
                (
                    FUSE_WAIT_TIME,
                    &wait("first_byte"),
                    SeriesValue::Counter(9_000_000),
                ),
                (
                    FUSE_WAIT_TIME,
                    &wait("body"),
                    SeriesValue::Counter(1_000_000),
                ),
                (
                    PROGRAM_REQUESTS,
                    &[("program", "cat")],
                    SeriesValue::Counter(3),
                ),
                (
                    PROGRAM_REQUESTS,
                    &[("program", "dd")],
                    SeriesValue::Counter(17),
                ),
                (PROGRAM_COST, &[("program", "dd")], SeriesValue::Gauge(0.25)),
                (COST, &[("for", "get")], SeriesValue::Gauge(0.25)),
                (MEMORY_LIMIT, &[], SeriesValue::Gauge(1_073_741_824.0)),
                (CACHE_READS, &[("result", "hit")], SeriesValue::Counter(3)),
                (CACHE_READS, &[("result", "miss")], SeriesValue::Counter(1)),
            ],
        )
    }

    #[test]
    fn one_mount_is_shown_with_its_numbers() {
        let mut document = busy();
        document.mount.prices = Some("a list".to_owned());
        let activity = Activity::new(&document, None);
        let mut history = History::default();
        history.add(&activity);
        let text = one(&activity, &history, 120).join("\n");
        for part in [
            "bucket/data/ at /mnt   process 7   up 10 s",
            "read            1.00 MiB/s   total   10.00 MiB   █",
            "  read                          2        20   1.0 ms   1.0 ms        0",
            "  GetObject                     2        20   1.0 ms   1.0 ms        2",
            "memory      0 B of 1.00 GiB:",
            "cache       75 % hits",
            "waits for   first_byte: the first byte of S3's answers",
            "  first_byte    90 %    9.0 s  ██████████████████████████████",
            "  body          10 %    1.0 s  ███",
            "cost        $0.2500 so far: PUT and LIST $0, GET $0.2500, DELETE $0,",
            "; prices: a list\nprogram, so far ",
            "  dd                           17         0 B         0 B     $0.2500\n  cat ",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
    }

    #[test]
    fn many_mounts_have_a_line_each() {
        let (busy, idle) = (busy(), document(10, &[]));
        let activities = [Activity::new(&busy, None), Activity::new(&idle, None)];
        let lines = many(&activities, 120);
        assert_eq!(lines.len(), 3);
        assert!(
            lines[1].ends_with("2 first_byte   /mnt: bucket/data/"),
            "{lines:?}"
        );
        assert!(
            lines[2].contains("0 B/s") && lines[2].contains(" idle "),
            "{lines:?}"
        );
    }

    #[test]
    fn lines_are_cut_and_safe() {
        let mut document = busy();
        document.mount.directory = "/a\x1b[2J\nb".to_owned();
        let activity = Activity::new(&document, None);
        for width in [0, 1, 40] {
            for line in one(&activity, &History::default(), width) {
                assert!(line.chars().count() <= width, "{line}");
                assert!(!line.chars().any(char::is_control), "{line:?}");
            }
        }
    }
}
