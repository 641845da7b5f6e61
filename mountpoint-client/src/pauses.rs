//! How much of their time requests spend in pauses between two attempts.
//!
//! The time is counted for requests that are not GETs into blocks: the observer of such a GET is
//! told of its pauses. A caller that waits for other requests cannot tell which one of a shared
//! result paused, so it splits its wait by the share of requests that paused meanwhile. Any thread.

use std::sync::LazyLock;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::ErrorKind;

/// The reason of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseReason {
    /// S3 said to slow down.
    Throttled,
    /// The attempt failed otherwise.
    Failed,
}

impl PauseReason {
    /// The reason behind an attempt that failed so.
    pub(crate) fn of(failure: &ErrorKind) -> Self {
        match failure {
            ErrorKind::Throttled => Self::Throttled,
            _ => Self::Failed,
        }
    }
}

/// The time in pauses, as the integral over time of the share of requests that paused: one second
/// in which one of two requests paused counts as half a second. Both times only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PausedTime {
    /// In pauses because S3 said to slow down.
    pub throttled: Duration,
    /// In pauses after other failures.
    pub failed: Duration,
}

/// The time in pauses since this process began.
#[must_use]
pub fn paused_time() -> PausedTime {
    PAUSES.at(Instant::now())
}

static PAUSES: LazyLock<PauseMeter> = LazyLock::new(PauseMeter::default);

/// Counts requests and pauses.
#[derive(Debug, Default)]
struct PauseMeter {
    /// A leaf, held for a few instructions.
    state: Mutex<PauseState>,
}

#[derive(Clone, Copy, Debug, Default)]
struct PauseState {
    requests: u32,
    throttled: u32,
    failed: u32,
    times: PausedTime,
    /// Until when `times` is counted; `None` before the first request.
    until: Option<Instant>,
}

impl PauseMeter {
    fn at(&self, now: Instant) -> PausedTime {
        let mut state = self.state.lock();
        state.advance(now);
        state.times
    }

    fn change(&self, change: impl FnOnce(&mut PauseState)) {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.advance(now);
        change(&mut state);
    }
}

impl PauseState {
    /// Counts the time until `now`.
    fn advance(&mut self, now: Instant) {
        let since = self.until.replace(now);
        let passed = since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        if self.requests > 0 {
            self.times.throttled += passed * self.throttled / self.requests;
            self.times.failed += passed * self.failed / self.requests;
        }
    }

    fn pausing(&mut self, reason: PauseReason) -> &mut u32 {
        match reason {
            PauseReason::Throttled => &mut self.throttled,
            PauseReason::Failed => &mut self.failed,
        }
    }
}

/// A request, from before its first attempt to its end.
#[derive(Debug)]
pub(crate) struct CountedRequest(());

impl CountedRequest {
    /// A request begins.
    pub(crate) fn begins() -> Self {
        PAUSES.change(|state| state.requests += 1);
        Self(())
    }

    /// Waits for `time`, which counts as a pause.
    pub(crate) async fn pause(&self, reason: PauseReason, time: Duration) {
        if time.is_zero() {
            return;
        }
        let _pause = Pause::begins(reason);
        tokio::time::sleep(time).await;
    }
}

impl Drop for CountedRequest {
    fn drop(&mut self) {
        PAUSES.change(|state| state.requests -= 1);
    }
}

/// A pause, which ends when it is dropped.
#[derive(Debug)]
struct Pause(PauseReason);

impl Pause {
    fn begins(reason: PauseReason) -> Self {
        PAUSES.change(|state| *state.pausing(reason) += 1);
        Self(reason)
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        PAUSES.change(|state| *state.pausing(self.0) -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_count_by_the_share_of_requests_that_pause() {
        const SECOND: Duration = Duration::from_secs(1);
        let mut state = PauseState::default();
        let begin = Instant::now();
        state.advance(begin);
        state.advance(begin + SECOND);
        assert_eq!(state.times, PausedTime::default(), "no request");
        state.requests = 2;
        state.throttled = 1;
        state.advance(begin + 3 * SECOND);
        state.failed = 1;
        state.advance(begin + 5 * SECOND);
        state.requests = 1;
        state.throttled = 0;
        state.advance(begin + 6 * SECOND);
        let expected = PausedTime {
            throttled: 2 * SECOND,
            failed: 2 * SECOND,
        };
        assert_eq!(state.times, expected);
    }
}
