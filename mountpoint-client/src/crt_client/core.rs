//! What all requests of a client share: where they go, who signs them, how they are retried.
//!
//! Invariant: every request, whichever path it takes, is retried by [`Attempts`] and paced by one
//! [`Pace`]. SDK calls run as tasks of the client's tokio runtime, because what polls a [`Pending`]
//! need not be a thread of it.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, UNIX_EPOCH};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::options::{
    CONTROL_ATTEMPT_MAX, CONTROL_IN_FLIGHT_MAX, SLOW_ATTEMPT_MAX, WORK_IN_FLIGHT_MAX, WORK_LATE,
};
use super::request_headers::RequestHeaders;
use super::sessions::Sessions;
use crate::credentials::CredentialsCache;
use crate::crt_client::control::encryption_proof::EncryptionProof;
use crate::crt_client::fault::suspicion::{self, KEYS_REFUSED_MAX, Suspicion, Verdict};
use crate::crt_client::fault::{Breaker, Waiting};
use crate::crt_client::fault::{Fault, Operation};
use crate::crt_client::fault::{NOTICED_AFTER, Troubled, UNANSWERED_MAX, Watch};
use crate::crt_client::get::Admission;
use crate::crt_client::get::read_checksum::{ChecksumMode, CorruptVersions};
use crate::crt_client::lanes::DataClients;
use crate::endpoint::Endpoint;
use crate::retry::{FailedAttempt, Pace, RetryPolicy};
use crate::types::Key;
use crate::{ClientError, ErrorKind, Pending};

/// The shared part of a client.
pub(super) struct Core {
    pub(super) bucket: String,
    /// Parts of uploads that fill all interfaces together.
    pub(super) parts_in_flight: usize,
    /// Whether listings come in no order and by whole directories.
    pub(super) is_directory_bucket: bool,
    pub(super) endpoint: Endpoint,
    /// The endpoint for a person, with the proxy in front of it.
    pub(super) address: String,
    pub(super) user_agent: String,
    /// What the settings put on requests.
    pub(super) headers: RequestHeaders,
    /// Whether the server encrypts as those say.
    pub(super) encryption: EncryptionProof,
    /// Longest range of one GET, in bytes.
    pub(super) part_size_max: usize,
    /// What is asked seldom.
    pub(super) sdk: aws_sdk_s3::Client,
    /// Object data, and what is asked all the time.
    pub(super) data: DataClients,
    /// What requests are signed with: the user's keys, or those of a session.
    pub(super) credentials: Option<CredentialsCache>,
    /// Sessions, where requests are signed with them: S3 Express.
    pub(super) sessions: Option<Sessions>,
    pub(super) policy: RetryPolicy,
    pub(super) admission: Admission,
    pub(super) permits: Permits,
    /// Whether the server has ever answered.
    pub(super) was_reached: AtomicBool,
    pub(super) runtime: Handle,
    pub(super) started: Instant,
    /// Held for a few instructions; no other lock is taken under it.
    pub(super) pace: Mutex<Pace>,
    /// As `pace`.
    pub(super) suspicion: Mutex<Suspicion>,
    pub(super) outage: Arc<Watch>,
    pub(super) breaker: Arc<Breaker>,
    pub(super) checksum_mode: ChecksumMode,
    pub(super) corrupt: CorruptVersions,
}

/// One permit for each request in flight that is not a GET, so that each kind has a bound, and none
/// waits for another.
#[derive(Debug)]
pub(super) struct Permits {
    control: Semaphore,
    uploads: Semaphore,
    work: Semaphore,
}

impl Permits {
    pub(super) fn new(uploads: usize) -> Self {
        Self {
            control: Semaphore::new(CONTROL_IN_FLIGHT_MAX),
            uploads: Semaphore::new(uploads),
            work: Semaphore::new(WORK_IN_FLIGHT_MAX),
        }
    }

    async fn acquire(&self, kind: CallKind) -> Result<SemaphorePermit<'_>, AcquireError> {
        let permits = match kind {
            CallKind::Control => &self.control,
            CallKind::Upload => &self.uploads,
            CallKind::Work => &self.work,
        };
        permits.acquire().await
    }
}

impl Core {
    pub(super) fn on_key(&self, name: &'static str, key: &Key) -> Operation {
        self.at(Operation::on_key(name, &self.bucket, key))
    }

    pub(super) fn on_bucket(&self, name: &'static str) -> Operation {
        self.at(Operation::on_bucket(name, &self.bucket))
    }

    fn at(&self, operation: Operation) -> Operation {
        operation.at(&self.address, &self.endpoint.signing_region)
    }

