//! When an interface goes out of use, and when it is tried again.
//!
//! Pure: no clock, no connection. [`Interfaces`](super::Interfaces) tells it what happened and
//! acts.
//!
//! Invariant: an interface that is down has exactly one probe under way or planned.

use std::time::Duration;

/// The health of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Health {
    is_up: bool,
    /// Failures since the last success.
    failures: u32,
    /// Time until the next probe that is planned.
    wait: Duration,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            is_up: true,
            failures: 0,
            wait: PROBE_WAIT_MIN,
        }
    }
}

impl Health {
    pub(super) fn is_up(&self) -> bool {
        self.is_up
    }

    /// A request was answered over it, whatever the answer.
    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// A connection over it could not be made, broke or stalled. If that is once too often it is
    /// down now, and the first probe is due after the time returned.
    pub(super) fn failed(&mut self) -> Option<Duration> {
        self.failures += 1;
        if !self.is_up || self.failures < FAILURES_MAX {
            return None;
        }
        self.is_up = false;
        Some(self.next_wait())
    }

    /// A probe out of turn did not reach the server over it: it is down at once. Returns when the
    /// next is due.
    pub(super) fn unreached(&mut self) -> Option<Duration> {
        if !self.is_up {
            return None;
        }
        self.is_up = false;
        Some(self.next_wait())
    }

    /// A probe ended. Returns when the next is due, or `None` if the interface is used again: then
    /// one more failure is enough to take it away, until a request succeeds.
    pub(super) fn probed(&mut self, was_reached: bool) -> Option<Duration> {
        if self.is_up {
            return None;
        }
        if was_reached {
            self.is_up = true;
            self.failures = FAILURES_MAX - 1;
            return None;
        }
        Some(self.next_wait())
    }

    fn next_wait(&mut self) -> Duration {
        let wait = self.wait;
        self.wait = (wait * 2).min(PROBE_WAIT_MAX);
        wait
    }
}

/// A server that closes an idle connection looks like this once; a dead interface every time.
const FAILURES_MAX: u32 = 2;
/// A cable that is plugged in again at once is used again at once.
const PROBE_WAIT_MIN: Duration = Duration::from_millis(250);
/// A probe is one TCP connection, so asking every few seconds for ever costs nothing.
const PROBE_WAIT_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn down_after_failures_in_a_row_and_up_by_a_probe() {
        let mut health = Health::default();
        assert_eq!(health.failed(), None);
        health.succeeded();
        assert_eq!(health.failed(), None);
        assert!(health.is_up());
        assert_eq!(health.failed(), Some(PROBE_WAIT_MIN));
        assert!(!health.is_up());
        assert_eq!(health.failed(), None, "a probe is planned already");
        assert_eq!(health.probed(false), Some(PROBE_WAIT_MIN * 2));
        assert_eq!(health.probed(true), None);
        assert!(health.is_up());
    }

    #[test]
    fn one_that_fails_again_at_once_is_left_alone_for_longer() {
        let mut health = Health::default();
        health.failed();
        let mut wait = health.failed().unwrap();
        for _ in 0..20 {
            assert_eq!(health.probed(true), None);
            let longer = health.failed().unwrap();
            assert_eq!(longer, (wait * 2).min(PROBE_WAIT_MAX));
            wait = longer;
        }
        assert_eq!(wait, PROBE_WAIT_MAX);
        health.succeeded();
        assert_eq!(health, Health::default());
    }

    #[test]
    fn a_failed_probe_out_of_turn_is_enough() {
        let mut health = Health::default();
        assert_eq!(health.unreached(), Some(PROBE_WAIT_MIN));
        assert!(!health.is_up());
        assert_eq!(health.unreached(), None, "a probe is planned already");
        assert_eq!(health.failed(), None);
    }

    #[test]
    fn a_late_success_ends_the_quarantine_and_its_probes() {
        let mut health = Health::default();
        health.failed();
        health.failed();
        health.succeeded();
        assert_eq!(health.probed(false), None);
        assert!(health.is_up());
    }
}
