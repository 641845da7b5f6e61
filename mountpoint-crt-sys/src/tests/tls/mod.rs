//! TLS against servers in this process.

mod front;
mod handshake;
mod records;

use std::sync::Arc;

use front::{AUTHORITY, Certificate, Front};

use super::probe::{get, message, options, pattern, send};
use super::runtime;
use super::server::{Server, answer};
use crate::request::exchange::Delivery;
use crate::{Client, ClientOptions, ErrorKind, TlsOptions};

const SIZE: usize = 2 << 20;

fn trust() -> TlsOptions {
    TlsOptions::new(Some(AUTHORITY.to_vec()))
}

fn client(port: u16, tls: TlsOptions) -> Client {
    let endpoint = format!("https://localhost:{port}");
    let options = ClientOptions {
        tls,
        ..options(&endpoint)
    };
    Client::new(runtime(), &options).unwrap()
}

/// Reads pieces of the server's object, and compares them.
fn check_reads(client: &Client) {
    for range in [0..SIZE, 100..200, 0..1, 70_000..70_000 + (1 << 20)] {
        let (fill, outcome) = get(client, range.clone()).end();
        outcome.unwrap();
        assert!(fill.block().bytes(0..range.len()) == &pattern(SIZE)[range]);
    }
}

#[test]
fn a_bundle_that_is_none_makes_no_client() {
    let tls = TlsOptions::new(Some(b"no certificate".to_vec()));
    let options = ClientOptions {
        tls,
        ..options("https://localhost:1")
    };
    let error = Client::new(runtime(), &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Tls, "{error:?}");
}

#[test]
fn without_the_hook_no_client_speaks_tls() {
    let options = ClientOptions {
        tls: trust(),
        ..options("https://localhost:1")
    };
    let failed = Client::with_delivery(runtime(), &options, Delivery::AtTheEnd);
    let error = failed.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Tls, "{error:?}");
}

#[test]
fn clients_with_and_without_tls_live_side_by_side() {
    let front = Front::new(Certificate::Good);
    let secure_server = front.serve(pattern(SIZE));
    let plain_server = Server::of_object(pattern(SIZE));
    let secure = client(secure_server.port(), trust());
    let plain = Client::new(runtime(), &options(&plain_server.endpoint())).unwrap();
    for _ in 0..3 {
        check_reads(&secure);
        check_reads(&plain);
    }
}

/// Each request over TLS is the one without, but for the host.
#[test]
fn requests_are_those_without_tls() {
    let echo = |request: &super::http::Request, wire: &mut dyn super::server::Wire| {
        let mut headers = request.headers.clone();
        headers.retain(|(name, _)| !name.eq_ignore_ascii_case("host"));
        let (method, path) = (&request.method, &request.path);
        let text = format!("{method} {path} {headers:?} {:?}", request.body);
        answer(wire, "200 OK", text.as_bytes())
    };
    let front = Front::new(Certificate::Good);
    let secure_server = front.answer(echo);
    let plain_server = Server::start(echo);
    let secure = client(secure_server.port(), trust());
    let plain = Client::new(runtime(), &options(&plain_server.endpoint())).unwrap();
    for (method, body) in [("GET", &b""[..]), ("PUT", b"some bytes"), ("POST", b"")] {
        let mut message = message("Test", method, "/b/k?x=%20y");
        message.headers = vec![("If-Match".into(), "\"abc\"".into())];
        let [first, second] = [&secure, &plain].map(|client| {
            let response = send(client, message.clone(), body).unwrap();
            String::from_utf8(response.body).unwrap()
        });
        assert_eq!(first, second);
    }
}

#[test]
fn bodies_arrive_as_they_were() {
    static BODY: [u8; 3_000_000] = [42; 3_000_000];
    for certificate in [Certificate::Good, Certificate::GoodOnlyTls12] {
        let front = Front::new(certificate);
        let server = front.answer(|request, wire| answer(wire, "200 OK", &request.body));
        let client = client(server.port(), trust());
        for len in [
            0, 1, 100, 16_384, 16_385, 65_536, 131_072, 600_000, 3_000_000,
        ] {
            let put = message("PutObject", "PUT", "/b/k");
            let response = send(&client, put, &BODY[..len]).unwrap();
            assert!(response.body == BODY[..len], "{len}");
        }
        // One connection has carried all.
        assert_eq!(front.handshakes().len(), 1);
    }
}

#[test]
fn a_body_is_let_go_of_when_it_is_sealed() {
    let front = Front::new(Certificate::Good);
    let server = front.answer(|_, wire| answer(wire, "200 OK", b""));
    let client = client(server.port(), trust());
    let alive = Arc::new(());
    let weak = Arc::downgrade(&alive);
    struct Owner {
        bytes: Vec<u8>,
        _alive: Arc<()>,
    }
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }
    let body = bytes::Bytes::from_owner(Owner {
        bytes: pattern(SIZE),
        _alive: alive,
    });
    let (sender, receiver) = std::sync::mpsc::channel();
    let handler = Box::new(move |answer| sender.send(answer).unwrap());
    let _cancel = client.send(message("UploadPart", "PUT", "/b/k"), body, handler);
    receiver.recv_timeout(super::probe::SOON).unwrap().unwrap();
    while weak.strong_count() > 0 {
        std::thread::yield_now();
    }
}
