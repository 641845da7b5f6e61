//! When to send a failed request again, and how fast to send requests to a server that says to slow
//! down.
//!
//! Pure: values in, values out; no clock, no randomness of its own, no request. `CrtClient` asks it
//! and acts.
//!
//! Invariant: a request makes at most `attempts_max` attempts, waits at most [`WAIT_MAX`] between
//! two of them, and none begins later than `deadline` after the first began or bytes last arrived,
//! or `silence_max` after anything moved. While a server that was there is away, time counts
//! instead of attempts: attempts cost nothing, and the waiting request shall notice the return at
//! once. A server that closes connections without an answer may be away as well: a load balancer
//! without servers does so. Time also counts while another request for the same object is in
//! flight, which ends by itself.

use std::time::Duration;

use crate::ErrorKind;

/// Bounds of one request's retries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Attempts of one request, the first included. At least 1.
    pub attempts_max: u32,
    /// No attempt begins later than this after the first.
    pub deadline: Duration,
    /// No attempt begins when nothing has moved for so long: neither a byte that was sent nor one
    /// of an answer.
    pub silence_max: Duration,
}

/// One failed attempt, and those before it.
#[derive(Clone, Copy, Debug)]
pub struct FailedAttempt<'a> {
    /// How it failed.
    pub kind: &'a ErrorKind,
    /// Attempts made so far, this one included.
    pub attempts: u32,
    /// Attempts of these that had no answer, and were not given up for silence.
    pub unanswered: u32,
    /// Whether this one is one of those.
    pub is_unanswered: bool,
    /// Time since the first attempt began; of a conflict, since the first conflict.
    pub elapsed: Duration,
    /// How long nothing has moved, if the attempt ended because of that.
    pub silent: Option<Duration>,
    /// The server's `Retry-After`.
    pub retry_after: Option<Duration>,
    /// Whether the server has ever answered this client.
    pub was_reached: bool,
    /// Whether the attempt was answered by something else than S3.
    pub is_foreign: bool,
}

impl RetryPolicy {
    /// How long to wait before the next attempt, or `None` to give up. `random` is uniform in
    /// `0.0..1.0`.
    #[must_use]
    pub fn wait(&self, failed: &FailedAttempt<'_>, random: f64) -> Option<Duration> {
        if !failed.kind.is_retryable() {
            return None;
        }
        let (attempts_max, deadline) = self.bounds(failed);
        let wait = backoff(failed.kind, failed.attempts, random);
        let wait = match failed.kind {
            ErrorKind::Unreachable if failed.was_reached => wait.min(AWAY_WAIT_MAX),
            ErrorKind::Unreachable => wait,
            _ => wait.max(failed.retry_after.unwrap_or_default()),
        };
        let wait = wait.min(WAIT_MAX);
        let is_silent = failed
            .silent
            .is_some_and(|silent| silent + wait > self.silence_max);
        let may_be_away = failed.is_unanswered && failed.was_reached && self.attempts_max > 1;
        let attempts = match failed.was_reached && !failed.is_unanswered {
            true => failed.attempts.saturating_sub(failed.unanswered),
            false => failed.attempts,
        };
        let has_attempts =
            attempts < attempts_max || may_be_away && failed.elapsed + wait <= self.patience();
        (has_attempts && failed.elapsed + wait <= deadline && !is_silent).then_some(wait)
    }

    /// How long a server that was there may be away.
    fn patience(&self) -> Duration {
        AWAY_PER_ATTEMPT.saturating_mul(self.attempts_max)
    }

    /// How many attempts there may be, and how late the last.
    fn bounds(&self, failed: &FailedAttempt<'_>) -> (u32, Duration) {
        let is_retried = self.attempts_max > 1;
        let without_count = if is_retried { u32::MAX } else { 1 };
        let is_unreachable = *failed.kind == ErrorKind::Unreachable;
        if (is_unreachable || failed.is_foreign) && !failed.was_reached {
            return (
                self.attempts_max.min(UNREACHABLE_ATTEMPTS_MAX),
                self.deadline.min(UNREACHABLE_DEADLINE),
            );
        }
        match failed.kind {
            ErrorKind::Unreachable => {}
            ErrorKind::Conflict => return (without_count, self.deadline.min(CONFLICT_DEADLINE)),
            _ => return (self.attempts_max, self.deadline),
        }
        (without_count, self.deadline.min(self.patience()))
    }
}

