//! The SDK's credential providers, made for one client.
//!
//! All of their requests use one HTTP client of ours, so that proxies and the CA bundle hold for
//! them, too; what this machine offers to itself (instance metadata, container credentials) is
//! asked directly.

use std::time::Duration;

use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::imds;
use aws_config::imds::credentials::ImdsCredentialsProvider;
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_credential_types::Credentials;
use aws_sdk_s3::config::Region;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use tokio::runtime::Handle;

use super::cache::CredentialsCache;
use super::mode::CredentialsMode;
use super::source::Sources;

/// The settings and services that credentials are looked up with.
pub(crate) struct ChainOptions<'a> {
    pub(crate) mode: &'a CredentialsMode,
    pub(crate) region: &'a Region,
    /// For the services of AWS and of containers.
    pub(crate) http: SharedHttpClient,
    pub(crate) metadata: imds::Client,
}

/// The cache over the credentials of a mode, or `None` for unsigned requests. Looks nothing up yet.
pub(crate) async fn credentials_cache(
    options: ChainOptions<'_>,
    runtime: Handle,
) -> Option<CredentialsCache> {
    match options.mode {
        CredentialsMode::Unsigned => None,
        CredentialsMode::Static(keys) => {
            let keys = Credentials::new(
                &keys.access_key_id,
                &keys.secret_access_key,
                keys.session_token.clone(),
                None,
                "static",
            );
            Some(CredentialsCache::over(keys, runtime))
        }
        CredentialsMode::Default { profile } => {
            let profile = profile.as_deref();
            Some(default_credentials(options, profile, runtime).await)
        }
    }
}

/// The cache over the credentials of `profile`, or of the default chain without one.
async fn default_credentials(
    options: ChainOptions<'_>,
    profile: Option<&str>,
    runtime: Handle,
) -> CredentialsCache {
    let ChainOptions {
        region,
        http,
        metadata,
        ..
    } = options;
    let config = provider_config(region, http);
    let instance = ImdsCredentialsProvider::builder()
        .configure(&config)
        .imds_client(metadata.clone())
        .build();
    let sources = Sources {
        profile: profile.map(str::to_owned),
        metadata: Some(metadata.clone()),
    };
    match profile {
        None => {
            let chain = DefaultCredentialsChain::builder()
                .configure(config)
                .region(region.clone())
                .imds_client(metadata)
                .with_custom_credential_source(INSTANCE, instance);
            CredentialsCache::described(chain.build().await, sources, runtime)
        }
        Some(name) => {
            let provider = ProfileFileCredentialsProvider::builder()
                .configure(&config)
                .with_custom_provider(INSTANCE, instance)
                .profile_name(name);
            CredentialsCache::described(provider.build(), sources, runtime)
        }
    }
}

fn provider_config(region: &Region, http: SharedHttpClient) -> ProviderConfig {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_MAX)
        .operation_attempt_timeout(ATTEMPT_MAX)
        .build();
    ProviderConfig::without_region()
        .with_region(Some(region.clone()))
        .with_http_client(http)
        .with_timeout_config(timeouts)
}

/// The name of the instance's role in `credential_source`.
const INSTANCE: &str = "Ec2InstanceMetadata";
/// The services are regional; a connection takes a round trip or two.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// One attempt at a question to STS or SSO.
const ATTEMPT_MAX: Duration = Duration::from_secs(10);
