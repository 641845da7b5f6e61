//! A server that answers late or not at all, and requests of other kinds meanwhile.

use std::time::Duration;

use futures::executor::block_on;
use futures::future::join_all;
use mountpoint_client::testing::server::{Fault, Operation, Rule};
use mountpoint_client::types::{ListRequest, ObjectHeaders, Priority, PutCondition};
use mountpoint_client::{ErrorKind, ObjectClient};

use crate::support::embedded::{BUCKET, fixture, put, same, server_of, source};
use crate::support::key;

const SILENT: &str = "S3 has not answered anything for ";

#[track_caller]
fn wait_until(what: &str, is_there: impl Fn() -> bool) {
    let found = (0..1_200).any(|_| {
        let found = is_there();
        if !found {
            std::thread::sleep(Duration::from_millis(50));
        }
        found
    });
    assert!(found, "{what} did not come within a minute");
}

#[test]
fn uploads_in_flight_delay_no_look_up() {
    let server = server_of(BUCKET);
    let fixture = fixture(&server, BUCKET, |_| {});
    let held = server
        .faults()
        .add(Rule::on(Operation::PutObject, Fault::Hold));
    let puts: Vec<_> = (0..400)
        .map(|n| fixture.client.put(put(&format!("p{n}"))))
        .collect();
    let in_flight = || server.log().counters(Operation::PutObject).in_flight;
    wait_until("128 uploads", || in_flight() == 128);
    let head = fixture.client.head(&key("k"));
    wait_until("the look-up", || {
        let heads = server.log().counters(Operation::HeadObject);
        server.log().count(Operation::HeadObject) == 1 && heads.in_flight == 0
    });
    block_on(head).unwrap();
    assert_eq!(in_flight(), 128, "no upload has ended");
    server.faults().remove(held);
    for stored in block_on(join_all(puts)) {
        stored.unwrap();
    }
}

#[test]
fn requests_behind_those_of_a_silent_server_fail_at_once() {
    let server = server_of(BUCKET);
    let fixture = fixture(&server, BUCKET, |options| {
        options.silence_max = Duration::from_secs(4);
    });
    let client = &fixture.client;
    block_on(client.head(&key("k"))).unwrap();
    server.log().clear();
    server.faults().add(Rule::always(Fault::BlackHole));
    let heads = (0..200).map(|_| client.head(&key("k")));
    let puts = (0..20).map(|n| client.put(put(&format!("p{n}"))));
    let (heads, puts): (Vec<_>, Vec<_>) = (heads.collect(), puts.collect());
    let (heads, puts) = block_on(async { (join_all(heads).await, join_all(puts).await) });
    let heads = heads.into_iter().map(Result::unwrap_err);
    for error in heads.chain(puts.into_iter().map(Result::unwrap_err)) {
        assert_eq!(error.kind, ErrorKind::Transient);
        assert!(error.message.contains(SILENT), "{error}");
    }
    let sent = || {
        let count = |operation| server.log().count(operation);
        (
            count(Operation::HeadObject),
            count(Operation::PutObject),
            count(Operation::GetObject),
        )
    };
    assert_eq!(
        sent(),
        (128, 20, 0),
        "each was sent once, and none behind them"
    );
    for error in [
        block_on(client.head(&key("k"))).unwrap_err(),
        block_on(client.put(put("p"))).unwrap_err(),
        fixture.get(0..10, None).1.unwrap_err(),
    ] {
        assert!(error.message.contains(SILENT), "{error}");
    }
    assert_eq!(sent(), (128, 20, 0), "nothing is sent");

    server.faults().clear();
    wait_until("an answer", || block_on(client.head(&key("k"))).is_ok());
    block_on(client.put(put("p"))).unwrap();
    fixture.get(0..10, None).1.unwrap();
}

