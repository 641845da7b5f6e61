//! Distributions of whole numbers in bounded memory.
//!
//! Four buckets for each power of two: a quantile is right to a tenth. These are the buckets of an
//! exponential histogram of OpenTelemetry at scale 2. Lock-free: any thread.

use std::sync::atomic::{AtomicU64, Ordering};

use metrics::HistogramFn;

/// Counts of values by size. Values are whole microseconds or bytes.
#[derive(Debug)]
pub struct Histogram {
    sum: AtomicU64,
    /// The first has values up to 1, the others those up to [`HistogramCounts::bound`].
    buckets: [AtomicU64; BUCKETS],
}

/// The counts of a histogram at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistogramCounts {
    /// Counts by bucket, without empty ones at the end.
    pub buckets: Vec<u64>,
    /// Sum of all values.
    pub sum: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            sum: AtomicU64::new(0),
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }
}

impl HistogramFn for Histogram {
    fn record(&self, value: f64) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the cast saturates, and no value is negative"
        )]
        let value = value as u64;
        self.buckets[bucket(value)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }
}

impl Histogram {
    /// The counts now.
    #[must_use]
    pub fn counts(&self) -> HistogramCounts {
        let mut buckets: Vec<u64> = self
            .buckets
            .iter()
            .map(|bucket| bucket.load(Ordering::Relaxed))
            .collect();
        trim(&mut buckets);
        HistogramCounts {
            buckets,
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

impl HistogramCounts {
    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        sum(&self.buckets)
    }

    /// The mean, 0 without values.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            count => self.sum as f64 / count as f64,
        }
    }

    /// The largest value of bucket `index`: 2 to the power of a quarter of it.
    #[must_use]
    pub fn bound(index: usize) -> f64 {
        (index as f64 / BUCKETS_PER_POWER).exp2()
    }

    /// The value that a share `quantile` of all values do not exceed, as the bound of its bucket;
    /// 0 without values.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> f64 {
        let wanted = (self.count() as f64 * quantile).max(1.0);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen = count.saturating_add(seen);
            if seen as f64 >= wanted {
                return Self::bound(index).floor();
            }
        }
        0.0
    }

    /// Number of values up to `bound`, which is a power of two.
    #[must_use]
    pub fn up_to(&self, power: u32) -> u64 {
        let last = power as usize * 4;
        sum(self.buckets.iter().take(last + 1))
    }

    /// The values that came after `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |index| earlier.buckets.get(index).copied().unwrap_or(0);
        let buckets = self.buckets.iter().enumerate();
        let mut buckets: Vec<u64> = buckets
            .map(|(index, count)| count.saturating_sub(before(index)))
            .collect();
        trim(&mut buckets);
        Self {
            buckets,
            sum: self.sum.saturating_sub(earlier.sum),
        }
    }

    /// Adds the values of `other`.
    pub fn merge(&mut self, other: &Self) {
        let len = self.buckets.len().max(other.buckets.len());
        self.buckets.resize(len, 0);
        for (mine, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine = mine.saturating_add(*more);
        }
        self.sum = self.sum.saturating_add(other.sum);
    }
}

/// The sum of counts, which another process may have made up.
fn sum<'a>(counts: impl IntoIterator<Item = &'a u64>) -> u64 {
    let counts = counts.into_iter();
    counts.fold(0, |sum, count| sum.saturating_add(*count))
}

fn trim(buckets: &mut Vec<u64>) {
    let used = buckets.iter().rposition(|count| *count > 0);
    buckets.truncate(used.map_or(0, |last| last + 1));
}

/// The bucket of a value, without the logarithm, which costs more than the rest of a record.
fn bucket(value: u64) -> usize {
    let Some(power) = value.checked_ilog2() else {
        return 0;
    };
    // From 1 to 2, with 63 bits behind the point.
    let mantissa = value << (63 - power);
    let above = QUARTERS.iter().filter(|bound| mantissa > **bound).count();
    (4 * power as usize + above).min(BUCKETS - 1)
}

/// The bounds of buckets from one power of two to the next, rounded down: 1, and 2 to the powers of
/// 1/4, 1/2, 3/4; with 63 bits behind the point.
const QUARTERS: [u64; 4] = [
    1 << 63,
    0x9837_f051_8db8_a96f,
    0xb504_f333_f9de_6484,
    0xd744_fcca_d69d_6af4,
];

/// A quantile is right to 2^(1/4), so to 19 % at most and 9 % on average.
const BUCKETS_PER_POWER: f64 = 4.0;

/// Values up to 2^44: half a year in microseconds, 16 TiB. Larger ones are in the last bucket.
const BUCKETS: usize = 44 * 4 + 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_in_the_bucket_of_its_bound() {
        for value in (0..5000).chain([1 << 20, (1 << 20) + 1, 1 << 43, u64::MAX]) {
            let index = bucket(value);
            if index < BUCKETS - 1 {
                assert!(value as f64 <= HistogramCounts::bound(index), "{value}");
            }
            if index > 0 {
                assert!(value as f64 > HistogramCounts::bound(index - 1), "{value}");
            }
        }
    }

    #[test]
    fn quantiles_mean_and_differences() {
        let histogram = Histogram::default();
        assert_eq!(histogram.counts().quantile(0.5), 0.0);
        for value in 1..=1000 {
            histogram.record(f64::from(value));
        }
        let before = histogram.counts();
        assert_eq!((before.count(), before.mean()), (1000, 500.5));
        assert_eq!(before.up_to(6), 64);
        for (quantile, exact) in [(0.1, 100.0), (0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = before.quantile(quantile);
            assert!(
                found >= exact && found <= exact * 1.19,
                "{quantile}: {found}"
            );
        }
        histogram.record(3.0);
        let news = histogram.counts().since(&before);
        assert_eq!((news.count(), news.sum), (1, 3));
        let mut both = before.clone();
        both.merge(&news);
        assert_eq!(both, histogram.counts());
    }
}
