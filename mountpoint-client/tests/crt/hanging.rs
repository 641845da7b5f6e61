//! A server that answers late or not at all, and requests of other kinds meanwhile.

use std::time::Duration;

use futures::executor::block_on;
use futures::future::join_all;
use mountpoint_client::testing::server::{Fault, Operation, Rule};
use mountpoint_client::types::Priority;
use mountpoint_client::{ErrorKind, ObjectClient};

use crate::support::embedded::{BUCKET, fixture, put, server_of};
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
    server.faults().add(Rule::on(Operation::HeadBucket, denied));
    let get = fixture.start(0..10, None, Priority::Foreground);
    wait_until("two probes", || {
        server.log().count(Operation::HeadBucket) == 2
    });
    block_on(client.head(&key("k"))).unwrap();
    get.handle.cancel();
    let error = get.observer.wait().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled, "{error}");
}
