//! Servers that cannot be reached, do not answer, are not S3, or are not trusted.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use mountpoint_client::testing::server::{Fault, Operation, Rule};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::{PROXY_PASSWORD, Row, Target, check_all};
use crate::harness::{BUCKET, server};
use crate::machine::{bind, in_private_namespace};

// Made with openssl for these tests: for localhost, for another name, expired in 2020; the
// authority's key is gone.
const AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/data/ca.pem");
const VALID: &[u8] = include_bytes!("../../data/valid.pem");
const OTHER_NAME: &[u8] = include_bytes!("../../data/other-name.pem");
const EXPIRED: &[u8] = include_bytes!("../../data/expired.pem");
const KEY: &[u8] = include_bytes!("../../data/key.pem");

const UNREACHABLE: &str = "cannot reach the S3 server";

/// Serves connections with `answer` until the test process ends. Returns the port.
fn listen(answer: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(stream), answer) = (stream, Arc::clone(&answer)) else {
                return;
            };
            std::thread::spawn(move || answer(stream));
        }
    });
    port
}

/// A web server that knows nothing of S3.
fn web_server() -> u16 {
    listen(|mut stream| {
        let _request = stream.read(&mut [0; 4096]);
        let answer =
            b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\nConnection: close\r\n\r\n<html></html>";
        stream.write_all(answer).ok();
    })
}

/// A server with TLS and this certificate. No client gets as far as a request.
fn tls_server(certificate: &[u8]) -> u16 {
    let certificate = CertificateDer::from_pem_slice(certificate).unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    listen(move |stream| {
        let session = ServerConnection::new(Arc::clone(&config)).unwrap();
        let _handshake = StreamOwned::new(session, stream).read(&mut [0; 4096]);
    })
}

#[test]
fn networks() {
    let (server, hanging, target) = (server(), server(), Target::new());
    hanging
        .faults()
        .add(Rule::on(Operation::ListObjectsV2, Fault::BlackHole));
    let closing = listen(drop);
    let port = server.url().rsplit_once(':').unwrap().1.to_owned();
    let row = |what: &str, url: &str, texts: &[&'static str]| {
        Row::new(what, texts)
            .args([BUCKET, target.path().to_str().unwrap()])
            .args(["--endpoint-url", url, "--force-path-style"])
            .variable("AWS_MAX_ATTEMPTS", "3")
    };
    let https = |port: u16| format!("https://localhost:{port}");
    let trusting = |row: Row| row.args(["--ca-bundle", AUTHORITY]);
    let proxy = format!("http://user:{PROXY_PASSWORD}@127.0.0.1:1");
    check_all(&[
        row(
            "nobody listens",
            "http://127.0.0.1:1",
            &[UNREACHABLE, "refused", "check --endpoint-url"],
        ),
        row(
            "no such host",
            "http://no-such-host.invalid",
            &[UNREACHABLE, "check --endpoint-url, the network"],
        ),
        row(
            "a server that hangs",
            &hanging.url(),
            &["did not answer within", "check --endpoint-url, the network"],
        )
        .variable("MOUNTPOINT_START_TIMEOUT", "5"),
        row(
            "a server that closes connections",
            &format!("http://127.0.0.1:{closing}"),
            &["at http://127.0.0.1"],
        ),
        row(
            "a web server",
            &format!("http://localhost:{}", web_server()),
            &["is no S3 server", "Check --endpoint-url"],
        ),
        row(
            "HTTPS to an HTTP port",
            &format!("https://127.0.0.1:{port}"),
            &["no TLS", "use http://"],
        ),
        row(
            "HTTP to an HTTPS port",
            &format!("http://localhost:{}", tls_server(VALID)),
            &["HTTPS port", "use https://"],
        ),
        row(
            "an unknown authority",
            &https(tls_server(VALID)),
            &[UNREACHABLE, "certificate", "trusted here (--ca-bundle)"],
        ),
        trusting(row(
            "an expired certificate",
            &https(tls_server(EXPIRED)),
            &[UNREACHABLE, "has expired", "this machine's clock"],
        )),
        trusting(row(
            "another name's certificate",
            &https(tls_server(OTHER_NAME)),
            &[UNREACHABLE, "name"],
        )),
        row(
            "a proxy that is not there",
            "http://elsewhere.example",
            &[UNREACHABLE, "through the proxy http://127.0.0.1:1"],
        )
        .variable("http_proxy", &proxy),
        row(
            "a proxy that is none",
            "https://elsewhere.example",
            &["through the proxy http://localhost:"],
        )
        .variable(
            "https_proxy",
            format!("http://user:{PROXY_PASSWORD}@localhost:{}", web_server()),
        ),
    ]);
}

/// The system's resolver waits for a quarter of a minute, and cannot be interrupted. The start does
/// not wait for it.
#[test]
fn a_name_server_that_never_answers() {
    let (target, root) = (Target::new(), tempfile::tempdir().unwrap());
    // Another run of the tests on this machine has an address of its own.
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = std::net::Ipv4Addr::new(127, 77, high, low);
    let silent = std::net::UdpSocket::bind((address, 53)).unwrap();
    let resolver = root.path().join("resolv.conf");
    std::fs::write(&resolver, format!("nameserver {address}\n")).unwrap();
    in_private_namespace(|| {
        bind(&resolver, "/etc/resolv.conf");
        let row = Row::new("a silent name server", &[UNREACHABLE, "timed out"])
            .args([BUCKET, target.path().to_str().unwrap()])
            .args(["--endpoint-url", "http://no-such-host.invalid"])
            .variable("AWS_MAX_ATTEMPTS", "1")
            .variable("MOUNTPOINT_START_TIMEOUT", "100");
        check_all(&[row]);
    });
    drop(silent);
}