/// Exponential with jitter: half of the step is certain, half is chance. The very first retry of a
/// broken connection is almost at once, because a server that closed an idle connection is the
/// usual reason.
fn backoff(kind: &ErrorKind, attempts: u32, random: f64) -> Duration {
    let step = match kind {
        ErrorKind::Throttled => THROTTLED_STEP,
        ErrorKind::Unreachable => UNREACHABLE_STEP,
        _ if attempts <= 1 => return FIRST_WAIT_MAX.mul_f64(random),
        _ => TRANSIENT_STEP,
    };
    let doubled = step.saturating_mul(1 << (attempts.max(1) - 1).min(16));
    doubled.min(WAIT_MAX).mul_f64(0.5 + 0.5 * random)
}

/// Spaces out the starts of requests while the server says to slow down.
///
/// Additive decrease of the spacing on success, doubling on SlowDown: the mirror image of AIMD on
/// the rate.
#[derive(Clone, Debug, Default)]
pub struct Pacing {
    /// Time between the starts of two requests; zero while the server keeps up.
    spacing: Duration,
    /// When the next request may start, on the caller's clock.
    next_start: Duration,
    /// When the spacing last grew.
    grown_at: Duration,
}

impl Pacing {
    /// How long a request that is ready `now` must wait. `now` is the time since any fixed instant.
    pub fn start(&mut self, now: Duration) -> Duration {
        if self.spacing.is_zero() {
            return Duration::ZERO;
        }
        let start = self.next_start.max(now).min(now + PACE_WAIT_MAX);
        self.next_start = start + self.spacing;
        start - now
    }

    /// The server said to slow down. Many answers at once count as one, since all speak of the same
    /// moment.
    pub fn throttled(&mut self, now: Duration) {
        if self.spacing.is_zero() || now >= self.grown_at + PACE_GROWTH_GAP {
            self.spacing = (self.spacing * 2).clamp(PACE_SPACING_MIN, PACE_SPACING_MAX);
            self.grown_at = now;
        }
    }

    /// Whether requests are spaced out now.
    #[must_use]
    pub fn is_throttled(&self) -> bool {
        !self.spacing.is_zero()
    }

    /// A request succeeded.
    pub fn succeeded(&mut self) {
        self.spacing = self.spacing.saturating_sub(PACE_RECOVERY);
    }
}

/// Longest wait between two attempts. Longer ones only make a recovered server look broken.
pub const WAIT_MAX: Duration = Duration::from_secs(5);
/// Default of [`RetryPolicy::deadline`]: a stuck application should hear of it within a minute or
/// so.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(60);
/// Default of [`RetryPolicy::attempts_max`].
pub const ATTEMPTS_MAX: u32 = 10;
/// Where S3 has never answered, a refused connection, an unknown host, an untrusted certificate or
/// the page of another server is a mistake in the settings, and start-up must say so within about
/// five seconds. Later it is an outage, and waiting may help.
pub const UNREACHABLE_ATTEMPTS_MAX: u32 = 4;
/// See [`UNREACHABLE_ATTEMPTS_MAX`]; counts where connecting is slow to fail.
pub const UNREACHABLE_DEADLINE: Duration = Duration::from_secs(4);

/// How long a server that was there may be away, for each attempt that a request may make: 20 s by
/// default.
pub const AWAY_PER_ATTEMPT: Duration = Duration::from_secs(2);
/// Longest wait between two attempts to reach it.
pub const AWAY_WAIT_MAX: Duration = Duration::from_millis(500);

/// How long a request is sent again that meets another one for its object. Longer than a server
/// takes for a small one; what hangs for longer is not waited for.
pub const CONFLICT_DEADLINE: Duration = Duration::from_secs(60);

const FIRST_WAIT_MAX: Duration = Duration::from_millis(20);
const TRANSIENT_STEP: Duration = Duration::from_millis(50);
const THROTTLED_STEP: Duration = Duration::from_millis(200);
const UNREACHABLE_STEP: Duration = Duration::from_millis(200);

