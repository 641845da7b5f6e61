//! Answers Prometheus: `GET /metrics`, over TCP or a Unix socket.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::TcpListener as StdTcpListener;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::CONTENT_TYPE;
use hyper::rt::{Read, Write};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, UnixListener};
use tokio::task::AbortHandle;

use super::prometheus;
use super::unix_socket::{BoundSocket, is_permitted};
use crate::cli::ListenAddress;
use crate::metrics::MetricsRegistry;

/// A bound address. A Unix socket is removed with it.
#[derive(Debug)]
pub(super) enum Bound {
    Tcp(StdTcpListener),
    Unix(BoundSocket),
}

impl Bound {
    /// Takes `address`, or says why not.
    pub(super) fn bind(address: &ListenAddress) -> Result<Self, String> {
        let bound = match address {
            ListenAddress::Tcp(address) => StdTcpListener::bind(address).and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok(Self::Tcp(listener))
            }),
            ListenAddress::Unix(path) => BoundSocket::bind(path).map(Self::Unix),
        };
        bound.map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::AddrInUse => "; each mount needs an address of its own",
                _ => "",
            };
            format!("--metrics-listen {address}: {error}{hint}")
        })
    }

    /// Answers requests until the future is dropped.
    pub(super) async fn serve(self, registry: Arc<MetricsRegistry>) -> io::Result<()> {
        let mut open = OpenConnections::default();
        match self {
            Self::Tcp(listener) => {
                let listener = TcpListener::from_std(listener)?;
                loop {
                    let Some((stream, _)) = accepted(listener.accept().await).await else {
                        continue;
                    };
                    open.add(answer(TokioIo::new(stream), Arc::clone(&registry)));
                }
            }
            Self::Unix(socket) => {
                let listener = UnixListener::from_std(socket.listener()?)?;
                loop {
                    let Some((stream, _)) = accepted(listener.accept().await).await else {
                        continue;
                    };
                    if is_permitted(&stream) {
                        open.add(answer(TokioIo::new(stream), Arc::clone(&registry)));
                    }
                }
            }
        }
    }
}

/// The connections that are open, the oldest first. A new one takes the place of the oldest: a
/// collector asks at once, so that what has been open for long asks for nothing.
#[derive(Default)]
struct OpenConnections(VecDeque<AbortHandle>);

impl OpenConnections {
    /// Serves one more, by `answered`.
    fn add(&mut self, answered: impl Future<Output = ()> + Send + 'static) {
        self.0.retain(|connection| !connection.is_finished());
        if self.0.len() == OPEN_MAX
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.abort();
        }
        self.0.push_back(tokio::spawn(answered).abort_handle());
    }
}

/// The connection. After a failure, as of a process without free descriptors, it waits a while.
pub(super) async fn accepted<T>(connection: io::Result<T>) -> Option<T> {
    match connection {
        Ok(connection) => Some(connection),
        Err(error) => {
            tracing::debug!("a connection to the metrics failed: {error}");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

/// Answers the requests of one connection.
async fn answer(stream: impl Read + Write + Unpin, registry: Arc<MetricsRegistry>) {
    let service = service_fn(|request| {
        let response = respond(&request, &registry);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = hyper::server::conn::http1::Builder::new().serve_connection(stream, service);
    // A client that asks for longer, or leaves early, asks again.
    drop(tokio::time::timeout(CONNECTION_MAX, connection).await);
}

fn respond<B>(request: &Request<B>, registry: &MetricsRegistry) -> Response<Full<Bytes>> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics" | "/") => {
            (StatusCode::OK, prometheus::text(&registry.snapshot()))
        }
        (_, "/metrics" | "/") => (StatusCode::METHOD_NOT_ALLOWED, "GET only\n".to_owned()),
        _ => (
            StatusCode::NOT_FOUND,
            "the metrics are at /metrics\n".to_owned(),
        ),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    let kind = hyper::header::HeaderValue::from_static(prometheus::CONTENT_TYPE);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Connections at once to the mount's own socket. More wait in the kernel's queue.
pub(super) const CONNECTIONS_MAX: usize = 8;

/// Connections at once of collectors: those of a few, and room for as many again that come before
/// one has asked.
const OPEN_MAX: usize = 64;

/// Longest connection, so that idle ones take no place for ever.
const CONNECTION_MAX: Duration = Duration::from_secs(60);

/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
