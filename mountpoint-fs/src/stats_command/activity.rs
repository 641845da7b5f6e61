//! Activity of a mount between two looks. Pure.

use std::time::Duration;

use crate::metrics::names::{
    FUSE_BYTES, FUSE_WAIT_TIME, PROGRAM_BYTES, PROGRAM_COST, PROGRAM_REQUESTS,
};
use crate::metrics::trace::WaitCause;
use crate::metrics::{HistogramCounts, SeriesValue, Snapshot};
use crate::mount::StatsDocument;

/// A mount's numbers now, and what is new in them.
#[derive(Clone, Debug)]
pub(super) struct Activity<'a> {
    pub(super) document: &'a StatsDocument,
    now: Snapshot,
    news: Snapshot,
    seconds: f64,
}

/// Operations or requests of one kind.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OperationRow {
    pub(super) name: String,
    pub(super) latency: HistogramCounts,
    pub(super) errors: f64,
}

/// Requests and bytes that one program has caused.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ProgramRow {
    pub(super) name: String,
    pub(super) requests: f64,
    pub(super) sent: f64,
    pub(super) received: f64,
    /// 0 where prices are not known.
    pub(super) cost: f64,
}

impl<'a> Activity<'a> {
    /// The activity after `before`, if that is an earlier answer of the mount; else since the mount
    /// began.
    pub(super) fn new(document: &'a StatsDocument, before: Option<&StatsDocument>) -> Self {
        let is_same = |before: &&StatsDocument| {
            before.mount == document.mount && before.uptime_ms < document.uptime_ms
        };
        let before = before.filter(is_same);
        let then = before.map_or(0, |before| before.uptime_ms);
        let time = Duration::from_millis(document.uptime_ms.saturating_sub(then).max(1));
        let now = document.snapshot();
        let news = match before {
            Some(before) => now.since(&before.snapshot()),
            None => now.clone(),
        };
        Self {
            document,
            now,
            news,
            seconds: time.as_secs_f64(),
        }
    }

    /// How much a counter grew.
    pub(super) fn grown(&self, metric: &str, labels: &[(&str, &str)]) -> f64 {
        self.news.sum(metric, labels)
    }

    /// How much a counter grew in a second.
    pub(super) fn rate(&self, metric: &str, labels: &[(&str, &str)]) -> f64 {
        self.grown(metric, labels) / self.seconds
    }

    /// A counter or gauge since the mount began.
    pub(super) fn total(&self, metric: &str, labels: &[(&str, &str)]) -> f64 {
        self.now.sum(metric, labels)
    }

    /// Events in a second.
    pub(super) fn per_second(&self, events: u64) -> f64 {
        events as f64 / self.seconds
    }

