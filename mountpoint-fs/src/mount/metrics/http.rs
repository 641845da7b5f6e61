//! Answers Prometheus: `GET /metrics`, over TCP or a Unix socket.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::net::TcpListener as StdTcpListener;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream as StdUnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::CONTENT_TYPE;
use hyper::rt::{Read, Write};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::Semaphore;

use super::prometheus;
use crate::cli::ListenAddress;
use crate::metrics::MetricsRegistry;

/// A bound address. A Unix socket is removed with it.
#[derive(Debug)]
pub(super) enum Bound {
    Tcp(StdTcpListener),
    Unix(BoundSocket),
}

/// A Unix socket in the file system, removed on drop.
#[derive(Debug)]
pub(super) struct BoundSocket {
    listener: StdUnixListener,
    path: PathBuf,
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        // It may be gone already.
        fs::remove_file(&self.path).ok();
    }
}

impl BoundSocket {
    /// A socket at `path` for this user alone. One that a killed process left there is replaced.
    fn bind(path: &Path) -> io::Result<Self> {
        let is_socket = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
        if is_socket && StdUnixStream::connect(path).is_err() {
            fs::remove_file(path)?;
        }
        let listener = StdUnixListener::bind(path)?;
        let bound = Self {
            listener,
            path: path.to_owned(),
        };
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        bound.listener.set_nonblocking(true)?;
        Ok(bound)
    }
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
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        match self {
            Self::Tcp(listener) => {
                let listener = TcpListener::from_std(listener)?;
                loop {
                    let place = Arc::clone(&places).acquire_owned().await;
                    let Some((stream, _)) = accepted(listener.accept().await).await else {
                        continue;
                    };
                    let answered = answer(TokioIo::new(stream), Arc::clone(&registry));
                    tokio::spawn(async move {
                        answered.await;
                        drop(place);
                    });
                }
            }
            Self::Unix(socket) => {
                let listener = UnixListener::from_std(socket.listener.try_clone()?)?;
                loop {
                    let place = Arc::clone(&places).acquire_owned().await;
                    let Some((stream, _)) = accepted(listener.accept().await).await else {
                        continue;
                    };
                    if !is_permitted(&stream) {
                        continue;
                    }
                    let answered = answer(TokioIo::new(stream), Arc::clone(&registry));
                    tokio::spawn(async move {
                        answered.await;
                        drop(place);
                    });
                }
            }
        }
    }
}

/// Whether the process at the other end is of this user, or of root. The mode of a socket counts
/// from a moment after its creation only.
fn is_permitted(stream: &UnixStream) -> bool {
    let user = stream.peer_cred().map(|peer| peer.uid());
    user.is_ok_and(|user| user == 0 || user == nix::unistd::geteuid().as_raw())
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
    // Whoever asks for longer, or leaves early, asks again.
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

/// Connections at once: a few collectors. More wait in the kernel's queue.
pub(super) const CONNECTIONS_MAX: usize = 8;

/// Longest connection, so that idle ones take no place for ever.
const CONNECTION_MAX: Duration = Duration::from_secs(60);

/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
