//! The view of one mount.

use std::collections::VecDeque;

use ratatui::layout::HorizontalAlignment::{Left, Right};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::symbols::line;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, LineGauge, Row, Sparkline, Widget as _};

use super::text::{byte_rate, bytes, count, share, time, uptime, whole, wrapped};
use super::{
    ALARM, BAR, LABEL_WIDTH, NOTICE, Page, TITLE, add_table, add_text, failures, label, number,
    safe,
};
use crate::metrics::names::*;
use crate::stats_command::activity::{Activity, OperationRow, Verdict, Wait};

/// Rates of a mount at the last looks.
#[derive(Clone, Debug, Default)]
pub(in crate::stats_command) struct History {
    read: VecDeque<f64>,
    written: VecDeque<f64>,
    requests: VecDeque<f64>,
}

impl History {
    /// Adds the rates of a look.
    pub(in crate::stats_command) fn add(&mut self, activity: &Activity<'_>) {
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
pub(in crate::stats_command) fn one(
    activity: &Activity<'_>,
    history: &History,
    width: usize,
) -> Page {
    let mut page = Page::new(width);
    title(&mut page, activity);
    throughput(&mut page, activity, history);
    page.gap();
    waits(&mut page, activity);
    page.gap();
    let rows = activity.rows("fuse_request", FUSE_LATENCY, FUSE_ERRORS);
    operations(&mut page, "operation", rows, activity);
    page.gap();
    let rows = activity.rows("s3_request", S3_LATENCY, S3_ERRORS);
    operations(&mut page, "S3 request", rows, activity);
    requests(&mut page, activity);
    page.gap();
    memory(&mut page, activity);
    resources(&mut page, activity);
    page.gap();
    programs(&mut page, activity);
    page
}

fn title(page: &mut Page, activity: &Activity<'_>) {
    let document = activity.document;
    let mount = &document.mount;
    let place = format!("{}/{} at {}", mount.bucket, mount.prefix, mount.directory);
    let (place, uptime) = (safe(&place), uptime(document.uptime_ms));
    let text = format!("{place}   process {}   up {uptime}", mount.pid);
    for row in wrapped(&text, page.width()) {
        page.line(Span::styled(row, TITLE));
    }
}

fn throughput(page: &mut Page, activity: &Activity<'_>, history: &History) {
    let of_bytes = |labels: &[(&str, &str)]| {
        (
            byte_rate(activity.rate(FUSE_BYTES, labels)),
            bytes(activity.total(FUSE_BYTES, labels)),
        )
    };
    let of_requests = (
        format!("{}/s", count(activity.rate(S3_REQUESTS, &[]))),
        count(activity.total(S3_REQUESTS, &[])),
    );
    for (name, (rate, total), values) in [
        ("read", of_bytes(&READ), &history.read),
        ("written", of_bytes(&WRITTEN), &history.written),
        ("S3 requests", of_requests, &history.requests),
    ] {
        let text = Line::from(vec![
            label(name),
            Span::raw(format!("{rate:>14}   total {total:>11}   ")),
        ]);
        page.add(1, |area, buffer| {
            let columns = [Constraint::Length(THROUGHPUT_WIDTH), Constraint::Fill(1)];
            let [left, right] = Layout::horizontal(columns).areas(area);
            text.render(left, buffer);
            let old = values.len().saturating_sub(right.width.into());
            let last = values.iter().skip(old).map(|value| whole(*value));
            Sparkline::default()
                .data(last)
                .style(BAR)
                .render(right, buffer);
        });
    }
}

/// Kinds of operations, the most frequent ones.
fn operations(page: &mut Page, name: &str, mut rows: Vec<OperationRow>, activity: &Activity<'_>) {
    rows.truncate(ROWS_MAX);
    let row = |row: OperationRow| {
        Row::new([
            Cell::from(format!("  {}", safe(&row.name))),
            number(count(activity.per_second(row.latency.count()))),
            number(row.latency.count().to_string()),
            number(time(row.latency.quantile(0.5))),
            number(time(row.latency.quantile(0.99))),
            failures(row.errors),
        ])
    };
    let columns = [
        (name, 26, Left),
        ("/s", 8, Right),
        ("number", 10, Right),
        ("median", 8, Right),
        ("p99", 8, Right),
        ("errors", 8, Right),
    ];
    add_table(page, &columns, rows.into_iter().map(row).collect());
}

fn requests(page: &mut Page, activity: &Activity<'_>) {
    let grown = |metric, labels: &[(&str, &str)]| count(activity.grown(metric, labels));
    let text = format!(
        "in flight {}, retries {}, slow down {}, hedges {}, of which faster {}, given up {}",
        count(activity.total(S3_IN_FLIGHT, &[])),
        grown(S3_RETRIES, &[]),
        grown(S3_THROTTLES, &[]),
        grown(HEDGES, &[("result", "sent")]),
        grown(HEDGES, &[("result", "won")]),
        grown(S3_CANCELED, &[])
    );
    add_text(page, "  attempts", &text, Style::new());
}

/// The share of memory that is reserved, as a bar, and its uses.
fn memory(page: &mut Page, activity: &Activity<'_>) {
    let total = |metric, labels: &[(&str, &str)]| activity.total(metric, labels);
    let area = |area| bytes(total(MEMORY_RESERVED, &[("area", area)]));
    let (reserved, limit) = (total(MEMORY_RESERVED, &[]), total(MEMORY_LIMIT, &[]));
    let text = format!(
        "{} of {}: reads {}, read-ahead {}, uploads {}; process {}",
        bytes(reserved),
        bytes(limit),
        area("read"),
        area("prefetch"),
        area("upload"),
        bytes(total(PROCESS_MEMORY, &[]))
    );
    add_text(page, "memory", &text, Style::new());
    let share = if limit > 0.0 { reserved / limit } else { 0.0 };
    let bar = LineGauge::default()
        .ratio(share.clamp(0.0, 1.0))
        .label(" ".repeat(usize::from(LABEL_WIDTH) - 1))
        .filled_symbol(line::THICK_HORIZONTAL)
        .unfilled_symbol(line::HORIZONTAL)
        .filled_style(BAR);
    page.add(1, |area, buffer| {
        let width = area.width.min(LABEL_WIDTH + u16::from(BAR_WIDTH));
        bar.render(Rect { width, ..area }, buffer);
    });
}

/// Uploads, files, the cache.
fn resources(page: &mut Page, activity: &Activity<'_>) {
    let total = |metric, labels: &[(&str, &str)]| activity.total(metric, labels);
    let mut add = |name, text: String| add_text(page, name, &text, Style::new());
    add(
        "uploads",
        format!(
            "{} in progress, {} not stored yet, journal {}",
            count(total(UPLOADS, &[])),
            bytes(total(WRITE_HELD, &[])),
            count(total(JOURNAL, &[]))
        ),
    );
    add(
        "files",
        format!(
            "{} open, {} inodes, {} streams read ahead, {} requests of the kernel in progress",
            count(total(OPEN_FILES, &[("type", "file")])),
            count(total(INODES, &[])),
            count(total(STREAMS, &[])),
            count(total(FUSE_WAITING, &[]))
        ),
    );
    if total(CACHE_READS, &[]) + total(CACHE_SIZE, &[]) > 0.0 {
        let hits = activity.grown(CACHE_READS, &[("result", "hit")]);
        let lookups = activity.grown(CACHE_READS, &[]);
        add(
            "cache",
            format!(
                "{} hits, {} on the disk; read {}, stored {}, dropped {}, errors {}",
                share(hits, lookups),
                bytes(total(CACHE_SIZE, &[])),
                byte_rate(activity.rate(CACHE_BYTES, &[("type", "get")])),
                byte_rate(activity.rate(CACHE_BYTES, &[("type", "put")])),
                count(activity.grown(CACHE_DROPPED, &[])),
                count(activity.grown(CACHE_ERRORS, &[]))
            ),
        );
    }
    let panics = total(PANICS, &[]);
    if panics > 0.0 {
        let text = format!(
            "{} of this program's threads and tasks: the log has a line for each",
            count(panics)
        );
        add_text(page, "panics", &text, ALARM);
    }
}

/// Waits of the kernel's requests, with the share of each cause.
fn waits(page: &mut Page, activity: &Activity<'_>) {
    let waits = activity.waits();
    let all: f64 = waits.iter().map(|wait| wait.seconds).sum();
    let verdict = activity.verdict();
    let text = format!("{}: {}", verdict.name(), verdict.meaning());
    let style = match verdict {
        Verdict::Waits(_) => NOTICE,
        Verdict::Application | Verdict::Idle => BAR,
    };
    add_text(page, "waits for", &text, style);
    if waits.is_empty() {
        return;
    }
    let longest = waits.first().map_or(0.0, |wait| wait.seconds);
    let row = |wait: &Wait| {
        let bars = (1..=BAR_WIDTH)
            .take_while(|bar| f64::from(*bar) / f64::from(BAR_WIDTH) <= wait.seconds / longest);
        let oldest = match wait.oldest_seconds > 0.0 {
            true => time(wait.oldest_seconds * 1e6),
            false => String::new(),
        };
        Row::new([
            Cell::from(format!("  {}", wait.cause.name())),
            number(share(wait.seconds, all)),
            number(time(wait.seconds * 1e6)),
            number(count(wait.in_progress)),
            number(oldest),
            Cell::from(Span::styled("█".repeat(bars.count()), BAR)),
        ])
    };
    let columns = [
        ("  cause", 14, Left),
        ("share", 6, Right),
        ("time", 8, Right),
        ("now", 6, Right),
        ("oldest", 8, Right),
        ("", 0, Left),
    ];
    add_table(page, &columns, waits.iter().map(row).collect());
}

/// The programs that have caused requests since the mount began.
fn programs(page: &mut Page, activity: &Activity<'_>) {
    let programs = activity.programs();
    if programs.is_empty() {
        return;
    }
    let rows = programs.iter().take(PROGRAMS_MAX).map(|row| {
        Row::new([
            Cell::from(format!("  {}", safe(&row.name))),
            number(count(row.requests)),
            number(bytes(row.sent)),
            number(bytes(row.received)),
        ])
    });
    let columns = [
        ("program, so far", 24, Left),
        ("requests", 8, Right),
        ("sent", 11, Right),
        ("received", 11, Right),
    ];
    add_table(page, &columns, rows.collect());
}

pub(super) const READ: [(&str, &str); 1] = [("type", "read")];
pub(super) const WRITTEN: [(&str, &str); 1] = [("type", "write")];

/// Columns of the numbers beside which a chart is drawn.
const THROUGHPUT_WIDTH: u16 = LABEL_WIDTH + 14 + 9 + 11 + 3;
/// Looks that a chart shows at most.
const HISTORY_MAX: usize = 120;
/// Kinds of operations that are shown.
const ROWS_MAX: usize = 8;
/// Programs that are shown.
const PROGRAMS_MAX: usize = 10;
/// Width of the longest bar.
const BAR_WIDTH: u8 = 30;

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::metrics::{HistogramCounts, SeriesValue};
    use crate::mount::StatsDocument;
    use crate::stats_command::activity::tests::document;

    pub(in crate::stats_command::draw) fn busy() -> StatsDocument {
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
                    FUSE_WAITS,
                    &[("cause", "first_byte")],
                    SeriesValue::Gauge(3.0),
                ),
                (
                    FUSE_OLDEST_WAIT,
                    &[("cause", "first_byte")],
                    SeriesValue::Gauge(40e6),
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
                (MEMORY_LIMIT, &[], SeriesValue::Gauge(1_073_741_824.0)),
                (CACHE_READS, &[("result", "hit")], SeriesValue::Counter(3)),
                (CACHE_READS, &[("result", "miss")], SeriesValue::Counter(1)),
            ],
        )
    }

    #[test]
    fn one_mount_is_shown_with_its_numbers() {
        let document = busy();
        let activity = Activity::new(&document, None);
        let mut history = History::default();
        history.add(&activity);
        let text = one(&activity, &history, 120).text().join("\n");
        for part in [
            "bucket/data/ at /mnt   process 7   up 10 s",
            "read            1.00 MiB/s   total   10.00 MiB   █",
            "  read                            2         20   1.0 ms   1.0 ms        0",
            "  GetObject                       2         20   1.0 ms   1.0 ms        2",
            "memory      0 B of 1.00 GiB:",
            "cache       75 % hits",
            "waits for   first_byte: the first byte of S3's answers",
            "  cause         share     time    now   oldest\n",
            "  first_byte     90 %    9.0 s      3     40 s ██████████████████████████████\n",
            "  body           10 %    1.0 s      0          ███\n",
            "program, so far ",
            "  dd                           17         0 B         0 B\n  cat ",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
    }

    #[test]
    fn eighty_columns_are_enough() {
        let mut document = busy();
        document.mount.prefix = "a/prefix/that/is/long/".repeat(4);
        let activity = Activity::new(&document, None);
        let words = |width| {
            let lines = one(&activity, &History::default(), width).text();
            let words = lines.iter().flat_map(|line| line.split_whitespace());
            let words = words.filter(|word| !word.starts_with('█'));
            words.map(str::to_owned).collect::<Vec<_>>().concat()
        };
        assert_eq!(words(80), words(500));
    }

    #[test]
    fn lines_are_cut_and_safe() {
        let mut document = busy();
        document.mount.directory = "/a\x1b[2J\nb".to_owned();
        let activity = Activity::new(&document, None);
        for width in [0, 1, 40] {
            for line in one(&activity, &History::default(), width).text() {
                assert!(line.chars().count() <= width, "{line}");
                assert!(!line.chars().any(char::is_control), "{line:?}");
            }
        }
    }
}
