//! Bounds on the LISTs that walks may leave unused at a time and may waste in total.
//!
//! Pure. The window grows with each LIST that a program used and halves with each wasted one. The
//! credit bounds the total: [`WALK_USES_PER_WASTE`] directories that needed no request of their own
//! pay for one wasted request.

use std::time::Duration;

/// The credit of one mount, in uses.
#[derive(Debug)]
pub(super) struct WalkCredit {
    left: i32,
    window: usize,
    renewed: Duration,
}

impl Default for WalkCredit {
    fn default() -> Self {
        Self {
            left: WALK_CREDIT,
            window: WALK_WINDOW,
            renewed: Duration::ZERO,
        }
    }
}

impl WalkCredit {
    /// Whether one more LIST may be sent while `unused` LISTs are unused.
    pub(super) fn allows(&self, unused: usize) -> bool {
        self.left > 0 && unused < self.window
    }

    /// Records a directory that needed no request of its own.
    pub(super) fn directory_used(&mut self) {
        self.left = (self.left + 1).min(2 * WALK_CREDIT);
    }

    /// Records the first use of a LIST.
    pub(super) fn request_used(&mut self) {
        self.window = (self.window + 1).min(WALK_UNUSED_MAX);
    }

    /// Records a LIST that no program used.
    pub(super) fn wasted(&mut self) {
        self.left = (self.left - WALK_USES_PER_WASTE).max(-WALK_CREDIT);
        self.window = (self.window / 2).max(1);
    }

    /// Stops all LISTs ahead until the credit is renewed, because the server asked for fewer
    /// requests.
    pub(super) fn stop(&mut self, now: Duration) {
        self.left = self.left.min(0);
        self.window = 1;
        self.renewed = now;
    }

    /// Adds credit for one request in each [`WALK_CREDIT_PERIOD`].
    pub(super) fn renew(&mut self, now: Duration) {
        while self.renewed + WALK_CREDIT_PERIOD <= now {
            self.renewed += WALK_CREDIT_PERIOD;
            if self.left >= WALK_CREDIT {
                self.renewed = now;
                return;
            }
            self.left = (self.left + WALK_USES_PER_WASTE).min(WALK_CREDIT);
            self.window = self.window.max(WALK_WINDOW);
        }
    }
}

/// LISTs ahead of walks of which nothing was used yet, at most.
const WALK_UNUSED_MAX: usize = 64;

/// LISTs ahead of walks of which nothing was used yet, of a walk that begins.
pub(super) const WALK_WINDOW: usize = 4;

/// Directories that were listed ahead and used for each LIST that may be wasted: requests are at
/// most a fifth more than directories.
pub(super) const WALK_USES_PER_WASTE: i32 = 5;

/// Waste that is allowed without any use, in uses: 8 requests.
pub(super) const WALK_CREDIT: i32 = 8 * WALK_USES_PER_WASTE;

/// How often one more LIST may be wasted.
pub(super) const WALK_CREDIT_PERIOD: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    /// A walk that uses none of its LISTs wastes a bounded number of them.
    #[test]
    fn waste_is_bounded_and_time_renews_it() {
        let mut credit = WalkCredit::default();
        let mut wasted = 0;
        while credit.allows(0) {
            credit.wasted();
            wasted += 1;
        }
        assert_eq!(wasted, WALK_CREDIT / WALK_USES_PER_WASTE);
        credit.renew(WALK_CREDIT_PERIOD - Duration::from_nanos(1));
        assert!(!credit.allows(0));
        credit.renew(WALK_CREDIT_PERIOD);
        assert!(credit.allows(0));
        credit.renew(100 * WALK_CREDIT_PERIOD);
        assert_eq!((credit.left, credit.window), (WALK_CREDIT, WALK_WINDOW));
    }

    #[test]
    fn uses_pay_for_waste() {
        let mut credit = WalkCredit::default();
        for _ in 0..100 {
            for _ in 0..WALK_USES_PER_WASTE {
                credit.directory_used();
            }
            credit.wasted();
            assert!(credit.allows(0));
        }
        for _ in 0..1_000 {
            credit.directory_used();
        }
        assert_eq!(credit.left, 2 * WALK_CREDIT);
    }

    #[test]
    fn the_window_opens_with_use() {
        let mut credit = WalkCredit::default();
        assert!(credit.allows(WALK_WINDOW - 1) && !credit.allows(WALK_WINDOW));
        for _ in 0..2 * WALK_UNUSED_MAX {
            credit.request_used();
        }
        assert!(credit.allows(WALK_UNUSED_MAX - 1) && !credit.allows(WALK_UNUSED_MAX));
        credit.wasted();
        assert!(!credit.allows(WALK_UNUSED_MAX / 2));
        credit.stop(Duration::from_secs(7));
        assert!(!credit.allows(0));
        credit.renew(Duration::from_secs(7) + WALK_CREDIT_PERIOD);
        assert!(credit.allows(0));
    }
}
