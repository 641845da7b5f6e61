//! Handshakes: whom the client trusts, how soon it says why not, and what it never sends.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustls::{CipherSuite, HandshakeKind};

use super::front::{Certificate, EXPIRED_AUTHORITY, Front};
use super::{SIZE, check_reads, client, trust};
use crate::tests::http::listen;
use crate::tests::probe::{SOON, get, options, pattern};
use crate::tests::runtime;
use crate::{Client, ClientOptions, CrtError, ErrorKind, TlsOptions};

/// A failure must come before the time limits of `options`, which are longer.
const AT_ONCE: Duration = Duration::from_secs(30);

/// The error of a GET, which comes at once.
fn error_of(client: &Client) -> CrtError {
    let (fill, failure) = get(client, 0..100).failure_within(AT_ONCE);
    assert_eq!(fill.filled(), 0);
    failure.error
}

#[track_caller]
fn check_refused(client: &Client, reason: &str) {
    let error = error_of(client);
    assert_eq!(error.kind(), ErrorKind::Tls, "{error}");
    assert!(error.to_string().contains(reason), "{error}");
}

#[test]
fn a_bundle_makes_a_private_authority_trusted() {
    let server = Front::new(Certificate::Good).serve(pattern(SIZE));
    check_reads(&client(server.port(), trust()));
    // By its address as well.
    let endpoint = format!("https://127.0.0.1:{}", server.port());
    let options = ClientOptions {
        tls: trust(),
        ..options(&endpoint)
    };
    check_reads(&Client::new(runtime(), &options).unwrap());
}

#[test]
fn an_unknown_authority_is_named_at_once() {
    let server = Front::new(Certificate::Good).serve(pattern(SIZE));
    check_refused(
        &client(server.port(), TlsOptions::default()),
        "UnknownIssuer",
    );
    let other = TlsOptions::new(Some(EXPIRED_AUTHORITY.to_vec()));
    check_refused(&client(server.port(), other), "UnknownIssuer");
}

#[test]
fn another_name_is_named_at_once() {
    let server = Front::new(Certificate::Good).serve(pattern(SIZE));
    let endpoint = format!("https://127.0.0.2:{}", server.port());
    let options = ClientOptions {
        tls: trust(),
        ..options(&endpoint)
    };
    let client = Client::new(runtime(), &options).unwrap();
    check_refused(&client, "not valid for name");
}

#[test]
fn an_expired_certificate_is_named_at_once() {
    let server = Front::new(Certificate::Expired).serve(pattern(SIZE));
    let trust = TlsOptions::new(Some(EXPIRED_AUTHORITY.to_vec()));
    check_refused(&client(server.port(), trust), "expired");
}

#[test]
fn each_version_and_each_cipher_works() {
    for certificate in [Certificate::GoodOnlyTls12, Certificate::GoodOnlyTls13] {
        let server = Front::new(certificate).serve(pattern(SIZE));
        check_reads(&client(server.port(), trust()));
    }
    for suite in [
        CipherSuite::TLS13_AES_128_GCM_SHA256,
        CipherSuite::TLS13_AES_256_GCM_SHA384,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ] {
        let front = Front::of_suite(suite);
        let server = front.serve(pattern(SIZE));
        check_reads(&client(server.port(), trust()));
        assert_eq!(front.handshakes().len(), 1, "{suite:?}");
    }
}

#[test]
fn sessions_are_resumed_by_all_clients_of_one_trust() {
    for certificate in [Certificate::GoodOnlyTls12, Certificate::GoodOnlyTls13] {
        let front = Front::new(certificate);
        let server = front.serve(pattern(SIZE));
        let trust = trust();
        for _ in 0..3 {
            check_reads(&client(server.port(), trust.clone()));
        }
        let handshakes = front.handshakes();
        assert_eq!(handshakes.len(), 3);
        assert_ne!(handshakes[0], HandshakeKind::Resumed);
        assert_eq!(
            handshakes[1..],
            [HandshakeKind::Resumed; 2],
            "{certificate:?}"
        );
        // Other trust, no resumption.
        check_reads(&client(server.port(), super::trust()));
        assert_ne!(front.handshakes()[3], HandshakeKind::Resumed);
    }
}

