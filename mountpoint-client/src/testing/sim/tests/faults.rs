//! Faults, and the log's records of them.

use super::*;
use crate::testing::sim::{Fault, FaultRule, Operation, When};

#[test]
fn the_next_requests_fail_and_have_no_effect() {
    let sim = sim(Time::Immediate);
    sim.put_object("k", "bytes");
    sim.fail_next(Operation::DeleteObject, 2, ErrorKind::Throttled);
    for _ in 0..2 {
        assert_eq!(
            now(sim.delete(&key("k"), None)).unwrap_err().kind,
            ErrorKind::Throttled
        );
    }
    assert!(now(sim.head(&key("k"))).is_ok());
    assert!(now(sim.delete(&key("k"), None)).is_ok());
    assert!(sim.object("k").is_none());
}

#[test]
fn every_third_get_stops() {
    let sim = sim(Time::Immediate);
    sim.put_object("k", "0123456789");
    sim.add_fault(FaultRule {
        operation: Some(Operation::GetObject),
        when: When::Every(3),
        fault: Fault::StopAfter(4),
    });
    for round in 1..=7 {
        let get = get(&sim, "k", 0..10, None);
        let (outcome, valid) = if round % 3 == 0 {
            (Err(ErrorKind::Transient), 4)
        } else {
            (Ok(10), 10)
        };
        assert_eq!(get.seen.outcome(), Some(outcome), "round {round}");
        assert_eq!(get.block.valid(), valid, "round {round}");
    }
    assert_eq!(sim.take_log().get_bytes(), 5 * 10 + 2 * 4);
    sim.clear_faults();
    let gets = (0..3).map(|_| get(&sim, "k", 0..10, None));
    assert!(
        gets.map(|get| get.seen.outcome())
            .all(|outcome| outcome == Some(Ok(10)))
    );
}

#[test]
fn a_stop_strikes_in_manual_time_too() {
    let sim = sim(Time::Manual);
    sim.put_object("k", "0123456789");
    sim.add_fault(FaultRule {
        operation: None,
        when: When::Next(1),
        fault: Fault::StopAfter(6),
    });
    let get = get(&sim, "k", 0..10, None);
    let id = sim.pending_gets()[0].id;
    sim.deliver(id, 5);
    assert_eq!(get.seen.outcome(), None);
    sim.deliver(id, 5);
    assert_eq!(get.seen.outcome(), Some(Err(ErrorKind::Transient)));
    assert_eq!(get.block.valid(), 6);
}

#[test]
fn chance_is_the_same_for_the_same_seed() {
    let fails = |seed| -> Vec<bool> {
        let faults = vec![FaultRule {
            operation: None,
            when: When::PerMille(300),
            fault: Fault::Fail(ErrorKind::Throttled),
        }];
        let sim = SimClient::new(SimOptions {
            seed,
            faults,
            ..SimOptions::default()
        });
        (0..1000).map(|_| now(sim.head_bucket()).is_err()).collect()
    };
    assert_eq!(fails(1), fails(1));
    assert_ne!(fails(1), fails(2));
    let count = fails(1).iter().filter(|failed| **failed).count();
    assert!((200..400).contains(&count), "{count} of 1000");
}

#[test]
fn the_log_counts_and_is_taken() {
    let sim = sim(Time::Immediate);
    sim.put_object("k", "0123456789");
    let _get = get(&sim, "k", 2..6, None);
    now(sim.head(&key("k"))).unwrap();
    now(sim.head(&key("gone"))).unwrap_err();
    now(sim.rename(&key("k"), &key("l"), crate::types::PutCondition::None)).unwrap_err();
    let log = sim.take_log();
    let counts: Vec<_> = log.counts().into_iter().collect();
    assert_eq!(
        counts,
        [(Operation::GetObject, 1), (Operation::HeadObject, 2)]
    );
    assert_eq!(log.get_ranges("k"), vec![Range { start: 2, end: 6 }]);
    assert_eq!(log.records()[0].bytes, 4);
    assert_eq!(log.records()[0].priority, Some(Priority::Foreground));
    assert!(sim.take_log().records().is_empty());
    assert_eq!(log.dropped(), 0);
}
