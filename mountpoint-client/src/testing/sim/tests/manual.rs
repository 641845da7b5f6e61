//! The test drives.

use super::*;
use crate::testing::sim::pattern_bytes;
use crate::testing::sim::{Operation, RequestId};

fn ids(sim: &SimClient) -> Vec<RequestId> {
    sim.pending_gets().iter().map(|get| get.id).collect()
}

#[test]
fn bytes_come_when_the_test_says() {
    let sim = sim(Time::Manual);
    sim.put_pattern("k", 1000, 7);
    let get = get(&sim, "k", 100..300, None);
    let [id] = ids(&sim)[..] else {
        panic!("one GET waits")
    };

    assert_eq!((get.block.valid(), get.seen.progress_calls()), (0, 0));
    assert!(sim.deliver(id, 50));
    assert_eq!((get.block.valid(), get.seen.progress_calls()), (50, 1));
    assert_eq!(sim.pending_gets()[0].bytes_left, 150);
    assert!(sim.deliver(id, 1000));
    assert_eq!((get.block.valid(), get.seen.progress_calls()), (200, 2));
    assert!(sim.deliver(id, 1000));
    assert_eq!(get.seen.progress_calls(), 2, "nothing new");
    assert_eq!(get.seen.outcome(), None);
    assert!(sim.finish(id));
    assert_eq!(get.seen.outcome(), Some(Ok(1000)));
    assert_eq!(get.block.bytes(0..200), pattern_bytes(7, 100..300));
    assert!(!sim.deliver(id, 1));
    assert!(!sim.finish(id));
    assert!(!sim.fail(id, ErrorKind::Transient));
}

#[test]
fn gets_end_in_any_order() {
    let sim = sim(Time::Manual);
    sim.put_pattern("k", 64, 0);
    let gets: Vec<_> = (0..4)
        .map(|at| get(&sim, "k", at * 16..(at + 1) * 16, None))
        .collect();
    assert_eq!(sim.gets_in_flight(), 4);
    for (ended, at) in [2, 0, 3, 1].into_iter().enumerate() {
        let id = sim
            .pending_gets()
            .iter()
            .find(|get| get.range.start == at * 16)
            .unwrap()
            .id;
        assert!(sim.finish(id));
        assert_eq!(
            gets[usize::try_from(at).unwrap()].seen.outcome(),
            Some(Ok(64))
        );
        assert_eq!(sim.gets_in_flight(), 3 - ended);
    }
    assert_eq!(sim.gets_in_flight_max(), 4);
}

#[test]
fn the_version_is_chosen_when_bytes_first_move() {
    let sim = sim(Time::Manual);
    let old = sim.put_object("k", "old bytes");
    let stale = get(&sim, "k", 0..9, Some(old.etag.clone()));
    let kept = get(&sim, "k", 0..9, Some(old.etag));
    let [stale_id, kept_id] = ids(&sim)[..] else {
        panic!("two GETs wait")
    };
    assert!(sim.deliver(kept_id, 3));
    sim.put_object("k", "new bytes");
    assert!(sim.deliver(stale_id, 3));
    assert_eq!(
        stale.seen.outcome(),
        Some(Err(ErrorKind::PreconditionFailed))
    );
    assert_eq!(stale.block.valid(), 0);
    assert!(sim.finish(kept_id));
    assert_eq!(kept.block.bytes(0..9), b"old bytes");
}

#[test]
fn failing_keeps_what_is_valid() {
    let sim = sim(Time::ManualGets);
    sim.put_object("k", "0123456789");
    let get = get(&sim, "k", 0..10, None);
    let id = ids(&sim)[0];
    sim.deliver(id, 4);
    assert!(sim.fail(id, ErrorKind::Transient));
    assert_eq!(get.seen.outcome(), Some(Err(ErrorKind::Transient)));
    assert_eq!(get.block.bytes(0..4), b"0123");
    assert_eq!(sim.log().get_bytes(), 4);
}

