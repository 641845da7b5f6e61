//! Limit of the bytes requested per second.
//!
//! Pure: the time goes in, a wait comes out. Bytes count when they are requested. So the requests
//! of any interval exceed its share by one request at most.

use std::time::Duration;

/// Grants requests at a bounded rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenBucket {
    bytes_per_second: u64,
    /// Time when the granted bytes are used up.
    used_up_at: Duration,
}

impl TokenBucket {
    /// A limit of `bytes_per_second`.
    pub(super) fn new(bytes_per_second: u64) -> Self {
        Self {
            bytes_per_second: bytes_per_second.max(1),
            used_up_at: Duration::ZERO,
        }
    }

    /// Grants `bytes` at the time `now`. Returns the wait before their request.
    pub(super) fn grant(&mut self, bytes: u64, now: Duration) -> Duration {
        let start = self.used_up_at.max(now);
        let nanos = u128::from(bytes) * NANOS / u128::from(self.bytes_per_second);
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.used_up_at = start.saturating_add(takes);
        start - now
    }

    /// Largest request, small enough for several in a second.
    pub(super) fn request_max(&self) -> u64 {
        self.bytes_per_second / REQUESTS_PER_SECOND
    }
}

const NANOS: u128 = 1_000_000_000;

/// Minimum requests per second at the limit: the network then has no long pauses, and the progress
/// moves.
const REQUESTS_PER_SECOND: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn no_more_bytes_than_the_time_allows_and_one_request() {
        let clock = Clock::manual();
        let mut bucket = TokenBucket::new(1_000_000);
        let mut asked = Vec::new();
        for number in 0..100 {
            let bytes = [10_000, 125_000, 1][number % 3];
            let wait = bucket.grant(bytes, clock.now());
            clock.advance(wait);
            if number == 50 {
                // Unused bandwidth is not saved up.
                clock.advance(Duration::from_secs(10));
            }
            asked.push((clock.now(), bytes));
        }
        for (first, (from, _)) in asked.iter().enumerate() {
            let mut bytes = 0;
            for (at, more) in &asked[first..] {
                bytes += more;
                let allowed = (*at - *from).as_micros() + 125_000;
                assert!(u128::from(bytes) <= allowed + 1, "{bytes} of {allowed}");
            }
        }
        let paced: u64 = asked[..50].iter().map(|(_, bytes)| bytes).sum();
        let took = u64::try_from(asked[50].0.as_micros()).unwrap() - 10_000_000;
        assert!(took.abs_diff(paced) < 100, "{took} us for {paced} bytes");
    }

    #[test]
    fn requests_are_small_where_the_bound_is_low() {
        assert_eq!(TokenBucket::new(8_000_000).request_max(), 1_000_000);
    }
}
