//! TLS on the port of a server that also serves plain HTTP.
//!
//! The first byte of a connection tells which of the two it is. Knows certificates and connections,
//! no HTTP.

use std::io;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Made with openssl for tests, for localhost and 127.0.0.1; the authority's key is gone.
const CERTIFICATE: &[u8] =
    include_bytes!("../../../../mountpoint-crt-sys/src/tests/data/server.pem");
const PRIVATE_KEY: &[u8] =
    include_bytes!("../../../../mountpoint-crt-sys/src/tests/data/server-key.pem");
pub(super) const AUTHORITY: &str =
    include_str!("../../../../mountpoint-crt-sys/src/tests/data/ca.pem");

/// First byte of a TLS record that holds a handshake. No HTTP method begins with it.
const HANDSHAKE: u8 = 22;

/// Bytes that are encrypted before any of them is sent: a piece of a body. The records of larger
/// pieces fall out of the cache before the kernel copies them.
const SEND_BUFFER_SIZE: usize = 256 << 10;

/// The parts with which a server speaks TLS, with the certificate of the tests.
pub(super) fn acceptor() -> io::Result<TlsAcceptor> {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).map_err(io::Error::other)?;
    let key = PrivateKeyDer::from_pem_slice(PRIVATE_KEY).map_err(io::Error::other)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|config| {
            let config = config.with_no_client_auth();
            config.with_single_cert(vec![certificate], key)
        });
    Ok(TlsAcceptor::from(Arc::new(
        config.map_err(io::Error::other)?,
    )))
}

/// Whether the client begins with TLS. Waits for its first byte.
pub(super) async fn is_tls(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    let len = stream.peek(&mut first).await?;
    Ok(len == 1 && first[0] == HANDSHAKE)
}

/// The connection after its handshake.
pub(super) async fn accept(
    acceptor: &TlsAcceptor,
    stream: TcpStream,
) -> io::Result<TlsStream<TcpStream>> {
    let limited = acceptor.accept_with(stream, |connection| {
        connection.set_buffer_limit(Some(SEND_BUFFER_SIZE));
    });
    limited.await
}
