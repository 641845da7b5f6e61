//! Recent rate of the fetched bytes, and an estimate for the remaining ones.
//!
//! Pure: the time goes in with each count.

use std::collections::VecDeque;
use std::time::Duration;

/// The rate of the last seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Rate {
    /// Times with the bytes fetched by then, the oldest first.
    samples: VecDeque<(Duration, u64)>,
}

impl Rate {
    /// Records that `bytes` were fetched by the time `now`.
    pub(super) fn note(&mut self, bytes: u64, now: Duration) {
        self.samples.push_back((now, bytes));
        while self.samples.len() > 2 && self.samples[1].0 + SPAN <= now {
            self.samples.pop_front();
        }
    }

    /// Bytes per second; 0 if unknown.
    pub(super) fn per_second(&self) -> u64 {
        let (Some((from, before)), Some((to, after))) = (self.samples.front(), self.samples.back())
        else {
            return 0;
        };
        let millis = (*to - *from).as_millis();
        let rate = u128::from(after - before) * 1000 / millis.max(1);
        if millis == 0 {
            return 0;
        }
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    /// Estimated time for `bytes` more; `None` at a rate of 0.
    pub(super) fn time_for(&self, bytes: u64) -> Option<Duration> {
        let rate = self.per_second();
        (rate > 0).then(|| Duration::from_secs(bytes.div_ceil(rate)))
    }
}

/// Interval that the rate covers.
const SPAN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_seconds_count() {
        let secs = Duration::from_secs;
        let mut rate = Rate::default();
        assert_eq!((rate.per_second(), rate.time_for(1)), (0, None));
        rate.note(0, secs(0));
        assert_eq!((rate.per_second(), rate.time_for(1)), (0, None));
        for second in 1..=20 {
            rate.note(1000 * second, secs(second));
        }
        assert_eq!(rate.per_second(), 1000);
        assert_eq!(rate.time_for(1500), Some(secs(2)));
        for second in 21..=30 {
            rate.note(20_000, secs(second));
        }
        assert_eq!((rate.per_second(), rate.time_for(1)), (0, None));
    }
}
