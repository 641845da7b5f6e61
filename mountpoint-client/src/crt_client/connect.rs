//! The start of a client: region, credentials, endpoint, then the SDK's client and the CRT's.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use aws_config::imds;
use aws_sdk_s3::config::Region;
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use mountpoint_crt_sys::{
    ClientOptions, CredentialsSource, Runtime, RuntimeOptions, Signing, TlsOptions,
};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::core::{Admission, ChecksumMode, Core, CorruptVersions, EncryptionProof, Permits};
use super::options::{
    CONNECT_TIMEOUT, CONNECTION_IDLE_MAX, CrtClientOptions, GBPS_PER_CONNECTION,
    READ_AHEAD_QUEUE_MAX, READ_STALL, THROUGHPUT_DEFAULT_GBPS,
};
use super::request_headers::RequestHeaders;
use super::request_log::AttemptLog;
use super::sdk::sdk_config;
use super::sessions::{Opener, Sessions};
use crate::credentials::{
    ChainOptions, CredentialsCache, CredentialsMode, credentials_cache, find_region,
};
use crate::crt_client::fault::{Breaker, Probe};
use crate::crt_client::lanes::{DataClients, Keeper};
use crate::endpoint::{Endpoint, SigningAlgorithm, region_of_arn};
use crate::instance::{instance_throughput_gbps, instance_type, metadata_client};
use crate::network::interfaces_gbps;
use crate::network::{
    HttpOptions, Interfaces, ProbeTarget, Proxy, ProxySettings, authorities, http_client, trust,
    url_address,
};
use crate::retry::RetryPolicy;
use crate::{ClientError, ErrorKind};

/// Makes the shared part of a client. Runs in a task of `runtime`.
pub(super) async fn connect(
    mut options: CrtClientOptions,
    runtime: Handle,
) -> Result<Core, ClientError> {
    if let Some(bundle) = &options.ca_bundle {
        options.ca_bundle = Some(authorities(bundle)?);
    }
    let metadata = metadata_client(http(&options, ProxySettings::default(), None)?);
    let look_up = async {
        let region = region(&options, &metadata).await;
        let endpoint = Endpoint::resolve(&options.endpoint_question(region.as_ref())).await?;
        RequestHeaders::checked(&options, &endpoint)?;
        let credentials = credentials(&options, &region, metadata.clone(), &runtime).await?;
        Ok::<_, ClientError>((endpoint, region, credentials))
    };
    let (resolved, network_gbps) = tokio::join!(look_up, network_gbps(&options, &metadata));
    let (endpoint, region, credentials) = resolved?;
    let resolved = ResolvedBucket {
        endpoint,
        region,
        credentials,
        network_gbps,
    };
    connect_at(resolved, options, runtime).await
}

/// The facts that a client is made from.
#[derive(Debug)]
pub(super) struct ResolvedBucket {
    pub(super) endpoint: Endpoint,
    pub(super) region: Region,
    pub(super) credentials: Option<CredentialsCache>,
    /// Throughput of this machine's network, if it is known and needed.
    pub(super) network_gbps: Option<f64>,
}

