//! A forward proxy that remembers its requests.

use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use super::bucket::runtime;

/// A running proxy. Names do not matter to it: everything goes to one server.
pub(crate) struct ProxyServer {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<ProxyRequest>>>,
    _runtime: Runtime,
}

/// One request to the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxyRequest {
    pub(crate) method: String,
    /// As it stood in the request line.
    pub(crate) target: String,
    /// `Proxy-Authorization`.
    pub(crate) login: Option<String>,
}

/// The behaviour of the proxy.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Behaviour {
    ForwardTo(SocketAddr),
    /// Asks for a login with 407, even if it was given one.
    Refuse,
}

type Answer = Response<BoxBody<Bytes, hyper::Error>>;

impl ProxyServer {
    pub(crate) fn start(behaviour: Behaviour) -> Self {
        let runtime = runtime();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        drop(runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let log = Arc::clone(&log);
                drop(tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        log.lock().push(ProxyRequest::of(&request));
                        answer(request, behaviour)
                    });
                    let connection = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .with_upgrades();
                    // The client may go away at any time.
                    drop(connection.await);
                }));
            }
        }));
        Self {
            address,
            asked,
            _runtime: runtime,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// As a URL with a login.
    pub(crate) fn url_with_login(&self, login: &str) -> String {
        format!("http://{login}@{}", self.address)
    }

    pub(crate) fn asked(&self) -> Vec<ProxyRequest> {
        self.asked.lock().clone()
    }
}

impl ProxyRequest {
    fn of(request: &Request<Incoming>) -> Self {
        let login = request.headers().get("proxy-authorization");
        Self {
            method: request.method().to_string(),
            target: request.uri().to_string(),
            login: login.map(|login| login.to_str().unwrap().to_owned()),
        }
    }
}

async fn answer(request: Request<Incoming>, behaviour: Behaviour) -> Result<Answer, hyper::Error> {
    let Behaviour::ForwardTo(server) = behaviour else {
        return Ok(empty(StatusCode::PROXY_AUTHENTICATION_REQUIRED));
    };
    let Ok(mut stream) = TcpStream::connect(server).await else {
        return Ok(empty(StatusCode::BAD_GATEWAY));
    };
    if request.method() == Method::CONNECT {
        drop(tokio::spawn(async move {
            let Ok(upgraded) = hyper::upgrade::on(request).await else {
                return;
            };
            let mut upgraded = TokioIo::new(upgraded);
            // Either side may close; the other hears of it.
            drop(tokio::io::copy_bidirectional(&mut upgraded, &mut stream).await);
        }));
        return Ok(empty(StatusCode::OK));
    }
    forward(request, stream).await
}

/// The request in its usual form, on a connection of its own.
async fn forward(request: Request<Incoming>, stream: TcpStream) -> Result<Answer, hyper::Error> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    drop(tokio::spawn(connection));
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().unwrap().clone();
    parts.uri = path.as_str().parse().unwrap();
    parts.headers.remove("proxy-authorization");
    let body = Full::new(body.collect().await?.to_bytes());
    let response = sender
        .send_request(Request::from_parts(parts, body))
        .await?;
    Ok(response.map(BodyExt::boxed))
}

fn empty(status: StatusCode) -> Answer {
    let body = Empty::new().map_err(|never| match never {}).boxed();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}
