//! TLS and plain HTTP on one port.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::*;

const REQUEST: &[u8] = b"GET /bucket/k HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
const SIZE: u64 = 3 << 20;

fn server() -> Server {
    let server = Server::start(ServerOptions {
        has_tls: true,
        ..ServerOptions::default()
    });
    let server = server.unwrap();
    server.store().create_bucket("bucket");
    server.store().put_synthetic("bucket", "k", SIZE, 1);
    server
}

fn over_tls(server: &Server, authority: &str) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(authority.as_bytes()).unwrap();
    roots.add(authority).unwrap();
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    StreamOwned::new(connection, stream)
}

fn body(mut stream: impl Read + Write) -> Vec<u8> {
    stream.write_all(REQUEST).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n");
    answer.split_off(end.unwrap() + 4)
}

#[test]
fn one_port_serves_both() {
    let server = server();
    let expected = synthetic_bytes(1, 0..SIZE);
    assert!(body(over_tls(&server, Server::AUTHORITY)) == expected);
    let plain = TcpStream::connect(server.address()).unwrap();
    assert!(body(plain) == expected);
    assert_eq!(server.log().count(Operation::GetObject), 2);
}

#[test]
fn a_server_without_tls_is_not_mistaken_for_one() {
    let server = Server::start_with_bucket("bucket").unwrap();
    let mut stream = over_tls(&server, Server::AUTHORITY);
    assert!(stream.write_all(REQUEST).is_err());
}

#[test]
fn a_client_that_says_nothing_does_not_hold_the_server() {
    let server = server();
    let silent = TcpStream::connect(server.address()).unwrap();
    let plain = TcpStream::connect(server.address()).unwrap();
    // The server has accepted both when it answers the second.
    drop(body(plain));
    drop(server);
    drop(silent);
}
