use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::probe::{SOON, client, get, get_into, options, pattern};
use super::server::{self, Server, Then, answer, partial_head};
use super::{panic_silently, runtime};
use crate::block::BlockPool;
use crate::request::exchange::Delivery;
use crate::{Client, ErrorKind, Refused};

const SIZE: usize = 3 << 20;

#[test]
fn exact_ranges_arrive() {
    let object = pattern(SIZE);
    let server = Server::of_object(object.clone());
    let client = client(runtime(), &server.endpoint());
    for range in [
        0..1,
        0..SIZE,
        5..6,
        1000..100_000,
        SIZE - 1..SIZE,
        1 << 20..2 << 20,
    ] {
        let (fill, outcome) = get(&client, range.clone()).end();
        let head = outcome.unwrap();
        assert_eq!(head.status, 206);
        assert_eq!(head.header("etag"), Some("\"abc\""));
        assert_eq!(fill.filled(), range.len());
        assert!(
            fill.block().bytes(0..range.len()) == &object[range.clone()],
            "{range:?}"
        );
    }
}

#[test]
fn the_request_says_what_it_should() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let server = Server::start(move |request, wire| {
        log.lock().push(request.clone());
        answer(wire, "404 Not Found", b"")
    });
    let endpoint = server.endpoint();
    let client = client(runtime(), &endpoint);
    let _failure = get(&client, 10..20).failure();
    let seen = seen.lock();
    assert_eq!(seen.len(), 1, "no retry");
    assert_eq!(
        (seen[0].method.as_str(), seen[0].path.as_str()),
        ("GET", "/bucket/key")
    );
    assert_eq!(seen[0].header("range"), Some("bytes=10-19"));
    assert_eq!(seen[0].header("if-match"), Some("\"abc\""));
    assert_eq!(seen[0].header("host"), endpoint.strip_prefix("http://"));
    assert_eq!(seen[0].header("content-length"), None);
    assert_eq!(seen[0].header("authorization"), None);
}

