use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::credentials::StaticKeys;

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

#[test]
fn a_runtime_that_has_ended_answers_with_an_error() {
    let asker = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let ended = tokio::runtime::Runtime::new().unwrap();
    let provider = Numbered {
        lookups: Arc::default(),
        lifetime: Some(Duration::from_secs(60)),
    };
    let with_keys = CredentialsCache::over(provider.clone(), ended.handle().clone());
    let without = CredentialsCache::over(provider, ended.handle().clone());
    asker.block_on(with_keys.provide()).unwrap();
    drop(ended);
    let error = asker.block_on(without.provide()).unwrap_err();
    assert!(chain_text(&error).contains("broke off"), "{error:?}");
    let mut state = with_keys.0.state.lock();
    state.current.as_mut().unwrap().renew_before = Duration::from_secs(120);
    drop(state);
    asker.block_on(with_keys.provide()).unwrap();
    assert!(matches!(
        with_keys.0.state.lock().lookup,
        Lookup::Resting(_)
    ));
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
    assert_eq!(key(&cache).await, "key0");
    assert_eq!(
        lookups.load(Ordering::SeqCst),
        1,
        "half of their time is left"
    );
    cache.0.state.lock().current.as_mut().unwrap().renew_before = Duration::from_secs(120);
    assert_eq!(key(&cache).await, "key0", "still good: answered at once");
    while lookups.load(Ordering::SeqCst) < 2
        || matches!(cache.0.state.lock().lookup, Lookup::Running(_))
    {
        tokio::task::yield_now().await;
    }
    assert_eq!(key(&cache).await, "key1");
    assert_eq!(lookups.load(Ordering::SeqCst), 2, "and not again at once");
}

#[tokio::test]
async fn a_failed_renewal_rests_and_the_old_keys_stay() {
    let (cache, lookups) = cache(Some(Duration::from_secs(60)));
    assert_eq!(key(&cache).await, "key0");
    {
        let mut state = cache.0.state.lock();
        state.current.as_mut().unwrap().renew_before = Duration::from_secs(120);
        state.lookup = Lookup::Running(Vec::new());
    }
    let error = CredentialsError::provider_error("no answer");
    cache.finish(Err(Arc::new(error)), None);
    assert_eq!(key(&cache).await, "key0");
    assert!(matches!(cache.0.state.lock().lookup, Lookup::Resting(_)));
    assert_eq!(lookups.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn expired_keys_are_not_used() {
    let (cache, _) = cache(Some(Duration::ZERO));
    assert_eq!(key(&cache).await, "key0");
    end_rest(&cache);
    assert_eq!(key(&cache).await, "key1");
}

/// As if the time had passed after which somebody without keys may have them looked up again.
fn end_rest(cache: &CredentialsCache) {
    match &mut cache.0.state.lock().lookup {
        Lookup::Resting(rest) => rest.ask_again = Instant::now(),
        Lookup::Idle | Lookup::Running(_) => panic!("it does not rest"),
    }
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

/// Has no keys, or keys that have expired.
#[derive(Debug, Clone)]
struct Useless {
    lookups: Arc<AtomicU64>,
    has_expired: bool,
}

impl ProvideCredentials for Useless {
    fn provide_credentials<'a>(&'a self) -> ProvideCredentialsFuture<'a>
    where
        Self: 'a,
    {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        ProvideCredentialsFuture::ready(if self.has_expired {
            let long_ago = Some(SystemTime::UNIX_EPOCH);
            Ok(Credentials::new("old", "secret", None, long_ago, "test"))
        } else {
            Err(CredentialsError::not_loaded("nobody is logged in"))
        })
    }
}

#[tokio::test]
async fn what_cannot_be_used_is_looked_up_once_a_second() {
    for has_expired in [false, true] {
        let lookups = Arc::new(AtomicU64::new(0));
        let provider = Useless {
            lookups: Arc::clone(&lookups),
            has_expired,
        };
        let cache = CredentialsCache::over(provider, Handle::current());
        for second in 1..=3 {
            for _ in 0..50 {
                assert_eq!(cache.provide().await.is_ok(), has_expired);
            }
            assert_eq!(lookups.load(Ordering::SeqCst), second, "{has_expired}");
            end_rest(&cache);
        }
    }
}
