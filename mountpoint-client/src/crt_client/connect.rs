//! How a client comes to be: region, credentials, endpoint, then the SDK's client and the CRT's.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use aws_config::imds;
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
use crate::credentials::{
    ChainOptions, CredentialsCache, CredentialsMode, credentials_cache, find_region,
};
use crate::endpoint::{Endpoint, EndpointQuestion};
use crate::instance::{instance_throughput_gbps, instance_type, metadata_client};
use crate::network::{
    HttpOptions, Interfaces, ProbeTarget, Proxy, ProxySettings, http_client, trust, url_address,
};
use crate::retry::{Pace, RetryPolicy};
use crate::{ClientError, ErrorKind};

/// Makes the shared part of a client. Runs in a task of `runtime`.
pub(super) async fn connect(
    options: CrtClientOptions,
    runtime: Handle,
) -> Result<Core, ClientError> {
    let tls = trust(options.ca_bundle.as_deref())?;
    let http = |proxies, interfaces| {
        let tls = tls.clone();
        http_client(HttpOptions {
            tls,
            proxies,
            interfaces,
        })
    };
    let metadata = metadata_client(http(ProxySettings::default(), None));
    let look_up = async {
        let region = region(&options, &metadata).await;
        let endpoint = endpoint(&options, &region).await?;
        let chain = ChainOptions {
            mode: &options.credentials,
            region: &region,
            http: http(options.proxy.beyond_this_machine(), None),
            metadata: metadata.clone(),
        };
        let credentials = checked_credentials(chain, &runtime).await?;
        Ok::<_, ClientError>((region, endpoint, credentials))
    };
    let (found, instance_type) = tokio::join!(look_up, instance_type_needed(&options, &metadata));
    let (region, endpoint, credentials) = found?;
    let connections = options.connections(instance_type.as_deref());
    let proxy = options.proxy.for_url(&endpoint.origin);
    let address = address(&endpoint, proxy);
    let target = probe_target(&endpoint, proxy)?;
    let interfaces = Interfaces::new(&options.network_interfaces, target, &runtime)?;
    let interfaces = Arc::new(interfaces);
    let http = http(options.proxy.clone(), Some(Arc::clone(&interfaces)));
    let sdk = sdk_client(&options, http, region.clone(), credentials.clone());
    let plan = client_options(&options, &endpoint, credentials.as_ref(), connections);
    let data = data_clients(&options, &plan, interfaces)?;
    let connections = connections as usize * data.count();
    Ok(Core {
        control: Semaphore::new(CONTROL_IN_FLIGHT_MAX),
        was_reached: AtomicBool::new(false),
        admission: Admission::new(
            connections * READ_AHEAD_PERCENT as usize / 100,
            READ_AHEAD_QUEUE_MAX,
        ),
        bucket: options.bucket,
        region: region.to_string(),
        address,
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

async fn endpoint(options: &CrtClientOptions, region: &Region) -> Result<Endpoint, ClientError> {
    let question = EndpointQuestion {
        bucket: &options.bucket,
        region: region.as_ref(),
        endpoint_url: options.endpoint_url.as_deref(),
        force_path_style: options.force_path_style,
    };
    Endpoint::resolve(&question).await
}

/// Credentials that were looked up once, so that a mount without any fails at once; `None` for unsigned requests.
async fn checked_credentials(
    chain: ChainOptions<'_>,
    runtime: &Handle,
) -> Result<Option<CredentialsCache>, ClientError> {
    let mode = chain.mode;
    let Some(credentials) = credentials_cache(chain, runtime.clone()).await else {
        return Ok(None);
    };
    match credentials.check().await {
        Ok(()) => Ok(Some(credentials)),
        Err(error) => Err(named(mode, error)),
    }
}

/// The error with the profile's name: the SDK does not tell which one is missing.
fn named(mode: &CredentialsMode, mut error: ClientError) -> ClientError {
    if let CredentialsMode::Default {
        profile: Some(name),
    } = mode
    {
        error.message = format!("profile {name:?}: {}", error.message);
    }
    error
}

/// The endpoint for a person, with the proxy in front of it.
fn address(endpoint: &Endpoint, proxy: Option<&Proxy>) -> String {
    match proxy {
        Some(proxy) => format!("{} through the proxy {proxy}", endpoint.origin),
        None => endpoint.origin.clone(),
    }
}

async fn region(options: &CrtClientOptions, metadata: &imds::Client) -> Region {
    if let Some(region) = &options.region {
        return Region::new(region.clone());
    }
    let profile = match &options.credentials {
        CredentialsMode::Default { profile } => profile.as_deref(),
        CredentialsMode::Unsigned | CredentialsMode::Static(_) => None,
    };
    let asks = is_of_aws(options) && options.instance_metadata.asks();
    let found = find_region(profile, asks.then(|| metadata.clone())).await;
    found.unwrap_or_else(|| Region::from_static(REGION_DEFAULT))
}

/// The type of this instance, where the number of connections depends on it.
async fn instance_type_needed(
    options: &CrtClientOptions,
    metadata: &imds::Client,
) -> Option<String> {
    let is_needed = options.throughput_target_gbps.is_none() && options.connections.is_none();
    if !is_needed || !is_of_aws(options) {
        return None;
    }
    let found = instance_type(options.instance_metadata, metadata).await;
    if let Some(instance_type) = &found {
        let gbps = instance_throughput_gbps(instance_type);
        tracing::debug!(instance_type, ?gbps, "running on EC2");
    }
    found
}

/// Whether requests go to AWS, so that this machine may well be one of its instances. Interface endpoints of a VPC are
/// given as URLs, too.
fn is_of_aws(options: &CrtClientOptions) -> bool {
    let host = |url: &String| url_address(url).map(|(host, _)| host.to_ascii_lowercase());
    let host = options.endpoint_url.as_ref().map(host);
    let is_of_aws = |host: String| AWS_DOMAINS.iter().any(|domain| host.ends_with(domain));
    host.is_none_or(|host| host.is_some_and(is_of_aws))
}

fn data_clients(
    options: &CrtClientOptions,
    client: &ClientOptions,
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
    DataClients::new(&runtime, client, interfaces)
}

/// What the CRT's clients are made from, but for the interface.
fn client_options(
    options: &CrtClientOptions,
    endpoint: &Endpoint,
    credentials: Option<&CredentialsCache>,
    connections: u32,
) -> ClientOptions {
    let signing = match credentials {
        None => Signing::Unsigned,
        Some(credentials) => Signing::SigV4 {
            region: endpoint.signing_region.clone(),
            service: endpoint.signing_service.clone(),
            source: Arc::new(credentials.clone()),
        },
    };
    let proxy = options.proxy.for_url(&endpoint.origin);
    ClientOptions {
        endpoint: endpoint.origin.clone(),
        signing,
        tls: TlsOptions {
            ca_bundle: options.ca_bundle.clone(),
        },
        throughput_target_gbps: f64::from(connections) * GBPS_PER_CONNECTION,
        part_size_max: options.part_size_max,
        connect_timeout: CONNECT_TIMEOUT,
        stall_timeout: READ_STALL,
        network_interface: None,
        proxy: proxy.map(|proxy| proxy.options().clone()),
    }
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

/// The domains of AWS's partitions.
const AWS_DOMAINS: [&str; 4] = [
    ".amazonaws.com",
    ".amazonaws.com.cn",
    ".api.aws",
    ".amazonwebservices.com.cn",
];
/// Region of requests where nothing names one, as in the AWS tools.
const REGION_DEFAULT: &str = "us-east-1";