#[test]
fn bytes_arrive_before_the_answer_ends() {
    let (go, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let server = Server::start(move |request, wire| {
        let range = request.range();
        let body = pattern(range.len());
        server::send(wire, partial_head(range, SIZE).as_bytes());
        server::send(wire, &body[..1000]);
        gate.lock().recv().unwrap();
        server::send(wire, &body[1000..]);
        Then::Keep
    });
    let client = client(runtime(), &server.endpoint());
    let fill = BlockPool::new(0).allocate(5000);
    let block = fill.block();
    let getting = get_into(&client, fill, 0..5000, |_| Ok(()));
    while block.valid() < 1000 {
        getting
            .progress
            .recv_timeout(SOON)
            .expect("bytes arrive while the server waits");
    }
    assert_eq!(block.bytes(0..1000), &pattern(5000)[..1000]);
    go.send(()).unwrap();
    let (fill, outcome) = getting.end();
    outcome.unwrap();
    assert!(fill.block().bytes(0..5000) == pattern(5000));
}

#[test]
fn without_the_hook_everything_arrives_at_the_end() {
    let object = pattern(SIZE);
    let server = Server::of_object(object.clone());
    let client =
        Client::with_delivery(runtime(), &options(&server.endpoint()), Delivery::AtTheEnd).unwrap();
    let (fill, outcome) = get(&client, 7..SIZE).end();
    assert_eq!(outcome.unwrap().status, 206);
    assert!(fill.block().bytes(0..SIZE - 7) == &object[7..]);

    let getting = get_into(&client, BlockPool::new(0).allocate(10), 0..10, |_| {
        Err(Refused)
    });
    let (fill, failure) = getting.failure();
    assert_eq!(
        (failure.error.kind(), fill.filled()),
        (ErrorKind::Refused, 0)
    );

    let server = Server::start(|_, wire| answer(wire, "404 Not Found", b"<Error/>"));
    let client =
        Client::with_delivery(runtime(), &options(&server.endpoint()), Delivery::AtTheEnd).unwrap();
    let (_, failure) = get(&client, 0..10).failure();
    assert_eq!(failure.error.kind(), ErrorKind::Response);
    assert_eq!(
        (failure.head.unwrap().status, failure.body.as_slice()),
        (404, b"<Error/>".as_slice())
    );
}

#[test]
fn a_refused_head_publishes_nothing() {
    let server = Server::of_object(pattern(SIZE));
    let client = client(runtime(), &server.endpoint());
    let fill = BlockPool::new(0).allocate(SIZE);
    let block = fill.block();
    let getting = get_into(&client, fill, 0..SIZE, |head| {
        assert_eq!(head.status, 206);
        Err(Refused)
    });
    let (fill, failure) = getting.failure();
    assert_eq!(failure.error.kind(), ErrorKind::Refused);
    assert_eq!(failure.head.unwrap().status, 206);
    assert_eq!((fill.filled(), block.valid()), (0, 0));
    assert!(getting.progress.try_recv().is_err());
}

#[test]
fn errors_of_the_server_bring_head_and_body() {
    for status in [301, 400, 403, 404, 412, 416, 429, 500, 503] {
        let body = format!("<Error><Code>Test{status}</Code></Error>");
        let expected = body.clone();
        let server =
            Server::start(move |_, wire| answer(wire, &format!("{status} Test"), body.as_bytes()));
        let client = client(runtime(), &server.endpoint());
        let (fill, failure) = get(&client, 0..100).failure();
        assert_eq!(failure.error.kind(), ErrorKind::Response, "{status}");
        assert_eq!(failure.head.as_ref().map(|head| head.status), Some(status));
        assert_eq!(failure.head.unwrap().header("x-test"), Some("yes"));
        assert_eq!(String::from_utf8(failure.body).unwrap(), expected);
        assert_eq!(fill.filled(), 0, "an error's body is no data");
    }
}

#[test]
fn a_panicking_handler_fails_its_request_only() {
    let server = Server::of_object(pattern(SIZE));
    let client = client(runtime(), &server.endpoint());
    let getting = get_into(&client, BlockPool::new(0).allocate(100), 0..100, |_| {
        panic_silently()
    });
    assert_eq!(getting.failure().1.error.name(), "PANICKED");
    assert!(get(&client, 0..100).end().1.is_ok());
}

#[test]
fn after_a_cut_a_second_get_fills_the_rest() {
    let object = pattern(SIZE);
    let served = object.clone();
    let cut = Mutex::new(true);
    let server = Server::start(move |request, wire| {
        let range = request.range();
        let body = &served[range.clone()];
        server::send(wire, partial_head(range, SIZE).as_bytes());
        if std::mem::take(&mut *cut.lock()) {
            server::send(wire, &body[..123_456]);
            return Then::Close;
        }
        server::send(wire, body);
        Then::Keep
    });
    let client = client(runtime(), &server.endpoint());
    let (fill, failure) = get(&client, 0..SIZE).failure();
    assert_eq!(failure.error.kind(), ErrorKind::Connection, "{failure}");
    assert_eq!(failure.head.unwrap().status, 206);
    assert_eq!(fill.filled(), 123_456);
    let (fill, outcome) = get_into(&client, fill, 123_456..SIZE, |_| Ok(())).end();
    outcome.unwrap();
    assert!(fill.block().bytes(0..SIZE) == object);
}

#[test]
fn an_answer_shorter_than_the_range_fails() {
    let server = Server::of_object(pattern(150));
    let client = client(runtime(), &server.endpoint());
    let (fill, failure) = get(&client, 100..200).failure();
    assert_eq!((failure.error.name(), fill.filled()), ("SHORT_BODY", 50));
}

#[test]
fn an_answer_longer_than_the_range_does_no_harm() {
    let server = Server::start(|_, wire| {
        let head = "HTTP/1.1 206 Partial Content\r\nContent-Length: 5000\r\nContent-Range: bytes 0-99/5000\r\nETag: \"abc\"\r\n\r\n";
        server::send(wire, head.as_bytes());
        server::send(wire, &[7; 5000]);
        Then::Close
    });
    let client = client(runtime(), &server.endpoint());
    let (fill, _) = get(&client, 0..100).end();
    assert!(fill.filled() <= 100);
}

#[test]
fn cancel_ends_a_get_soon() {
    let server = Server::start(|request, wire| {
        let range = request.range();
        server::send(wire, partial_head(range, SIZE).as_bytes());
        server::send(wire, &[1; 100]);
        thread::sleep(Duration::from_secs(30));
        Then::Close
    });
    let client = client(runtime(), &server.endpoint());
    let getting = get(&client, 0..SIZE);
    getting.progress.recv_timeout(SOON).unwrap();
    getting.cancel.cancel();
    getting.cancel.cancel();
    let (fill, failure) = getting.failure();
    assert_eq!(failure.error.kind(), ErrorKind::Cancelled);
    assert_eq!(fill.filled(), 100);
    getting.cancel.cancel();
}

#[test]
fn cancel_races_with_the_end() {
    let object = pattern(100_000);
    let server = Server::of_object(object.clone());
    let client = client(runtime(), &server.endpoint());
    for round in 0..500_u64 {
        let getting = get(&client, 0..100_000);
        if round % 3 != 0 {
            thread::sleep(Duration::from_micros(round * 2));
        }
        getting.cancel.cancel();
        let (fill, outcome) = getting.end();
        let filled = fill.filled();
        match outcome {
            Ok(_) => assert_eq!(filled, 100_000),
            Err(failure) => assert_eq!(failure.error.kind(), ErrorKind::Cancelled, "{failure}"),
        }
        assert!(fill.block().bytes(0..filled) == &object[..filled]);
    }
}

#[test]
fn a_refused_connection_fails_at_once() {
    // Where no other test listens: what was given back here stays free.
    let listener = TcpListener::bind("127.0.0.9:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let (fill, failure) = get(&client(runtime(), &endpoint), 0..10).failure();
    assert_eq!(failure.error.name(), "AWS_IO_SOCKET_CONNECTION_REFUSED");
    assert_eq!(failure.error.kind(), ErrorKind::Connect);
    assert_eq!((fill.filled(), failure.head), (0, None));
}

#[test]
fn a_name_without_address_is_an_error_of_the_resolver() {
    let (_, failure) = get(&client(runtime(), "http://nowhere.invalid"), 0..10).failure();
    assert_eq!(failure.error.kind(), ErrorKind::Dns, "{failure:?}");
}

/// Far more than a machine needs that stands still once in a while.
const STALLS_MAX: usize = 10;

#[test]
fn a_stalled_answer_times_out() {
    let server = Server::start(|request, wire| {
        let range = request.range();
        server::send(wire, partial_head(range, SIZE).as_bytes());
        server::send(wire, &[1; 100]);
        thread::sleep(Duration::from_secs(30));
        Then::Close
    });
    let options = crate::ClientOptions {
        stall_timeout: Duration::from_secs(1),
        ..options(&server.endpoint())
    };
    let client = Client::new(runtime(), &options).unwrap();
    // A machine that stands still for a second has it time out before anything comes.
    let came = (0..STALLS_MAX).any(|_| {
        let (fill, failure) = get(&client, 0..SIZE).failure();
        assert_eq!(failure.error.kind(), ErrorKind::Timeout, "{failure:?}");
        fill.filled() == 100
    });
    assert!(came, "what comes before is kept");
}

#[test]
fn sixty_four_at_a_time() {
    let object = pattern(SIZE);
    let server = Server::of_object(object.clone());
    let client = client(runtime(), &server.endpoint());
    let ranges = |i: usize| (i * 1009)..(i * 1009 + 40_000 + i * 3000);
    let all: Vec<_> = (0..64).map(|i| get(&client, ranges(i))).collect();
    for (i, getting) in all.iter().enumerate() {
        let (fill, outcome) = getting.end();
        outcome.unwrap();
        let range = ranges(i);
        assert!(fill.block().bytes(0..range.len()) == &object[range]);
    }
}

#[test]
fn a_client_may_go_while_its_requests_run() {
    let server = Server::of_object(pattern(SIZE));
    let getting = get(&client(runtime(), &server.endpoint()), 0..SIZE);
    assert!(getting.end().1.is_ok());
}

#[test]
fn an_unknown_interface_and_a_bad_endpoint_make_no_client() {
    let options = options("http://127.0.0.1:1");
    let unknown = crate::ClientOptions {
        network_interface: Some("none0".into()),
        ..options.clone()
    };
    assert!(Client::new(runtime(), &unknown).is_err());
    let bad = crate::ClientOptions {
        endpoint: "host".into(),
        ..options.clone()
    };
    assert_eq!(Client::new(runtime(), &bad).unwrap_err().name(), "ENDPOINT");
    let loopback = crate::ClientOptions {
        network_interface: Some("lo".into()),
        ..options
    };
    assert!(Client::new(runtime(), &loopback).is_ok());
}
