//! The text format of Prometheus. Pure.

use std::fmt::Write as _;

use crate::metrics::{HistogramCounts, MetricDefinition, MetricKind, SeriesValue, Snapshot};

/// Media type of the text.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The text of `snapshot`.
pub(super) fn text(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    let mut last: Option<&MetricDefinition> = None;
    for series in &snapshot.series {
        let definition = series.definition;
        let name = name(definition);
        if last.is_none_or(|last| last.name != definition.name) {
            let kind = match definition.kind {
                MetricKind::Counter => "counter",
                MetricKind::Gauge => "gauge",
                MetricKind::Histogram => "histogram",
            };
            let meaning = definition.meaning.replace('\\', "\\\\");
            writeln!(text, "# HELP {name} {meaning}\n# TYPE {name} {kind}").ok();
            last = Some(definition);
        }
        let labels = labels(&series.labels);
        match &series.value {
            SeriesValue::Counter(count) => writeln!(text, "{name}{} {count}", braced(&labels)).ok(),
            SeriesValue::Gauge(value) => writeln!(text, "{name}{} {value}", braced(&labels)).ok(),
            SeriesValue::Histogram(counts) => {
                add_histogram(&mut text, &name, &labels, counts);
                None
            }
        };
    }
    text
}

fn add_histogram(text: &mut String, name: &str, labels: &str, counts: &HistogramCounts) {
    let comma = if labels.is_empty() { "" } else { "," };
    // A String takes all that is written.
    for power in POWERS {
        let (bound, count) = (1u64 << power, counts.up_to(power));
        writeln!(
            text,
            "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {count}"
        )
        .ok();
    }
    let count = counts.count();
    writeln!(text, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {count}").ok();
    let labels = braced(labels);
    writeln!(
        text,
        "{name}_sum{labels} {}\n{name}_count{labels} {count}",
        counts.sum
    )
    .ok();
}

/// The name as OpenTelemetry's translation makes it: `fuse_request_latency_microseconds`, and
/// `…_total` for counters.
#[must_use]
pub fn name(metric: &MetricDefinition) -> String {
    let mut name = metric.name.replace('.', "_");
    let unit = metric.unit.word();
    if !unit.is_empty() && !name.contains(unit) {
        name = format!("{}_{unit}", name.trim_end_matches("_us"));
    }
    if metric.kind == MetricKind::Counter && !name.ends_with("_total") {
        name.push_str("_total");
    }
    name
}

fn labels(labels: &[(String, String)]) -> String {
    let each = labels.iter().map(|(name, value)| {
        let value = value.replace('\\', "\\\\");
        let value = value.replace('"', "\\\"").replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    });
    each.collect::<Vec<_>>().join(",")
}

fn braced(labels: &str) -> String {
    match labels {
        "" => String::new(),
        labels => format!("{{{labels}}}"),
    }
}

/// Bounds of the buckets: each power of two from 8 us (or bytes) to 67 s (or 64 MiB). The same for
/// all series, so that they can be added.
const POWERS: std::ops::RangeInclusive<u32> = 3..=26;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{METRICS, Series, names};

    #[test]
    fn names_have_unit_and_kind() {
        let shown = |name: &str| {
            let metric = METRICS.iter().find(|metric| metric.name == name);
            super::name(metric.unwrap())
        };
        for (metric, expected) in [
            (names::FUSE_LATENCY, "fuse_request_latency_microseconds"),
            (names::FUSE_BYTES, "fuse_total_bytes_total"),
            (names::S3_REQUESTS, "s3_request_count_total"),
            (names::MEMORY_WAIT, "mem_reserve_latency_microseconds"),
            (names::MEMORY_RESERVED, "mem_bytes_reserved"),
            (names::INODES, "fs_inodes"),
        ] {
            assert_eq!(shown(metric), expected);
        }
    }

    #[test]
    fn text_has_help_labels_and_cumulative_buckets() {
        let metric = |name: &str| METRICS.iter().find(|metric| metric.name == name).unwrap();
        let latency = HistogramCounts {
            buckets: [vec![1], vec![0; 14], vec![4]].concat(),
            sum: 49,
        };
        let label = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        let text = text(&Snapshot {
            series: vec![
                Series {
                    definition: metric(names::MOUNT),
                    labels: label("directory", "a\"b\\c\n"),
                    value: SeriesValue::Gauge(1.0),
                },
                Series {
                    definition: metric(names::FUSE_LATENCY),
                    labels: label("fuse_request", "read"),
                    value: SeriesValue::Histogram(latency),
                },
            ],
        });
        for line in [
            "# TYPE mount_info gauge",
            "mount_info{directory=\"a\\\"b\\\\c\\n\"} 1",
            "# TYPE fuse_request_latency_microseconds histogram",
            "fuse_request_latency_microseconds_bucket{fuse_request=\"read\",le=\"8\"} 1",
            "fuse_request_latency_microseconds_bucket{fuse_request=\"read\",le=\"16\"} 5",
            "fuse_request_latency_microseconds_bucket{fuse_request=\"read\",le=\"+Inf\"} 5",
            "fuse_request_latency_microseconds_sum{fuse_request=\"read\"} 49",
            "fuse_request_latency_microseconds_count{fuse_request=\"read\"} 5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
