//! Durations counted in buckets, so that a run of any length needs the same memory.
//!
//! Pure. Invariant: a quantile is at most one bucket, 1/32 of the value, below the duration that
//! was recorded.

use std::time::Duration;

/// Buckets in each power of two.
const BUCKETS_PER_OCTAVE: usize = 32;
const OCTAVES: usize = 60;

/// Counts of durations.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: vec![0; BUCKETS_PER_OCTAVE * OCTAVES],
            total: 0,
        }
    }
}

impl Histogram {
    pub(crate) fn record(&mut self, duration: Duration) {
        let nanoseconds = usize::try_from(duration.as_nanos()).unwrap_or(usize::MAX);
        self.counts[bucket(nanoseconds)] += 1;
        self.total += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
    }

    /// The duration that a share `quantile` of all durations does not exceed; `None` if nothing was
    /// recorded.
    pub(crate) fn quantile(&self, quantile: f64) -> Option<Duration> {
        let rank = (quantile * self.total as f64).ceil().max(1.0);
        let mut seen = 0;
        self.counts.iter().enumerate().find_map(|(index, count)| {
            seen += count;
            (*count > 0 && seen as f64 >= rank).then(|| Duration::from_nanos(lower_bound(index)))
        })
    }
}

fn bucket(nanoseconds: usize) -> usize {
    if nanoseconds < BUCKETS_PER_OCTAVE {
        return nanoseconds;
    }
    let shift = (nanoseconds.ilog2() - BUCKETS_PER_OCTAVE.ilog2()) as usize;
    let index = shift * BUCKETS_PER_OCTAVE + (nanoseconds >> shift);
    index.min(BUCKETS_PER_OCTAVE * OCTAVES - 1)
}

fn lower_bound(index: usize) -> u64 {
    let shift = (index / BUCKETS_PER_OCTAVE).saturating_sub(1);
    ((index - shift * BUCKETS_PER_OCTAVE) as u64) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_bucket() {
        let mut histogram = Histogram::default();
        for microseconds in 1..=1000 {
            histogram.record(Duration::from_micros(microseconds));
        }
        for (quantile, exact) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0), (0.0, 1.0)] {
            let found = histogram.quantile(quantile).unwrap().as_secs_f64() * 1e6;
            assert!(
                found <= exact && found >= exact * 31.0 / 32.0,
                "{quantile}: {found}"
            );
        }
    }

    #[test]
    fn an_empty_histogram_has_no_quantile() {
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    #[test]
    fn buckets_and_bounds_agree() {
        for nanoseconds in (0..100_000).chain([1 << 40, (1 << 40) + 12_345]) {
            let index = bucket(nanoseconds);
            let nanoseconds = u64::try_from(nanoseconds).unwrap();
            assert!(lower_bound(index) <= nanoseconds, "{nanoseconds}");
            assert!(lower_bound(index + 1) > nanoseconds, "{nanoseconds}");
        }
    }

    #[test]
    fn merged_counts_add_up() {
        let (mut one, mut two) = (Histogram::default(), Histogram::default());
        one.record(Duration::from_nanos(5));
        two.record(Duration::from_nanos(20));
        one.merge(&two);
        assert_eq!(one.quantile(0.5), Some(Duration::from_nanos(5)));
        assert_eq!(one.quantile(1.0), Some(Duration::from_nanos(20)));
    }
}
