//! TLS with a private authority: a client that has its certificate gets through; the error of one
//! that has not names the remedy.

use std::net::SocketAddr;
use std::sync::Arc;

use mountpoint_client::ErrorKind;
use mountpoint_client::credentials::CredentialsMode;
use mountpoint_client::testing::server::{Operation, Server};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use crate::support::bucket::{Connected, check_error, connect, options, runtime, server};
use crate::support::child::Setting;

/// Made for the tests of mountpoint-crt-sys, for localhost and 127.0.0.1.
const CERTIFICATE: &[u8] = include_bytes!("../../../mountpoint-crt-sys/src/tests/data/server.pem");
const PRIVATE_KEY: &[u8] =
    include_bytes!("../../../mountpoint-crt-sys/src/tests/data/server-key.pem");
pub(crate) const AUTHORITY: &[u8] =
    include_bytes!("../../../mountpoint-crt-sys/src/tests/data/ca.pem");

/// TLS in front of a server.
pub(crate) struct TlsFront {
    address: SocketAddr,
    _runtime: Runtime,
}

impl TlsFront {
    pub(crate) fn of(server: SocketAddr) -> Self {
        let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
        let key = PrivateKeyDer::from_pem_slice(PRIVATE_KEY).unwrap();
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key);
        let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
        let runtime = runtime();
        let listener = runtime.block_on(TcpListener::bind("0.0.0.0:0")).unwrap();
        let address = listener.local_addr().unwrap();
        drop(runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                drop(tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let mut server = TcpStream::connect(server).await.unwrap();
                    // Either side may close; the other hears of it.
                    drop(tokio::io::copy_bidirectional(&mut stream, &mut server).await);
                }));
            }
        }));
        Self {
            address,
            _runtime: runtime,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port()))
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }
}

fn client(endpoint: &str, ca_bundle: Option<&[u8]>) -> Connected {
    let mut options = options(endpoint);
    options.credentials = CredentialsMode::Unsigned;
    options.ca_bundle = ca_bundle.map(<[u8]>::to_vec);
    options.max_attempts = 1;
    connect(options).unwrap()
}

fn front() -> (Server, TlsFront) {
    let server = server();
    let front = TlsFront::of(server.address());
    (server, front)
}

#[test]
fn a_bundle_is_trusted_for_data_and_control() {
    let (server, front) = front();
    let client = client(
        &format!("https://localhost:{}", front.port()),
        Some(AUTHORITY),
    );
    client.use_all().unwrap();
    for operation in [
        Operation::HeadObject,
        Operation::GetObject,
        Operation::PutObject,
    ] {
        assert_eq!(server.log().count(operation), 1, "{operation:?}");
    }
}

#[test]
fn one_bad_certificate_does_not_spoil_a_bundle() {
    let (_server, front) = front();
    let bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let bundle = [bad.as_bytes(), AUTHORITY].concat();
    let endpoint = format!("https://localhost:{}", front.port());
    client(&endpoint, Some(&bundle)).use_all().unwrap();
}

#[test]
fn an_unknown_authority_is_explained() {
    let (_server, front) = front();
    let client = client(&format!("https://localhost:{}", front.port()), None);
    let error = client.head().unwrap_err();
    check_error(
        &error,
        &ErrorKind::Unreachable,
        &["certificate", "--ca-bundle"],
    );
}

#[test]
fn a_certificate_for_another_name_is_explained() {
    let (_server, front) = front();
    let endpoint = format!("https://127.0.0.2:{}", front.port());
    let client = client(&endpoint, Some(AUTHORITY));
    let error = client.head().unwrap_err();
    check_error(&error, &ErrorKind::Unreachable, &["certificate", "name"]);
}

#[test]
fn a_bundle_that_is_none_is_refused_at_once() {
    let mut options = options("https://localhost:1");
    options.credentials = CredentialsMode::Unsigned;
    options.ca_bundle =
        Some(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec());
    let Err(error) = connect(options) else {
        panic!("the bundle holds no certificate");
    };
    check_error(
        &error,
        &ErrorKind::InvalidRequest,
        &["--ca-bundle", "AWS_CA_BUNDLE"],
    );
}

/// A debug build panics where it reads certificates of the system and finds none.
#[test]
fn without_tls_no_certificate_is_read() {
    let server = server();
    let mut child = Setting::new(&server)
        .variable("AWS_ACCESS_KEY_ID", "key")
        .variable("AWS_SECRET_ACCESS_KEY", "secret")
        .variable("SSL_CERT_FILE", "/there/is/none")
        .variable("SSL_CERT_DIR", "/there/is/none")
        .start();
    child.check("connect", "ok");
    child.check("bucket", "ok");
    assert_eq!(server.log().count(Operation::HeadBucket), 1);
}
