//! Times that processes share, one after the other and side by side.
//!
//! Pure. The machine's uptime cannot be set, but stands still in a machine that was suspended by
//! its host; the time of day goes on there, but can be set. So both are kept, and what does not fit
//! both counts as too old.

use std::time::{Duration, UNIX_EPOCH};

use crate::clock::Clock;

/// A moment by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharedTime {
    /// Since the machine's boot.
    pub(super) uptime: Duration,
    /// Since 1970.
    pub(super) wall: Duration,
}

impl SharedTime {
    /// Now.
    pub(super) fn now(clock: &Clock) -> Self {
        Self {
            uptime: clock.uptime(),
            wall: clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default(),
        }
    }

    /// The moment `age` ago.
    pub(super) fn ago(clock: &Clock, age: Duration) -> Self {
        let Self { uptime, wall } = Self::now(clock);
        Self {
            uptime: uptime.saturating_sub(age),
            wall: wall.saturating_sub(age),
        }
    }

    /// How old it is at `now`, by the clock that says more; `None` if a clock was set back since.
    pub(super) fn age(self, now: Self) -> Option<Duration> {
        let by_uptime = now.uptime.checked_sub(self.uptime)?;
        let by_wall = now.wall.checked_sub(self.wall)?;
        Some(by_uptime.max(by_wall))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_that_says_more_counts_and_none_goes_back() {
        let at = |uptime, wall| SharedTime {
            uptime: Duration::from_secs(uptime),
            wall: Duration::from_secs(wall),
        };
        for (now, expected) in [
            (at(100, 1_000), Some(0)),
            (at(130, 1_020), Some(30)),
            // The machine's host has suspended it.
            (at(101, 9_000), Some(8_000)),
            // The clock was set back.
            (at(130, 999), None),
            // The machine was started again.
            (at(99, 2_000), None),
        ] {
            let age = at(100, 1_000).age(now);
            assert_eq!(age, expected.map(Duration::from_secs), "{now:?}");
        }
    }
}
