//! The numbers of a mount at one time. Pure.

use super::definitions::MetricDefinition;
use super::histogram::HistogramCounts;

/// All series, by name and labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// In the order of names, then of labels.
    pub series: Vec<Series>,
}

/// One metric with one set of labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The metric.
    pub definition: &'static MetricDefinition,
    /// Names and values of its labels.
    pub labels: Vec<(String, String)>,
    /// The number.
    pub value: SeriesValue,
}

/// The number of a series.
#[derive(Clone, Debug, PartialEq)]
pub enum SeriesValue {
    /// Grows only.
    Counter(u64),
    /// The present value.
    Gauge(f64),
    /// A distribution.
    Histogram(HistogramCounts),
}

impl Snapshot {
    /// The changes after `earlier`: counters and distributions without what they had then, and
    /// without those that were there and have not changed; gauges as they are.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut before = earlier.series.iter().peekable();
        let mut series = Vec::new();
        for now in &self.series {
            while before.next_if(|then| then.place() < now.place()).is_some() {}
            let then = before.next_if(|then| then.place() == now.place());
            let value = now.value.since(then.map(|then| &then.value));
            series.extend(value.map(|value| Series {
                value,
                ..now.clone()
            }));
        }
        Self { series }
    }

    /// The sum of a counter or gauge over all its series with these labels.
    #[must_use]
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let found = self.series.iter().filter(|series| series.is(name, labels));
        let values = found.map(|series| match &series.value {
            SeriesValue::Counter(count) => *count as f64,
            SeriesValue::Gauge(value) => *value,
            SeriesValue::Histogram(counts) => counts.count() as f64,
        });
        values.sum()
    }
}

impl Series {
    fn place(&self) -> (&str, &[(String, String)]) {
        (self.definition.name, &self.labels)
    }

    /// Whether it is of the metric `name`, and has these labels among others.
    #[must_use]
    pub fn is(&self, name: &str, labels: &[(&str, &str)]) -> bool {
        let has = |(name, value): &(&str, &str)| self.label(name) == Some(value);
        self.definition.name == name && labels.iter().all(has)
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        let found = self.labels.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl SeriesValue {
    /// The difference to `then`; `None` if there is none.
    fn since(&self, then: Option<&Self>) -> Option<Self> {
        match (self, then) {
            (Self::Counter(now), Some(Self::Counter(then))) => {
                let news = now.saturating_sub(*then);
                (news > 0).then_some(Self::Counter(news))
            }
            (Self::Histogram(now), Some(Self::Histogram(then))) => {
                let news = now.since(then);
                (news.count() > 0).then_some(Self::Histogram(news))
            }
            _ => Some(self.clone()),
        }
    }
}
