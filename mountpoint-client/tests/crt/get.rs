//! GETs of `CrtClient` against servers that answer rightly, wrongly, partly or not at all.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{Fixture, Get, PATIENCE, Reply, Request, Server, eventually, key};
use futures::executor::block_on;
use mountpoint_client::types::Priority;
use mountpoint_client::{ErrorKind, ObjectClient};
use parking_lot::{Condvar, Mutex};

const ETAG: &str = "\"v1\"";

fn object() -> Vec<u8> {
    (0..100u8).collect()
}

#[test]
fn a_range_arrives_and_was_asked_for_exactly() {
    let server = Server::start(|request, _| Reply::range(&object(), ETAG, request));
    let fixture = Fixture::new(server.address);
    let (block, outcome) = fixture.get(10..30, Some(ETAG));
    let output = outcome.unwrap();
    assert_eq!((output.etag.as_str(), output.object_size), (ETAG, 100));
    assert_eq!(block.bytes(0..20), &object()[10..30]);
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    let request = &requests[0];
    assert_eq!((&*request.method, &*request.path), ("GET", "/b/k"));
    assert_eq!(request.header("range"), Some("bytes=10-29"));
    assert_eq!(request.header("if-match"), Some(ETAG));
    assert_eq!(request.header("host"), Some(&*server.address.to_string()));
    assert!(
        request
            .header("authorization")
            .unwrap()
            .starts_with("AWS4-HMAC-SHA256 Credential=testkey/")
    );
    assert!(
        request
            .header("user-agent")
            .unwrap()
            .contains("mountpoint/"),
        "{request:?}"
    );
}

#[test]
fn the_whole_object_may_come_with_status_200() {
    let server = Server::start(|_, _| Reply::new(200).header("ETag", ETAG).body(object()));
    let fixture = Fixture::new(server.address);
    let (block, outcome) = fixture.get(0..100, Some(ETAG));
    assert_eq!(outcome.unwrap().object_size, 100);
    assert_eq!(block.bytes(0..100), object());
}

#[test]
fn a_body_may_come_in_chunks() {
    let server = Server::start(|request, _| Reply::range(&object(), ETAG, request).chunked());
    let fixture = Fixture::new(server.address);
    let (block, outcome) = fixture.get(10..30, Some(ETAG));
    outcome.unwrap();
    assert_eq!(block.bytes(0..20), &object()[10..30]);
}

#[test]
fn bytes_are_right_whatever_goes_wrong() {
    let object: Arc<Vec<u8>> = Arc::new(
        (0..300_000u32)
            .map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1])
            .collect(),
    );
    let served = Arc::clone(&object);
    let server = Server::start(move |request, number| match number % 11 {
        0 => Reply::error(503, "SlowDown"),
        3 => Reply::hang_up(),
        1 | 5 | 8 => {
            let reply = Reply::range(&served, ETAG, request);
            let cut = number * 7919 % reply.body.len();
            reply.cut(cut)
        }
        _ => Reply::range(&served, ETAG, request),
    });
    let fixture = Fixture::new(server.address);
    for round in 0..3 {
        let gets = (0..32).map(|n| {
            let start = (round * 32 + n) * 1000;
            let priority = if n % 2 == 0 {
                Priority::Foreground
            } else {
                Priority::ReadAhead
            };
            (
                start,
                fixture.start(start..start + 40_000, Some(ETAG), priority),
            )
        });
        for (n, (start, get)) in gets.collect::<Vec<_>>().into_iter().enumerate() {
            if n % 8 == 7 {
                get.handle.cancel();
                drop(get.observer.wait());
                continue;
            }
            get.observer.wait().unwrap();
            let start = usize::try_from(start).unwrap();
            assert!(
                get.block.bytes(0..40_000) == &object[start..start + 40_000],
                "wrong bytes at {start}"
            );
        }
    }
}

#[test]
fn too_long_a_range_is_refused() {
    let server = Server::start(|request, _| Reply::range(&object(), ETAG, request));
    let fixture = Fixture::new(server.address);
    let (_, outcome) = fixture.get(0..(64 << 20) + 1, None);
    assert_eq!(outcome.unwrap_err().kind, ErrorKind::InvalidRequest);
    assert!(server.requests().is_empty());
}

