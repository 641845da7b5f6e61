//! Servers that speak TLS, with what a test wants to be wrong.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{
    CipherSuite, HandshakeKind, ServerConfig, ServerConnection, StreamOwned,
    SupportedProtocolVersion,
};

use crate::tests::http::Request;
use crate::tests::server::{Server, Then, Wire};

/// Made with openssl for these tests, valid for a hundred years for localhost and 127.0.0.1; the
/// authority's key is gone.
const CERTIFICATE: &[u8] = include_bytes!("../data/server.pem");
const KEY: &[u8] = include_bytes!("../data/server-key.pem");
pub(crate) const AUTHORITY: &[u8] = include_bytes!("../data/ca.pem");

/// As above, but the certificate was valid in January 2020 only.
const EXPIRED_CERTIFICATE: &[u8] = include_bytes!("../data/expired.pem");
const EXPIRED_KEY: &[u8] = include_bytes!("../data/expired-key.pem");
pub(crate) const EXPIRED_AUTHORITY: &[u8] = include_bytes!("../data/expired-ca.pem");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certificate {
    Good,
    GoodOnlyTls12,
    GoodOnlyTls13,
    Expired,
}

/// The server's side of TLS.
#[derive(Clone)]
pub(crate) struct Front {
    pub(crate) config: ServerConfig,
    handshakes: Arc<Mutex<Vec<HandshakeKind>>>,
    /// Called before each write.
    pub(crate) before_write: fn(&mut ServerConnection),
}

impl Front {
    pub(crate) fn new(certificate: Certificate) -> Self {
        let both: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
        let versions = match certificate {
            Certificate::GoodOnlyTls12 => &[&TLS12][..],
            Certificate::GoodOnlyTls13 => &[&TLS13],
            Certificate::Good | Certificate::Expired => both,
        };
        Self::with(certificate, versions, None)
    }

    /// A server that speaks this one way to encrypt.
    pub(crate) fn of_suite(suite: CipherSuite) -> Self {
        Self::with(Certificate::Good, &[&TLS13, &TLS12], Some(suite))
    }

    fn with(
        certificate: Certificate,
        versions: &[&'static SupportedProtocolVersion],
        suite: Option<CipherSuite>,
    ) -> Self {
        let (certificate, key) = match certificate {
            Certificate::Expired => (EXPIRED_CERTIFICATE, EXPIRED_KEY),
            _ => (CERTIFICATE, KEY),
        };
        let certificate = CertificateDer::from_pem_slice(certificate).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key).unwrap();
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        if let Some(suite) = suite {
            provider.cipher_suites.retain(|it| it.suite() == suite);
        }
        let mut usable = versions.to_vec();
        usable.retain(|version| {
            let suites = provider.cipher_suites.iter();
            suites.clone().any(|suite| suite.version() == *version)
        });
        let config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&usable)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        Self {
            config,
            handshakes: Arc::default(),
            before_write: |_| {},
        }
    }

    /// The handshakes so far, of connections that a request came on.
    pub(crate) fn handshakes(&self) -> Vec<HandshakeKind> {
        self.handshakes.lock().clone()
    }

    /// A server of one object that honours ranges.
    pub(crate) fn serve(&self, object: Vec<u8>) -> Server {
        Server::of_object_over(object, self.clone().wrap(|stream| stream))
    }

    /// A server of one object, over the stream that `lower` makes of a connection.
    pub(crate) fn serve_over<S: Read + Write + 'static>(
        &self,
        object: Vec<u8>,
        lower: impl Fn(TcpStream) -> S + Send + Sync + 'static,
    ) -> Server {
        Server::of_object_over(object, self.clone().wrap(lower))
    }

    pub(crate) fn answer(
        &self,
        answer: impl Fn(&Request, &mut dyn Wire) -> Then + Send + Sync + 'static,
    ) -> Server {
        Server::start_over(self.clone().wrap(|stream| stream), answer)
    }

    fn wrap<S: Read + Write + 'static>(
        self,
        lower: impl Fn(TcpStream) -> S + Send + Sync + 'static,
    ) -> impl Fn(TcpStream) -> Secured<S> + Send + Sync + 'static {
        let config = Arc::new(self.config.clone());
        move |stream| {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            Secured {
                stream: StreamOwned::new(session, lower(stream)),
                handshakes: Some(Arc::clone(&self.handshakes)),
                before_write: self.before_write,
            }
        }
    }
}

pub(crate) struct Secured<S: Read + Write> {
    stream: StreamOwned<ServerConnection, S>,
    handshakes: Option<Arc<Mutex<Vec<HandshakeKind>>>>,
    before_write: fn(&mut ServerConnection),
}

impl<S: Read + Write> Read for Secured<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = self.stream.read(into)?;
        if let (Some(handshakes), Some(kind)) =
            (self.handshakes.take(), self.stream.conn.handshake_kind())
        {
            handshakes.lock().push(kind);
        }
        Ok(len)
    }
}

impl<S: Read + Write> Write for Secured<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (self.before_write)(&mut self.stream.conn);
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
