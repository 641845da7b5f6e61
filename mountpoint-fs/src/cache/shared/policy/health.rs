//! Whether the shared bucket answers well enough to be asked at all.
//!
//! Pure. A bucket that fails or is late is left alone for a while; then one answer decides.

use std::time::Duration;

/// Failures of late, and for how long the bucket is left alone.
#[derive(Debug, Default)]
pub(in crate::cache::shared) struct TierHealth {
    /// Outcomes of the last requests, a bit each: 1 is a failure, or late.
    failed: u16,
    off_until: Duration,
    /// How long it was left alone the last time; 0 after a success.
    pause: Duration,
}

impl TierHealth {
    /// Whether the bucket may be asked.
    pub(in crate::cache::shared) fn is_on(&self, now: Duration) -> bool {
        now >= self.off_until
    }

    /// The bucket has answered, `took` after it was asked. Returns for how long it is left alone,
    /// if that begins now.
    pub(in crate::cache::shared) fn answered(
        &mut self,
        took: Duration,
        now: Duration,
    ) -> Option<Duration> {
        if took >= SLOW {
            return self.failed(now);
        }
        self.failed <<= 1;
        self.pause = Duration::ZERO;
        None
    }

    /// The bucket has failed, or was so late that S3 was asked too. Returns for how long it is left
    /// alone, if that begins now.
    pub(in crate::cache::shared) fn failed(&mut self, now: Duration) -> Option<Duration> {
        if !self.is_on(now) {
            // A request that was sent before.
            return None;
        }
        self.failed = self.failed << 1 | 1;
        let is_repeated = !self.pause.is_zero();
        if self.failed.count_ones() < FAILURES_MAX && !is_repeated {
            return None;
        }
        self.failed = 0;
        self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        self.off_until = now + self.pause;
        Some(self.pause)
    }
}

/// Failures among the last 16 requests after which the bucket is left alone: one or two happen to
/// any server.
const FAILURES_MAX: u32 = 3;

/// Time without a byte that counts as a failure: S3 itself needs a tenth.
const SLOW: Duration = Duration::from_millis(500);

/// How long the bucket is left alone first: a server that restarts is back by then.
const PAUSE_MIN: Duration = Duration::from_secs(10);

/// How long the bucket is left alone at most. A request in five minutes costs nothing.
const PAUSE_MAX: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn quick(health: &mut TierHealth, count: u32, now: Duration) {
        for _ in 0..count {
            assert_eq!(health.answered(Duration::from_millis(20), now), None);
        }
    }

    #[test]
    fn a_few_failures_end_it_for_a_while() {
        let mut health = TierHealth::default();
        for _ in 0..10 {
            assert_eq!(health.failed(s(0)), None);
            assert_eq!(health.answered(s(2), s(0)), None, "late");
            quick(&mut health, 16, s(0));
        }
        assert_eq!(health.failed(s(1)), None);
        quick(&mut health, 5, s(1));
        assert_eq!(health.answered(s(2), s(1)), None);
        assert_eq!(health.failed(s(1)), Some(PAUSE_MIN));
        assert_eq!(health.failed(s(1)), None, "sent before");
        assert!(!health.is_on(s(10)));
        assert!(health.is_on(s(11)));
    }

    #[test]
    fn one_more_failure_is_enough_then_and_one_success_ends_it() {
        let mut health = TierHealth::default();
        let mut now = s(0);
        let mut pauses = Vec::new();
        for _ in 0..10 {
            while health.is_on(now) {
                pauses.extend(health.failed(now));
            }
            now += pauses.last().copied().unwrap_or_default();
        }
        assert_eq!(pauses[..3], [s(10), s(20), s(40)]);
        assert_eq!(pauses.last(), Some(&PAUSE_MAX));
        quick(&mut health, 1, now);
        assert_eq!(health.failed(now), None);
        assert!(health.is_on(now));
    }
}
