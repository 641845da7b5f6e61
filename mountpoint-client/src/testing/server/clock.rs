//! The server's time: it is a real server, so it has the real one.
//!
//! Kept in one place, because the rest of the workspace takes its time from a clock that tests can
//! move.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Monotonic time, for durations and pacing.
#[expect(
    clippy::disallowed_methods,
    reason = "a real server on real sockets; nothing simulates it"
)]
pub(super) fn instant() -> Instant {
    Instant::now()
}

/// Wall time in whole seconds: what `Last-Modified` can express, so that dates in headers, listings
/// and conditions agree.
#[expect(
    clippy::disallowed_methods,
    reason = "a real server on real sockets; nothing simulates it"
)]
pub(super) fn now() -> SystemTime {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    UNIX_EPOCH + Duration::from_secs(since.as_secs())
}
