//! Wall time: the one place of this crate that reads a clock.

use std::time::{Duration, Instant};

use time::OffsetDateTime;

/// Time since it was started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures wall time")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// The date and time of the run.
pub(crate) fn now() -> OffsetDateTime {
    OffsetDateTime::now_utc()
}