    /// The headers that each request over the CRT carries. The SDK's get theirs from an
    /// interceptor.
    pub(super) fn headers_of(&self, operation: &str) -> Vec<(String, String)> {
        let mut headers = vec![("User-Agent".to_owned(), self.user_agent.clone())];
        let more = self.headers.of(operation).into_iter();
        headers.extend(more.map(|(name, value)| (name.to_owned(), value)));
        headers
    }

    /// The fault if an answer says that the object is encrypted otherwise than was asked for.
    pub(super) fn check_encryption(
        &self,
        operation: &Operation,
        algorithm: Option<&str>,
        key_id: Option<&str>,
    ) -> Result<(), Fault> {
        let checked = self.headers.check_encryption(algorithm, key_id);
        checked.map_err(|what| operation.error(ErrorKind::InvalidResponse, &what).into())
    }

    /// The fault, or why there is no session to sign with if that is behind it.
    pub(super) fn explain(&self, fault: Fault) -> Fault {
        match &self.sessions {
            Some(sessions) => sessions.explain(fault),
            None => fault,
        }
    }

    /// Whether a refusal without a reason may be for keys that have expired.
    ///
    /// S3 refuses expired keys with 400, an expired session with 403. Without a session, 403 is
    /// common: whoever may not list a bucket is told so for each key that is not there.
    fn may_be_expired(&self, fault: &Fault) -> bool {
        let is_typical = match fault.error.status {
            Some(400) => true,
            Some(403) => self.sessions.is_some(),
            _ => false,
        };
        fault.is_mute && is_typical
    }

    /// What is to be done about keys of `generation`, which are still in use and were refused
    /// without a reason.
    fn suspect(&self, generation: u64) -> Verdict {
        let gap = match self.sessions {
            Some(_) => suspicion::SESSION_GAP,
            None => suspicion::GAP,
        };
        let mut suspicion = self.suspicion.lock();
        suspicion.judge(generation, self.started.elapsed(), gap)
    }

    /// How long a request that is ready now must wait, because the server said to slow down.
    pub(super) fn pace(&self) -> Duration {
        self.pace.lock().start(self.started.elapsed())
    }

    /// Whether the server has said of late to slow down.
    pub(super) fn is_throttled(&self) -> bool {
        self.pace.lock().is_throttled()
    }

    /// Why no request is sent now, if none is: S3 answers nothing.
    pub(super) fn refusal(&self, operation: impl FnOnce() -> Operation) -> Option<ClientError> {
        let silent = self.breaker.refuses()?;
        let what = format!("S3 has not answered anything for {} s", silent.as_secs());
        Some(operation().error(ErrorKind::Transient, &what))
    }

    /// A request succeeded.
    fn succeeded(&self) {
        self.breaker.answered();
        self.was_reached.store(true, Ordering::Relaxed);
        self.pace.lock().succeeded();
    }

    /// A request has failed since `since`, the last time with `error`, and is sent again or still
    /// unanswered. Says so in the log, if it is time for that.
    fn tell_outage(&self, troubled: &Troubled, since: Duration, error: &dyn fmt::Display) {
        if let Some(news) = troubled.failed(since, self.started.elapsed()) {
            tracing::warn!(
                endpoint = self.address,
                requests = news.requests,
                "S3 does not answer as it should, for {:.0} s now: {error}",
                news.lasts.as_secs_f64()
            );
        }
    }

    fn refresh(&self, generation: u64) {
        if let Some(credentials) = &self.credentials {
            credentials.invalidate(generation);
        }
    }

    /// Names the credentials that requests are signed with from now on.
    pub(super) fn credentials_generation(&self) -> u64 {
        self.credentials
            .as_ref()
            .map_or(0, CredentialsCache::generation)
    }