const PACE_SPACING_MIN: Duration = Duration::from_millis(1);
/// 100 requests a second: far below what S3 gives one prefix (5,500), and a server that fails at
/// random stays usable.
const PACE_SPACING_MAX: Duration = Duration::from_millis(10);
const PACE_GROWTH_GAP: Duration = Duration::from_millis(200);
const PACE_RECOVERY: Duration = Duration::from_micros(100);
/// Requests beyond this would wait for longer than their callers do; they start together then.
const PACE_WAIT_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryPolicy = RetryPolicy {
        attempts_max: 10,
        deadline: REQUEST_DEADLINE,
        silence_max: REQUEST_DEADLINE,
    };

    #[track_caller]
    fn check(kind: ErrorKind, attempts: u32, elapsed_ms: u64, waits_ms: Option<(u64, u64)>) {
        check_server(false, kind, attempts, elapsed_ms, waits_ms);
    }

    #[track_caller]
    fn check_server(
        was_reached: bool,
        kind: ErrorKind,
        attempts: u32,
        elapsed_ms: u64,
        waits_ms: Option<(u64, u64)>,
    ) {
        let failed = FailedAttempt {
            kind: &kind,
            attempts,
            unanswered: 0,
            is_unanswered: false,
            elapsed: Duration::from_millis(elapsed_ms),
            silent: None,
            retry_after: None,
            was_reached,
            is_foreign: false,
        };
        let wait = |random| POLICY.wait(&failed, random).map(|wait| wait.as_millis());
        assert_eq!(
            wait(0.0),
            waits_ms.map(|(least, _)| u128::from(least)),
            "least wait of {failed:?}"
        );
        assert_eq!(
            wait(1.0),
            waits_ms.map(|(_, most)| u128::from(most)),
            "longest wait of {failed:?}"
        );
    }

    #[test]
    fn waits_grow_and_end() {
        check(ErrorKind::Transient, 1, 0, Some((0, 20)));
        check(ErrorKind::Transient, 2, 30, Some((50, 100)));
        check(ErrorKind::Transient, 3, 30, Some((100, 200)));
        check(ErrorKind::Transient, 9, 30_000, Some((2_500, 5_000)));
        check(ErrorKind::Transient, 10, 30_000, None);
        check(ErrorKind::Transient, 9, 58_000, None);
        check(ErrorKind::Throttled, 1, 0, Some((100, 200)));
        check(ErrorKind::Throttled, 4, 0, Some((800, 1_600)));
        check(ErrorKind::Conflict, 1, 0, Some((0, 20)));
        check(ErrorKind::Conflict, 10, 30_000, Some((2_500, 5_000)));
        check(ErrorKind::Conflict, 30, 60_000, None);
        check(ErrorKind::Unreachable, 1, 0, Some((100, 200)));
        check(ErrorKind::Unreachable, 3, 0, Some((400, 800)));
        check(ErrorKind::Unreachable, 4, 0, None);
        check(ErrorKind::Unreachable, 2, 4_000, None);
        check_server(true, ErrorKind::Unreachable, 1, 0, Some((100, 200)));
        check_server(true, ErrorKind::Unreachable, 4, 4_000, Some((500, 500)));
        check_server(true, ErrorKind::Unreachable, 50, 19_000, Some((500, 500)));
        check_server(true, ErrorKind::Unreachable, 9, 20_000, None);
    }

    #[test]
    fn how_long_a_server_may_be_away_follows_the_attempts() {
        for (attempts_max, patience_ms) in [(1, 0_u64), (3, 6_000), (10, 20_000), (1000, 60_000)] {
            let policy = RetryPolicy {
                attempts_max,
                ..POLICY
            };
            let failed = |elapsed_ms| FailedAttempt {
                kind: &ErrorKind::Unreachable,
                attempts: 1,
                unanswered: 0,
                is_unanswered: false,
                elapsed: Duration::from_millis(elapsed_ms),
                silent: None,
                // Nobody says how long it will be away.
                retry_after: Some(WAIT_MAX),
                was_reached: true,
                is_foreign: false,
            };
            let waits = |elapsed_ms| policy.wait(&failed(elapsed_ms), 0.0).is_some();
            assert_eq!(waits(patience_ms.saturating_sub(100)), patience_ms > 0);
            assert!(!waits(patience_ms));
        }
    }

    /// Attempts, those without an answer, whether the last is one of them, seconds; whether another
    /// one follows.
    #[test]
    fn attempts_without_an_answer_use_up_time_and_no_attempts_of_others() {
        for (attempts, unanswered, is_unanswered, elapsed, is_retried) in [
            (12, 12, true, 14, true),
            (12, 12, true, 20, false),
            (9, 9, true, 50, true),
            (9, 9, true, 60, false),
            (12, 11, false, 18, true),
            (20, 11, false, 18, true),
            (21, 11, false, 18, false),
            (10, 0, false, 18, false),
        ] {
            let failed = FailedAttempt {
                kind: &ErrorKind::Transient,
                attempts,
                unanswered,
                is_unanswered,
                elapsed: Duration::from_secs(elapsed),
                silent: None,
                retry_after: None,
                was_reached: true,
                is_foreign: false,
            };
            let waits = |policy: &RetryPolicy| policy.wait(&failed, 0.0).is_some();
            assert_eq!(waits(&POLICY), is_retried, "{failed:?}");
            let once = RetryPolicy {
                attempts_max: 1,
                ..POLICY
            };
            assert!(!waits(&once));
        }
    }

    #[test]
    fn an_upload_may_take_long_but_not_without_a_byte_that_moves() {
        let policy = RetryPolicy {
            deadline: Duration::from_secs(900),
            ..POLICY
        };
        for (elapsed, silent, is_retried) in [
            (30, Some(30), true),
            (59, Some(59), true),
            (60, Some(60), false),
            (600, Some(30), true),
            (600, Some(60), false),
            (600, None, true),
            (901, None, false),
        ] {
            let failed = FailedAttempt {
                kind: &ErrorKind::Transient,
                attempts: 2,
                unanswered: 0,
                is_unanswered: false,
                elapsed: Duration::from_secs(elapsed),
                silent: silent.map(Duration::from_secs),
                retry_after: None,
                was_reached: true,
                is_foreign: false,
            };
            let wait = policy.wait(&failed, 0.0);
            assert_eq!(wait.is_some(), is_retried, "{failed:?}");
        }
    }

    #[test]
    fn only_what_may_succeed_is_retried() {
        for kind in [
            ErrorKind::NotFound,
            ErrorKind::PreconditionFailed,
            ErrorKind::Denied,
            ErrorKind::Credentials,
            ErrorKind::WrongRegion(None),
            ErrorKind::InvalidRequest,
            ErrorKind::InvalidResponse,
            ErrorKind::Cancelled,
        ] {
            check(kind, 1, 0, None);
        }
    }

    #[test]
    fn the_server_may_ask_for_more_patience_within_bounds() {
        let failed = |retry_after| FailedAttempt {
            kind: &ErrorKind::Throttled,
            attempts: 1,
            unanswered: 0,
            is_unanswered: false,
            elapsed: Duration::ZERO,
            silent: None,
            retry_after: Some(Duration::from_secs(retry_after)),
            was_reached: true,
            is_foreign: false,
        };
        assert_eq!(
            POLICY.wait(&failed(0), 1.0),
            Some(Duration::from_millis(200))
        );
        assert_eq!(POLICY.wait(&failed(3), 1.0), Some(Duration::from_secs(3)));
        assert_eq!(POLICY.wait(&failed(3600), 1.0), Some(WAIT_MAX));
    }

    #[test]
    fn the_pace_slows_and_recovers() {
        let ms = Duration::from_millis;
        let mut pacing = Pacing::default();
        assert_eq!(pacing.start(ms(0)), ms(0));
        for _ in 0..64 {
            pacing.throttled(ms(10));
        }
        assert_eq!(
            pacing.start(ms(10)),
            ms(0),
            "the first after the pause goes at once"
        );
        assert_eq!(pacing.start(ms(10)), ms(1));
        assert_eq!(pacing.start(ms(10)), ms(2));
        pacing.throttled(ms(500));
        assert_eq!(pacing.start(ms(500)), ms(0));
        assert_eq!(pacing.start(ms(500)), ms(2));
        for _ in 0..20 {
            pacing.succeeded();
        }
        assert_eq!(pacing.start(ms(600)), ms(0));
        assert_eq!(pacing.start(ms(600)), ms(0), "no spacing is left");
    }

    #[test]
    fn the_pace_is_bounded() {
        let mut pacing = Pacing::default();
        for second in 0..100 {
            pacing.throttled(Duration::from_secs(second));
        }
        let now = Duration::from_secs(100);
        for _ in 0..1000 {
            assert!(pacing.start(now) <= PACE_WAIT_MAX);
        }
    }
}
