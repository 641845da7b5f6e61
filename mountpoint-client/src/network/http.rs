//! The SDK's HTTP client: each request over an interface of ours, through the proxy of its URL.
//!
//! Knows no operation and never retries. Connections are the SDK connector's; one connector is made
//! for each combination of time limits, interface and proxy when it is first needed.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_smithy_http_client::Connector;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use parking_lot::Mutex;

use super::complete::{complete, is_worded_by_s3};
use super::interfaces::{DEAD_INTERFACE, Interfaces, Lane};
use super::proxy::{Proxy, ProxySettings};
use super::silence::SilenceLimit;
use super::trust::no_trust;

/// The settings of an HTTP client.
#[derive(Debug)]
pub(crate) struct HttpOptions {
    pub(crate) tls: TlsContext,
    pub(crate) proxies: ProxySettings,
    /// `None`: the kernel chooses, and requests are not counted.
    pub(crate) interfaces: Option<Arc<Interfaces>>,
    /// A first attempt of which nothing is heard for this long fails; see [`SilenceLimit`].
    pub(crate) silence_max: Duration,
}

/// A client for the SDK.
pub(crate) fn http_client(options: HttpOptions) -> SharedHttpClient {
    SharedHttpClient::new(Http(Arc::new(Shared {
        options,
        connectors: Mutex::default(),
    })))
}

#[derive(Debug)]
struct Http(Arc<Shared>);

struct Shared {
    options: HttpOptions,
    /// One for each combination: a few.
    connectors: Mutex<HashMap<Route, SharedHttpConnector>>,
}

/// The combination that a connector is made for.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Route {
    limits: Limits,
    interface: Option<usize>,
    /// With its login.
    proxy: Option<String>,
    /// Whether a certificate is checked: the server's, or the proxy's.
    is_tls: bool,
}

/// Time limits of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Limits {
    connect: Option<Duration>,
    read: Option<Duration>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl HttpClient for Http {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(Limited {
            shared: Arc::clone(&self.0),
            limits: Limits {
                connect: settings.connect_timeout(),
                read: settings.read_timeout(),
            },
        })
    }
}

#[derive(Debug)]
struct Limited {
    shared: Arc<Shared>,
    limits: Limits,
}

impl HttpConnector for Limited {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let options = &self.shared.options;
        let lane = options.interfaces.as_ref().map(|all| all.lane(1, None));
        let proxy = options.proxies.for_url(request.uri());
        let route = Route {
            limits: self.limits,
            interface: lane.as_ref().map(Lane::index),
            proxy: proxy.map(Proxy::secret_url),
            is_tls: is_tls(request.uri(), proxy),
        };
        let connector = match self.shared.connector(route) {
            Ok(connector) => connector,
            Err(error) => return HttpConnectorFuture::ready(Err(error)),
        };
        let is_judged = is_worded_by_s3(&request);
        let silence = SilenceLimit::of_attempt(options.silence_max);
        let in_body = SilenceLimit::of_body(options.silence_max);
        HttpConnectorFuture::new(async move {
            let answer = connector.call(request);
            let response = match lane {
                Some(lane) => silence.heard(watched(answer, &lane)).await??,
                None => silence.heard(answer).await??,
            };
            complete(response, in_body, is_judged).await
        })
    }
}

/// The answer, with what it tells of its interface.
async fn watched(
    mut answer: HttpConnectorFuture,
    lane: &Lane,
) -> Result<HttpResponse, ConnectorError> {
    match lane.unless_dead(&mut answer).await {
        Some(Ok(response)) => {
            lane.succeeded();
            Ok(response)
        }
        Some(Err(error)) => {
            if error.is_timeout() || error.is_io() {
                lane.failed();
            }
            Err(error)
        }
        None => Err(ConnectorError::timeout(DEAD_INTERFACE.into())),
    }
}

impl Shared {
    fn connector(&self, route: Route) -> Result<SharedHttpConnector, ConnectorError> {
        if let Some(connector) = self.connectors.lock().get(&route) {
            return Ok(connector.clone());
        }
        let mut settings = HttpConnectorSettings::builder();
        settings.set_connect_timeout(route.limits.connect);
        settings.set_read_timeout(route.limits.read);
        let tls = match route.is_tls {
            true => self.options.tls.clone(),
            false => no_trust(),
        };
        let mut builder = Connector::builder()
            .connector_settings(settings.build())
            .pool_idle_timeout(POOL_IDLE)
            .tls_provider(Provider::Rustls(CryptoMode::AwsLc))
            .tls_context(tls);
        if let Some(url) = &route.proxy {
            let proxy = ProxyConfig::all(url.as_str())
                .map_err(|_| ConnectorError::user("the proxy's URL cannot be used".into()))?;
            builder = builder.proxy_config(proxy);
        }
        if let (Some(interfaces), Some(index)) = (&self.options.interfaces, route.interface)
            && let Some(name) = interfaces.names().nth(index).flatten()
        {
            builder.set_interface(name);
        }
        let connector = SharedHttpConnector::new(builder.build());
        let mut connectors = self.connectors.lock();
        Ok(connectors.entry(route).or_insert(connector).clone())
    }
}

/// Whether the way to `url` is encrypted, to the server or to the proxy.
fn is_tls(url: &str, proxy: Option<&Proxy>) -> bool {
    let is_https = |scheme: &str| scheme.eq_ignore_ascii_case("https");
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_none_or(is_https) || proxy.is_some_and(|proxy| proxy.options().is_tls)
}

/// S3 closes idle connections after some 20 s; reusing one just then costs a retry.
const POOL_IDLE: Duration = Duration::from_secs(15);
