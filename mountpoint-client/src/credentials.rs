//! Credentials: where they come from, and one cache of them for both the SDK and the CRT.
//!
//! Invariant: at most one look-up is under way; keys are renewed before they expire, in the background as long
//! as the old ones are good. The answer from the cache is immediate, on whatever thread asks; look-ups run on
//! the client's tokio runtime. Knows no request. Never prints a secret.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::imds;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::{ProfileFileCredentialsProvider, ProfileFileRegionProvider};
use aws_config::provider_config::ProviderConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future::ProvideCredentials as ProvideCredentialsFuture;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_sdk_s3::config::Region;
use mountpoint_crt_sys::{Credentials as CrtCredentials, CredentialsReply, CredentialsSource};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::{ClientError, ErrorKind};

/// Where credentials come from.
#[derive(Clone, Debug)]
pub enum CredentialsMode {
    /// The chain of the AWS SDKs: environment, profile files, web identity, container, instance metadata.
    Default {
        /// Only this profile, instead of the whole chain.
        profile: Option<String>,
    },
    /// Requests are not signed.
    Unsigned,
    /// These keys.
    Static(StaticKeys),
}

/// Keys given by the caller. They are not renewed.
#[derive(Clone)]
pub struct StaticKeys {
    /// Public half.
    pub access_key_id: String,
    /// Secret half.
    pub secret_access_key: String,
    /// Token of temporary credentials.
    pub session_token: Option<String>,
}

impl fmt::Debug for StaticKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticKeys")
            .field("access_key_id", &self.access_key_id)
            .finish_non_exhaustive()
    }
}

/// The region to use where none is given: environment, profile, then, unless `off_aws`, instance metadata.
///
/// Instance metadata is given [`METADATA_TIMEOUT`]. Runs on the tokio runtime that polls it.
pub async fn find_region(profile: Option<&str>, off_aws: bool) -> Option<Region> {
    let mut profile_files = ProfileFileRegionProvider::builder();
    if let Some(profile) = profile {
        profile_files = profile_files.profile_name(profile);
    }
    let chain = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new())
        .or_else(profile_files.build());
    if off_aws {
        return chain.region().await;
    }
    let metadata = imds::region::ImdsRegionProvider::builder()
        .imds_client(metadata_client())
        .build();
    chain.or_else(metadata).region().await
}

/// Instance metadata, with a timeout that a start-up off EC2 can bear.
fn metadata_client() -> imds::Client {
    imds::Client::builder()
        .connect_timeout(METADATA_TIMEOUT)
        .read_timeout(METADATA_TIMEOUT)
        .operation_timeout(METADATA_TIMEOUT)
        .max_attempts(METADATA_ATTEMPTS)
        .build()
}

/// The credentials of one client. Cheap to clone.
#[derive(Clone)]
pub struct CredentialsCache(Arc<Inner>);

struct Inner {
    provider: SharedCredentialsProvider,
    runtime: Handle,
    /// Keys are renewed this long before they expire.
    renew_before: Duration,
    /// Guards nothing that blocks: it is held for a few instructions, never while a provider works.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    current: Option<Credentials>,
    /// Grows with every change of `current`.
    generation: u64,
    lookup: Lookup,
}

/// What a look-up is doing, and who waits for it.
#[derive(Default)]
enum Lookup {
    /// None is under way; after a failed renewal the next waits until then.
    #[default]
    Idle,
    Resting(Instant),
    Running(Vec<Waiter>),
}

type Answer = Result<Credentials, Arc<CredentialsError>>;
type Waiter = Box<dyn FnOnce(Answer) + Send>;

impl CredentialsCache {
    /// The cache over the credentials of `mode`, or `None` for unsigned requests. Looks nothing up yet.
    pub async fn new(mode: &CredentialsMode, region: &Region, runtime: Handle) -> Option<Self> {
        match mode {
            CredentialsMode::Unsigned => None,
            CredentialsMode::Static(keys) => {
                let provider = Credentials::new(
                    &keys.access_key_id,
                    &keys.secret_access_key,
                    keys.session_token.clone(),
                    None,
                    "static",
                );
                Some(Self::over(provider, runtime))
            }
            CredentialsMode::Default { profile: None } => {
                let chain = DefaultCredentialsChain::builder()
                    .region(region.clone())
                    .imds_client(metadata_client());
                Some(Self::over(chain.build().await, runtime))
            }
            CredentialsMode::Default {
                profile: Some(name),
            } => {
                let config = ProviderConfig::without_region().with_region(Some(region.clone()));
                let provider = ProfileFileCredentialsProvider::builder()
                    .configure(&config)
                    .profile_name(name);
                Some(Self::over(provider.build(), runtime))
            }
        }
    }

