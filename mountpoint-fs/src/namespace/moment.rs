//! Times on the mount's clock, in little memory.

use std::time::Duration;

/// A time on the mount's clock. Half the size of a `Duration`, because there may be millions of
/// inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    /// The earliest moment, before the clock's zero.
    pub(crate) const START: Self = Self(0);

    /// The time since the clock's zero.
    pub(super) fn since_start(self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(1))
    }

    /// The time that is left from `now` until this moment.
    pub(crate) fn left(self, now: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(now.0))
    }
}

impl From<Duration> for Moment {
    fn from(since_start: Duration) -> Self {
        Self(
            u64::try_from(since_start.as_nanos())
                .unwrap_or(u64::MAX)
                .saturating_add(1),
        )
    }
}
