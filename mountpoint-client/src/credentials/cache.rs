//! One cache of credentials for both the SDK and the CRT.
//!
//! Invariant: at most one look-up is under way; keys are renewed before they expire, in the
//! background as long as the old ones are good. The answer from the cache is immediate, on whatever
//! thread asks; look-ups run on the client's tokio runtime. Knows no request. Never prints a
//! secret.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future::ProvideCredentials as ProvideCredentialsFuture;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use mountpoint_crt_sys::{Credentials as CrtCredentials, CredentialsReply, CredentialsSource};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::error_text::chain_text;
use super::profile_files;
use super::renewal::renew_before;
use super::source::Sources;
use crate::{ClientError, ErrorKind};

/// The credentials of one client. Cheap to clone.
#[derive(Clone)]
pub struct CredentialsCache(Arc<Inner>);

struct Inner {
    provider: SharedCredentialsProvider,
    sources: Sources,
    /// The keys that sessions are opened with, if these are the keys of sessions.
    opened_with: Option<CredentialsCache>,
    runtime: Handle,
    /// Guards nothing that blocks: it is held for a few instructions, never while a provider works.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    current: Option<Current>,
    /// Names `current`, or the keys that will be next where there are none. Grows when they are no
    /// longer those.
    generation: u64,
    lookup: Lookup,
    /// Where the last keys came from.
    source: Option<Arc<str>>,
}

/// The keys in use.
struct Current {
    keys: Credentials,
    /// The keys are renewed when they are good for less than this.
    renew_before: Duration,
}

/// The state of the look-up, with its waiters.
#[derive(Default)]
enum Lookup {
    /// No look-up is under way.
    #[default]
    Idle,
    /// The last look-up brought no usable keys.
    Resting(Rest),
    Running(Vec<Waiter>),
}

/// After a look-up that brought no keys, or keys that have expired already.
struct Rest {
    /// When the next look-up may begin without keys. Until then requests get the same answer.
    ask_again: Instant,
    /// When the next look-up may begin for keys that are still good.
    renew_again: Instant,
    answer: Answer,
}

type Answer = Result<Credentials, Arc<CredentialsError>>;
type Waiter = Box<dyn FnOnce(Answer) + Send>;

impl CredentialsCache {
    /// The cache over any provider.
    pub fn over(provider: impl ProvideCredentials + 'static, runtime: Handle) -> Self {
        Self::new(provider, Sources::default(), None, runtime)
    }

    /// The cache over a provider whose credentials come from one of `sources`.
    pub(super) fn described(
        provider: impl ProvideCredentials + 'static,
        sources: Sources,
        runtime: Handle,
    ) -> Self {
        Self::new(provider, sources, None, runtime)
    }

    /// The cache over keys of sessions that other keys open.
    pub(crate) fn of_sessions(
        provider: impl ProvideCredentials + 'static,
        keys: Self,
        runtime: Handle,
    ) -> Self {
        Self::new(provider, Sources::default(), Some(keys), runtime)
    }

    fn new(
        provider: impl ProvideCredentials + 'static,
        sources: Sources,
        opened_with: Option<Self>,
        runtime: Handle,
    ) -> Self {
        Self(Arc::new(Inner {
            provider: SharedCredentialsProvider::new(provider),
            sources,
            opened_with,
            runtime,
            state: Mutex::new(State::default()),
        }))
    }

    /// Where the last credentials came from, as a short text without secrets: `environment`,
    /// `profile dev (SSO)`, `instance role web`. `None` before the first were found.
    #[must_use]
    pub fn source(&self) -> Option<String> {
        if let Some(keys) = &self.0.opened_with {
            return keys.source();
        }
        self.0.state.lock().source.as_deref().map(str::to_owned)
    }

    /// Looks credentials up, so that a mount without any fails at once and says why.
    pub async fn check(&self) -> Result<(), ClientError> {
        let Err(error) = self.provide().await else {
            return Ok(());
        };
        let profile = self.0.sources.profile.as_deref();
        let problem = match may_be_of_profile(&error) {
            true => profile_files::problem_of(profile).await,
            false => None,
        };
        Err(explain(&error, profile, problem))
    }

