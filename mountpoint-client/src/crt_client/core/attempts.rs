//! The attempts of one request, and the consequences of each failure for the next.
//!
//! Asks the retry policy, which is pure, and reports the outcome to the pacing, the breaker and the
//! log of outages.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::Core;
use crate::crt_client::fault::suspicion::{KEYS_REFUSED_MAX, Verdict};
use crate::crt_client::fault::{Fault, NOTICED_AFTER, Operation, Troubled, Waiting};
use crate::metrics::REQUESTS;
use crate::retry::{FailedAttempt, RetryPolicy};
use crate::{ClientError, ErrorKind};

/// The attempts of one request so far.
#[derive(Debug)]
pub(in crate::crt_client) struct Attempts {
    policy: RetryPolicy,
    first: Instant,
    made: u32,
    /// Attempts that had no answer, and ended by themselves.
    unanswered: u32,
    /// Names the keys that the last attempt was signed with, or older ones.
    generation: u64,
    /// Keys were replaced because of this request.
    has_refreshed: bool,
    /// How often it was repeated because of its keys.
    keys_refused: u32,
    /// An attempt ended without an answer that proves the contrary: the server may have done what
    /// was asked.
    was_answer_lost: bool,
    /// When another request for the object was met first.
    conflict_since: Option<Instant>,
    /// When the last attempt began.
    began: Instant,
    /// Since when there has been neither a good answer nor progress.
    fails_since: Option<Instant>,
    /// Set once the failures have lasted long enough for a line in the log.
    troubled: Option<Troubled>,
    /// Since when nothing has moved at all.
    silent_since: Option<Instant>,
    /// How long answers have stood still after their beginning, less the time in which they moved.
    stalled: Duration,
    /// The last attempt is late, or ended without an answer.
    waiting: Option<Waiting>,
}

impl Attempts {
    pub(in crate::crt_client) fn new(policy: RetryPolicy) -> Self {
        let now = Instant::now();
        Self {
            policy,
            first: now,
            made: 0,
            unanswered: 0,
            generation: 0,
            has_refreshed: false,
            keys_refused: 0,
            was_answer_lost: false,
            conflict_since: None,
            began: now,
            fails_since: None,
            troubled: None,
            silent_since: None,
            stalled: Duration::ZERO,
            waiting: None,
        }
    }

    /// An attempt begins. Returns when, which is now.
    pub(in crate::crt_client) fn starts(&mut self, core: &Core) -> Instant {
        self.made += 1;
        self.began = Instant::now();
        self.generation = core.credentials_generation();
        self.began
    }

    /// Attempts that have begun.
    pub(in crate::crt_client) fn made(&self) -> u32 {
        self.made
    }

    /// The attempt brought bytes: the deadline counts from here.
    pub(in crate::crt_client) fn progressed(&mut self) {
        self.first = Instant::now();
        self.fails_since = None;
        self.silent_since = None;
    }

    /// The attempt succeeded at `operation`, and so did the request; its answer `has_body`, or has
    /// none.
    pub(in crate::crt_client) fn succeeded(
        &mut self,
        core: &Core,
        has_body: bool,
        operation: impl FnOnce() -> Operation,
    ) {
        self.waiting = None;
        core.succeeded();
        if has_body {
            core.breaker.answered();
        }
        self.answered(core, || {
            let Operation { name, target, .. } = operation();
            format!("{name} {target}")
        });
    }

    /// The request, which `what` names, has its answer.
    fn answered(&mut self, core: &Core, what: impl FnOnce() -> String) {
        let now = || core.started.elapsed();
        if let Some(news) = core.outage.answered(self.troubled.take(), now) {
            // At the level of the line about the outage, so that both are seen or neither.
            tracing::warn!(
                endpoint = core.address,
                requests = news.requests,
                "S3 answers again after {:.0} s: {}",
                news.lasts.as_secs_f64(),
                what()
            );
        }
    }

    /// The last attempt, which has brought bytes, ended because nothing moved for `silence`. A
    /// server that stops in the middle of each answer is given up like one that sends nothing.
    pub(in crate::crt_client) fn stalled(&mut self, silence: Duration) {
        let moved = self.began.elapsed().saturating_sub(silence);
        self.stalled = self.stalled.saturating_sub(moved) + silence;
    }

    /// How long the last attempt has taken.
    pub(super) fn current(&self) -> Duration {
        self.began.elapsed()
    }

    /// The attempt is late. A server that was never there does not count as silent.
    pub(super) fn waits(&mut self, core: &Core) {
        if core.was_reached.load(Ordering::Relaxed) {
            let began = self.began;
            self.waiting
                .get_or_insert_with(|| core.breaker.waits(began));
        }
    }

    /// The attempt has no answer yet, later than one is expected.
    pub(super) fn unanswered(&mut self, core: &Core, late: &ClientError) {
        self.fails_since.get_or_insert(self.began);
        self.tell(core, late);
    }

    /// Logs an outage, if this request has failed for long enough and the server was there before.
    fn tell(&mut self, core: &Core, error: &ClientError) {
        let Some(since) = self.fails_since else {
            return;
        };
        if since.elapsed() < NOTICED_AFTER || !core.was_reached.load(Ordering::Relaxed) {
            return;
        }
        let troubled = self
            .troubled
            .get_or_insert_with(|| Troubled::new(&core.outage));
        core.tell_outage(troubled, since.duration_since(core.started), error);
    }

