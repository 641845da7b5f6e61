//! The circuit breaker: while S3 answers nothing at all, requests fail at once.
//!
//! A hanging request is given up after a minute. Requests behind it, which wait for a lock of the
//! kernel or for a permit, would take a minute each. So after [`SILENCE_MAX`] without any answer
//! the breaker opens: waiting and new requests are refused. From the first late request on, a probe
//! (GetBucketLocation) is sent every few seconds; any answer, to it or to another request, closes
//! it.
//!
//! An answer counts when all of it has come, and only one with a body: a server may send heads, and
//! hang before or in the body.
//!
//! [`Silence`] is pure: values in, values out. A request that is late holds a [`Waiting`]. The
//! probes are one task of the runtime, which ends with the silence, or when no request waits and
//! the breaker is closed.
//!
//! Lock: the silence's, held for a few instructions; no other lock is taken under it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;

use super::operation::Operation;
use super::sdk_fault::of_sdk;
use crate::ErrorKind;
use crate::metrics::{S3_BREAKER_OPEN, S3_BREAKER_REFUSED};

/// The requests that have no answer.
#[derive(Debug)]
struct Silence {
    /// Length of a silence that opens the breaker.
    max: Duration,
    /// When the first request began that waits, or waited a moment ago, on the caller's clock.
    since: Duration,
    /// Requests that are late.
    waiting: usize,
    /// When the last late request was given up.
    left_at: Option<Duration>,
    is_open: bool,
}

impl Silence {
    fn new(max: Duration) -> Self {
        Self {
            max,
            since: Duration::ZERO,
            waiting: 0,
            left_at: None,
            is_open: false,
        }
    }

    /// One more request is late; it began at `began`.
    fn waits(&mut self, began: Duration, now: Duration) {
        let goes_on = self.waiting > 0 || self.left_at.is_some_and(|left| now < left + self.max);
        self.since = if goes_on {
            self.since.min(began)
        } else {
            began
        };
        self.waiting += 1;
    }

    /// A request is late no more.
    fn left(&mut self, now: Duration) {
        self.waiting -= 1;
        self.left_at = Some(now);
    }

    /// How long nothing was answered although requests waited.
    fn lasts(&self, answered_at: Duration, now: Duration) -> Duration {
        now.saturating_sub(self.since.max(answered_at))
    }

    /// Opens the breaker if it is time for that: whether it does.
    fn opens(&mut self, answered_at: Duration, now: Duration) -> bool {
        let opens = !self.is_open && self.waiting > 0 && self.lasts(answered_at, now) >= self.max;
        self.is_open |= opens;
        opens
    }

    /// Closes the breaker: whether it was open.
    fn closes(&mut self) -> bool {
        std::mem::take(&mut self.is_open)
    }
}

/// The breaker of one client.
pub(in crate::crt_client) struct Breaker {
    started: Instant,
    runtime: Handle,
    probe: Probe,
    silence: Mutex<Silence>,
    /// When S3 last answered anything, in milliseconds since `started`.
    answered_at: AtomicU64,
    /// Whether the task of the probes runs. Changed under the silence's lock.
    is_probed: AtomicBool,
    is_open: watch::Sender<bool>,
}

/// Asks S3 whether it is there.
#[derive(Clone)]
pub(in crate::crt_client) struct Probe {
    sdk: aws_sdk_s3::Client,
    bucket: String,
    /// The endpoint for a person.
    address: String,
}

impl Probe {
    pub(in crate::crt_client) fn new(
        sdk: &aws_sdk_s3::Client,
        bucket: &str,
        address: &str,
    ) -> Self {
        Self {
            sdk: sdk.clone(),
            bucket: bucket.to_owned(),
            address: address.to_owned(),
        }
    }

