//! One S3 client of the CRT.
//!
//! Makes requests and hands them to C; knows nothing of their meaning, and never retries. Its
//! settings leave nothing to the environment: part size, memory limit, time limits and proxies are
//! explicit.
//!
//! Any thread may use it. A client may be dropped while its requests run; they keep the C client
//! alive.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mountpoint_s3_crt_sys as sys;
use sys::aws_s3_meta_request_type as request_type;

use super::hook;
use super::idle_connections::IdleConnections;
use super::retry::no_retry;
use crate::auth::express;
use crate::auth::signing::Signer;
use crate::block::BlockFill;
use crate::connection::endpoint::Endpoint;
use crate::connection::proxy_tls::TlsConnectionOptions;
use crate::connection::tls::client::{TlsClient, TlsOptions};
use crate::error::OwnError;
use crate::ffi::{Handle, cursor};
use crate::request::buffer_pool::new_pool;
use crate::request::exchange::{Cancel, Delivery, Exchange, start};
use crate::request::get::Get;
use crate::request::head::RequestHead;
use crate::request::send::Send;
use crate::{
    CrtError, GetHandler, Message, ProxyOptions, RangedGet, Runtime, SendHandler, Signing,
};

/// The CRT derives sizes of its own from its memory limit, none of which is used: blocks are the
/// memory.
const MEMORY_LIMIT: u64 = 1 << 30;

/// A TLS negotiation may take this many times as long as a TCP connection: it has two round trips
/// and some work.
const TLS_ROUND_TRIPS: u32 = 5;

/// Settings of a [`Client`].
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// `https://host[:port]`; the scheme decides about TLS.
    pub endpoint: String,
    pub signing: Signing,
    pub tls: TlsOptions,
    /// The CRT makes a connection for each 0.4 Gbit/s, at least 10.
    pub throughput_target_gbps: f64,
    /// Bytes of the largest block that will be asked for.
    pub part_size_max: usize,
    pub connect_timeout: Duration,
    /// A connection that moves less than 1 B/s for this long is closed. Whole seconds, at least
    /// one.
    pub stall_timeout: Duration,
    pub network_interface: Option<String>,
    /// `None`: connections go to the endpoint itself.
    pub proxy: Option<ProxyOptions>,
}

/// One S3 client of the CRT. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

/// The order of the fields is the order of their end.
struct Shared {
    idle_connections: IdleConnections,
    client: Handle<sys::aws_s3_client>,
    delivery: Delivery,
    endpoint: Endpoint,
    /// None if the server speaks no TLS, or C does it (through a proxy that speaks TLS itself).
    tls: Option<Arc<TlsClient>>,
    part_size_max: usize,
    runtime: Runtime,
}

impl Client {
    /// Starts a client. No connection is made yet. Fails for an unknown network interface or a bad
    /// bundle.
    pub fn new(runtime: &Runtime, options: &ClientOptions) -> Result<Self, CrtError> {
        Self::with_delivery(runtime, options, Delivery::Hooked)
    }

    /// Starts a client; `AtTheEnd` leaves the hook out.
    pub(crate) fn with_delivery(
        runtime: &Runtime,
        options: &ClientOptions,
        wanted: Delivery,
    ) -> Result<Self, CrtError> {
        let endpoint = Endpoint::new(runtime.allocator(), &options.endpoint)?;
        let is_proxy_tls = options.proxy.as_ref().is_some_and(|proxy| proxy.is_tls);
        let tls = (endpoint.is_tls() && !is_proxy_tls)
            .then(|| {
                let handshake_max = options.connect_timeout * TLS_ROUND_TRIPS;
                options.tls.client(endpoint.host(), handshake_max)
            })
            .transpose()?;
        let client = new_client(runtime, options, &endpoint)?;
        let delivery = match wanted {
            // SAFETY: new, made from the runtime's bootstrap.
            Delivery::Hooked => unsafe { hook::install(client.as_ptr(), runtime, tls.is_some()) },
            Delivery::AtTheEnd => Delivery::AtTheEnd,
        };
        if tls.is_some() && delivery != Delivery::Hooked {
            return Err(OwnError::NoPlaceForTls.into());
        }
        let (part_size_max, runtime) = (options.part_size_max, runtime.clone());
        Ok(Self {
            shared: Arc::new(Shared {
                idle_connections: IdleConnections::default(),
                client,
                delivery,
                endpoint,
                tls,
                part_size_max,
                runtime,
            }),
        })
    }

