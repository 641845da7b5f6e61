//! What all requests of a client share: where they go, who signs them, how they are retried.
//!
//! Invariant: every request, whichever path it takes, is retried by [`Attempts`] and paced by one [`Pace`].
//! SDK calls run as tasks of the client's tokio runtime, because what polls a [`Pending`] need not be a thread of it.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::admission::Admission;
use super::data::DataClients;
use super::fault::{Fault, Operation};
use super::options::{CONTROL_ATTEMPT_MAX, SLOW_ATTEMPT_MAX};
use super::outage::{NOTICED_AFTER, Troubled, UNANSWERED_MAX, Watch};
use super::request_headers::RequestHeaders;
use super::sessions::Sessions;
use crate::credentials::CredentialsCache;
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
    /// One permit for each control request in flight, so that they have a bound as data has.
    pub(super) control: Semaphore,
    /// Whether the server has ever answered.
    pub(super) was_reached: AtomicBool,
    pub(super) runtime: Handle,
    pub(super) started: Instant,
    /// Held for a few instructions; no other lock is taken under it.
    pub(super) pace: Mutex<Pace>,
    /// As `pace`.
    pub(super) suspicion: Mutex<Suspicion>,
    pub(super) outage: Arc<Watch>,
}

/// When keys were last replaced on the mere suspicion that they have expired.
#[derive(Debug, Default)]
pub(super) struct Suspicion(Option<Duration>);

impl Suspicion {
    /// Whether they may be now. It costs a look-up, so not for each answer of a server that always says no.
    fn may_ask(&mut self, now: Duration) -> bool {
        let rests = self.0.is_some_and(|last| now < last + SUSPICION_GAP);
        if !rests {
            self.0 = Some(now);
        }
        !rests
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

    /// The headers that each request over the CRT carries. The SDK's get theirs from an interceptor.
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

    /// Whether a refusal without a reason is likely for keys, those of `generation`, that have expired.
    ///
    /// S3 refuses expired keys with 400, an expired session with 403. Without a session, 403 is common: whoever may
    /// not list a bucket is told so for each key that is not there.
    fn suspects_keys(&self, fault: &Fault, generation: u64) -> bool {
        let is_typical = match fault.error.status {
            Some(400) => true,
            Some(403) => self.sessions.is_some(),
            _ => false,
        };
        if !fault.is_mute || !is_typical {
            return false;
        }
        let are_replaced = generation != self.credentials_generation();
        are_replaced || self.suspicion.lock().may_ask(self.started.elapsed())
    }

    /// How long a request that is ready now must wait, because the server said to slow down.
    pub(super) fn pace(&self) -> Duration {
        self.pace.lock().start(self.started.elapsed())
    }

    /// Whether the server has said of late to slow down.
    pub(super) fn is_throttled(&self) -> bool {
        self.pace.lock().is_throttled()
    }

    /// A request succeeded.
    fn succeeded(&self) {
        self.was_reached.store(true, Ordering::Relaxed);
        self.pace.lock().succeeded();
    }

    /// A request has failed since `since`, the last time with `error`, and is sent again or still unanswered. Says so in
    /// the log, if it is time for that.
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
        attempts.policy.deadline = self.policy.deadline.max(call.attempt_max);
        loop {
            let wait = self.pace();
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            let permit = self.control.acquire().await;
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
                None => return Err(attempts.last_word(fault.error)),
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
        let noticed = call.noticed_after.unwrap_or(call.attempt_max);
        if let Ok(outcome) = tokio::time::timeout(noticed, answer.as_mut()).await {
            return outcome;
        }
        let rest = call.attempt_max.saturating_sub(noticed);
        if !rest.is_zero() {
            attempts.unanswered(self, &none_within(noticed));
            if let Ok(outcome) = tokio::time::timeout(rest, answer).await {
                return outcome;
            }
        }
        Err(Fault {
            is_silence: true,
            ..none_within(call.attempt_max).into()
        })
    }
}

/// One request that is retried as a whole.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) operation: Operation,
    /// An attempt that takes longer is given up.
    pub(super) attempt_max: Duration,
    /// An attempt that takes longer is worth a line in the log; `None` where S3 may need long.
    noticed_after: Option<Duration>,
}