/// Half an answer and then nothing: heads that come count as little as no answer.
#[test]
fn requests_whose_answers_stop_in_their_middle_come_to_an_end() {
    for fault in [Fault::StallInHead, Fault::StallAtHalf] {
        let server = server_of(BUCKET);
        server.store().put_synthetic(BUCKET, "k", 8 << 20, 1);
        let fixture = fixture(&server, BUCKET, |options| {
            options.silence_max = Duration::from_secs(4);
            options.answer_silence_max = Duration::from_secs(2);
            options.request_deadline = Duration::from_secs(20);
        });
        let client = &fixture.client;
        block_on(client.head(&key("k"))).unwrap();
        server.faults().add(Rule::always(fault.clone()));
        let gets: Vec<_> = (0..4)
            .map(|_| fixture.start(0..8 << 20, None, Priority::Foreground))
            .collect();
        let many = || vec![(key("p"), None)];
        let others = (0..4).map(|_| async {
            let outcomes = futures::join!(
                client.list(ListRequest::default()),
                client.first_bytes(&key("k"), 1000),
                client.copy(source(), &key("c"), PutCondition::None, same()),
                client.delete_many(many()),
                client.create_upload(&key("m"), ObjectHeaders::default(), None),
            );
            let (listed, got, copied, deleted, created) = outcomes;
            [
                listed.map(drop),
                got.map(drop),
                copied.map(drop),
                deleted.map(drop),
                created.map(drop),
            ]
        });
        let others = block_on(join_all(others)).into_iter().flatten();
        let gets = gets.iter().map(|get| get.observer.wait().map(drop));
        for outcome in others.chain(gets) {
            let error = outcome.expect_err("half an answer is none");
            assert_eq!(error.kind, ErrorKind::Transient, "{fault:?}: {error}");
        }
        // The server is asked for whole answers all the while.
        server.faults().clear();
        wait_until("an answer", || {
            block_on(client.list(ListRequest::default())).is_ok()
        });
    }
}

/// The server answers others, so that only the limits of the request itself end it.
#[test]
fn a_copy_whose_answer_stops_in_its_middle_is_sent_once_more() {
    let server = server_of(BUCKET);
    let fixture = fixture(&server, BUCKET, |options| {
        options.answer_silence_max = Duration::from_secs(1);
        options.request_deadline = Duration::from_secs(1);
    });
    let client = &fixture.client;
    block_on(client.head(&key("k"))).unwrap();
    let denied = Fault::Error {
        status: 403,
        code: "AccessDenied",
    };
    for fault in [None, Some(denied)] {
        server.log().clear();
        server.faults().clear();
        for fault in fault.iter().chain([&Fault::StallAtHalf]) {
            let rule = Rule::on(Operation::CopyObject, fault.clone());
            server.faults().add(rule);
        }
        let copied = client.copy(source(), &key("c"), PutCondition::None, same());
        let error = block_on(copied).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Transient, "{fault:?}: {error}");
        assert!(error.message.contains("stopped in its middle"), "{error}");
        assert_eq!(server.log().count(Operation::CopyObject), 2, "{fault:?}");
    }
}

#[test]
fn a_server_that_answers_something_is_not_silent() {
    let server = server_of(BUCKET);
    let fixture = fixture(&server, BUCKET, |options| {
        options.silence_max = Duration::from_secs(4);
    });
    let client = &fixture.client;
    block_on(client.head(&key("k"))).unwrap();
    // A store that hangs while it takes bytes, or one that denies everything, is there.
    server
        .faults()
        .add(Rule::on(Operation::GetObject, Fault::BlackHole));
    let denied = Fault::Error {
        status: 403,
        code: "AccessDenied",
    };
    server
        .faults()
        .add(Rule::on(Operation::GetBucketLocation, denied));
    let get = fixture.start(0..10, None, Priority::Foreground);
    wait_until("two probes", || {
        server.log().count(Operation::GetBucketLocation) == 2
    });
    block_on(client.head(&key("k"))).unwrap();
    get.handle.cancel();
    let error = get.observer.wait().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled, "{error}");
}
