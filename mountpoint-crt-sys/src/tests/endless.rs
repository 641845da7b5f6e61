//! Answers that do not end.

use super::probe::{client, get, message, send};
use super::runtime;
use super::server::{Server, Then, Wire};
use crate::ErrorKind;
use crate::request::types::ERROR_BODY_MAX;

/// Writes until the client has gone.
fn write_on(wire: &mut dyn Wire, piece: &[u8]) -> Then {
    while wire.write_all(piece).is_ok() {}
    Then::Close
}

/// A server that begins each answer with `head` and goes on with `piece`.
fn server(head: &'static str, piece: &'static [u8]) -> Server {
    Server::start(move |_, wire| {
        super::server::send(wire, head.as_bytes());
        write_on(wire, piece)
    })
}

static PIECE: [u8; 32 << 10] = [b'x'; 32 << 10];

#[test]
fn the_body_of_an_error_is_read_as_far_as_it_matters() {
    let server = server(
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 1099511627776\r\n\r\n",
        &PIECE,
    );
    let client = client(runtime(), &server.endpoint());
    let failures = [
        send(&client, message("PutObject", "PUT", "/b/k"), b"").unwrap_err(),
        get(&client, 10..20).failure().1,
    ];
    for failure in failures {
        assert_eq!(failure.error.kind(), ErrorKind::Response, "{failure}");
        assert_eq!(failure.head.unwrap().status, 403);
        assert_eq!(failure.body.len(), ERROR_BODY_MAX);
    }
}

#[test]
fn headers_without_an_end_are_refused() {
    let server = server("HTTP/1.1 200 OK\r\n", b"X-Test: and on and on and on\r\n");
    let client = client(runtime(), &server.endpoint());
    let failures = [
        send(&client, message("PutObject", "PUT", "/b/k"), b"").unwrap_err(),
        get(&client, 10..20).failure().1,
    ];
    for failure in failures {
        assert_eq!(failure.error.kind(), ErrorKind::Response, "{failure}");
        assert!(failure.to_string().contains("LARGE_HEAD"), "{failure}");
    }
}

#[test]
fn a_header_without_an_end_is_refused() {
    for head in ["HTTP/1.1 200 OK\r\nX-Test: ", ""] {
        let server = server(head, &PIECE);
        let client = client(runtime(), &server.endpoint());
        let failures = [
            send(&client, message("PutObject", "PUT", "/b/k"), b"").unwrap_err(),
            get(&client, 10..20).failure().1,
        ];
        for failure in failures {
            assert_eq!(failure.error.kind(), ErrorKind::Connection, "{failure}");
        }
    }
}
