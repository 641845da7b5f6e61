//! How many extents a node stores in a time.
//!
//! Pure: a token bucket. A PUT costs twelve times a GET and competes with the PUTs of other nodes;
//! small files are an extent each.

use std::time::Duration;

/// The PUTs that a node may send.
#[derive(Debug)]
pub(in crate::cache::shared) struct StoreRate {
    /// PUTs that may be sent at once, in [`PERIOD`]s of waiting for one.
    saved: Duration,
    seen_at: Duration,
}

impl Default for StoreRate {
    fn default() -> Self {
        Self {
            saved: PERIOD * BURST,
            seen_at: Duration::ZERO,
        }
    }
}

impl StoreRate {
    /// Whether one more extent may be stored now. Counts it.
    pub(in crate::cache::shared) fn takes(&mut self, now: Duration) -> bool {
        let waited = now.saturating_sub(self.seen_at);
        self.seen_at = self.seen_at.max(now);
        self.saved = (self.saved + waited).min(PERIOD * BURST);
        match self.saved.checked_sub(PERIOD) {
            Some(saved) => {
                self.saved = saved;
                true
            }
            None => false,
        }
    }
}

/// Time for one PUT: 250 in a second. Fourteen nodes reach the 3,500 that S3 takes in a prefix.
const PERIOD: Duration = Duration::from_millis(4);

/// PUTs without a wait: the small files of a directory.
const BURST: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(rate: &mut StoreRate, tries: u32, now: Duration) -> u32 {
        (0..tries).map(|_| u32::from(rate.takes(now))).sum()
    }

    #[test]
    fn a_burst_is_followed_by_an_even_rate() {
        let mut rate = StoreRate::default();
        let mut now = Duration::from_secs(5);
        assert_eq!(taken(&mut rate, 2 * BURST, now), BURST);
        for _ in 0..10 {
            now += PERIOD * 7;
            assert_eq!(taken(&mut rate, 100, now), 7);
        }
        now += Duration::from_secs(3600);
        assert_eq!(taken(&mut rate, 2 * BURST, now), BURST);
        assert_eq!(
            taken(&mut rate, 1, Duration::ZERO),
            0,
            "time that runs back"
        );
    }
}
