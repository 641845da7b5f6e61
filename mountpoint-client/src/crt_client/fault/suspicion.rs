//! The decision whether to replace keys that a server refuses without a reason.
//!
//! Pure: values in, values out; no clock, no look-up. `Core` asks it and acts.
//!
//! Invariant: every request that was refused with suspected keys gets the same verdict, in whatever
//! order the refusals come. Two suspicions of different keys have a gap between them, because a
//! refusal may also mean a missing permission, and a look-up of keys costs a request.

use std::time::Duration;

/// The last suspicion.
#[derive(Debug, Default)]
pub(in crate::crt_client) struct Suspicion {
    /// The suspected keys.
    generation: Option<u64>,
    /// The time of the suspicion, on the caller's clock.
    at: Option<Duration>,
}

/// The consequence of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::crt_client) enum Verdict {
    /// The keys are replaced, and the request is repeated.
    Replace,
    /// Other keys were replaced a moment ago: these keys may be suspected after this time.
    Later(Duration),
}

impl Suspicion {
    /// A request was refused, without a reason, with the keys of `generation`, which are still in
    /// use.
    pub(in crate::crt_client) fn judge(
        &mut self,
        generation: u64,
        now: Duration,
        gap: Duration,
    ) -> Verdict {
        // Another request is about to replace them.
        if self.generation == Some(generation) {
            return Verdict::Replace;
        }
        if let Some(rest) = self.at.and_then(|at| (at + gap).checked_sub(now))
            && !rest.is_zero()
        {
            return Verdict::Later(rest);
        }
        self.generation = Some(generation);
        self.at = Some(now);
        Verdict::Replace
    }

    /// The server said of the keys of `generation` that they have expired.
    pub(in crate::crt_client) fn is_certain(&mut self, generation: u64) {
        self.generation = Some(generation);
    }
}

/// How often one request is repeated with other keys: once for keys that it replaces, and as often
/// again for keys that were replaced while it was sent, or after a pause between two suspicions.
pub(in crate::crt_client) const KEYS_REFUSED_MAX: u32 = 3;
/// Time between two suspicions of keys: keys live for minutes at least, so new ones are not
/// suspected at once.
pub(in crate::crt_client) const GAP: Duration = Duration::from_secs(10);
/// Time between two suspicions of sessions, which S3 opens in milliseconds.
///
/// S3 refuses a missing permission when a session is opened. Any other refusal is most likely the
/// session's end, so the request waits for the next suspicion.
pub(in crate::crt_client) const SESSION_GAP: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    /// Refusals as (generation of the keys, time in ms), and what is done about each.
    #[track_caller]
    fn check(refusals: &[(u64, u64, Verdict)]) {
        let mut suspicion = Suspicion::default();
        for (nth, (generation, at, expected)) in refusals.iter().enumerate() {
            let verdict = suspicion.judge(*generation, Duration::from_millis(*at), SESSION_GAP);
            assert_eq!(verdict, *expected, "refusal {nth} of {refusals:?}");
        }
    }

    fn later(millis: u64) -> Verdict {
        Verdict::Later(Duration::from_millis(millis))
    }

    #[test]
    fn all_requests_with_the_same_keys_are_repeated() {
        use Verdict::Replace;
        check(&[(1, 0, Replace), (1, 0, Replace), (1, 900, Replace)]);
        check(&[(1, 5_000, Replace), (1, 60_000, Replace)]);
    }

    #[test]
    fn other_keys_are_suspected_after_a_gap() {
        use Verdict::Replace;
        check(&[(1, 0, Replace), (2, 0, later(1_000))]);
        check(&[(1, 0, Replace), (2, 999, later(1)), (2, 1_000, Replace)]);
        check(&[
            (1, 0, Replace),
            (2, 1_000, Replace),
            (3, 1_400, later(600)),
            (2, 1_400, Replace),
        ]);
    }

    #[test]
    fn what_the_server_says_needs_no_gap() {
        let mut suspicion = Suspicion::default();
        let judge = |suspicion: &mut Suspicion, generation| {
            suspicion.judge(generation, Duration::ZERO, SESSION_GAP)
        };
        assert_eq!(judge(&mut suspicion, 1), Verdict::Replace);
        suspicion.is_certain(2);
        assert_eq!(judge(&mut suspicion, 2), Verdict::Replace);
        assert_eq!(judge(&mut suspicion, 3), later(1_000));
    }
}