    /// Operations, by the values of `label`, with times of `latency` and failures of `errors`;
    /// the most frequent first.
    pub(super) fn rows(&self, label: &str, latency: &str, errors: &str) -> Vec<OperationRow> {
        let series = self.news.series.iter();
        let mut rows: Vec<OperationRow> = series
            .filter(|series| series.is(latency, &[]))
            .filter_map(|series| {
                let name = series.label(label)?;
                let SeriesValue::Histogram(counts) = &series.value else {
                    return None;
                };
                Some(OperationRow {
                    name: name.to_owned(),
                    latency: counts.clone(),
                    errors: self.failures(errors, (label, name)),
                })
            })
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.latency.count()));
        rows
    }

    /// Failures of `metric` with that label. That a name or an attribute does not exist is an
    /// answer, not a failure.
    fn failures(&self, metric: &str, label: (&str, &str)) -> f64 {
        let absences = ["ENOENT", "ENODATA"].map(|errno| ("errno", errno));
        let answers = absences.map(|absence| self.news.sum(metric, &[label, absence]));
        self.news.sum(metric, &[label]) - answers.iter().sum::<f64>()
    }

    /// Programs and their costs since the mount began; the dearest first, then those with most
    /// requests.
    pub(super) fn programs(&self) -> Vec<ProgramRow> {
        let series = self.now.series.iter();
        let names = series
            .filter(|series| series.is(PROGRAM_REQUESTS, &[]))
            .filter_map(|series| series.label("program"));
        let mut rows: Vec<_> = names
            .map(|name| {
                let of = |metric, kind: Option<&str>| {
                    let kind = kind.map(|kind| ("type", kind));
                    let labels: Vec<_> = [("program", name)].into_iter().chain(kind).collect();
                    self.total(metric, &labels)
                };
                ProgramRow {
                    name: name.to_owned(),
                    requests: of(PROGRAM_REQUESTS, None),
                    sent: of(PROGRAM_BYTES, Some("sent")),
                    received: of(PROGRAM_BYTES, Some("received")),
                    cost: of(PROGRAM_COST, None),
                }
            })
            .collect();
        rows.sort_by(|one, other| {
            let cost = other.cost.total_cmp(&one.cost);
            cost.then_with(|| other.requests.total_cmp(&one.requests))
        });
        rows
    }

    /// Seconds that requests of the kernel waited, by cause; the longest first.
    pub(super) fn waits(&self) -> Vec<(WaitCause, f64)> {
        let seconds =
            |cause: WaitCause| self.grown(FUSE_WAIT_TIME, &[("cause", cause.name())]) / 1e6;
        let causes = WaitCause::ALL.into_iter();
        let mut waits: Vec<_> = causes.map(|cause| (cause, seconds(cause))).collect();
        waits.retain(|(_, seconds)| *seconds > 0.0);
        waits.sort_by(|one, other| other.1.total_cmp(&one.1));
        waits
    }

    /// The requests of the kernel that waited on average.
    pub(super) fn waiting_mean(&self) -> f64 {
        let seconds: f64 = self.waits().iter().map(|(_, seconds)| seconds).sum();
        seconds / self.seconds
    }

    /// The mount's main wait.
    pub(super) fn verdict(&self) -> Verdict {
        let waits = self.waits();
        match waits.first() {
            Some((cause, _)) if self.waiting_mean() >= WAITING_MEAN_MIN => Verdict::Waits(*cause),
            _ if self.grown(FUSE_BYTES, &[]) > 0.0 => Verdict::Application,
            _ => Verdict::Idle,
        }
    }
}

/// The reason why it is not faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Requests of the kernel wait.
    Waits(WaitCause),
    /// Hardly any request waits: the programs do not ask for more.
    Application,
    /// Nothing is asked.
    Idle,
}

impl Verdict {
    /// A word for a table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Waits(cause) => cause.name(),
            Self::Application => "application",
            Self::Idle => "idle",
        }
    }

    /// The meaning of the verdict.
    pub(super) fn meaning(self) -> &'static str {
        match self {
            Self::Waits(WaitCause::KernelQueue) => {
                "this program's threads: too few, or too little processor time"
            }
            Self::Waits(WaitCause::Names) => "requests about names: look-ups, listings, attributes",
            Self::Waits(WaitCause::Memory) => "memory: --memory-target is too small for this work",
            Self::Waits(WaitCause::Connection) => "a place among the requests in flight",
            Self::Waits(WaitCause::FirstByte) => {
                "the first byte of S3's answers: the distance to S3, or its work"
            }
            Self::Waits(WaitCause::Body) => "the rest of S3's answers: bandwidth",
            Self::Waits(WaitCause::Throttling) => "S3 says to slow down",
            Self::Waits(WaitCause::Retry) => "pauses after requests that failed",
            Self::Waits(WaitCause::Disk) => "the disk of --cache",
            Self::Waits(WaitCause::SharedCache) => "the bucket of --cache-xz or --cache-bucket",
            Self::Waits(WaitCause::Change) => "requests that change the bucket: uploads, removals",
            Self::Waits(WaitCause::Reply) => "the kernel, which takes the answers",
            Self::Waits(WaitCause::Other) => "none of the known causes",
            Self::Application => "the programs: the mount answers them at once",
            Self::Idle => "nothing is read or written",
        }
    }
}