    /// Whether S3 answers, with success or an error. Without keys no probe can be sent; then every
    /// request says why.
    async fn is_answered(&self) -> bool {
        let asked = self.sdk.get_bucket_location().bucket(&self.bucket);
        let Err(error) = asked.send().await else {
            return true;
        };
        let operation = Operation::on_bucket("GetBucketLocation", &self.bucket);
        let error = of_sdk(&operation, &error).error;
        let is_silence = matches!(error.kind, ErrorKind::Transient | ErrorKind::Unreachable);
        error.status.is_some() || !is_silence
    }
}

impl Breaker {
    pub(in crate::crt_client) fn new(
        probe: Probe,
        silence_max: Duration,
        runtime: Handle,
    ) -> Arc<Self> {
        Arc::new(Self {
            started: Instant::now(),
            runtime,
            probe,
            silence: Mutex::new(Silence::new(silence_max)),
            answered_at: AtomicU64::new(0),
            is_probed: AtomicBool::new(false),
            is_open: watch::Sender::new(false),
        })
    }

    /// How long S3 has not answered, if requests are refused for that.
    pub(in crate::crt_client) fn refuses(&self) -> Option<Duration> {
        if !*self.is_open.borrow() {
            return None;
        }
        metrics::counter!(S3_BREAKER_REFUSED).increment(1);
        let silence = self.silence.lock();
        Some(silence.lasts(self.answered_at(), self.started.elapsed()))
    }

    /// Returns when requests are refused.
    pub(in crate::crt_client) async fn opened(&self) {
        let mut is_open = self.is_open.subscribe();
        // The sender lives as long as self.
        is_open.wait_for(|is_open| *is_open).await.ok();
    }

    /// S3 has answered something, with a body.
    pub(in crate::crt_client) fn answered(&self) {
        let now = self.started.elapsed();
        let millis = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let before = self.answered_at.swap(millis, Ordering::Relaxed);
        if !*self.is_open.borrow() {
            return;
        }
        let mut silence = self.silence.lock();
        let lasted = silence.lasts(Duration::from_millis(before), now);
        if silence.closes() {
            self.is_open.send_replace(false);
            drop(silence);
            metrics::gauge!(S3_BREAKER_OPEN).set(0.0);
            tracing::warn!(
                endpoint = self.probe.address,
                "S3 answers again after {:.0} s: requests are sent again",
                lasted.as_secs_f64()
            );
        }
    }

    /// A request that began at `began` has no answer, later than one is expected.
    pub(in crate::crt_client) fn waits(self: &Arc<Self>, began: Instant) -> Waiting {
        let began = began.saturating_duration_since(self.started);
        let mut silence = self.silence.lock();
        silence.waits(began, self.started.elapsed());
        let is_probed = self.is_probed.swap(true, Ordering::Relaxed);
        drop(silence);
        if !is_probed {
            let breaker = Arc::downgrade(self);
            drop(self.runtime.spawn(watch_over(breaker)));
        }
        Waiting(Arc::clone(self))
    }

    fn answered_at(&self) -> Duration {
        Duration::from_millis(self.answered_at.load(Ordering::Relaxed))
    }

    /// Opens the breaker if it is time for that.
    fn judge(&self) {
        let mut silence = self.silence.lock();
        let now = self.started.elapsed();
        if !silence.opens(self.answered_at(), now) {
            return;
        }
        let (lasts, requests) = (silence.lasts(self.answered_at(), now), silence.waiting);
        self.is_open.send_replace(true);
        drop(silence);
        metrics::gauge!(S3_BREAKER_OPEN).set(1.0);
        tracing::warn!(
            endpoint = self.probe.address,
            requests,
            "S3 has not answered anything for {:.0} s: requests fail at once until it does",
            lasts.as_secs_f64()
        );
    }

    /// Time until the next probe. `None` ends the task, since no request waits.
    fn patience(&self) -> Option<Duration> {
        let silence = self.silence.lock();
        if silence.is_open {
            return Some(PROBE_GAP);
        }
        if silence.waiting == 0 {
            self.is_probed.store(false, Ordering::Relaxed);
            return None;
        }
        let lasts = silence.lasts(self.answered_at(), self.started.elapsed());
        Some(silence.max.saturating_sub(lasts).min(PROBE_GAP))
    }
}