    /// Names the credentials that a request which starts now will use, unless they are replaced
    /// before it is signed; for [`CredentialsCache::invalidate`].
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.0.state.lock().generation
    }

    /// The server refused the credentials of `generation` as expired: the next request gets others,
    /// if there are any.
    pub fn invalidate(&self, generation: u64) {
        let mut state = self.0.state.lock();
        if state.generation == generation && state.current.take().is_some() {
            state.generation += 1;
        }
    }

    pub(super) async fn provide(&self) -> Answer {
        let (send, receive) = tokio::sync::oneshot::channel();
        self.ask(Box::new(move |answer| drop(send.send(answer))));
        receive.await.unwrap_or_else(|_| {
            Err(Arc::new(CredentialsError::not_loaded(
                "the client is shutting down",
            )))
        })
    }

    /// Answers `waiter` at once if there are usable credentials, else when the look-up is done.
    fn ask(&self, waiter: Waiter) {
        let mut state = self.0.state.lock();
        let usable = state.current.as_ref().and_then(Current::usable);
        if let Some((keys, is_due)) = usable {
            let is_begun = is_due && state.lookup.begin_renewal();
            drop(state);
            if is_begun {
                self.spawn_lookup();
            }
            waiter(Ok(keys));
            return;
        }
        if let Lookup::Resting(rest) = &state.lookup
            && Instant::now() < rest.ask_again
        {
            let answer = rest.answer.clone();
            drop(state);
            waiter(answer);
            return;
        }
        let is_begun = state.lookup.wait(waiter);
        drop(state);
        if is_begun {
            self.spawn_lookup();
        }
    }

    /// To be called without the lock: a runtime that has ended drops the task at once, on this
    /// thread, and the guard answers.
    fn spawn_lookup(&self) {
        let guard = LookupGuard(Some(self.clone()));
        drop(self.0.runtime.spawn(async move {
            let cache = guard.cache();
            let found =
                tokio::time::timeout(LOOKUP_TIMEOUT, cache.0.provider.provide_credentials()).await;
            let found =
                found.unwrap_or_else(|_| Err(CredentialsError::provider_timed_out(LOOKUP_TIMEOUT)));
            let source = match &found {
                Ok(keys) => Some(cache.0.sources.describe(keys).await),
                Err(_) => None,
            };
            guard.finish(found.map_err(Arc::new), source.as_deref());
        }));
    }

    fn finish(&self, answer: Answer, source: Option<&str>) {
        let mut state = self.0.state.lock();
        let is_usable = match &answer {
            Ok(keys) => {
                let lifetime = left(keys);
                // Keys of an environment have no end.
                let lasts = (lifetime != Duration::MAX).then_some(lifetime);
                tracing::debug!(
                    lifetime = lasts.map(tracing::field::debug),
                    "credentials from {}",
                    source.unwrap_or("a provider")
                );
                state.source = source.map(Arc::from);
                let before = state.current.replace(Current {
                    keys: keys.clone(),
                    renew_before: renew_before(lifetime),
                });
                state.generation += u64::from(before.is_some());
                !lifetime.is_zero()
            }
            Err(error) => {
                tracing::warn!("cannot look up credentials: {}", chain_text(error));
                false
            }
        };
        let next = if is_usable {
            Lookup::Idle
        } else {
            let now = Instant::now();
            Lookup::Resting(Rest {
                ask_again: now + ASK_GAP,
                renew_again: now + RENEW_GAP,
                answer: answer.clone(),
            })
        };
        let finished = std::mem::replace(&mut state.lookup, next);
        drop(state);
        if let Lookup::Running(waiters) = finished {
            for waiter in waiters {
                waiter(answer.clone());
            }
        }
    }
}

impl Lookup {
    /// Adds a waiter. Whether a look-up must be started for it.
    fn wait(&mut self, waiter: Waiter) -> bool {
        match self {
            Self::Running(waiters) => {
                waiters.push(waiter);
                false
            }
            Self::Idle | Self::Resting(_) => {
                *self = Self::Running(vec![waiter]);
                true
            }
        }
    }

    /// Whether a look-up without a waiter must be started: none runs or has just failed.
    fn begin_renewal(&mut self) -> bool {
        match self {
            Self::Running(_) => return false,
            Self::Resting(rest) if Instant::now() < rest.renew_again => return false,
            Self::Idle | Self::Resting(_) => {}
        }
        *self = Self::Running(Vec::new());
        true
    }
}

impl Current {
    /// The keys, if they are good now, and whether it is time to renew them.
    fn usable(&self) -> Option<(Credentials, bool)> {
        let left = left(&self.keys);
        (left > Duration::ZERO).then(|| (self.keys.clone(), left < self.renew_before))
    }
}

/// Answers the waiters even if the look-up panics or the runtime ends.
struct LookupGuard(Option<CredentialsCache>);

impl LookupGuard {
    fn cache(&self) -> CredentialsCache {
        self.0
            .clone()
            .expect("taken only by finish, which consumes the guard")
    }

