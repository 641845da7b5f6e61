//! Real time, on the timer's thread.

use futures::executor::block_on;

use super::*;
use crate::testing::sim::{Operation, pattern_bytes};

fn threaded(latency_ms: Range<u64>, throughput: Option<u64>) -> SimClient {
    SimClient::new(SimOptions {
        time: Time::Threaded,
        latency: Duration::from_millis(latency_ms.start)..Duration::from_millis(latency_ms.end),
        throughput,
        ..SimOptions::default()
    })
}

#[test]
fn requests_are_answered_after_a_while() {
    let sim = threaded(1..3, None);
    sim.put_pattern("k", 1 << 20, 1);
    assert_eq!(block_on(sim.head(&key("k"))).unwrap().size, 1 << 20);
    let gets: Vec<_> = (0..32)
        .map(|at| get(&sim, "k", at * 1000..at * 1000 + 500, None))
        .collect();
    for (at, get) in gets.into_iter().enumerate() {
        assert_eq!(get.seen.wait(), Ok(1 << 20));
        let start = at as u64 * 1000;
        assert_eq!(
            get.block.bytes(0..500),
            pattern_bytes(1, start..start + 500)
        );
    }
    assert_eq!(sim.gets_in_flight(), 0);
    assert_eq!(sim.log().count(Operation::GetObject), 32);
}

#[test]
fn bytes_come_over_time() {
    let sim = threaded(0..0, Some(100 << 20));
    sim.put_pattern("k", 1 << 20, 1);
    let get = get(&sim, "k", 0..1 << 20, None);
    assert_eq!(get.seen.wait(), Ok(1 << 20));
    assert_eq!(
        get.seen.progress_calls(),
        15,
        "pieces of 64 KiB, the last without progress"
    );
    assert_eq!(get.block.bytes(0..1 << 20), pattern_bytes(1, 0..1 << 20));
}

#[test]
fn cancel_meets_delivery() {
    let sim = threaded(0..1, Some(64 << 20));
    sim.put_pattern("k", 1 << 20, 1);
    for _ in 0..50 {
        let get = get(&sim, "k", 0..256 << 10, None);
        get.handle.cancel();
        let outcome = get.seen.wait();
        assert!(
            matches!(outcome, Err(ErrorKind::Cancelled) | Ok(_)),
            "{outcome:?}"
        );
    }
    assert_eq!(sim.gets_in_flight(), 0);
}

#[test]
fn a_dropped_client_answers_at_once() {
    let sim = threaded(3_600_000..3_600_001, Some(1));
    sim.put_object("k", vec![1; 1 << 20]);
    let get = get(&sim, "k", 0..1 << 20, None);
    let head = sim.head(&key("k"));
    drop(sim);
    assert_eq!(block_on(head).unwrap().size, 1 << 20);
    assert_eq!(get.seen.wait(), Ok(1 << 20));
}