impl Call {
    pub(super) fn quick(operation: Operation) -> Self {
        Self {
            operation,
            attempt_max: CONTROL_ATTEMPT_MAX,
            noticed_after: Some(UNANSWERED_MAX),
        }
    }

    pub(super) fn slow(operation: Operation) -> Self {
        Self {
            operation,
            attempt_max: SLOW_ATTEMPT_MAX,
            noticed_after: None,
        }
    }
}

/// The attempts of one request so far.
#[derive(Debug)]
pub(super) struct Attempts {
    policy: RetryPolicy,
    first: Instant,
    made: u32,
    generation: u64,
    has_refreshed: bool,
    /// An attempt ended without an answer: the server may have done what was asked.
    was_answer_lost: bool,
    /// When the last attempt began.
    began: Instant,
    /// Since when there has been neither a good answer nor progress.
    fails_since: Option<Instant>,
    /// That has lasted long enough to be told.
    troubled: Option<Troubled>,
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
            was_answer_lost: false,
            began: now,
            fails_since: None,
            troubled: None,
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
    }

    /// The attempt succeeded at `operation`, and so did the request.
    pub(super) fn succeeded(&mut self, core: &Core, operation: impl FnOnce() -> Operation) {
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

    /// The attempt has no answer yet, later than one is expected.
    fn unanswered(&mut self, core: &Core, late: &ClientError) {
        self.fails_since.get_or_insert(self.began);
        self.tell(core, late);
    }

    /// Tells of an outage, if this request has failed for so long and the server has ever been there.
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
        self.was_answer_lost |= fault.error.kind == ErrorKind::Transient;
        if fault.error.kind == ErrorKind::Throttled {
            core.pace.lock().throttled(core.started.elapsed());
        }
        if !self.has_refreshed
            && core.credentials.is_some()
            && (fault.expired || core.suspects_keys(fault, self.generation))
        {
            self.has_refreshed = true;
            core.refresh(self.generation);
            return Some(Duration::ZERO);
        }
        if fault.error.status.is_some() {
            core.was_reached.store(true, Ordering::Relaxed);
            if !fault.error.kind.is_retryable() {
                self.answered(core, || fault.error.to_string());
            }
        }
        let failed = FailedAttempt {
            kind: &fault.error.kind,
            attempts: self.made,
            elapsed: self.first.elapsed(),
            retry_after: fault.retry_after,
            was_reached: core.was_reached.load(Ordering::Relaxed),
        };
        let wait = self.policy.wait(&failed, rand::random());
        if let Some(wait) = wait {
            tracing::debug!(attempt = self.made, ?wait, "retrying: {}", fault.error);
            let silent_since = fault.is_silence.then_some(self.began);
            self.fails_since
                .get_or_insert_with(|| silent_since.unwrap_or_else(Instant::now));
            self.tell(core, &fault.error);
        }
        wait
    }

    /// No attempt follows: the final error, with what the attempts before the last may have changed.
    pub(super) fn last_word(&mut self, mut error: ClientError) -> ClientError {
        self.troubled = None;
        if self.was_answer_lost
            && matches!(
                error.kind,
                ErrorKind::PreconditionFailed | ErrorKind::NoSuchUpload | ErrorKind::TooManyParts
            )
        {
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

/// A request that changes something, as a task that runs to its end even if the answer is no longer wanted:
/// half of a retried write is worse than the whole of it.
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

/// Keys live for minutes at least; those that a look-up brings are not suspected again at once.
const SUSPICION_GAP: Duration = Duration::from_secs(10);