    fn finish(mut self, answer: Answer, source: Option<&str>) {
        if let Some(cache) = self.0.take() {
            cache.finish(answer, source);
        }
    }
}

impl Drop for LookupGuard {
    fn drop(&mut self) {
        if let Some(cache) = self.0.take() {
            let error = CredentialsError::unhandled("the look-up of credentials broke off");
            cache.finish(Err(Arc::new(error)), None);
        }
    }
}

impl fmt::Debug for CredentialsCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialsCache")
            .field("generation", &self.generation())
            .finish_non_exhaustive()
    }
}

/// For the SDK.
impl ProvideCredentials for CredentialsCache {
    fn provide_credentials<'a>(&'a self) -> ProvideCredentialsFuture<'a>
    where
        Self: 'a,
    {
        ProvideCredentialsFuture::new(async {
            self.provide()
                .await
                .map_err(|error| CredentialsError::provider_error(chain_text(&error)))
        })
    }
}

/// For the CRT. Answers on the calling thread if the cache can.
impl CredentialsSource for CredentialsCache {
    fn fetch(&self, reply: CredentialsReply) {
        self.ask(Box::new(move |answer| {
            reply.send(
                answer
                    .map(|keys| to_crt(&keys))
                    .map_err(|error| chain_text(&error)),
            );
        }));
    }
}

fn to_crt(keys: &Credentials) -> CrtCredentials {
    CrtCredentials {
        access_key_id: keys.access_key_id().to_owned(),
        secret_access_key: keys.secret_access_key().to_owned(),
        session_token: keys.session_token().map(str::to_owned),
        expires: keys.expiry(),
    }
}

/// How long the keys are good for; a long time if they do not expire.
fn left(keys: &Credentials) -> Duration {
    #[expect(
        clippy::disallowed_methods,
        reason = "expiry is wall-clock time, set by another machine"
    )]
    let now = SystemTime::now();
    keys.expiry().map_or(Duration::MAX, |expiry| {
        expiry.duration_since(now).unwrap_or_default()
    })
}

/// Whether there are no credentials because of the files of profiles, perhaps.
fn may_be_of_profile(error: &CredentialsError) -> bool {
    match error {
        CredentialsError::CredentialsNotLoaded(_) | CredentialsError::InvalidConfiguration(_) => {
            true
        }
        error => chain_text(error).contains(NO_INSTANCE_MARK),
    }
}

/// The error for the user; `problem` is what the files of profiles tell.
fn explain(
    error: &CredentialsError,
    profile: Option<&str>,
    problem: Option<String>,
) -> ClientError {
    let is_none = matches!(error, CredentialsError::CredentialsNotLoaded(_));
    let why = match (problem, chain_text(error)) {
        (Some(problem), _) => problem,
        (None, why) if profile.is_none() && (is_none || why.contains(NO_INSTANCE_MARK)) => {
            NOWHERE.to_owned()
        }
        (None, why) => why,
    };
    let is_login = LOGIN_MARKS.iter().any(|mark| why.contains(mark));
    let hint = match (is_login, profile) {
        (true, Some(profile)) => format!("log in again: aws sso login --profile {profile}"),
        (true, None) => "log in again: aws sso login".to_owned(),
        (false, Some(_)) => {
            "check the profile (AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name other files), or leave --profile out: \
             nothing else is asked with it"
                .to_owned()
        }
        (false, None) => "set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, check the profile, \
             or use --no-sign-request for a public bucket"
            .to_owned(),
    };
    let text = format!("no usable AWS credentials: {why}; {hint}");
    ClientError::new(ErrorKind::Credentials, text)
}

/// How the SDK says of the last place it looks at, an instance's role, that there is none: off EC2
/// that is all it says.
const NO_INSTANCE_MARK: &str = "IMDS is disabled";
/// Every place where credentials are looked for.
const NOWHERE: &str = "there are none in the environment, in ~/.aws/config and ~/.aws/credentials, of a web identity or of \
                       a container, and the metadata service of an instance is not asked or gives none";
/// How the SDK and IAM Identity Center say that a session is over, or was never begun.
const LOGIN_MARKS: [&str; 3] = ["access token", "SSO token", "UnauthorizedException"];
/// One look-up; an SSO or assume-role provider makes a few requests.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(30);
/// After a look-up that brought no usable keys: a thousand operations of a mount whose login has
/// ended are one look-up a second, and the first after the new login waits no longer than that.
const ASK_GAP: Duration = Duration::from_secs(1);
/// After a renewal that failed: a provider that has no answer now is not asked at each request.
const RENEW_GAP: Duration = Duration::from_secs(10);

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
