//! Activity of a mount between two looks. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::metrics::names::{
    FUSE_BYTES, FUSE_OLDEST_WAIT, FUSE_WAIT_TIME, FUSE_WAITS, KERNEL_QUEUE, PROGRAM_BYTES,
    PROGRAM_REQUESTS,
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
    /// The time that the news are of.
    seconds: f64,
    /// The news are of the whole time since the mount began.
    is_since_begin: bool,
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
}

/// Waits of one cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wait {
    pub(super) cause: WaitCause,
    /// The time of all waits.
    pub(super) seconds: f64,
    /// Requests that wait now.
    pub(super) in_progress: f64,
    /// The time since the oldest of these arrived; 0 if it is not known.
    pub(super) oldest_seconds: f64,
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
            is_since_begin: before.is_none(),
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
                (counts.count() > 0).then(|| OperationRow {
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

    /// Programs and what they have caused since the mount began; those with most requests first.
    pub(super) fn programs(&self) -> Vec<ProgramRow> {
        let series = self.now.series.iter();
        let names: BTreeSet<_> = series
            .filter(|series| series.is(PROGRAM_REQUESTS, &[]))
            .filter_map(|series| series.label("program"))
            .collect();
        let mut rows: Vec<_> = names
            .into_iter()
            .filter(|name| self.total(PROGRAM_REQUESTS, &[("program", name)]) > 0.0)
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
                }
            })
            .collect();
        rows.sort_by(|one, other| other.requests.total_cmp(&one.requests));
        rows
    }

    /// Waits of the kernel's requests by cause, of causes that there were; the longest first.
    pub(super) fn waits(&self) -> Vec<Wait> {
        let mut waits: Vec<_> = WaitCause::ALL
            .into_iter()
            .map(|cause| {
                let label = [("cause", cause.name())];
                // The kernel does not tell since when.
                let queued = match cause {
                    WaitCause::KernelQueue => self.total(KERNEL_QUEUE, &[]),
                    _ => 0.0,
                };
                Wait {
                    cause,
                    seconds: self.grown(FUSE_WAIT_TIME, &label) / 1e6,
                    in_progress: self.total(FUSE_WAITS, &label) + queued,
                    oldest_seconds: self.total(FUSE_OLDEST_WAIT, &label) / 1e6,
                }
            })
            .filter(|wait| wait.seconds > 0.0 || wait.in_progress > 0.0)
            .collect();
        waits.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        waits
    }

    /// The mount's main wait.
    ///
    /// The kernel's taking of answers grows with what is read, and nobody can do anything about it:
    /// it is named only where hardly anything else is waited for.
    pub(super) fn verdict(&self) -> Verdict {
        let (replies, limits): (Vec<_>, Vec<_>) = self
            .waits()
            .into_iter()
            .partition(|wait| wait.cause == WaitCause::Reply);
        let stuck = stuck(&limits).map(Verdict::Waits);
        let longest = self.longest(&limits).map(Verdict::Waits);
        let limit = match self.is_since_begin {
            // What happened long ago does not matter while a request hangs.
            true => stuck.or(longest),
            false => longest.or(stuck),
        };
        let reply = || self.longest(&replies).map(Verdict::Waits);
        limit
            .or_else(reply)
            .unwrap_or_else(|| match self.grown(FUSE_BYTES, &[]) > 0.0 {
                true => Verdict::Application,
                false => Verdict::Idle,
            })
    }

    /// The cause of the longest of `waits`, if enough requests waited on average.
    fn longest(&self, waits: &[Wait]) -> Option<WaitCause> {
        let seconds: f64 = waits.iter().map(|wait| wait.seconds).sum();
        let longest = waits.first().map(|wait| wait.cause);
        longest.filter(|_| seconds / self.seconds >= WAITING_MEAN_MIN)
    }
}

