//! How a client comes to be: region, credentials, endpoint, then the SDK's client and the CRT's.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    AppName, BehaviorVersion, IdentityCache, Region, RequestChecksumCalculation,
    ResponseChecksumValidation, StalledStreamProtectionConfig,
};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use mountpoint_crt_sys::{ClientOptions, Runtime, RuntimeOptions, Signing, TlsOptions};
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
use crate::credentials::{CredentialsCache, CredentialsMode, find_region};
use crate::endpoint::{Endpoint, EndpointQuestion};
use crate::network::{
    HttpOptions, Interfaces, ProbeTarget, Proxy, http_client, trust, url_address,
};
use crate::retry::{Pace, RetryPolicy};
use crate::{ClientError, ErrorKind};

/// Makes the shared part of a client. Runs in a task of `runtime`.
pub(super) async fn connect(
    options: CrtClientOptions,
    runtime: Handle,
) -> Result<Core, ClientError> {
    let region = region(&options).await;
    let question = EndpointQuestion {
        bucket: &options.bucket,
        region: region.as_ref(),
        endpoint_url: options.endpoint_url.as_deref(),
        force_path_style: options.force_path_style,
    };
    let endpoint = Endpoint::resolve(&question).await?;
    let credentials = CredentialsCache::new(&options.credentials, &region, runtime.clone()).await;
    if let Some(credentials) = &credentials {
        credentials
            .check()
            .await
            .map_err(|error| named(&options, error))?;
    }
    let proxy = options.proxy.for_url(&endpoint.origin);
    let target = probe_target(&endpoint, proxy)?;
    let interfaces = Interfaces::new(&options.network_interfaces, target, &runtime)?;
    let interfaces = Arc::new(interfaces);
    let http = http_client(HttpOptions {
        tls: trust(options.ca_bundle.as_deref())?,
        proxies: options.proxy.clone(),
        interfaces: Some(Arc::clone(&interfaces)),
    });
    let sdk = sdk_client(&options, http, region.clone(), credentials.clone());
    let data = data_clients(&options, &endpoint, credentials.as_ref(), interfaces)?;
    let connections = options.connections() as usize * data.count();
    Ok(Core {
        control: Semaphore::new(CONTROL_IN_FLIGHT_MAX),
        was_reached: AtomicBool::new(false),
        admission: Admission::new(
            connections * READ_AHEAD_PERCENT as usize / 100,
            READ_AHEAD_QUEUE_MAX,
        ),
        bucket: options.bucket,
        region: region.to_string(),
        endpoint,
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
        pace: Mutex::new(Pace::default()),
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
    interfaces: Arc<Interfaces>,
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
        Some(credentials) => Signing::SigV4 {
            region: endpoint.signing_region.clone(),
            service: endpoint.signing_service.clone(),
            source: Arc::new(credentials.clone()),
        },
    };
    let proxy = options.proxy.for_url(&endpoint.origin);
    let client = ClientOptions {
        endpoint: endpoint.origin.clone(),
        signing: signing.clone(),
        tls: TlsOptions {
            ca_bundle: options.ca_bundle.clone(),
        },
        throughput_target_gbps: f64::from(options.connections()) * GBPS_PER_CONNECTION,
        part_size_max: options.part_size_max,
        connect_timeout: CONNECT_TIMEOUT,
        stall_timeout: READ_STALL,
        network_interface: None,
        proxy: proxy.map(|proxy| proxy.options().clone()),
    };
    DataClients::new(&runtime, &client, interfaces)
}

/// Where a probe of an interface connects to: what the data clients connect to.
fn probe_target(endpoint: &Endpoint, proxy: Option<&Proxy>) -> Result<ProbeTarget, ClientError> {
    let (host, port) = match proxy {
        Some(proxy) => proxy.address(),
        None => url_address(&endpoint.origin).ok_or_else(|| {
            let what = format!("endpoint {} has no valid host name", endpoint.origin);
            ClientError::new(ErrorKind::InvalidRequest, what)
        })?,
    };
    Ok(ProbeTarget { host, port })
}

/// The SDK's client, without retries of its own: they are ours.
fn sdk_client(
    options: &CrtClientOptions,
    http: SharedHttpClient,
    region: Region,
    credentials: Option<CredentialsCache>,
) -> aws_sdk_s3::Client {
    let mut config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .http_client(http)
        .region(region)
        .force_path_style(options.force_path_style)
        .disable_s3_express_session_auth(true)
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
    if let Some(url) = &options.endpoint_url {
        config = config.endpoint_url(url);
    }
    config = match credentials {
        Some(credentials) => config.credentials_provider(credentials),
        None => config.allow_no_auth(),
    };
    aws_sdk_s3::Client::from_conf(config.build())
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

/// Region of requests where nothing names one, as in the AWS tools.
const REGION_DEFAULT: &str = "us-east-1";
