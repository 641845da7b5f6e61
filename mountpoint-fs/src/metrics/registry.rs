//! The recorder behind the facade: keeps the numbers, and hands out snapshots of them.
//!
//! A series is registered once, under a lock; then its handle is an atomic number. Numbers that
//! others keep already are not counted twice: a collector brings them when a snapshot is taken.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use metrics::atomics::AtomicU64;
use metrics::{Counter, Gauge, Key, KeyName, Metadata, Recorder, SharedString, Unit};

use super::definitions::{METRICS, MetricDefinition, MetricKind};
use super::histogram::Histogram;
use super::snapshot::{Series, SeriesValue, Snapshot};
use crate::sync::Mutex;

/// All numbers of this process.
pub struct MetricsRegistry {
    definitions: HashMap<&'static str, &'static MetricDefinition>,
    /// A leaf.
    series: Mutex<HashMap<Key, Recorded>>,
    /// Called with no other lock held, one at a time.
    collectors: Mutex<Vec<Collector>>,
}

/// Brings numbers that others keep.
type Collector = Box<dyn Fn() + Send + Sync>;

#[derive(Clone)]
enum Recorded {
    Counter(Arc<AtomicU64>),
    Gauge(Arc<AtomicU64>),
    Histogram(Arc<Histogram>),
}

/// Installs a registry as the recorder of this process. `None` if there is one already: numbers of
/// two mounts in one process, as in tests, are not kept apart.
#[must_use]
pub fn install() -> Option<Arc<MetricsRegistry>> {
    let registry = Arc::new(MetricsRegistry::default());
    let recorder = RegistryRecorder(Arc::clone(&registry));
    metrics::set_global_recorder(recorder).ok()?;
    INSTALLED.set(()).ok()?;
    Some(registry)
}

/// Whether anything is recorded: if not, no time need be taken.
#[must_use]
pub fn is_measured() -> bool {
    INSTALLED.get().is_some()
}

static INSTALLED: OnceLock<()> = OnceLock::new();

impl Default for MetricsRegistry {
    fn default() -> Self {
        let definitions = METRICS.iter().map(|metric| (metric.name, metric));
        Self {
            definitions: definitions.collect(),
            series: Mutex::default(),
            collectors: Mutex::default(),
        }
    }
}

impl MetricsRegistry {
    /// Has `collector` called before each snapshot.
    pub fn add_collector(&self, collector: impl Fn() + Send + Sync + 'static) {
        self.collectors.lock().push(Box::new(collector));
    }

    /// The numbers now, of all series that somebody has taken a handle of.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        for collect in self.collectors.lock().iter() {
            collect();
        }
        let recorded: Vec<_> = self
            .series
            .lock()
            .iter()
            .map(|(key, recorded)| (key.clone(), recorded.clone()))
            .collect();
        let known = recorded.into_iter().filter_map(|(key, recorded)| {
            let definition = *self.definitions.get(key.name())?;
            let value = recorded.value();
            let labels = key.labels();
            let labels = labels.map(|label| (label.key().to_owned(), label.value().to_owned()));
            Some(Series {
                definition,
                labels: labels.collect(),
                value,
            })
        });
        let mut series: Vec<_> = known.collect();
        series.sort_by(|one, other| {
            let place = |series: &Series| (series.definition.name, series.labels.clone());
            place(one).cmp(&place(other))
        });
        Snapshot { series }
    }

    /// The numbers of a key. `None` for names of other libraries, and beyond [`SERIES_MAX`].
    fn recorded(&self, key: &Key, kind: MetricKind) -> Option<Recorded> {
        let definition = self.definitions.get(key.name())?;
        debug_assert_eq!(definition.kind, kind, "{}", key.name());
        if definition.kind != kind {
            return None;
        }
        let mut series = self.series.lock();
        let count = series.len();
        match series.entry(key.clone()) {
            Entry::Occupied(known) => Some(known.get().clone()),
            Entry::Vacant(_) if count >= SERIES_MAX => None,
            Entry::Vacant(place) => Some(place.insert(Recorded::new(kind)).clone()),
        }
    }
}

impl fmt::Debug for MetricsRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MetricsRegistry({} series)", self.series.lock().len())
    }
}

impl Recorded {
    fn new(kind: MetricKind) -> Self {
        match kind {
            MetricKind::Counter => Self::Counter(Arc::default()),
            // All bits zero is 0.0.
            MetricKind::Gauge => Self::Gauge(Arc::default()),
            MetricKind::Histogram => Self::Histogram(Arc::default()),
        }
    }