/// Probes until S3 answers or no request waits.
async fn watch_over(breaker: Weak<Breaker>) {
    loop {
        let (probe, patience) = match breaker.upgrade() {
            Some(breaker) => (breaker.probe.clone(), breaker.patience()),
            None => return,
        };
        let Some(patience) = patience else { return };
        let patience = patience.max(PROBE_MIN);
        let answered = tokio::time::timeout(patience, probe.is_answered()).await;
        let is_answered = answered.unwrap_or(false);
        let Some(breaker) = breaker.upgrade() else {
            return;
        };
        if is_answered {
            breaker.answered();
        }
        breaker.judge();
        let Some(patience) = breaker.patience() else {
            return;
        };
        drop(breaker);
        tokio::time::sleep(patience.max(PROBE_GAP_MIN)).await;
    }
}

/// A request that is late.
#[derive(Debug)]
pub(in crate::crt_client) struct Waiting(Arc<Breaker>);

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut silence = self.0.silence.lock();
        silence.left(self.0.started.elapsed());
    }
}

impl fmt::Debug for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breaker")
            .field("is_open", &*self.is_open.borrow())
            .finish_non_exhaustive()
    }
}

/// Silence after which requests fail at once: as long as one request alone is tried
/// ([`REQUEST_DEADLINE`](crate::retry::REQUEST_DEADLINE)).
pub(in crate::crt_client) const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Time for one probe, and between two. A night of silence is some thousand of them.
const PROBE_GAP: Duration = Duration::from_secs(5);
/// The least time for one probe, where the breaker is about to open.
const PROBE_MIN: Duration = Duration::from_secs(1);
/// The least time between two.
const PROBE_GAP_MIN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    enum Step {
        Waits { began: u64 },
        Left,
        Answered,
    }
    use Step::{Answered, Left, Waits};

    /// Steps, each with its second, and in which second the breaker opens.
    #[track_caller]
    fn check(steps: &[(u64, Step)], opens_at: Option<u64>) {
        let second = Duration::from_secs;
        let mut silence = Silence::new(SILENCE_MAX);
        let mut answered_at = Duration::ZERO;
        let mut opened_at = None;
        for now in 0..1_000 {
            for (_, step) in steps.iter().filter(|(at, _)| *at == now) {
                match step {
                    Waits { began } => silence.waits(second(*began), second(now)),
                    Left => silence.left(second(now)),
                    Answered => answered_at = second(now),
                }
            }
            if silence.opens(answered_at, second(now)) {
                opened_at.get_or_insert(now);
            }
        }
        assert_eq!(opened_at, opens_at);
    }

    #[test]
    fn a_minute_without_an_answer_opens_it() {
        check(&[(210, Waits { began: 200 })], Some(260));
        check(&[(210, Waits { began: 200 }), (240, Answered)], Some(300));
        check(&[(210, Waits { began: 200 }), (259, Left)], None);
    }

    #[test]
    fn an_answer_from_before_the_request_was_late_counts() {
        check(&[(205, Answered), (210, Waits { began: 200 })], Some(265));
    }

    #[test]
    fn requests_behind_each_other_are_one_silence() {
        let one_by_one = [
            (210, Waits { began: 200 }),
            (230, Left),
            (240, Waits { began: 230 }),
        ];
        check(&one_by_one, Some(260));
        let late_again = [
            (210, Waits { began: 200 }),
            (230, Left),
            (300, Waits { began: 290 }),
        ];
        check(&late_again, Some(350));
    }

    #[test]
    fn nobody_waits_so_it_stays_closed() {
        check(&[], None);
        check(&[(210, Waits { began: 200 }), (212, Left)], None);
    }
}
