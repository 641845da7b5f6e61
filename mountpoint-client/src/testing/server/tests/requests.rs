//! The log of the requests.

use super::*;

const BODY: &[u8] = b"0123456789";

#[test]
fn the_log_has_every_request() {
    let server = start();
    server.store().put_synthetic("bucket", "k", 1 << 20, 1);
    let mut wire = Wire::open(&server);
    wire.ask(
        "GET /bucket/k",
        &[("range", "bytes=100-299"), ("if-match", "*")],
        b"",
    );
    wire.ask("GET /bucket/k", &[("range", "bytes=-10")], b"");
    wire.ask("GET /bucket/none", &[], b"");
    wire.ask("HEAD /bucket/k", &[], b"");
    wire.ask("GET /bucket?list-type=2&prefix=a%20b", &[], b"");
    let records = server.log().snapshot();
    let seen: Vec<_> = records
        .iter()
        .map(|r| {
            (
                r.sequence,
                r.operation.as_str(),
                r.key.as_str(),
                r.range.clone(),
                r.status,
                r.complete,
            )
        })
        .collect();
    let end = 1 << 20;
    assert_eq!(
        seen,
        [
            (0, "GetObject", "k", Some(100..300), 206, true),
            (1, "GetObject", "k", Some(end - 10..end), 206, true),
            (2, "GetObject", "none", None, 404, true),
            (3, "HeadObject", "k", None, 200, true),
            (4, "ListObjectsV2", "", None, 200, true),
        ]
    );
    assert_eq!(
        (
            records[0].bytes_sent,
            records[1].bytes_sent,
            records[3].bytes_sent
        ),
        (200, 10, 0)
    );
    assert_eq!(records[0].if_match.as_deref(), Some("*"));
    assert_eq!(records[4].prefix.as_deref(), Some("a b"));
    let gets = server.log().counters(Operation::GetObject);
    assert_eq!(
        (
            gets.requests,
            gets.finished,
            gets.errors,
            gets.in_flight,
            gets.in_flight_max
        ),
        (3, 3, 1, 0, 1)
    );
    assert_eq!(server.log().count_all(), 5);
    assert_eq!(server.log().take().len(), 5);
    assert_eq!(
        (server.log().snapshot().len(), server.log().count_all()),
        (0, 5)
    );
    server.log().clear();
    assert_eq!(server.log().count_all(), 0);
}

#[test]
fn the_log_without_records_still_counts() {
    let options = ServerOptions {
        log: LogMode::Counters,
        ..ServerOptions::default()
    };
    let server = Server::start(options).unwrap();
    server.store().put("bucket", "k", BODY);
    ask(&server, "GET /bucket/k", &[], b"");
    assert_eq!(server.log().counters(Operation::GetObject).bytes_sent, 10);
    assert!(server.log().snapshot().is_empty());
}

#[test]
fn requests_in_flight_at_once_are_counted() {
    let server = start();
    server.store().put("bucket", "k", BODY);
    let slow = Rule::always(Fault::BlackHole);
    let rule = server.faults().add(slow);
    let mut wires: Vec<_> = (0..64).map(|_| Wire::open(&server)).collect();
    wires
        .iter_mut()
        .for_each(|wire| wire.send("GET /bucket/k", &[], b""));
    assert!(
        server
            .log()
            .wait_until(Operation::GetObject, TIMEOUT, |counters| counters.in_flight
                == 64)
    );
    drop(wires);
    assert!(
        server
            .log()
            .wait_until(Operation::GetObject, TIMEOUT, |counters| counters.finished
                == 64)
    );
    assert_eq!(server.faults().remove(rule), Some(64));
    assert_eq!(
        server.log().counters(Operation::GetObject).in_flight_max,
        64
    );
    assert!(
        server
            .log()
            .snapshot()
            .iter()
            .all(|record| record.status == 0 && !record.complete)
    );
}

#[test]
fn a_server_that_is_started_again_has_its_address_and_objects() {
    let server = start();
    server.store().put("bucket", "k", BODY);
    let get = || Wire::open(&server).ask("GET /bucket/k", &[], b"").body;
    assert_eq!(get(), BODY);
    server.stop();
    server.stop();
    assert!(TcpStream::connect(server.address()).is_err());
    server.start_again().unwrap();
    server.start_again().unwrap();
    assert_eq!(get(), BODY);
    assert_eq!(server.log().count(Operation::GetObject), 2);
}