    fn value(&self) -> SeriesValue {
        match self {
            Self::Counter(count) => SeriesValue::Counter(count.load(Ordering::Relaxed)),
            Self::Gauge(bits) => SeriesValue::Gauge(f64::from_bits(bits.load(Ordering::Relaxed))),
            Self::Histogram(histogram) => SeriesValue::Histogram(histogram.counts()),
        }
    }
}

/// The facade's view of a registry.
struct RegistryRecorder(Arc<MetricsRegistry>);

/// Names, units and texts are in the table of definitions.
impl Recorder for RegistryRecorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        match self.0.recorded(key, MetricKind::Counter) {
            Some(Recorded::Counter(counter)) => Counter::from_arc(counter),
            _ => Counter::noop(),
        }
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        match self.0.recorded(key, MetricKind::Gauge) {
            Some(Recorded::Gauge(gauge)) => Gauge::from_arc(gauge),
            _ => Gauge::noop(),
        }
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> metrics::Histogram {
        match self.0.recorded(key, MetricKind::Histogram) {
            Some(Recorded::Histogram(histogram)) => metrics::Histogram::from_arc(histogram),
            _ => metrics::Histogram::noop(),
        }
    }
}

/// Labels have few values each: operations, errors, causes. A mistake must not fill the memory.
const SERIES_MAX: usize = 2000;

/// A registry for the numbers of which `act` takes handles.
#[cfg(test)]
pub(super) fn with_registry(act: impl FnOnce()) -> Arc<MetricsRegistry> {
    let registry = Arc::new(MetricsRegistry::default());
    metrics::with_local_recorder(&RegistryRecorder(Arc::clone(&registry)), act);
    registry
}

#[cfg(test)]
mod tests {
    use super::super::definitions::names;
    use super::*;

    #[test]
    fn series_of_known_names_are_in_a_snapshot_in_order() {
        let registry = with_registry(|| {
            metrics::counter!("of.another.library").increment(1);
            metrics::counter!(names::FUSE_ERRORS, "fuse_request" => "read").increment(2);
            metrics::counter!(names::FUSE_ERRORS, "fuse_request" => "lookup").increment(1);
            metrics::counter!(names::FUSE_ERRORS, "fuse_request" => "open").increment(0);
            metrics::histogram!(names::FUSE_LATENCY, "fuse_request" => "read").record(7.0);
            metrics::gauge!(names::INODES).increment(0.0);
        });
        let snapshot = registry.snapshot();
        let shown: Vec<_> = snapshot
            .series
            .iter()
            .map(|series| (series.definition.name, series.label("fuse_request")))
            .collect();
        assert_eq!(
            shown,
            [
                (names::INODES, None),
                (names::FUSE_ERRORS, Some("lookup")),
                (names::FUSE_ERRORS, Some("open")),
                (names::FUSE_ERRORS, Some("read")),
                (names::FUSE_LATENCY, Some("read")),
            ]
        );
        assert_eq!(snapshot.sum(names::FUSE_ERRORS, &[]), 3.0);
        let read = [("fuse_request", "read")];
        assert_eq!(snapshot.sum(names::FUSE_ERRORS, &read), 2.0);
    }

    #[test]
    fn a_difference_has_only_what_changed() {
        let registry = with_registry(|| metrics::counter!(names::FUSE_ERRORS).increment(5));
        registry.add_collector({
            let collected =
                metrics::with_local_recorder(&RegistryRecorder(Arc::clone(&registry)), || {
                    metrics::counter!(names::HIDDEN_KEYS)
                });
            move || collected.absolute(4)
        });
        let before = registry.snapshot();
        let recorder = RegistryRecorder(Arc::clone(&registry));
        metrics::with_local_recorder(&recorder, || {
            metrics::counter!(names::S3_RETRIES).increment(3);
        });
        let after = registry.snapshot();
        let news = after.since(&before);
        assert_eq!(news.sum(names::S3_RETRIES, &[]), 3.0);
        assert_eq!(news.series.len(), 1, "{news:?}");
        assert_eq!(after.sum(names::HIDDEN_KEYS, &[]), 4.0);
        assert_eq!(after.since(&Snapshot::default()), after);
    }

    #[test]
    fn series_are_bounded() {
        let registry = with_registry(|| {
            for number in 0..SERIES_MAX + 10 {
                metrics::counter!(names::FUSE_ERRORS, "errno" => number.to_string()).increment(1);
            }
        });
        assert_eq!(registry.snapshot().series.len(), SERIES_MAX);
    }
}