/// Makes the shared part of a client from known facts.
pub(super) async fn connect_at(
    resolved: ResolvedBucket,
    options: CrtClientOptions,
    runtime: Handle,
) -> Result<Core, ClientError> {
    let clients = RequestClients::open(&resolved, &options, &runtime).await?;
    let ResolvedBucket {
        endpoint,
        network_gbps,
        ..
    } = resolved;
    let proxy = options.proxy.for_url(&endpoint.origin);
    let address = address(&endpoint, proxy);
    let is_proxy_tls = proxy.is_some_and(|proxy| proxy.options().is_tls);
    let probe = Probe::new(&clients.sdk, &options.bucket, &address);
    let on_all = |connections: u32| connections as usize * clients.data.count();
    Ok(Core {
        parts_in_flight: on_all(options.connections_to_fill(network_gbps)),
        permits: Permits::new(on_all(options.connections(network_gbps))),
        admission: Admission::new(
            on_all(options.connections_ahead(network_gbps)),
            READ_AHEAD_QUEUE_MAX,
        ),
        breaker: Breaker::new(probe, options.silence_max, runtime.clone()),
        policy: retry_policy(&options),
        was_reached: AtomicBool::new(false),
        is_directory_bucket: options.is_directory_bucket(),
        bucket: options.bucket,
        address,
        is_proxy_tls,
        endpoint,
        headers: clients.headers,
        encryption: EncryptionProof::default(),
        sessions: clients.sessions,
        user_agent: options.user_agent,
        part_size_max: options.part_size_max,
        sdk: clients.sdk,
        data: clients.data,
        credentials: clients.credentials,
        runtime,
        started: Instant::now(),
        pacing: Mutex::default(),
        suspicion: Mutex::default(),
        outage: Arc::default(),
        checksum_mode: ChecksumMode::new(options.checks_reads),
        corrupt: CorruptVersions::default(),
    })
}

/// The SDK's client and the CRT's, with the keys that both sign with.
struct RequestClients {
    headers: RequestHeaders,
    credentials: Option<CredentialsCache>,
    sessions: Option<Sessions>,
    sdk: aws_sdk_s3::Client,
    data: DataClients,
}

impl RequestClients {
    async fn open(
        resolved: &ResolvedBucket,
        options: &CrtClientOptions,
        runtime: &Handle,
    ) -> Result<Self, ClientError> {
        let ResolvedBucket {
            endpoint, region, ..
        } = resolved;
        let headers = RequestHeaders::checked(options, endpoint)?;
        let target = probe_target(endpoint, options.proxy.for_url(&endpoint.origin))?;
        let interfaces = Interfaces::new(&options.network_interfaces, target, runtime)?;
        let interfaces = Arc::new(interfaces);
        let sharing = Some(Arc::clone(&interfaces));
        let http = http(options, options.proxy.clone(), sharing)?;
        let mut sessions = None;
        let mut credentials = resolved.credentials.clone();
        if endpoint.signing_algorithm == SigningAlgorithm::S3Express
            && let Some(keys) = credentials.take()
        {
            let opener = Opener::new(options, http.clone(), region, keys).await?;
            let opened = sessions.insert(Sessions::new(opener, runtime.clone()));
            credentials = Some(opened.credentials());
        }
        let attempts = AttemptLog::new(&options.bucket, endpoint);
        let config = sdk_config(
            http,
            region.clone(),
            endpoint,
            attempts,
            credentials.clone(),
        );
        let sdk = aws_sdk_s3::Client::from_conf(config.interceptor(headers.clone()).build());
        let connections = options.connections(resolved.network_gbps);
        let plan = client_options(options, endpoint, credentials.as_ref(), connections);
        let keeper = Keeper::new(runtime.clone(), CONNECTION_IDLE_MAX);
        let data = data_clients(options, &plan, interfaces, keeper)?;
        Ok(Self {
            headers,
            credentials,
            sessions,
            sdk,
            data,
        })
    }
}

fn retry_policy(options: &CrtClientOptions) -> RetryPolicy {
    RetryPolicy {
        attempts_max: options.max_attempts.max(1),
        deadline: options.request_deadline,
        silence_max: options.request_deadline,
    }
}

fn runtime_options(options: &CrtClientOptions) -> RuntimeOptions {
    RuntimeOptions {
        event_loop_threads: options.event_loop_threads,
        ..RuntimeOptions::default()
    }
}

/// The endpoint for a person, with the proxy in front of it.
fn address(endpoint: &Endpoint, proxy: Option<&Proxy>) -> String {
    match proxy {
        Some(proxy) => format!("{} through the proxy {proxy}", endpoint.origin),
        None => endpoint.origin.clone(),
    }
}

