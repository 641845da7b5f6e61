//! The shared state of all requests of a client: destination, keys, retries.
//!
//! Invariant: every request, on either path, is retried by [`Attempts`] and paced by one
//! [`Pacing`].

mod admission;
mod attempts;
mod call;
mod checksum_mode;
mod corrupt_versions;
mod encryption_proof;
mod retry;
mod task;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;

pub(super) use admission::{Admission, Queued, Ticket};
pub(super) use attempts::Attempts;
pub(super) use call::{Call, Permits};
pub(super) use checksum_mode::{Asking, ChecksumMode};
pub(super) use corrupt_versions::CorruptVersions;
pub(super) use encryption_proof::EncryptionProof;
pub(super) use retry::retry;
pub(super) use task::{reading, refused, writing};

use super::fault::suspicion::{self, Suspicion, Verdict};
use super::fault::{Breaker, Fault, Operation, Troubled, Watch};
use super::lanes::DataClients;
use super::request_headers::RequestHeaders;
use super::sessions::Sessions;
use crate::credentials::CredentialsCache;
use crate::endpoint::Endpoint;
use crate::retry::{Pacing, RetryPolicy};
use crate::types::Key;
use crate::{ClientError, ErrorKind};

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
    /// Whether the proxy in front of it speaks TLS itself.
    pub(super) is_proxy_tls: bool,
    pub(super) user_agent: String,
    /// Headers that the settings put on requests.
    pub(super) headers: RequestHeaders,
    /// Whether the server encrypts as those headers say.
    pub(super) encryption: EncryptionProof,
    /// Longest range of one GET, in bytes.
    pub(super) part_size_max: usize,
    /// Carries rare requests.
    pub(super) sdk: aws_sdk_s3::Client,
    /// Carries object data and frequent requests.
    pub(super) data: DataClients,
    /// Keys that sign requests: the user's, or those of a session.
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
    pub(super) pacing: Mutex<Pacing>,
    /// Held for a few instructions; no other lock is taken under it.
    pub(super) suspicion: Mutex<Suspicion>,
    pub(super) outage: Arc<Watch>,
    pub(super) breaker: Arc<Breaker>,
    pub(super) checksum_mode: ChecksumMode,
    pub(super) corrupt: CorruptVersions,
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

    /// Whether a refusal may be for keys that have expired or were replaced.
    ///
    /// S3 refuses expired keys with 400, an expired session with 403. Without a session, 403 is
    /// common: S3 sends it for each missing key if the user may not list the bucket.
    fn may_be_expired(&self, fault: &Fault) -> bool {
        let is_typical = match fault.error.status {
            Some(400) => true,
            Some(403) => self.sessions.is_some(),
            _ => false,
        };
        fault.is_unknown_key || (fault.is_mute && is_typical)
    }

    /// Whether the keys may be behind a refusal that does not tell: then another request has to ask
    /// for the reason.
    pub(super) fn is_unexplained(&self, fault: &Fault) -> bool {
        let may_change = self.credentials.is_some() && self.sessions.is_none();
        may_change && fault.is_mute && fault.error.status == Some(403)
    }

    /// The verdict on keys of `generation`, which are in use and were refused without a reason.
    fn suspect(&self, generation: u64) -> Verdict {
        let gap = match self.sessions {
            Some(_) => suspicion::SESSION_GAP,
            None => suspicion::GAP,
        };
        let mut suspicion = self.suspicion.lock();
        suspicion.judge(generation, self.started.elapsed(), gap)
    }

    /// Wait of a request that is ready now, because the server said to slow down.
    pub(super) fn pacing(&self) -> Duration {
        self.pacing.lock().start(self.started.elapsed())
    }

    /// Whether the server has said of late to slow down.
    pub(super) fn is_throttled(&self) -> bool {
        self.pacing.lock().is_throttled()
    }

    /// Why no request is sent now, if none is: S3 answers nothing.
    pub(super) fn refusal(&self, operation: impl FnOnce() -> Operation) -> Option<ClientError> {
        let silent = self.breaker.refuses()?;
        let what = format!("S3 has not answered anything for {} s", silent.as_secs());
        Some(operation().error(ErrorKind::Transient, &what))
    }

    /// A request succeeded.
    fn succeeded(&self) {
        self.was_reached.store(true, Ordering::Relaxed);
        self.pacing.lock().succeeded();
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
}