    /// One ranged GET; the bytes land in the unfilled rest of `fill`.
    ///
    /// Panics unless the range is as long as the unfilled rest, not empty, and not longer than
    /// `part_size_max`.
    pub fn get(&self, request: RangedGet, fill: BlockFill, handler: Box<dyn GetHandler>) -> Cancel {
        let len = fill.capacity() - fill.filled();
        let range = &request.range;
        assert_eq!(range.end.checked_sub(range.start), u64::try_from(len).ok());
        assert!(len > 0);
        assert!(len <= self.shared.part_size_max);
        let head = self.shared.get_head(&request);
        let exchange = Box::new(Get::new(fill, handler));
        let options = sys::aws_s3_meta_request_options {
            // The C library asks for a range of its own where a GET_OBJECT names none.
            type_: match request.is_whole {
                true => request_type::AWS_S3_META_REQUEST_TYPE_DEFAULT,
                false => request_type::AWS_S3_META_REQUEST_TYPE_GET_OBJECT,
            },
            operation_name: cursor(b"GetObject"),
            part_size: range.end - range.start,
            ..Default::default()
        };
        self.shared.start(head, options, exchange)
    }

    /// One request with a body in memory; the answer's body is collected, up to 8 MiB.
    pub fn send(&self, request: Message, body: Bytes, handler: SendHandler) -> Cancel {
        let head = self.shared.send_head(&request, body.len());
        let request_body = if body.is_empty() {
            sys::aws_byte_cursor::default()
        } else {
            cursor(&body)
        };
        let exchange = Box::new(Send::new(request.method, body, handler));
        let options = sys::aws_s3_meta_request_options {
            type_: request_type::AWS_S3_META_REQUEST_TYPE_DEFAULT,
            operation_name: cursor(request.operation.as_bytes()),
            request_body,
            ..Default::default()
        };
        self.shared.start(head, options, exchange)
    }

    /// Keeps the connections of the requests from now on, until they are let go or the client ends;
    /// the C library closes them some 5 s after the last request. True if they were not kept
    /// before.
    ///
    /// False, and without effect, if the library is another version than expected.
    pub fn keep_connections(&self) -> bool {
        self.shared.delivery == Delivery::Hooked && self.shared.idle_connections.want()
    }

    /// Leaves the connections to the C library again. Any thread, any number of times; harms no
    /// request.
    pub fn let_connections_go(&self) {
        self.shared.idle_connections.let_go();
    }
}

/// Whether it is the same client.
impl PartialEq for Client {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("endpoint", &self.shared.endpoint.authority())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn get_head(&self, request: &RangedGet) -> Result<RequestHead, CrtError> {
        let head = RequestHead::new(self.runtime.allocator(), "GET", &request.path)?;
        head.add("Host", self.endpoint.authority())?;
        if !request.is_whole {
            let range = &request.range;
            head.add("Range", &format!("bytes={}-{}", range.start, range.end - 1))?;
        }
        head.add_all(&request.headers)?;
        Ok(head)
    }

    fn send_head(&self, request: &Message, body_len: usize) -> Result<RequestHead, CrtError> {
        let head = RequestHead::new(self.runtime.allocator(), request.method, &request.path)?;
        head.add("Host", self.endpoint.authority())?;
        // Some servers reject a length on methods that have no body.
        if body_len > 0 || matches!(request.method, "PUT" | "POST") {
            head.add("Content-Length", &body_len.to_string())?;
        }
        head.add_all(&request.headers)?;
        Ok(head)
    }

    /// Starts a request, or tells the exchange soon, on a CRT thread, that it could not be started.
    fn start(
        &self,
        head: Result<RequestHead, CrtError>,
        mut options: sys::aws_s3_meta_request_options,
        exchange: Box<dyn Exchange>,
    ) -> Cancel {
        let started = match head {
            Ok(head) => {
                options.message = head.as_ptr();
                options.endpoint = self.endpoint.as_ptr();
                // SAFETY: it has not finished; nothing is wanted of a client that was not hooked.
                let keep = |meta_request| unsafe { self.idle_connections.started(meta_request) };
                let client = self.client.as_ptr();
                // SAFETY: the client, the endpoint and the message are alive; a body is owned by
                // the exchange.
                unsafe {
                    start(
                        client,
                        options,
                        self.delivery,
                        self.tls.clone(),
                        exchange,
                        keep,
                    )
                }
            }
            Err(error) => Err((error, exchange)),
        };
        started.unwrap_or_else(|(error, exchange)| {
            self.runtime.run_soon(Box::new(move || {
                exchange.finished(Some(error));
                exchange.shutdown();
            }));
            Cancel::nothing()
        })
    }
}