#[test]
fn cancel_is_told_once() {
    let sim = sim(Time::Manual);
    sim.put_object("k", "0123456789");
    let cancelled = get(&sim, "k", 0..10, None);
    cancelled.handle.cancel();
    assert_eq!(cancelled.seen.outcome(), Some(Err(ErrorKind::Cancelled)));
    assert!(sim.pending_gets().is_empty());

    let finished = get(&sim, "k", 0..10, None);
    sim.deliver_all();
    finished.handle.cancel();
    assert_eq!(finished.seen.outcome(), Some(Ok(10)));

    let dropped = get(&sim, "k", 0..10, None);
    drop(dropped.handle);
    assert_eq!(sim.deliver_all(), 1);
    assert_eq!(dropped.seen.outcome(), Some(Ok(10)));
}

/// An observer that cancels its own GET, or asks again, from within a callback.
struct Reentrant {
    sim: Arc<SimClient>,
    handle: Mutex<Option<GetHandle>>,
    seen: Arc<Seen>,
}

impl GetObserver for Reentrant {
    fn progressed(&self) {
        self.seen.progressed();
        if let Some(handle) = self.handle.lock().take() {
            handle.cancel();
        }
        assert_eq!(self.sim.pending_gets().len(), 1);
    }

    fn finished(&self, outcome: Result<GetOutput, ClientError>) {
        assert!(self.sim.pending_gets().is_empty());
        self.seen.finished(outcome);
    }
}

#[test]
fn observers_may_call_the_client() {
    let sim = Arc::new(sim(Time::Manual));
    sim.put_object("k", "0123456789");
    let seen = Arc::new(Seen::default());
    let observer = Arc::new(Reentrant {
        sim: Arc::clone(&sim),
        handle: Mutex::new(None),
        seen: Arc::clone(&seen),
    });
    let request = GetRequest {
        key: key("k"),
        range: 0..10,
        if_match: None,
        object_size: None,
        priority: Priority::ReadAhead,
    };
    let into = BlockPool::new(0).allocate(10);
    let handle = sim.get(request, into, Arc::clone(&observer) as Arc<dyn GetObserver>);
    *observer.handle.lock() = Some(handle);
    assert!(sim.deliver(ids(&sim)[0], 5));
    assert_eq!(seen.outcome(), Some(Err(ErrorKind::Cancelled)));
}

#[test]
fn other_requests_wait_too() {
    let sim = sim(Time::Manual);
    sim.put_object("k", "bytes");
    let mut head = sim.head(&key("k"));
    let mut gone = sim.head(&key("gone"));
    let mut failed = sim.delete(&key("k"), None);
    assert!((&mut head).now_or_never().is_none());
    let waiting: Vec<_> = sim
        .pending_requests()
        .into_iter()
        .map(|request| (request.operation, request.key))
        .collect();
    let expected = [
        (Operation::HeadObject, "k".to_owned()),
        (Operation::HeadObject, "gone".to_owned()),
        (Operation::DeleteObject, "k".to_owned()),
    ];
    assert_eq!(waiting, expected);
    let last = sim.pending_requests()[2].id;
    assert!(sim.fail(last, ErrorKind::Denied));
    assert_eq!(sim.deliver_all(), 2);
    assert_eq!(head.as_mut().now_or_never().unwrap().unwrap().size, 5);
    let error = gone.as_mut().now_or_never().unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    let error = failed.as_mut().now_or_never().unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied);
    assert!(sim.object("k").is_some(), "a failed delete deletes nothing");
}

#[test]
fn with_manual_gets_the_rest_is_immediate() {
    let sim = sim(Time::ManualGets);
    sim.put_object("k", "bytes");
    assert_eq!(now(sim.head(&key("k"))).unwrap().size, 5);
    let get = get(&sim, "k", 0..5, None);
    assert_eq!(get.seen.outcome(), None);
    assert_eq!(sim.deliver_all(), 1);
    assert_eq!(get.seen.outcome(), Some(Ok(5)));
}

#[test]
fn dropping_the_client_answers_everybody() {
    let sim = sim(Time::Manual);
    sim.put_object("k", "bytes");
    let get = get(&sim, "k", 0..5, None);
    let head = sim.head(&key("k"));
    drop(sim);
    assert_eq!(get.seen.outcome(), Some(Err(ErrorKind::Cancelled)));
    assert_eq!(now(head).unwrap_err().kind, ErrorKind::Cancelled);
}