#[test]
fn a_cut_body_is_continued_where_it_ended() {
    let server = Server::start(|request, number| {
        let reply = Reply::range(&object(), ETAG, request);
        if number < 2 { reply.cut(20) } else { reply }
    });
    let fixture = Fixture::new(server.address);
    let (block, outcome) = fixture.get(0..100, Some(ETAG));
    outcome.unwrap();
    assert_eq!(block.bytes(0..100), object());
    let asked: Vec<_> = server
        .requests()
        .iter()
        .map(|r| r.header("range").unwrap().to_owned())
        .collect();
    assert_eq!(asked, ["bytes=0-99", "bytes=20-99", "bytes=40-99"]);
    assert!(
        server
            .requests()
            .iter()
            .all(|r| r.header("if-match") == Some(ETAG))
    );
}

#[test]
fn a_retry_asks_for_the_version_of_the_first_answer() {
    let server = Server::start(|request, number| match number {
        0 => Reply::range(&object(), ETAG, request).cut(40),
        _ => Reply::error(412, "PreconditionFailed"),
    });
    let fixture = Fixture::new(server.address);
    let (block, outcome) = fixture.get(0..100, None);
    let error = outcome.unwrap_err();
    assert_eq!(error.kind, ErrorKind::PreconditionFailed, "{error}");
    assert_eq!(block.valid(), 40);
    assert_eq!(block.bytes(0..40), &object()[..40]);
    let requests = server.requests();
    assert_eq!(requests[0].header("if-match"), None);
    assert_eq!(requests[1].header("if-match"), Some(ETAG));
}

/// One wrong answer: its outcome, after how many requests.
#[track_caller]
fn check(
    if_match: Option<&str>,
    answer: fn(&Request) -> Reply,
    kind: &ErrorKind,
    reason: &str,
    requests: usize,
) {
    let server = Server::start(move |request, _| answer(request));
    let fixture = Fixture::new(server.address);
    let (block, outcome) = fixture.get(10..30, if_match);
    let error = outcome.expect_err("the answer is wrong");
    assert_eq!(error.kind, *kind, "{error}");
    assert!(error.message.contains(reason), "{error}");
    assert!(error.message.starts_with("GetObject s3://b/k: "), "{error}");
    assert_eq!(block.valid(), 0, "nothing of it is published");
    assert_eq!(server.requests().len(), requests);
}

#[test]
fn wrong_answers_are_refused_before_a_byte_is_published() {
    let changed = ErrorKind::PreconditionFailed;
    let invalid = ErrorKind::InvalidResponse;
    check(
        Some("\"v0\""),
        |r| Reply::range(&object(), ETAG, r),
        &changed,
        "ignored If-Match",
        1,
    );
    check(
        None,
        |_| {
            let reply = Reply::new(200).header("x-amz-request-id", "1");
            reply.header("ETag", ETAG).body(object())
        },
        &invalid,
        "ignored the Range",
        1,
    );
    check(
        None,
        |_| Reply::new(206).header("ETag", ETAG).body(&object()[10..30]),
        &invalid,
        "Content-Range",
        1,
    );
    let other_range = |_: &Request| {
        Reply::new(206)
            .header("ETag", ETAG)
            .header("Content-Range", "bytes 0-19/100")
            .body(&object()[..20])
    };
    check(None, other_range, &invalid, "Content-Range", 1);
    let short = |_: &Request| {
        Reply::new(206)
            .header("ETag", ETAG)
            .header("Content-Range", "bytes 10-19/20")
            .body(&object()[10..20])
    };
    check(None, short, &invalid, "Content-Range", 1);
    let no_etag = |_: &Request| {
        Reply::new(206)
            .header("Content-Range", "bytes 10-29/100")
            .body(&object()[10..30])
    };
    check(None, no_etag, &invalid, "no ETag", 1);
}

