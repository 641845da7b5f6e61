use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::logs;
use super::probe::{get, options, pattern};
use super::runtime;
use super::server::Server;
use crate::{Client, ClientOptions, ErrorKind, TlsOptions};

const SIZE: usize = 2 << 20;

/// Made with openssl for these tests, valid for a hundred years for localhost; the authority's key
/// is gone.
const CERTIFICATE: &[u8] = include_bytes!("data/server.pem");
const KEY: &[u8] = include_bytes!("data/server-key.pem");
const AUTHORITY: &[u8] = include_bytes!("data/ca.pem");

fn server() -> Server {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    Server::of_object_over(pattern(SIZE), move |stream| {
        let session = ServerConnection::new(Arc::clone(&config)).unwrap();
        StreamOwned::new(session, stream)
    })
}

fn client(endpoint: &str, ca_bundle: Option<Vec<u8>>) -> Client {
    Client::new(
        runtime(),
        &ClientOptions {
            tls: TlsOptions { ca_bundle },
            ..options(endpoint)
        },
    )
    .unwrap()
}

#[test]
fn a_bundle_makes_a_private_authority_trusted() {
    let server = server();
    let endpoint = format!("https://localhost:{}", server.port());
    let client = client(&endpoint, Some(AUTHORITY.to_vec()));
    for range in [0..SIZE, 100..200, 0..1] {
        let (fill, outcome) = get(&client, range.clone()).end();
        outcome.unwrap();
        assert!(fill.block().bytes(0..range.len()) == &pattern(SIZE)[range]);
    }
}

/// The requests themselves end 10 to 30 seconds later.
#[test]
fn without_the_bundle_or_under_another_name_it_is_not() {
    logs::collect();
    let server = server();
    let unknown = client(&format!("https://localhost:{}", server.port()), None);
    let getting = get(&unknown, 0..100);
    logs::wait_for("Certificate is untrusted");
    assert!(getting.progress.try_recv().is_err());

    let wrong_name = format!("https://127.0.0.2:{}", server.port());
    let wrong_name = client(&wrong_name, Some(AUTHORITY.to_vec()));
    let getting = get(&wrong_name, 0..100);
    logs::wait_for("hostname");
    assert!(getting.progress.try_recv().is_err());
}

#[test]
fn a_bundle_that_is_none_makes_no_client() {
    let tls = TlsOptions {
        ca_bundle: Some(b"no certificate".to_vec()),
    };
    let failed = Client::new(
        runtime(),
        &ClientOptions {
            tls,
            ..options("https://localhost:1")
        },
    );
    let error = failed.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Tls, "{error:?}");
}
