//! Connections: accepted, served, bounded, closed.
//!
//! Runs on the server's threads until told to stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use super::http::stalling::{HeadStall, Stalling};
use super::service::Service;
use super::tls;

/// Most connections at once; further ones wait in the kernel's backlog. Ten clients for 400 Gbit/s
/// have about this many.
const CONNECTIONS_MAX: u32 = 8192;

/// Connections that the kernel completes before they are accepted.
const BACKLOG: u32 = 4096;

/// Bytes that are gathered into one write. Four pieces of a body: enough that the cost of a system
/// call does not show, little enough to stay in the cache between being read and being sent.
const WRITE_BUFFER_SIZE: usize = 1 << 20;

/// Pause after a failed accept, which is lack of descriptors as a rule.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(10);

/// The shared state of all connections.
#[derive(Clone)]
pub(super) struct Serving {
    pub(super) service: Arc<Service>,
    /// `None`: plain HTTP only.
    pub(super) acceptor: Option<TlsAcceptor>,
}

/// A socket that listens.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts and serves connections until `stop` changes; then waits for requests that are in flight,
/// at most `stop_time_max`.
pub(super) async fn serve(
    listener: TcpListener,
    serving: Serving,
    mut stop: watch::Receiver<bool>,
    stop_time_max: Duration,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX as usize));
    loop {
        let accepted = tokio::select! {
            _ = stop.changed() => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((stream, place)) = accepted else {
            continue;
        };
        if serving.service.faults.refuses_connection() {
            continue;
        }
        let (serving, stop) = (serving.clone(), stop.clone());
        drop(tokio::spawn(async move {
            connection(stream, serving, stop).await;
            drop(place);
        }));
    }
    drop(listener);
    let all_ended = tokio::time::timeout(stop_time_max, places.acquire_many(CONNECTIONS_MAX)).await;
    if all_ended.is_err() {
        tracing::debug!("requests were in flight when the server stopped");
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(error) => {
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            None
        }
    }
}

/// Serves one connection, plain or over TLS.
async fn connection(stream: TcpStream, serving: Serving, mut stop: watch::Receiver<bool>) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let Serving { service, acceptor } = serving;
    let Some(acceptor) = acceptor else {
        return requests(stream, service, stop).await;
    };
    let is_tls = tokio::select! {
        is_tls = tls::is_tls(&stream) => is_tls,
        _ = stop.changed() => return,
    };
    match is_tls {
        Ok(true) => match tls::accept(&acceptor, stream).await {
            Ok(stream) => requests(stream, service, stop).await,
            Err(error) => tracing::debug!(%error, "handshake"),
        },
        Ok(false) => requests(stream, service, stop).await,
        Err(error) => tracing::debug!(%error, "first byte"),
    }
}

/// Answers the requests of one connection to its end; told to stop, it finishes the one it is at.
async fn requests(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    service: Arc<Service>,
    mut stop: watch::Receiver<bool>,
) {
    let stall = HeadStall::default();
    let stream = Stalling::new(stream, stall.clone());
    let answer = service_fn(move |request| service.answer(request, &stall));
    let connection = http1::Builder::new()
        .max_buf_size(WRITE_BUFFER_SIZE)
        .serve_connection(TokioIo::new(stream), answer);
    let mut connection = std::pin::pin!(connection);
    // How a connection ends is the client's business, or a fault rule's; the log has what was sent.
    tokio::select! {
        ended = connection.as_mut() => tracing::trace!(?ended, "connection"),
        _ = stop.changed() => {
            connection.as_mut().graceful_shutdown();
            let ended = connection.await;
            tracing::trace!(?ended, "connection after stop");
        }
    }
}
