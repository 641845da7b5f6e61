//! A summary in the log, every few seconds: a line for each series that has changed, as
//! mountpoint-s3 writes it.

use crate::metrics::{HistogramCounts, Series, SeriesValue, Snapshot};

/// Writes what is new in `now` against `before`. A gauge is new if its number is another.
pub(super) fn write(before: &Snapshot, now: &Snapshot) {
    for line in lines(before, now) {
        tracing::info!(target: TARGET, "{line}");
    }
}

/// Name of these lines in the log, for which programs search it.
pub(in crate::mount) const TARGET: &str = "mountpoint_s3_fs::metrics";

fn lines(before: &Snapshot, now: &Snapshot) -> Vec<String> {
    let is_new = |series: &&Series| {
        !matches!(series.value, SeriesValue::Gauge(_)) || !before.series.contains(*series)
    };
    let news = now.since(before);
    let of_one_metric = news
        .series
        .chunk_by(|one, other| one.definition.name == other.definition.name);
    let lines = of_one_metric.flat_map(|series| {
        // Hundreds of series begin with 0: the first line of their metric stands for all.
        let (zeros, others): (Vec<_>, Vec<_>) = series
            .iter()
            .filter(is_new)
            .partition(|series| is_zero(series));
        let first = match others.is_empty() {
            true => zeros.into_iter().next(),
            false => None,
        };
        first.into_iter().chain(others).map(line)
    });
    lines.collect()
}

/// Whether nothing was counted. A gauge is a number also if it is 0.
fn is_zero(series: &Series) -> bool {
    match &series.value {
        SeriesValue::Counter(count) => *count == 0,
        SeriesValue::Histogram(counts) => counts.count() == 0,
        SeriesValue::Gauge(_) => false,
    }
}

/// `fuse.request_latency  (μs)[fuse_request=read]: n=2: min=…`
fn line(series: &Series) -> String {
    let unit = match series.definition.unit.symbol() {
        "" => String::new(),
        symbol => format!(" ({symbol})"),
    };
    let labels = series.labels.iter();
    let labels: Vec<_> = labels
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let labels = match labels.is_empty() {
        true => String::new(),
        false => format!("[{}]", labels.join(",")),
    };
    let value = match &series.value {
        SeriesValue::Counter(count) => count.to_string(),
        SeriesValue::Gauge(value) => value.to_string(),
        SeriesValue::Histogram(counts) => distribution(counts),
    };
    format!("{} {unit}{labels}: {value}", series.definition.name)
}

fn distribution(counts: &HistogramCounts) -> String {
    let at = |quantile| counts.quantile(quantile);
    format!(
        "n={}: min={} p10={} p50={} avg={:.2} p90={} p99={} p99.9={} max={}",
        counts.count(),
        at(0.0),
        at(0.1),
        at(0.5),
        counts.mean(),
        at(0.9),
        at(0.99),
        at(0.999),
        at(1.0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{METRICS, names};

    fn series(name: &str, labels: &[(&str, &str)], value: SeriesValue) -> Series {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Series {
            definition: METRICS.iter().find(|metric| metric.name == name).unwrap(),
            labels: labels.iter().map(owned).collect(),
            value,
        }
    }

    #[test]
    fn lines_tell_what_is_new() {
        let read = [("fuse_request", "read")];
        let before = Snapshot {
            series: vec![
                series(names::INODES, &[], SeriesValue::Gauge(4.0)),
                series(names::FUSE_ERRORS, &read, SeriesValue::Counter(1)),
            ],
        };
        let counts = HistogramCounts {
            buckets: vec![0, 0, 0, 0, 2],
            sum: 3,
        };
        let now = Snapshot {
            series: vec![
                series(names::INODES, &[], SeriesValue::Gauge(4.0)),
                series(names::FUSE_ERRORS, &read, SeriesValue::Counter(3)),
                series(names::FUSE_LATENCY, &read, SeriesValue::Histogram(counts)),
                series(names::MEMORY_LIMIT, &[], SeriesValue::Gauge(7.0)),
            ],
        };
        assert_eq!(
            lines(&before, &now),
            [
                "fuse.request_errors [fuse_request=read]: 2",
                "fuse.request_latency  (μs)[fuse_request=read]: n=2: min=2 p10=2 p50=2 avg=1.50 \
                 p90=2 p99=2 p99.9=2 max=2",
                "mem.limit  (B): 7",
            ]
        );
        assert!(lines(&now, &now).is_empty());
    }

    #[test]
    fn the_first_lines_name_each_metric_though_nothing_was_counted() {
        let errors = |operation, count| {
            let labels = [("fuse_request", operation)];
            series(names::FUSE_ERRORS, &labels, SeriesValue::Counter(count))
        };
        let first = Snapshot {
            series: vec![errors("lookup", 0), errors("read", 0)],
        };
        let text = "fuse.request_errors [fuse_request=lookup]: 0";
        assert_eq!(lines(&Snapshot::default(), &first), [text]);
        let first = Snapshot {
            series: vec![errors("lookup", 0), errors("read", 3)],
        };
        let text = "fuse.request_errors [fuse_request=read]: 3";
        assert_eq!(lines(&Snapshot::default(), &first), [text]);
    }
}