/// A server that does what `serve` does, and shows what it has read before.
fn raw_server(serve: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> (u16, Receiver<Vec<u8>>) {
    let (sender, receiver) = channel();
    let address = listen("127.0.0.1:0", move |mut stream| {
        let mut first = vec![0; 4096];
        let len = stream.read(&mut first).unwrap_or(0);
        first.truncate(len);
        serve(&mut stream);
        // The client may have reset the connection.
        stream.read_to_end(&mut first).ok();
        sender.send(first).ok();
    });
    (address.port(), receiver)
}

/// Nothing but records of the handshake and alerts, and none of the request.
#[track_caller]
fn check_nothing_in_clear(bytes: &[u8]) {
    for secret in ["GET", "bucket", "HTTP", "If-Match"] {
        let is_there = bytes
            .windows(secret.len())
            .any(|it| it == secret.as_bytes());
        assert!(!is_there, "{secret} in {bytes:?}");
    }
    let mut rest = bytes;
    while let [kind, 3, _, high, low, more @ ..] = rest {
        assert!([20, 21, 22].contains(kind), "{bytes:?}");
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        rest = &more[len.min(more.len())..];
    }
    assert!(rest.is_empty(), "{bytes:?}");
}

#[test]
fn a_server_without_tls_is_named_at_once_and_gets_nothing_in_clear() {
    let (port, bytes) = raw_server(|stream| {
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .unwrap();
    });
    check_refused(&client(port, trust()), "InvalidContentType");
    check_nothing_in_clear(&bytes.recv_timeout(SOON).unwrap());
}

#[test]
fn a_server_that_closes_in_the_handshake_is_named_and_gets_nothing_in_clear() {
    let (port, bytes) = raw_server(|stream| {
        stream.shutdown(std::net::Shutdown::Write).unwrap();
    });
    check_refused(&client(port, trust()), "closed the connection during");
    check_nothing_in_clear(&bytes.recv_timeout(SOON).unwrap());
}

#[test]
fn an_alert_in_the_handshake_is_named() {
    let (port, bytes) = raw_server(|stream| {
        // Fatal, handshake_failure.
        stream.write_all(&[21, 3, 3, 0, 2, 2, 40]).unwrap();
    });
    check_refused(&client(port, trust()), "HandshakeFailure");
    check_nothing_in_clear(&bytes.recv_timeout(SOON).unwrap());
}

#[test]
fn a_handshake_that_hangs_ends() {
    let (release, gate) = channel::<()>();
    let gate = parking_lot::Mutex::new(gate);
    let (port, bytes) = raw_server(move |_| {
        gate.lock().recv().ok();
    });
    let options = ClientOptions {
        tls: trust(),
        connect_timeout: Duration::from_millis(100),
        ..options(&format!("https://localhost:{port}"))
    };
    let client = Client::new(runtime(), &options).unwrap();
    check_refused(&client, "took longer than 500ms");
    drop(release);
    check_nothing_in_clear(&bytes.recv_timeout(SOON).unwrap());
}

#[test]
fn requests_that_wait_for_a_handshake_can_be_cancelled() {
    let (release, gate) = channel::<()>();
    let gate = parking_lot::Mutex::new(gate);
    let (begun_sender, begun) = channel();
    let (port, _bytes) = raw_server(move |_| {
        begun_sender.send(()).ok();
        gate.lock().recv().ok();
    });
    let client = client(port, trust());
    let getting = get(&client, 0..100);
    begun.recv_timeout(SOON).unwrap();
    getting.cancel.cancel();
    let (_, failure) = getting.failure_within(AT_ONCE);
    assert_eq!(failure.error.kind(), ErrorKind::Cancelled);
    drop(release);
}