/// The cause that most requests wait for, of causes for which one waits long.
fn stuck(waits: &[Wait]) -> Option<WaitCause> {
    let long = waits
        .iter()
        .filter(|wait| wait.oldest_seconds >= STUCK_SECONDS);
    let most = long.max_by(|one, other| {
        let count = one.in_progress.total_cmp(&other.in_progress);
        count.then(one.oldest_seconds.total_cmp(&other.oldest_seconds))
    });
    most.map(|wait| wait.cause)
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
            Self::Waits(WaitCause::Disk) => "a local disk: that of --cache or of --staging",
            Self::Waits(WaitCause::SharedCache) => "the bucket of --cache-xz or --cache-bucket",
            Self::Waits(WaitCause::Change) => "requests that change the bucket: uploads, removals",
            Self::Waits(WaitCause::Reply) => "the kernel, which takes the answers",
            Self::Waits(WaitCause::Other) => "none of the known causes",
            Self::Application => "the programs: the mount answers them at once",
            Self::Idle => "nothing is read or written",
        }
    }
}

/// A request that waits so long is not one of many that come and go.
const STUCK_SECONDS: f64 = 1.0;

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

    /// A document after `seconds`, of which requests have waited so many for the causes, and others
    /// wait so long now.
    fn waiting(
        seconds: u64,
        ended: &[(WaitCause, f64)],
        in_progress: &[(WaitCause, f64, f64)],
    ) -> StatsDocument {
        let cause = |cause: &WaitCause| [("cause", cause.name())];
        let ended: Vec<_> = ended
            .iter()
            .map(|(it, seconds)| (FUSE_WAIT_TIME, cause(it), whole_micros(*seconds)))
            .collect();
        let ended = ended
            .iter()
            .map(|(name, labels, micros)| (*name, &labels[..], SeriesValue::Counter(*micros)));
        let in_progress: Vec<_> = in_progress
            .iter()
            .flat_map(|(it, count, age)| {
                let age = age * 1e6;
                [
                    (FUSE_WAITS, cause(it), SeriesValue::Gauge(*count)),
                    (FUSE_OLDEST_WAIT, cause(it), SeriesValue::Gauge(age)),
                ]
            })
            .collect();
        let in_progress = in_progress
            .iter()
            .map(|(name, labels, value)| (*name, &labels[..], value.clone()));
        document(seconds, &ended.chain(in_progress).collect::<Vec<_>>())
    }

    fn whole_micros(seconds: f64) -> u64 {
        Duration::from_secs_f64(seconds)
            .as_micros()
            .try_into()
            .unwrap()
    }

    #[test]
    fn a_request_that_hangs_is_named_however_long_the_mount_was_idle() {
        use WaitCause::{FirstByte, Memory, Names};
        let day = 86_400;
        let hangs = waiting(day, &[(Names, 20_000.0)], &[(FirstByte, 1.0, 5.0)]);
        let verdict = Activity::new(&hangs, None).verdict();
        assert_eq!(verdict, Verdict::Waits(FirstByte));
        // Most requests count, not the oldest one, nor those that are young.
        let hang = [
            (FirstByte, 1.0, 50.0),
            (Memory, 7.0, 5.0),
            (Names, 9.0, 0.1),
        ];
        let hangs = waiting(day, &[], &hang);
        let verdict = Activity::new(&hangs, None).verdict();
        assert_eq!(verdict, Verdict::Waits(Memory));
        // Between two looks the time of waits in progress counts as that of others.
        let before = waiting(day, &[(FirstByte, 5.0)], &[(FirstByte, 1.0, 5.0)]);
        let now = [(FirstByte, 6.0), (Memory, 7.0)];
        let now = waiting(day + 1, &now, &[(FirstByte, 1.0, 6.0)]);
        let verdict = Activity::new(&now, Some(&before)).verdict();
        assert_eq!(verdict, Verdict::Waits(Memory));
    }

    #[test]
    fn replies_hide_no_other_wait() {
        use WaitCause::{Memory, Reply};
        for (memory, expected) in [(2.0, Verdict::Waits(Memory)), (0.5, Verdict::Waits(Reply))] {
            let document = waiting(10, &[(Reply, 8.0), (Memory, memory)], &[]);
            let verdict = Activity::new(&document, None).verdict();
            assert_eq!(verdict, expected, "{memory}");
        }
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
