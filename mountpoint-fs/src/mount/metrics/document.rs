//! The answer of a mount over its socket: its description, and all its numbers. JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::metrics::{HistogramCounts, METRICS, Series, SeriesValue, Snapshot};

/// A mount, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountDescription {
    /// The bucket.
    pub bucket: String,
    /// The prefix of all keys; empty for the whole bucket.
    pub prefix: String,
    /// The mount point.
    pub directory: String,
    /// The process.
    pub pid: u32,
    /// The user of the process.
    pub uid: u32,
    /// The program's version.
    pub version: String,
    /// Number of the mount's device, as `/proc/self/mountinfo` has it; `None` if the kernel does
    /// not tell.
    pub device: Option<String>,
}

/// A mount and its numbers at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatsDocument {
    /// Version of this format: [`STATS_FORMAT`]. New metrics and fields do not change it.
    pub format: u32,
    /// The mount.
    pub mount: MountDescription,
    /// Milliseconds since the mount began.
    pub uptime_ms: u64,
    /// The numbers since then.
    pub metrics: Vec<MetricDocument>,
}

/// A series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricDocument {
    /// The metric.
    pub name: String,
    /// Its labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The number.
    #[serde(flatten)]
    pub value: NumberDocument,
}

/// The number of a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NumberDocument {
    /// Grows only.
    Counter(u64),
    /// The present value.
    Gauge(f64),
    /// A distribution: the sum of all values, and their counts by bucket; bucket `i` ends at
    /// 2^(i/4).
    Histogram {
        /// Sum of all values.
        sum: u64,
        /// Counts.
        buckets: Vec<u64>,
    },
}

impl StatsDocument {
    /// The document of `snapshot`.
    #[must_use]
    pub fn new(mount: MountDescription, uptime_ms: u64, snapshot: &Snapshot) -> Self {
        Self {
            format: STATS_FORMAT,
            mount,
            uptime_ms,
            metrics: snapshot.series.iter().map(MetricDocument::of).collect(),
        }
    }

    /// The key that tells this mount from others, for sorting.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{} {}", self.mount.directory, self.mount.pid)
    }

    /// The numbers. Metrics of another version are left out.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let series = self.metrics.iter().filter_map(MetricDocument::series);
        Snapshot {
            series: series.collect(),
        }
    }
}

impl MetricDocument {
    fn of(series: &Series) -> Self {
        Self {
            name: series.definition.name.to_owned(),
            labels: series.labels.iter().cloned().collect(),
            value: match &series.value {
                SeriesValue::Counter(count) => NumberDocument::Counter(*count),
                SeriesValue::Gauge(value) => NumberDocument::Gauge(*value),
                SeriesValue::Histogram(counts) => NumberDocument::Histogram {
                    sum: counts.sum,
                    buckets: counts.buckets.clone(),
                },
            },
        }
    }

    fn series(&self) -> Option<Series> {
        let definition = METRICS.iter().find(|metric| metric.name == self.name)?;
        let value = match &self.value {
            NumberDocument::Counter(count) => SeriesValue::Counter(*count),
            NumberDocument::Gauge(value) => SeriesValue::Gauge(*value),
            NumberDocument::Histogram { sum, buckets } => SeriesValue::Histogram(HistogramCounts {
                buckets: buckets.clone(),
                sum: *sum,
            }),
        };
        Some(Series {
            definition,
            labels: self.labels.clone().into_iter().collect(),
            value,
        })
    }
}

/// Version of [`StatsDocument`]'s format.
pub const STATS_FORMAT: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::names;

    #[test]
    fn a_document_survives_json() {
        let metric = |name: &str| METRICS.iter().find(|metric| metric.name == name).unwrap();
        let label = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        let snapshot = Snapshot {
            series: vec![
                Series {
                    definition: metric(names::INODES),
                    labels: Vec::new(),
                    value: SeriesValue::Gauge(2.5),
                },
                Series {
                    definition: metric(names::FUSE_ERRORS),
                    labels: label("errno", "EIO"),
                    value: SeriesValue::Counter(u64::MAX),
                },
                Series {
                    definition: metric(names::FUSE_LATENCY),
                    labels: label("fuse_request", "read"),
                    value: SeriesValue::Histogram(HistogramCounts {
                        buckets: vec![0, 3, 1],
                        sum: 9,
                    }),
                },
            ],
        };
        let document = StatsDocument::new(MountDescription::default(), 7, &snapshot);
        let text = serde_json::to_string(&document).unwrap();
        let read: StatsDocument = serde_json::from_str(&text).unwrap();
        assert_eq!(read, document, "{text}");
        assert_eq!(read.snapshot(), snapshot);
    }
}