/// The SDK's HTTP client.
fn http(
    options: &CrtClientOptions,
    proxies: ProxySettings,
    interfaces: Option<Arc<Interfaces>>,
) -> Result<SharedHttpClient, ClientError> {
    Ok(http_client(HttpOptions {
        tls: trust(options.ca_bundle.as_deref())?,
        proxies,
        interfaces,
        silence_max: options.answer_silence_max,
    }))
}

/// Credentials that were looked up once, so that a mount without any fails at once; `None` for
/// unsigned requests.
pub(super) async fn credentials(
    options: &CrtClientOptions,
    region: &Region,
    metadata: imds::Client,
    runtime: &Handle,
) -> Result<Option<CredentialsCache>, ClientError> {
    let chain = ChainOptions {
        mode: &options.credentials,
        region,
        http: http(options, options.proxy.beyond_this_machine(), None)?,
        metadata,
    };
    let Some(credentials) = credentials_cache(chain, runtime.clone()).await else {
        return Ok(None);
    };
    match credentials.check().await {
        Ok(()) => Ok(Some(credentials)),
        Err(error) => Err(named(options, error)),
    }
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

async fn region(options: &CrtClientOptions, metadata: &imds::Client) -> Region {
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
    let asks = is_of_aws(options) && options.instance_metadata.asks();
    let resolved = find_region(profile, asks.then(|| metadata.clone())).await;
    resolved.unwrap_or_else(|| Region::from_static(REGION_DEFAULT))
}

/// Throughput of this machine's network in Gbit/s, if the number of connections depends on it.
///
/// EC2's table knows instance types. Elsewhere, and for a type that is newer than the table, the
/// kernel may know the speed of the interfaces; one slower than the default changes nothing,
/// because the requests may take another.
async fn network_gbps(options: &CrtClientOptions, metadata: &imds::Client) -> Option<f64> {
    if options.throughput_target_gbps.is_some() || options.connections.is_some() {
        return None;
    }
    if is_of_aws(options) {
        let resolved = instance_type(options.instance_metadata, metadata).await;
        let gbps = resolved.as_deref().and_then(instance_throughput_gbps);
        if let Some(instance_type) = resolved {
            tracing::debug!(instance_type, ?gbps, "running on EC2");
        }
        if gbps.is_some() {
            return gbps;
        }
    }
    let gbps = interfaces_gbps(&options.network_interfaces)?;
    tracing::debug!(gbps, "the kernel knows the speed of the network");
    (gbps > THROUGHPUT_DEFAULT_GBPS).then_some(gbps)
}

/// Whether requests go to AWS, so that this machine may well be one of its instances. Interface
/// endpoints of a VPC are given as URLs, too.
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
    keeper: Arc<Keeper>,
) -> Result<DataClients, ClientError> {
    let runtime = Runtime::new(&runtime_options(options)).map_err(|error| {
        ClientError::new(
            ErrorKind::InvalidRequest,
            format!("cannot start the AWS Common Runtime: {error}"),
        )
    })?;
    DataClients::new(&runtime, client, interfaces, keeper)
}

/// The options of the CRT's clients, except for the interface.
fn client_options(
    options: &CrtClientOptions,
    endpoint: &Endpoint,
    credentials: Option<&CredentialsCache>,
    connections: u32,
) -> ClientOptions {
    let signing = match credentials {
        None => Signing::Unsigned,
        Some(credentials) => signing(endpoint, Arc::new(credentials.clone())),
    };
    let proxy = options.proxy.for_url(&endpoint.origin);
    ClientOptions {
        endpoint: endpoint.origin.clone(),
        signing,
        tls: TlsOptions::new(options.ca_bundle.clone()),
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

/// The domains of AWS's partitions.
const AWS_DOMAINS: [&str; 4] = [
    ".amazonaws.com",
    ".amazonaws.com.cn",
    ".api.aws",
    ".amazonwebservices.com.cn",
];
/// Region of requests where nothing names one, as in the AWS tools.
const REGION_DEFAULT: &str = "us-east-1";