/// A proxy that drops the Content-Range header leaves the length of a part only.
#[test]
fn a_part_without_its_range_is_not_taken_for_the_object() {
    let server = Server::start(|request, _| {
        let reply = match request.method.as_str() {
            // As servers answer that leave the length out: the same is asked with a GET.
            "HEAD" => return Reply::new(200).chunked(),
            _ => Reply::new(206).header("x-amz-request-id", "1"),
        };
        reply.header("ETag", ETAG).body(&object()[..7])
    });
    let fixture = Fixture::new(server.address);
    let invalid = ErrorKind::InvalidResponse;
    let error = block_on(fixture.client.first_bytes(&key("k"), 7)).unwrap_err();
    assert_eq!(error.kind, invalid, "{error}");
    let error = block_on(fixture.client.head(&key("k"))).unwrap_err();
    assert_eq!(error.kind, invalid, "{error}");
}

/// An answer of S3 in XML is judged by its end; contents are not.
#[test]
fn the_first_bytes_of_an_object_may_be_the_beginning_of_xml() {
    let server = Server::start(|request, _| {
        Reply::range(b"<svg><path/></svg>", ETAG, request).header("Content-Type", "image/svg+xml")
    });
    let fixture = Fixture::new(server.address);
    let first_bytes = block_on(fixture.client.first_bytes(&key("k"), 7)).unwrap();
    assert_eq!(
        (&*first_bytes.bytes, first_bytes.info.size),
        (&b"<svg><p"[..], 18)
    );
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn error_answers() {
    check(
        None,
        |_| Reply::error(404, "NoSuchKey"),
        &ErrorKind::NotFound,
        "NoSuchKey: because",
        1,
    );
    check(
        None,
        |_| Reply::error(403, "AccessDenied"),
        &ErrorKind::Denied,
        "AccessDenied",
        1,
    );
    check(
        Some(ETAG),
        |_| Reply::error(416, "InvalidRange"),
        &ErrorKind::PreconditionFailed,
        "shorter",
        1,
    );
    check(
        None,
        |_| Reply::error(416, "InvalidRange"),
        &ErrorKind::InvalidRequest,
        "InvalidRange",
        1,
    );
    check(
        None,
        |_| Reply::error(403, "InvalidObjectState"),
        &ErrorKind::Archived,
        "restore",
        1,
    );
    check(
        None,
        |_| Reply::new(404).body("<html>not S3</html>"),
        &ErrorKind::InvalidResponse,
        "not S3's",
        4,
    );
    check(
        None,
        |_| Reply::error(400, "ExpiredToken"),
        &ErrorKind::Credentials,
        "ExpiredToken",
        2,
    );
    let elsewhere = |_: &Request| {
        Reply::error(301, "PermanentRedirect").header("x-amz-bucket-region", "eu-north-1")
    };
    check(
        None,
        elsewhere,
        &ErrorKind::WrongRegion(Some("eu-north-1".to_owned())),
        "--region eu-north-1",
        1,
    );
}

#[test]
fn what_may_pass_is_retried() {
    for trouble in [
        Reply::error(503, "SlowDown"),
        Reply::error(500, "InternalError"),
        Reply::new(502),
        Reply::error(400, "ExpiredToken"),
        Reply::hang_up(),
    ] {
        let first = trouble.clone();
        let server = Server::start(move |request, number| match number {
            0 => first.clone(),
            _ => Reply::range(&object(), ETAG, request),
        });
        let fixture = Fixture::new(server.address);
        let (block, outcome) = fixture.get(0..100, Some(ETAG));
        outcome.unwrap_or_else(|error| panic!("{trouble:?}: {error}"));
        assert_eq!(block.bytes(0..100), object());
        assert_eq!(server.requests().len(), 2, "{trouble:?}");
    }
}

/// A load balancer without servers closes connections. They use up no attempts of what follows.
#[test]
fn a_server_that_closes_connections_for_a_while_is_awaited() {
    let server = Server::start(move |request, number| match number {
        1..6 => Reply::hang_up(),
        6 | 7 => Reply::error(503, "SlowDown"),
        _ => Reply::range(&object(), ETAG, request),
    });
    let mut options = Fixture::options(server.address);
    options.max_attempts = 3;
    let fixture = Fixture::with(options);
    for _ in 0..2 {
        let (block, outcome) = fixture.get(0..100, Some(ETAG));
        outcome.unwrap();
        assert_eq!(block.bytes(0..100), object());
    }
    assert_eq!(server.requests().len(), 9);
}

#[test]
fn an_unreachable_server_is_reported_soon() {
    // Where no other test listens: what was given back here stays free.
    let listener = TcpListener::bind("127.0.0.9:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let fixture = Fixture::new(address);
    #[expect(clippy::disallowed_methods, reason = "real time is what is tested")]
    let begin = Instant::now();
    let (_, outcome) = fixture.get(0..100, None);
    let error = outcome.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
    assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
}

/// Lets a test hold the server's answers back.
#[derive(Clone, Default)]
struct Valve(Arc<(Mutex<bool>, Condvar)>);

impl Valve {
    fn wait(&self) {
        let mut is_open = self.0.0.lock();
        self.0.1.wait_while(&mut is_open, |is_open| !*is_open);
    }

    fn open(&self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }
}

#[test]
fn a_get_can_be_cancelled() {
    let valve = Valve::default();
    let held = valve.clone();
    let server = Server::start(move |request, _| {
        held.wait();
        Reply::range(&object(), ETAG, request)
    });
    let fixture = Fixture::new(server.address);
    let get = fixture.start(0..100, Some(ETAG), Priority::Foreground);
    eventually("the request arrives", || server.requests().len() == 1);
    get.handle.cancel();
    assert_eq!(get.observer.wait().unwrap_err().kind, ErrorKind::Cancelled);
    valve.open();
    assert_eq!(server.requests().len(), 1, "a cancelled GET is not retried");
}

#[test]
fn foreground_is_not_queued_behind_read_ahead() {
    let valve = Valve::default();
    let held = valve.clone();
    let server = Server::start(move |request, _| {
        if request.header("range") != Some("bytes=0-99") {
            held.wait();
        }
        Reply::range(&object(), ETAG, request)
    });
    let fixture = Fixture::new(server.address);
    let ahead: Vec<Get> = (0..80)
        .map(|_| fixture.start(1..99, Some(ETAG), Priority::ReadAhead))
        .collect();
    eventually("the share of read-ahead is in flight", || {
        server.requests().len() >= 64
    });
    let (_, outcome) = fixture.get(0..100, Some(ETAG));
    outcome.unwrap();
    assert_eq!(
        server.requests().len(),
        65,
        "the rest of the read-ahead waits"
    );
    assert!(ahead.iter().all(|get| !get.observer.is_finished()));

    let mut ahead = ahead.into_iter();
    for get in ahead.by_ref().skip(60).take(10) {
        get.handle.cancel();
        drop(get.block);
        drop(get.observer.wait());
    }
    valve.open();
    for get in ahead {
        assert_eq!(
            get.observer.wait().map(|_| ()).map_err(|error| error.kind),
            Ok(())
        );
    }
}

#[test]
fn sixty_four_readers_are_sixty_four_requests_in_flight() {
    let valve = Valve::default();
    let held = valve.clone();
    let server = Server::start(move |request, _| {
        held.wait();
        Reply::range(&object(), ETAG, request)
    });
    let fixture = Fixture::new(server.address);
    let gets: Vec<Get> = (0..64)
        .map(|n| fixture.start(n..n + 1, Some(ETAG), Priority::Foreground))
        .collect();
    eventually("all are in flight", || server.requests().len() == 64);
    valve.open();
    for get in gets {
        get.observer.wait().unwrap();
    }
}

/// The first attempt is given up after a stall; the second has more time.
#[test]
fn a_server_that_thinks_for_longer_than_a_stall_is_heard() {
    const THINKS: Duration = Duration::from_secs(7);
    let server = Server::start(|request, _| {
        std::thread::sleep(THINKS);
        Reply::range(&object(), "\"e\"", request)
    });
    let fixture = Fixture::new(server.address);
    let (block, outcome) = fixture.get(0..10, None);
    outcome.expect("the second attempt is answered");
    assert_eq!(block.bytes(0..10), &object()[..10]);
    assert_eq!(server.requests().len(), 2);
}