/// With fewer requests waiting on average, the programs themselves take nine tenths of the time.
const WAITING_MEAN_MIN: f64 = 0.1;

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::metrics::names::FUSE_ERRORS;
    use crate::metrics::{METRICS, Series};
    use crate::mount::MountDescription;

    /// A metric's name, labels and number.
    type Number<'a> = (&'a str, &'a [(&'a str, &'a str)], SeriesValue);

    /// A document of a mount that runs for `seconds`.
    pub(in crate::stats_command) fn document(
        seconds: u64,
        numbers: &[Number<'_>],
    ) -> StatsDocument {
        let series = numbers.iter().map(|(name, labels, value)| Series {
            definition: METRICS.iter().find(|metric| metric.name == *name).unwrap(),
            labels: labels
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            value: value.clone(),
        });
        let mut series: Vec<_> = series.collect();
        series.sort_by(|one, other| {
            let place = |series: &Series| (series.definition.name, series.labels.clone());
            place(one).cmp(&place(other))
        });
        let mount = MountDescription {
            bucket: "bucket".to_owned(),
            prefix: "data/".to_owned(),
            directory: "/mnt".to_owned(),
            pid: 7,
            ..MountDescription::default()
        };
        StatsDocument::new(mount, seconds * 1000, &Snapshot { series })
    }

    fn waited(cause: &str, seconds: u64) -> StatsDocument {
        let read = [("fuse_request", "read"), ("cause", cause)];
        let reply = [("fuse_request", "read"), ("cause", "reply")];
        document(
            10,
            &[
                (
                    FUSE_WAIT_TIME,
                    &read,
                    SeriesValue::Counter(seconds * 1_000_000),
                ),
                (FUSE_WAIT_TIME, &reply, SeriesValue::Counter(200_000)),
                (
                    FUSE_BYTES,
                    &[("type", "read")],
                    SeriesValue::Counter(1 << 20),
                ),
            ],
        )
    }

    #[test]
    fn what_does_not_exist_is_no_failure() {
        let errors = |errno| [("fuse_request", "lookup"), ("errno", errno)];
        let document = document(
            10,
            &[
                (FUSE_ERRORS, &errors("ENOENT"), SeriesValue::Counter(5)),
                (FUSE_ERRORS, &errors("ENODATA"), SeriesValue::Counter(2)),
                (FUSE_ERRORS, &errors("EIO"), SeriesValue::Counter(3)),
            ],
        );
        let activity = Activity::new(&document, None);
        assert_eq!(
            activity.failures(FUSE_ERRORS, ("fuse_request", "lookup")),
            3.0
        );
        assert_eq!(
            activity.failures(FUSE_ERRORS, ("fuse_request", "read")),
            0.0
        );
    }

    #[test]
    fn the_verdict_is_the_longest_wait() {
        for (cause, seconds, expected) in [
            ("memory", 9, Verdict::Waits(WaitCause::Memory)),
            ("throttling", 40, Verdict::Waits(WaitCause::Throttling)),
            ("first_byte", 2, Verdict::Waits(WaitCause::FirstByte)),
            ("first_byte", 0, Verdict::Application),
        ] {
            let document = waited(cause, seconds);
            let verdict = Activity::new(&document, None).verdict();
            assert_eq!(verdict, expected, "{cause} {seconds}");
        }
        let idle = document(10, &[]);
        assert_eq!(Activity::new(&idle, None).verdict(), Verdict::Idle);
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks() {
        let at = |seconds, bytes| {
            let read: &[(&str, &str)] = &[("type", "read")];
            document(seconds, &[(FUSE_BYTES, read, SeriesValue::Counter(bytes))])
        };
        let (before, now) = (at(10, 1000), at(14, 3000));
        let activity = Activity::new(&now, Some(&before));
        assert_eq!(activity.rate(FUSE_BYTES, &[]), 500.0);
        assert_eq!(activity.total(FUSE_BYTES, &[]), 3000.0);
        // The same process number at another time is another mount.
        let activity = Activity::new(&before, Some(&now));
        assert_eq!(activity.rate(FUSE_BYTES, &[]), 100.0);
    }
}
