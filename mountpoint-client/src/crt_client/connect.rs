//! How a client comes to be: region, credentials, endpoint, then the SDK's client and the CRT's.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    AppName, BehaviorVersion, IdentityCache, Region, RequestChecksumCalculation,
    ResponseChecksumValidation, StalledStreamProtectionConfig,
};
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use mountpoint_crt_sys::{
    ClientOptions, CredentialsSource, Runtime, RuntimeOptions, Signing, TlsOptions,
};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::admission::Admission;
use super::core::Core;
use super::data::DataClients;
use super::options::{
    CONNECT_TIMEOUT, CONTROL_IN_FLIGHT_MAX, CrtClientOptions, GBPS_PER_CONNECTION,
    READ_AHEAD_PERCENT, READ_AHEAD_QUEUE_MAX, READ_STALL,
};
use super::request_headers::RequestHeaders;
use super::sessions::{Opener, Sessions};
use crate::credentials::{CredentialsCache, CredentialsMode, find_region};
use crate::endpoint::{Endpoint, SigningAlgorithm, region_of_arn};
use crate::retry::RetryPolicy;
use crate::{ClientError, ErrorKind};

/// Makes the shared part of a client. Runs in a task of `runtime`.
pub(super) async fn connect(
    options: CrtClientOptions,
    runtime: Handle,
) -> Result<Core, ClientError> {
    let region = region(&options).await;
    let endpoint = Endpoint::resolve(&options.endpoint_question(region.as_ref())).await?;
    connect_at(endpoint, region, options, runtime).await
}

/// The same for an endpoint that is known.
pub(super) async fn connect_at(
    endpoint: Endpoint,
    region: Region,
    options: CrtClientOptions,
    runtime: Handle,
) -> Result<Core, ClientError> {
    let headers = RequestHeaders::checked(&options, &endpoint)?;
    let mut credentials =
        CredentialsCache::new(&options.credentials, &region, runtime.clone()).await;
    if let Some(credentials) = &credentials {
        credentials
            .check()
            .await
            .map_err(|error| named(&options, error))?;
    }
    let config = sdk_config(&options, region.clone())?;
    let mut sessions = None;
    if endpoint.signing_algorithm == SigningAlgorithm::S3Express
        && let Some(keys) = credentials.take()
    {
        let opener = Opener::new(&options, &region, &config, keys).await?;
        let opened = Sessions::new(opener, runtime.clone());
        credentials = Some(opened.credentials());
        sessions = Some(opened);
    }
    let config = config.interceptor(headers.clone());
    let sdk = sdk_client(config, &endpoint, credentials.clone());
    let data = data_clients(&options, &endpoint, credentials.as_ref())?;
    let connections = options.connections() as usize * data.count();
    Ok(Core {
        control: Semaphore::new(CONTROL_IN_FLIGHT_MAX),
        was_reached: AtomicBool::new(false),
        admission: Admission::new(
            connections * READ_AHEAD_PERCENT as usize / 100,
            READ_AHEAD_QUEUE_MAX,
        ),
        is_directory_bucket: options.is_directory_bucket(),
        bucket: options.bucket,
        endpoint,
        headers,
        sessions,
        user_agent: options.user_agent,
        part_size_max: options.part_size_max,
        sdk,
        data,
        credentials,
        policy: RetryPolicy {
            attempts_max: options.max_attempts.max(1),
            deadline: options.request_deadline,
        },
        runtime,
        started: Instant::now(),
        pace: Mutex::default(),
        suspicion: Mutex::default(),
    })
}

/// The error with the profile's name: the SDK does not tell which one is missing.
fn named(options: &CrtClientOptions, mut error: ClientError) -> ClientError {
    if let CredentialsMode::Default {
        profile: Some(name),
    } = &options.credentials
    {
        error.message = format!("profile {name:?}: {}", error.message);
    }
    error
}

async fn region(options: &CrtClientOptions) -> Region {
    if let Some(region) = region_of_arn(&options.bucket) {
        return Region::new(region.to_owned());
    }
    if let Some(region) = &options.region {
        return Region::new(region.clone());
    }
    let profile = match &options.credentials {
        CredentialsMode::Default { profile } => profile.as_deref(),
        CredentialsMode::Unsigned | CredentialsMode::Static(_) => None,
    };
    let found = find_region(profile, options.endpoint_url.is_some()).await;
    found.unwrap_or_else(|| Region::from_static(REGION_DEFAULT))
}