    /// Attempts until one succeeds or the policy gives up. Runs in a task of the runtime.
    pub(super) async fn retry<T, A>(
        &self,
        call: Call,
        attempt: impl Fn() -> A,
    ) -> Result<T, ClientError>
    where
        A: Future<Output = Result<T, Fault>>,
    {
        let mut attempts = Attempts::new(self.policy);
        attempts.policy.deadline = self.policy.deadline.max(call.kind.attempt_max());
        loop {
            let wait = self.pace();
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            let permit = tokio::select! {
                biased;
                permit = self.permits.acquire(call.kind) => Some(permit),
                () = self.breaker.opened() => None,
            };
            if let Some(refusal) = self.refusal(|| call.operation.clone()) {
                return Err(attempts.last_word(self, refusal.into()));
            }
            if permit.is_none() {
                continue;
            }
            attempts.starts(self);
            let outcome = {
                // Passed by value, it would be kept twice.
                let answer = pin!(attempt());
                self.outcome(&call, &mut attempts, answer).await
            };
            drop(permit);
            let fault = match outcome {
                Ok(output) => {
                    attempts.succeeded(self, || call.operation.clone());
                    return Ok(output);
                }
                Err(fault) => self.explain(fault),
            };
            match attempts.failed(self, &fault) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(attempts.last_word(self, fault)),
            }
        }
    }

    /// The outcome of one attempt, which is given up when it takes too long.
    async fn outcome<T>(
        &self,
        call: &Call,
        attempts: &mut Attempts,
        mut answer: Pin<&mut impl Future<Output = Result<T, Fault>>>,
    ) -> Result<T, Fault> {
        let none_within = |time: Duration| {
            let what = format!("no answer within {} s", time.as_secs());
            call.operation.error(ErrorKind::Transient, &what)
        };
        let late = call.kind.is_late_after();
        if let Ok(outcome) = tokio::time::timeout(late, answer.as_mut()).await {
            return outcome;
        }
        attempts.waits(self);
        if call.kind == CallKind::Control {
            attempts.unanswered(self, &none_within(late));
        }
        let attempt_max = call.kind.attempt_max();
        let rest = attempt_max.saturating_sub(late);
        let error = tokio::select! {
            outcome = tokio::time::timeout(rest, answer) => match outcome {
                Ok(outcome) => return outcome,
                Err(_) => none_within(attempt_max),
            },
            () = self.breaker.opened() => none_within(attempts.began.elapsed()),
        };
        Err(Fault {
            is_silence: true,
            ..error.into()
        })
    }
}

/// One request that is retried as a whole.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) operation: Operation,
    kind: CallKind,
}

/// How much there is to do for a request, which decides what it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallKind {
    /// Little.
    Control,
    /// Its body has to arrive.
    Upload,
    /// S3 copies, or puts parts together.
    Work,
}

impl CallKind {
    /// An attempt that takes longer is given up.
    fn attempt_max(self) -> Duration {
        match self {
            Self::Control => CONTROL_ATTEMPT_MAX,
            Self::Upload | Self::Work => SLOW_ATTEMPT_MAX,
        }
    }

    /// An attempt that takes longer may be one of those that S3 does not answer.
    fn is_late_after(self) -> Duration {
        match self {
            Self::Control | Self::Upload => UNANSWERED_MAX,
            Self::Work => WORK_LATE,
        }
    }
}

impl Call {
    pub(super) fn quick(operation: Operation) -> Self {
        let kind = CallKind::Control;
        Self { operation, kind }
    }

    pub(super) fn upload(operation: Operation) -> Self {
        let kind = CallKind::Upload;
        Self { operation, kind }
    }

    pub(super) fn slow(operation: Operation) -> Self {
        let kind = CallKind::Work;
        Self { operation, kind }
    }
}

/// The attempts of one request so far.
#[derive(Debug)]
pub(super) struct Attempts {
    policy: RetryPolicy,
    first: Instant,
    made: u32,
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
    /// That has lasted long enough to be told.
    troubled: Option<Troubled>,
    /// Since when nothing has moved at all.
    silent_since: Option<Instant>,
    /// The last attempt is late, or ended without an answer.
    waiting: Option<Waiting>,
}

impl Attempts {
    pub(super) fn new(policy: RetryPolicy) -> Self {
        let now = Instant::now();
        Self {
            policy,
            first: now,
            made: 0,
            generation: 0,
            has_refreshed: false,
            keys_refused: 0,
            was_answer_lost: false,
            conflict_since: None,
            began: now,
            fails_since: None,
            troubled: None,
            silent_since: None,
            waiting: None,
        }
    }

    /// An attempt begins.
    pub(super) fn starts(&mut self, core: &Core) {
        self.made += 1;
        self.began = Instant::now();
        self.generation = core.credentials_generation();
    }

    /// Attempts that have begun.
    pub(super) fn made(&self) -> u32 {
        self.made
    }

    /// The attempt brought bytes: the deadline counts from here.
    pub(super) fn progressed(&mut self) {
        self.first = Instant::now();
        self.fails_since = None;
        self.silent_since = None;
    }

    /// The attempt succeeded at `operation`, and so did the request.
    pub(super) fn succeeded(&mut self, core: &Core, operation: impl FnOnce() -> Operation) {
        self.waiting = None;
        core.succeeded();
        self.answered(core, || {
            let Operation { name, target, .. } = operation();
            format!("{name} {target}")
        });
    }

