//! Every fault once, as a client sees it.

use std::time::Instant;

use super::*;

const SIZE: u64 = 3 << 20;

fn with(rule: Rule) -> Server {
    let server = start();
    server.store().put_synthetic("bucket", "k", SIZE, 1);
    server.faults().add(rule);
    server
}

fn timed(server: &Server, request: &str) -> (Answer, Duration) {
    let before: Instant = clock::instant();
    let answer = ask(server, request, &[], b"");
    (answer, before.elapsed())
}

#[test]
fn latency_comes_before_the_first_byte() {
    let (fixed, jitter) = (Duration::from_millis(60), Duration::from_millis(20));
    let server = with(Rule::on(
        Operation::HeadObject,
        Fault::Latency { fixed, jitter },
    ));
    let (answer, time) = timed(&server, "HEAD /bucket/k");
    assert_eq!(answer.status, 200);
    assert!(time >= fixed, "{time:?}");
    assert!(server.log().snapshot()[0].duration >= fixed);
}

#[test]
fn bandwidth_is_limited() {
    let server = with(Rule::always(Fault::Bandwidth(30 << 20)));
    let (answer, time) = timed(&server, "GET /bucket/k");
    assert_eq!(answer.body, synthetic_bytes(1, 0..SIZE));
    // 3 MiB at 30 MiB/s; the last piece is not waited for.
    assert!(time >= Duration::from_millis(90), "{time:?}");
}

#[test]
fn errors_before_and_after_the_operation() {
    let server = with(
        Rule::on(
            Operation::PutObject,
            Fault::Error {
                status: 500,
                code: "InternalError",
            },
        )
        .times(1),
    );
    let mut wire = Wire::open(&server);
    let answer = wire.ask("PUT /bucket/new", &[], b"");
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (500, "InternalError")
    );
    assert!(server.store().object("bucket", "new").is_none());
    assert_eq!(wire.ask("PUT /bucket/new", &[], b"").status, 200);
    server.faults().add(
        Rule::always(Fault::ErrorAfterwards {
            status: 403,
            code: "AccessDenied",
        })
        .times(1),
    );
    let answer = ask(&server, "PUT /bucket/newer", &[], b"");
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (403, "AccessDenied")
    );
    assert!(server.store().object("bucket", "newer").is_some());
}

#[test]
fn throttling_for_a_number_of_requests_and_above_a_rate() {
    let server = with(Rule::always(Fault::SlowDown).times(2));
    let statuses = |server: &Server, n: usize| -> Vec<u16> {
        let mut wire = Wire::open(server);
        (0..n)
            .map(|_| wire.ask("HEAD /bucket/k", &[], b"").status)
            .collect()
    };
    assert_eq!(statuses(&server, 4), [503, 503, 200, 200]);
    server.faults().clear();
    let id = server.faults().add(Rule::always(Fault::SlowDownAbove(1)));
    assert!(statuses(&server, 50).contains(&503));
    assert!(server.faults().fired(id).unwrap() > 0);
    server.faults().remove(id);
    assert_eq!(statuses(&server, 3), [200, 200, 200]);
}

#[test]
fn bodies_are_cut_stalled_corrupted_and_of_the_wrong_length() {
    let whole = synthetic_bytes(1, 0..SIZE);
    for after in [0, 1, 300_000, 3_145_727] {
        let server = with(Rule::always(Fault::CutBody(after)));
        let answer = ask(&server, "GET /bucket/k", &[], b"");
        assert_eq!((answer.status, answer.complete), (200, false));
        assert_eq!(
            answer.body,
            whole[..usize::try_from(after).unwrap()],
            "{after}"
        );
        assert!(server.log().wait_until(
            Operation::GetObject,
            TIMEOUT,
            |counters| counters.finished == 1
        ));
        let record = &server.log().snapshot()[0];
        assert_eq!((record.bytes_sent, record.complete), (after, false));
    }

    let server = with(Rule::always(Fault::Stall(1000)));
    let mut wire = Wire::open(&server);
    wire.send("GET /bucket/k", &[], b"");
    let mut stream = wire.stream();
    let mut received = Vec::new();
    while !received.ends_with(&whole[..1000]) {
        let mut piece = [0; 4096];
        let len = stream.read(&mut piece).expect("1,000 bytes come");
        assert!(len > 0, "the connection stays open");
        received.extend_from_slice(&piece[..len]);
    }
    // Whatever else it might send has time to come.
    let wait = Some(Duration::from_millis(200));
    stream.set_read_timeout(wait).unwrap();
    let more = stream.read(&mut [0; 4096]).map_err(|error| error.kind());
    assert_eq!(more, Err(std::io::ErrorKind::WouldBlock));
    assert_eq!(server.log().counters(Operation::GetObject).in_flight, 1);

    let server = with(Rule::always(Fault::CorruptByte(500_000)));
    let answer = ask(&server, "GET /bucket/k", &[], b"");
    let error = SyntheticChecker::new(1, 0).check(&answer.body).unwrap_err();
    assert_eq!((error.offset, answer.complete), (500_000, true));

    let server = with(Rule::always(Fault::WrongLength(7)));
    let answer = ask(&server, "GET /bucket/k", &[], b"");
    assert_eq!(
        (answer.header("content-length"), answer.complete),
        (Some("3145735"), false)
    );
    assert_eq!(answer.body, whole);
    let server = with(Rule::always(Fault::WrongLength(-1_000_000)));
    assert_eq!(
        ask(&server, "GET /bucket/k", &[], b"").body,
        whole[..2_145_728]
    );
}