fn data_clients(
    options: &CrtClientOptions,
    endpoint: &Endpoint,
    credentials: Option<&CredentialsCache>,
) -> Result<DataClients, ClientError> {
    let runtime_options = RuntimeOptions {
        event_loop_threads: options.event_loop_threads,
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::new(&runtime_options).map_err(|error| {
        ClientError::new(
            ErrorKind::InvalidRequest,
            format!("cannot start the AWS Common Runtime: {error}"),
        )
    })?;
    let signing = match credentials {
        None => Signing::Unsigned,
        Some(credentials) => signing(endpoint, Arc::new(credentials.clone())),
    };
    let client = |network_interface: Option<String>| ClientOptions {
        endpoint: endpoint.origin.clone(),
        signing: signing.clone(),
        tls: TlsOptions {
            ca_bundle: options.ca_bundle.clone(),
        },
        throughput_target_gbps: f64::from(options.connections()) * GBPS_PER_CONNECTION,
        part_size_max: options.part_size_max,
        connect_timeout: CONNECT_TIMEOUT,
        stall_timeout: READ_STALL,
        network_interface,
    };
    let each = match &*options.network_interfaces {
        [] => vec![client(None)],
        names => names
            .iter()
            .map(|name| client(Some(name.clone())))
            .collect(),
    };
    DataClients::new(&runtime, each)
}

fn signing(endpoint: &Endpoint, source: Arc<dyn CredentialsSource>) -> Signing {
    let (region, service) = (
        endpoint.signing_region.clone(),
        endpoint.signing_service.clone(),
    );
    match endpoint.signing_algorithm {
        SigningAlgorithm::SigV4 => Signing::SigV4 {
            region,
            service,
            source,
        },
        SigningAlgorithm::SigV4a => Signing::SigV4a {
            regions: region,
            service,
            source,
        },
        SigningAlgorithm::S3Express => Signing::S3Express { region, source },
    }
}

/// The SDK's client for an endpoint.
pub(super) fn sdk_client(
    config: aws_sdk_s3::config::Builder,
    endpoint: &Endpoint,
    credentials: Option<CredentialsCache>,
) -> aws_sdk_s3::Client {
    let config = config.endpoint_resolver(endpoint.clone());
    let config = match credentials {
        // With a provider of sessions given, the SDK opens none of its own.
        Some(credentials) => config
            .credentials_provider(credentials.clone())
            .express_credentials_provider(credentials),
        None => config.allow_no_auth(),
    };
    aws_sdk_s3::Client::from_conf(config.build())
}

/// How the SDK sends, without retries of its own: they are ours.
fn sdk_config(
    options: &CrtClientOptions,
    region: Region,
) -> Result<aws_sdk_s3::config::Builder, ClientError> {
    let mut trust = TrustStore::default();
    if let Some(pem) = &options.ca_bundle {
        if !pem.windows(PEM_MARK.len()).any(|window| window == PEM_MARK) {
            let what = "the CA bundle holds no certificate in PEM format";
            return Err(ClientError::new(ErrorKind::InvalidRequest, what));
        }
        trust = TrustStore::empty().with_pem_certificate(pem.clone());
    }
    let tls = TlsContext::builder()
        .with_trust_store(trust)
        .build()
        .map_err(|error| {
            ClientError::new(
                ErrorKind::InvalidRequest,
                format!("the CA bundle cannot be used: {error}"),
            )
        })?;
    let http = aws_smithy_http_client::Builder::new()
        .tls_provider(Provider::Rustls(CryptoMode::AwsLc))
        .tls_context(tls)
        .pool_idle_timeout(POOL_IDLE)
        .build_https();
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .http_client(http)
        .region(region)
        .retry_config(RetryConfig::disabled())
        .timeout_config(
            TimeoutConfig::builder()
                .connect_timeout(CONNECT_TIMEOUT)
                .build(),
        )
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
        .identity_cache(IdentityCache::no_cache())
        .app_name(app_name(&options.user_agent));
    Ok(config)
}

/// The user agent as the SDK accepts it: a few characters are not allowed.
fn app_name(user_agent: &str) -> AppName {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let name: String = user_agent
        .chars()
        .map(|c| if allowed(c) { c } else { '-' })
        .collect();
    AppName::new(name).unwrap_or_else(|_| AppName::new("mountpoint").expect("letters are allowed"))
}

const PEM_MARK: &[u8] = b"-----BEGIN CERTIFICATE-----";
/// Region of requests where nothing names one, as in the AWS tools.
const REGION_DEFAULT: &str = "us-east-1";
/// S3 closes idle connections after some 20 s; reusing one just then costs a retry.
const POOL_IDLE: Duration = Duration::from_secs(15);
