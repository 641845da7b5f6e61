//! The cause of a fetch's wait, from one moment to the next.
//!
//! Told by its GET; asked by the readers that wait for it, whose waits are split so. Times are of
//! the mount's clock. Any thread.

use std::time::Duration;

use crate::metrics::trace::{WaitCause, WaitTimes, nanos};
use crate::sync::Mutex;

/// The times of one fetch by cause.
#[derive(Debug)]
pub(super) struct FetchProgress {
    /// A leaf, held for a few instructions.
    state: Mutex<Spent>,
}

#[derive(Debug)]
struct Spent {
    cause: WaitCause,
    since: Duration,
    /// Without the time since then.
    times: WaitTimes,
}

impl FetchProgress {
    /// A fetch that waits for `cause` since `since`.
    pub(super) fn new(cause: WaitCause, since: Duration) -> Self {
        Self {
            state: Mutex::new(Spent {
                cause,
                since,
                times: WaitTimes::default(),
            }),
        }
    }

    /// From `now` on the fetch waits for `cause`.
    pub(super) fn enters(&self, cause: WaitCause, now: Duration) {
        let mut spent = self.state.lock();
        let before = spent.cause as usize;
        spent.times[before] += nanos(now.saturating_sub(spent.since));
        spent.cause = cause;
        spent.since = spent.since.max(now);
    }

    /// The times until `now`.
    pub(super) fn times(&self, now: Duration) -> WaitTimes {
        let spent = self.state.lock();
        let mut times = spent.times;
        times[spent.cause as usize] += nanos(now.saturating_sub(spent.since));
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_the_time_until_the_next() {
        let second = Duration::from_secs;
        let progress = FetchProgress::new(WaitCause::Connection, second(10));
        progress.enters(WaitCause::FirstByte, second(11));
        progress.enters(WaitCause::Retry, second(13));
        // A thread may have read the clock before another one that told sooner.
        progress.enters(WaitCause::FirstByte, second(12));
        progress.enters(WaitCause::Body, second(18));
        let times = progress.times(second(20));
        for (cause, seconds) in [
            (WaitCause::Connection, 1),
            (WaitCause::FirstByte, 7),
            (WaitCause::Retry, 0),
            (WaitCause::Body, 2),
        ] {
            assert_eq!(times[cause as usize], nanos(second(seconds)), "{cause:?}");
        }
    }
}