    /// The request has its answer, `what` says to what.
    fn answered(&mut self, core: &Core, what: impl FnOnce() -> String) {
        let now = || core.started.elapsed();
        if let Some(news) = core.outage.answered(self.troubled.take(), now) {
            // At the level of the line that it ends: whoever has read that one is to see this one.
            tracing::warn!(
                endpoint = core.address,
                requests = news.requests,
                "S3 answers again after {:.0} s: {}",
                news.lasts.as_secs_f64(),
                what()
            );
        }
    }

    /// The attempt is late. A server that was never there is no silent one.
    fn waits(&mut self, core: &Core) {
        if core.was_reached.load(Ordering::Relaxed) {
            let began = self.began;
            self.waiting
                .get_or_insert_with(|| core.breaker.waits(began));
        }
    }

    /// The attempt has no answer yet, later than one is expected.
    fn unanswered(&mut self, core: &Core, late: &ClientError) {
        self.fails_since.get_or_insert(self.began);
        self.tell(core, late);
    }

    /// Tells of an outage, if this request has failed for so long and the server has ever been
    /// there.
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
    pub(super) fn failed(&mut self, core: &Core, fault: &Fault) -> Option<Duration> {
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
            core.pace.lock().throttled(core.started.elapsed());
        }
        if let Some(wait) = self.with_other_keys(core, fault) {
            return Some(wait);
        }
        if fault.error.status.is_some() {
            self.waiting = None;
            core.breaker.answered();
            core.was_reached.store(true, Ordering::Relaxed);
            if !fault.error.kind.is_retryable() {
                self.answered(core, || fault.error.to_string());
            }
        }
        self.silent_since = fault
            .is_silence
            .then(|| self.silent_since.unwrap_or(self.began));
        let failed = FailedAttempt {
            kind: &fault.error.kind,
            attempts: self.made,
            elapsed: since.elapsed(),
            silent: self.silent_since.map(|since| since.elapsed()),
            retry_after: fault.retry_after,
            was_reached: core.was_reached.load(Ordering::Relaxed),
        };
        let wait = self.policy.wait(&failed, rand::random());
        if let Some(wait) = wait {
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
    pub(super) fn last_word(&mut self, core: &Core, fault: Fault) -> ClientError {
        self.troubled = None;
        self.waiting = None;
        let mut error = fault.error;
        error.met_conflict = self.conflict_since.is_some();
        let may_be_own = matches!(
            error.kind,
            ErrorKind::PreconditionFailed | ErrorKind::NoSuchUpload | ErrorKind::TooManyParts
        );
        if may_be_own && !core.endpoint.is_amazon_itself() {
            let first = fault
                .answered_at
                .and_then(|at| at.checked_sub(self.first.elapsed()));
            error.maybe_twice_since = Some(first.unwrap_or(UNIX_EPOCH));
        }
        if self.was_answer_lost && may_be_own {
            error.answer_was_lost = true;
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

/// A request that only reads, as a task that is aborted when the answer is no longer wanted.
pub(super) fn reading<T: Send + 'static>(
    core: &Arc<Core>,
    future: impl Future<Output = Result<T, ClientError>> + Send + 'static,
) -> Pending<T> {
    Box::pin(Task {
        handle: core.runtime.spawn(future),
        aborts: true,
    })
}

/// A request that changes something, as a task that runs to its end even if the answer is no longer
/// wanted: half of a retried write is worse than the whole of it.
pub(super) fn writing<T: Send + 'static>(
    core: &Arc<Core>,
    future: impl Future<Output = Result<T, ClientError>> + Send + 'static,
) -> Pending<T> {
    Box::pin(Task {
        handle: core.runtime.spawn(future),
        aborts: false,
    })
}

/// A request that fails without being sent.
pub(super) fn refused<T: Send + 'static>(error: ClientError) -> Pending<T> {
    Box::pin(std::future::ready(Err(error)))
}

struct Task<T> {
    handle: JoinHandle<Result<T, ClientError>>,
    aborts: bool,
}

impl<T> Future for Task<T> {
    type Output = Result<T, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.handle)
            .poll(context)
            .map(|joined| match joined {
                Ok(outcome) => outcome,
                Err(error) if error.is_cancelled() => Err(ClientError::new(
                    ErrorKind::Cancelled,
                    "the client is shutting down",
                )),
                Err(error) => Err(ClientError::new(
                    ErrorKind::Transient,
                    format!("a request's task panicked: {error}"),
                )),
            })
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if self.aborts {
            self.handle.abort();
        }
    }
}