    /// The cache over any provider.
    pub fn over(provider: impl ProvideCredentials + 'static, runtime: Handle) -> Self {
        Self::renewing(RENEW_BEFORE, provider, runtime)
    }

    /// The cache over any provider, for keys that are to be renewed so long before they expire.
    pub fn renewing(
        renew_before: Duration,
        provider: impl ProvideCredentials + 'static,
        runtime: Handle,
    ) -> Self {
        Self(Arc::new(Inner {
            provider: SharedCredentialsProvider::new(provider),
            runtime,
            renew_before,
            state: Mutex::new(State::default()),
        }))
    }

    /// Looks credentials up, so that a mount without any fails at once and says why.
    pub async fn check(&self) -> Result<(), ClientError> {
        self.provide()
            .await
            .map(drop)
            .map_err(|error| explain(&error))
    }

    /// Names the credentials that a request which starts now will use; for [`CredentialsCache::invalidate`].
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.0.state.lock().generation
    }

    /// The server refused the credentials of `generation` as expired: the next request gets others, if there are any.
    pub fn invalidate(&self, generation: u64) {
        let mut state = self.0.state.lock();
        if state.generation == generation && state.current.take().is_some() {
            state.generation += 1;
        }
    }

    async fn provide(&self) -> Answer {
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
        let usable = state
            .current
            .clone()
            .map(|current| (left(&current), current));
        match usable {
            Some((left, current)) if left > Duration::ZERO => {
                if left < self.0.renew_before {
                    self.renew(&mut state);
                }
                drop(state);
                waiter(Ok(current));
            }
            _ => match &mut state.lookup {
                Lookup::Running(waiters) => waiters.push(waiter),
                Lookup::Idle | Lookup::Resting(_) => {
                    state.lookup = Lookup::Running(vec![waiter]);
                    self.spawn_lookup();
                }
            },
        }
    }

    /// A look-up in the background, unless one is under way or failed a moment ago.
    fn renew(&self, state: &mut State) {
        match &state.lookup {
            Lookup::Running(_) => return,
            Lookup::Resting(until) if Instant::now() < *until => return,
            Lookup::Idle | Lookup::Resting(_) => {}
        }
        state.lookup = Lookup::Running(Vec::new());
        self.spawn_lookup();
    }

    fn spawn_lookup(&self) {
        let guard = LookupGuard(Some(self.clone()));
        drop(self.0.runtime.spawn(async move {
            let cache = guard.cache();
            let found =
                tokio::time::timeout(LOOKUP_TIMEOUT, cache.0.provider.provide_credentials()).await;
            let found =
                found.unwrap_or_else(|_| Err(CredentialsError::provider_timed_out(LOOKUP_TIMEOUT)));
            guard.finish(found.map_err(Arc::new));
        }));
    }

    fn finish(&self, answer: Answer) {
        let mut state = self.0.state.lock();
        match &answer {
            Ok(credentials) => {
                state.current = Some(credentials.clone());
                state.generation += 1;
            }
            Err(error) => tracing::warn!("cannot look up credentials: {}", chain_text(error)),
        }
        let rest = Lookup::Resting(Instant::now() + RENEW_GAP);
        let finished = std::mem::replace(&mut state.lookup, rest);
        drop(state);
        if let Lookup::Running(waiters) = finished {
            for waiter in waiters {
                waiter(answer.clone());
            }
        }
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

    fn finish(mut self, answer: Answer) {
        if let Some(cache) = self.0.take() {
            cache.finish(answer);
        }
    }
}

