//! Whether the shared bucket answers well enough to be asked at all.
//!
//! Pure. A bucket that fails, is late or has damaged objects is left alone for a while; then one
//! request is sent, and its answer decides.

use std::time::Duration;

/// Failures of late, and for how long the bucket is left alone.
#[derive(Debug, Default)]
pub(in crate::cache::shared) struct TierHealth {
    /// Outcomes of the last requests, a bit each: 1 is a failure, or late.
    failed: u16,
    /// States of the last objects, a bit each: 1 is damaged.
    damaged: u16,
    off_until: Duration,
    /// Until when the one request after a pause is waited for.
    trial_until: Duration,
    /// How long it was left alone the last time; 0 after a success.
    pause: Duration,
}

impl TierHealth {
    /// Whether the bucket may be asked: it is not left alone, and no trial runs.
    pub(in crate::cache::shared) fn is_on(&self, now: Duration) -> bool {
        !self.is_paused(now) && (self.pause.is_zero() || now >= self.trial_until)
    }

    /// Whether the bucket is left alone.
    pub(in crate::cache::shared) fn is_paused(&self, now: Duration) -> bool {
        now < self.off_until
    }

    /// Whether a request may be sent now. The first one after a pause is a trial: no other is sent
    /// before its answer, or for [`TRIAL_MAX`].
    pub(in crate::cache::shared) fn begins(&mut self, now: Duration) -> bool {
        let is_on = self.is_on(now);
        if is_on && !self.pause.is_zero() {
            self.trial_until = now + TRIAL_MAX;
        }
        is_on
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
        self.damaged <<= 1;
        self.pause = Duration::ZERO;
        None
    }

    /// The bucket has sent something else than was stored. Returns for how long it is left alone,
    /// if that begins now.
    pub(in crate::cache::shared) fn sent_damage(&mut self, now: Duration) -> Option<Duration> {
        self.damaged = self.damaged << 1 | 1;
        let is_over = self.damaged.count_ones() >= DAMAGED_MAX || !self.pause.is_zero();
        (is_over && !self.is_paused(now)).then(|| self.leave_alone(now))
    }

    /// The bucket has failed, or was so late that S3 was asked too. Returns for how long it is left
    /// alone, if that begins now.
    pub(in crate::cache::shared) fn failed(&mut self, now: Duration) -> Option<Duration> {
        if self.is_paused(now) {
            // A request that was sent before.
            return None;
        }
        self.failed = self.failed << 1 | 1;
        let is_repeated = !self.pause.is_zero();
        if self.failed.count_ones() < FAILURES_MAX && !is_repeated {
            return None;
        }
        Some(self.leave_alone(now))
    }

    fn leave_alone(&mut self, now: Duration) -> Duration {
        (self.failed, self.damaged) = (0, 0);
        self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        self.off_until = now + self.pause;
        self.trial_until = Duration::ZERO;
        self.pause
    }
}

/// Failures among the last 16 requests after which the bucket is left alone: one or two happen to
/// any server.
const FAILURES_MAX: u32 = 3;

/// Damaged objects among the last 16 after which the bucket is left alone. Fewer are written anew.
const DAMAGED_MAX: u32 = 8;

/// How long the answer of a trial is waited for before another request is sent.
const TRIAL_MAX: Duration = Duration::from_secs(2);

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
    fn one_request_decides_after_a_pause() {
        let mut health = TierHealth::default();
        while health.failed(s(0)).is_none() {}
        assert!(!health.begins(s(9)));
        assert!(health.begins(s(10)));
        assert!(!health.begins(s(10)), "the trial runs");
        assert!(!health.is_on(s(11)));
        assert!(!health.is_paused(s(11)));
        assert!(health.begins(s(12)), "the trial has no answer");
        quick(&mut health, 1, s(12));
        assert!(health.begins(s(12)));
        assert!(health.begins(s(12)));
    }

    #[test]
    fn a_bucket_of_damaged_objects_is_left_alone() {
        let mut health = TierHealth::default();
        for _ in 1..DAMAGED_MAX {
            assert_eq!(health.sent_damage(s(0)), None);
        }
        assert_eq!(health.sent_damage(s(0)), Some(PAUSE_MIN));
        assert_eq!(health.sent_damage(s(1)), None, "asked for before");
        assert!(health.begins(s(10)));
        assert_eq!(health.sent_damage(s(10)), Some(PAUSE_MIN * 2));

        let mut health = TierHealth::default();
        for _ in 0..100 {
            assert_eq!(health.sent_damage(s(0)), None, "few");
            quick(&mut health, 2, s(0));
        }
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