#[test]
fn requests_are_held_until_the_rule_is_removed() {
    let server = with(Rule::on(Operation::HeadObject, Fault::Hold));
    let held = Rule::on(Operation::GetObject, Fault::Hold).times(2);
    let rule = server.faults().add(held);
    let mut wires: Vec<_> = (0..2).map(|_| Wire::open(&server)).collect();
    for wire in &mut wires {
        wire.send("GET /bucket/k", &[("range", "bytes=0-9")], b"");
    }
    let both = |gets: &OperationCounters| gets.in_flight == 2;
    assert!(server.log().wait_until(Operation::GetObject, TIMEOUT, both));
    // A request is in flight before the rule has it.
    let begun = clock::instant();
    while server.faults().fired(rule) != Some(2) {
        assert!(begun.elapsed() < TIMEOUT, "the rule has not got both");
        std::thread::yield_now();
    }
    // Neither others of their kind nor the end of other rules let them go.
    let whole = ask(&server, "GET /bucket/k", &[], b"");
    assert_eq!(whole.body.len() as u64, SIZE);
    assert_eq!(server.log().counters(Operation::GetObject).in_flight, 2);
    assert_eq!(server.faults().remove(rule), Some(2));
    for wire in &mut wires {
        assert_eq!(wire.receive(false).unwrap().body.len(), 10);
    }
}

#[test]
fn heads_lack_what_they_should_have() {
    let server = with(Rule::always(Fault::NoETag));
    assert_eq!(ask(&server, "GET /bucket/k", &[], b"").header("etag"), None);
    let server = with(Rule::always(Fault::WrongETag));
    let etag = server.store().object("bucket", "k").unwrap().etag();
    let answer = ask(&server, "GET /bucket/k", &[("if-match", &etag)], b"");
    assert_eq!(answer.status, 200);
    assert!(answer.header("etag").is_some_and(|other| other != etag));
    let server = with(Rule::always(Fault::NoContentRange));
    let answer = ask(&server, "GET /bucket/k", &[("range", "bytes=1-2")], b"");
    assert_eq!(
        (
            answer.status,
            answer.header("content-range"),
            answer.body.len()
        ),
        (206, None, 2)
    );
}

#[test]
fn headers_of_the_request_are_ignored() {
    let server = with(Rule::always(Fault::IgnoreRange));
    let answer = ask(&server, "GET /bucket/k", &[("range", "bytes=1-2")], b"");
    assert_eq!((answer.status, answer.body.len() as u64), (200, SIZE));
    let server = with(Rule::always(Fault::IgnoreConditions));
    assert_eq!(
        ask(&server, "GET /bucket/k", &[("if-match", "\"0\"")], b"").status,
        200
    );
    assert_eq!(
        ask(&server, "PUT /bucket/k", &[("if-none-match", "*")], b"").status,
        200
    );
}

#[test]
fn an_ignored_rename_empties_the_destination() {
    let server = with(Rule::always(Fault::IgnoreSubresources));
    let headers = [("x-amz-rename-source", "/bucket/other")];
    assert_eq!(
        ask(&server, "PUT /bucket/k?renameObject", &headers, b"").status,
        200
    );
    assert_eq!(server.store().object("bucket", "k").unwrap().size(), 0);
    assert_eq!(server.log().count(Operation::RenameObject), 1);
}

#[test]
fn connections_are_refused_and_dropped() {
    let server = with(Rule::always(Fault::RefuseConnection).times(1));
    let mut wire = Wire::open(&server);
    // The server may close before the request is written, or after.
    assert!(wire.receive(false).is_none());
    assert_eq!(ask(&server, "HEAD /bucket/k", &[], b"").status, 200);
    assert_eq!(server.log().count_all(), 1);
    server
        .faults()
        .add(Rule::always(Fault::DropConnection).times(1));
    let mut wire = Wire::open(&server);
    wire.send("GET /bucket/k", &[], b"");
    assert!(wire.receive(false).is_none());
    assert_eq!(ask(&server, "HEAD /bucket/k", &[], b"").status, 200);
}

#[test]
fn rules_choose_their_requests() {
    let fail = Fault::Error {
        status: 500,
        code: "InternalError",
    };
    let server = with(Rule {
        operation: Some(Operation::GetObject),
        key_prefix: "a/".to_owned(),
        skip: 1,
        count: Some(2),
        ..Rule::always(fail.clone())
    });
    server.store().put("bucket", "a/b", "");
    let mut wire = Wire::open(&server);
    let mut get = |key: &str| wire.ask(&format!("GET /bucket/{key}"), &[], b"").status;
    let statuses: Vec<_> = ["a/b", "k", "a/b", "a/b", "a/b", "k"]
        .into_iter()
        .map(&mut get)
        .collect();
    assert_eq!(statuses, [200, 200, 500, 500, 200, 200]);
    assert_eq!(ask(&server, "HEAD /bucket/a/b", &[], b"").status, 200);

    // The same seed hits the same requests; about half of them.
    let hits = |seed: u64| -> Vec<u16> {
        let server = with(Rule {
            probability: 0.5,
            seed,
            ..Rule::always(fail.clone())
        });
        let mut wire = Wire::open(&server);
        (0..64)
            .map(|_| wire.ask("HEAD /bucket/k", &[], b"").status)
            .collect()
    };
    let first = hits(1);
    assert_eq!(first, hits(1));
    assert_ne!(first, hits(2));
    let failures = first.iter().filter(|status| **status == 500).count();
    assert!((16..48).contains(&failures), "{failures}");
}