impl Drop for LookupGuard {
    fn drop(&mut self) {
        if let Some(cache) = self.0.take() {
            cache.finish(Err(Arc::new(CredentialsError::unhandled(
                "the look-up of credentials broke off",
            ))));
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

fn explain(error: &CredentialsError) -> ClientError {
    let text = format!(
        "no usable AWS credentials: {}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, check the profile, \
         or use --no-sign-request for a public bucket",
        chain_text(error)
    );
    ClientError::new(ErrorKind::Credentials, text)
}

/// An error with what caused it, on one line; the SDK's errors say little without.
pub(crate) fn chain_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    // A message is one line; some of the SDK's are lists.
    text.split_inclusive('\n')
        .map(str::trim)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Instance metadata answers within milliseconds on EC2 and never elsewhere.
pub const METADATA_TIMEOUT: Duration = Duration::from_secs(1);
const METADATA_ATTEMPTS: u32 = 2;
/// One look-up; an SSO or assume-role provider makes a few requests.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(30);
/// Keys are renewed this long before they expire, so that a request never meets the last second of them.
const RENEW_BEFORE: Duration = Duration::from_secs(5 * 60);
/// Least time between two renewals in the background: a failing or short-lived provider is not asked at each request.
const RENEW_GAP: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Hands out numbered keys that live for `lifetime`.
    #[derive(Debug, Clone)]
    struct Numbered {
        lookups: Arc<AtomicU64>,
        lifetime: Option<Duration>,
    }

    impl ProvideCredentials for Numbered {
        fn provide_credentials<'a>(&'a self) -> ProvideCredentialsFuture<'a>
        where
            Self: 'a,
        {
            let number = self.lookups.fetch_add(1, Ordering::SeqCst);
            #[expect(clippy::disallowed_methods, reason = "expiry is wall-clock time")]
            let expiry = self.lifetime.map(|lifetime| SystemTime::now() + lifetime);
            ProvideCredentialsFuture::new(async move {
                tokio::task::yield_now().await;
                Ok(Credentials::new(
                    format!("key{number}"),
                    "secret",
                    None,
                    expiry,
                    "test",
                ))
            })
        }
    }

    fn cache(lifetime: Option<Duration>) -> (CredentialsCache, Arc<AtomicU64>) {
        let lookups = Arc::new(AtomicU64::new(0));
        let provider = Numbered {
            lookups: Arc::clone(&lookups),
            lifetime,
        };
        (CredentialsCache::over(provider, Handle::current()), lookups)
    }

    async fn key(cache: &CredentialsCache) -> String {
        cache.provide().await.unwrap().access_key_id().to_owned()
    }

    #[tokio::test]
    async fn one_lookup_serves_all() {
        let (cache, lookups) = cache(None);
        let asked: Vec<_> = (0..8).map(|_| cache.provide()).collect();
        for answer in futures::future::join_all(asked).await {
            assert_eq!(answer.unwrap().access_key_id(), "key0");
        }
        assert_eq!(key(&cache).await, "key0");
        assert_eq!(lookups.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn refused_keys_are_replaced_once() {
        let (cache, lookups) = cache(None);
        assert_eq!(key(&cache).await, "key0");
        let generation = cache.generation();
        cache.invalidate(generation);
        assert_eq!(key(&cache).await, "key1");
        cache.invalidate(generation);
        assert_eq!(
            key(&cache).await,
            "key1",
            "a late complaint about old keys changes nothing"
        );
        assert_eq!(lookups.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn keys_near_their_end_are_renewed_in_the_background() {
        let (cache, lookups) = cache(Some(Duration::from_secs(60)));
        assert_eq!(key(&cache).await, "key0");
        cache.0.state.lock().lookup = Lookup::Idle;
        assert_eq!(key(&cache).await, "key0", "still good: answered at once");
        while lookups.load(Ordering::SeqCst) < 2
            || matches!(cache.0.state.lock().lookup, Lookup::Running(_))
        {
            tokio::task::yield_now().await;
        }
        assert_eq!(key(&cache).await, "key1");
        assert_eq!(
            lookups.load(Ordering::SeqCst),
            2,
            "not renewed again within the gap"
        );
    }

    #[tokio::test]
    async fn expired_keys_are_not_used() {
        let (cache, _) = cache(Some(Duration::ZERO));
        assert_eq!(key(&cache).await, "key0");
        assert_eq!(key(&cache).await, "key1");
    }

    #[tokio::test]
    async fn no_credentials_is_explained_without_secrets() {
        #[derive(Debug)]
        struct Nothing;
        impl ProvideCredentials for Nothing {
            fn provide_credentials<'a>(&'a self) -> ProvideCredentialsFuture<'a>
            where
                Self: 'a,
            {
                ProvideCredentialsFuture::ready(Err(CredentialsError::not_loaded("none here")))
            }
        }
        let cache = CredentialsCache::over(Nothing, Handle::current());
        let error = cache.check().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Credentials);
        assert!(error.message.contains("--no-sign-request"), "{error}");
        let keys = StaticKeys {
            access_key_id: "AK".into(),
            secret_access_key: "hush".into(),
            session_token: Some("t0k".into()),
        };
        let shown = format!("{keys:?} {cache:?}");
        assert!(!shown.contains("hush") && !shown.contains("t0k"), "{shown}");
    }
}