fn new_client(
    runtime: &Runtime,
    options: &ClientOptions,
    endpoint: &Endpoint,
) -> Result<Handle<sys::aws_s3_client>, CrtError> {
    let allocator = runtime.allocator();
    let signer = Signer::new(allocator, &options.signing)?;
    let signing_config = signer.config();
    let retry_strategy = no_retry(allocator)?;
    let proxy = options.proxy.as_ref();
    let new_tls = || {
        let negotiation_max = options.connect_timeout * TLS_ROUND_TRIPS;
        TlsConnectionOptions::new(allocator, options.tls.ca_bundle(), negotiation_max)
    };
    let proxy_tls = proxy
        .filter(|proxy| proxy.is_tls)
        .map(|proxy| new_tls()?.named(allocator, &proxy.host))
        .transpose()?;
    // Behind a proxy that speaks TLS, C does all of it.
    let tls = (endpoint.is_tls() && proxy_tls.is_some())
        .then(new_tls)
        .transpose()?;
    let proxy = proxy.map(|proxy| proxy.to_c(proxy_tls.as_ref(), endpoint.is_tls()));
    let interfaces: Vec<_> = options
        .network_interface
        .iter()
        .map(|name| cursor(name.as_bytes()))
        .collect();
    let no_environment = sys::proxy_env_var_settings {
        env_var_type: sys::aws_http_proxy_env_var_type::AWS_HPEV_DISABLE,
        ..Default::default()
    };
    let stall_seconds = u32::try_from(options.stall_timeout.as_secs())
        .unwrap_or(u32::MAX)
        .max(1);
    let monitoring = sys::aws_http_connection_monitoring_options {
        minimum_throughput_bytes_per_second: 1,
        allowable_throughput_failure_interval_seconds: stall_seconds,
        ..Default::default()
    };
    let config = sys::aws_s3_client_config {
        region: cursor(signer.region().as_bytes()),
        client_bootstrap: runtime.bootstrap(),
        tls_mode: tls_mode(tls.is_some()),
        tls_connection_options: tls
            .as_ref()
            .map_or(std::ptr::null(), TlsConnectionOptions::as_ptr),
        signing_config: &raw const signing_config,
        part_size: options.part_size_max as u64,
        max_part_size: options.part_size_max as u64,
        throughput_target_gbps: options.throughput_target_gbps,
        memory_limit_in_bytes: MEMORY_LIMIT,
        retry_strategy: retry_strategy.as_ptr(),
        proxy_ev_settings: &raw const no_environment,
        proxy_options: proxy.as_ref().map_or(std::ptr::null_mut(), |proxy| {
            std::ptr::from_ref(proxy).cast_mut()
        }),
        connect_timeout_ms: u32::try_from(options.connect_timeout.as_millis())
            .unwrap_or(u32::MAX)
            .max(1),
        monitoring_options: &raw const monitoring,
        network_interface_names_array: interfaces.as_ptr(),
        num_network_interface_names: interfaces.len(),
        buffer_pool_factory_fn: Some(new_pool),
        enable_s3express: signer.is_express(),
        s3express_provider_override_factory: Some(express::new_provider),
        ..Default::default()
    };
    // SAFETY: everything that the config points to lives during the call; C copies it or takes
    // references.
    let raw = unsafe { sys::aws_s3_client_new(allocator.as_ptr(), &raw const config) };
    // SAFETY: a new reference, or null.
    unsafe { Handle::own(raw) }
}

fn tls_mode(is_tls: bool) -> sys::aws_s3_meta_request_tls_mode {
    if is_tls {
        sys::aws_s3_meta_request_tls_mode::AWS_MR_TLS_ENABLED
    } else {
        sys::aws_s3_meta_request_tls_mode::AWS_MR_TLS_DISABLED
    }
}