    /// The attempt failed: how long to wait before the next, or `None` if there is none.
    pub(in crate::crt_client) fn failed(&mut self, core: &Core, fault: &Fault) -> Option<Duration> {
        self.was_answer_lost |= fault.may_be_done;
        let mut since = self.first;
        if fault.error.kind == ErrorKind::Conflict {
            if self.conflict_since.is_none() {
                tracing::info!(
                    "another request for the object is in flight, repeating: {}",
                    fault.error
                );
            }
            since = *self.conflict_since.get_or_insert_with(Instant::now);
        }
        if fault.error.kind == ErrorKind::Throttled {
            REQUESTS.throttled();
            core.pacing.lock().throttled(core.started.elapsed());
        }
        if let Some(wait) = self.with_other_keys(core, fault) {
            return Some(wait);
        }
        if fault.error.status.is_some() {
            self.waiting = None;
            if !fault.is_mute {
                core.breaker.answered();
            }
            if !fault.is_foreign {
                core.was_reached.store(true, Ordering::Relaxed);
            }
            if !fault.error.kind.is_retryable() {
                self.answered(core, || fault.error.to_string());
            }
        }
        self.silent_since = fault
            .is_silence
            .then(|| self.silent_since.unwrap_or(self.began));
        let has_moved = self.first > self.began;
        let is_unanswered = fault.error.status.is_none() && !fault.is_silence && !has_moved;
        self.unanswered += u32::from(is_unanswered);
        let failed = FailedAttempt {
            kind: &fault.error.kind,
            attempts: self.made,
            unanswered: self.unanswered,
            is_unanswered,
            elapsed: since.elapsed(),
            silent: self
                .silent_since
                .map(|since| since.elapsed().max(self.stalled)),
            retry_after: fault.retry_after,
            was_reached: core.was_reached.load(Ordering::Relaxed),
            is_foreign: fault.is_foreign,
        };
        let wait = self.policy.wait(&failed, rand::random());
        if let Some(wait) = wait {
            REQUESTS.retried(fault.error.kind == ErrorKind::Throttled);
            tracing::debug!(attempt = self.made, ?wait, "retrying: {}", fault.error);
            // The server is there, and answers others.
            if fault.error.kind != ErrorKind::Conflict {
                self.fails_again(core, fault);
            }
        }
        wait
    }

    /// How long to wait before the request is repeated with other keys, if those that it was signed
    /// with were refused.
    fn with_other_keys(&mut self, core: &Core, fault: &Fault) -> Option<Duration> {
        let is_doubtful = fault.expired || core.may_be_expired(fault);
        if core.credentials.is_none() || !is_doubtful || self.keys_refused == KEYS_REFUSED_MAX {
            return None;
        }
        self.keys_refused += 1;
        // The generation was noted before the request was signed: newer keys may have been refused,
        // but no older ones.
        if self.generation != core.credentials_generation() {
            return Some(Duration::ZERO);
        }
        if self.has_refreshed {
            return None;
        }
        if fault.expired {
            core.suspicion.lock().is_certain(self.generation);
        } else if let Verdict::Later(rest) = core.suspect(self.generation) {
            return core.sessions.is_some().then_some(rest);
        }
        self.has_refreshed = true;
        core.refresh(self.generation);
        Some(Duration::ZERO)
    }

    /// The attempt failed, and another one follows.
    fn fails_again(&mut self, core: &Core, fault: &Fault) {
        let silent_since = fault.is_silence.then_some(self.began);
        let since = *self
            .fails_since
            .get_or_insert_with(|| silent_since.unwrap_or_else(Instant::now));
        let is_silent = fault.error.status.is_none();
        if is_silent && since.elapsed() >= NOTICED_AFTER {
            self.waits(core);
        }
        self.tell(core, &fault.error);
    }

    /// No attempt follows: the final error, with what the attempts before the last may have
    /// changed.
    pub(in crate::crt_client) fn last_word(&mut self, core: &Core, fault: Fault) -> ClientError {
        self.troubled = None;
        self.waiting = None;
        let mut error = fault.error;
        if fault.is_foreign && !core.was_reached.load(Ordering::Relaxed) {
            // Nothing there has ever been S3.
            error.kind = ErrorKind::InvalidResponse;
        }
        error.met_conflict = self.conflict_since.is_some();
        let may_be_own = matches!(
            error.kind,
            ErrorKind::PreconditionFailed | ErrorKind::NoSuchUpload | ErrorKind::TooManyParts
        );
        error.maybe_twice = may_be_own && !core.endpoint.is_amazon_itself();
        // A refusal of the repetition, say of credentials that expired between, tells nothing of
        // the first attempt.
        error.answer_was_lost |= self.was_answer_lost && (may_be_own || !error.kind.is_retryable());
        if self.was_answer_lost && may_be_own {
            error
                .message
                .push_str("; an earlier attempt, whose answer was lost, may have succeeded");
        } else if self.made > 1 {
            error
                .message
                .push_str(&format!(" (after {} attempts)", self.made));
        }
        error
    }
}
