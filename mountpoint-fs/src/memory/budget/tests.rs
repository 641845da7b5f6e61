//! Reservations: limits, order, and that every byte comes back.

use futures::FutureExt as _;
use proptest::prelude::*;

use super::*;
use crate::sync::explore;

#[test]
fn read_ahead_is_refused_beyond_its_share() {
    let budget = Budget::new(100);
    let ahead = budget.try_reserve(75, Purpose::ReadAhead).unwrap();
    assert!(budget.try_reserve(1, Purpose::ReadAhead).is_none());
    let demand = budget.try_reserve(25, Purpose::Demand).unwrap();
    assert!(budget.try_reserve(1, Purpose::Demand).is_none());
    drop(ahead);
    drop(demand);
    assert_eq!((budget.used(), budget.peak()), (0, 100));
    // Read-ahead may take the last byte.
    let _demand = budget.try_reserve(60, Purpose::Demand).unwrap();
    assert!(budget.try_reserve(41, Purpose::ReadAhead).is_none());
    assert!(budget.try_reserve(40, Purpose::ReadAhead).is_some());
}

#[test]
fn demand_is_served_in_order_and_read_ahead_never_overtakes() {
    let budget = Budget::new(100);
    let held = budget.try_reserve(60, Purpose::Demand).unwrap();
    let mut first = budget.reserve(50);
    let mut second = budget.reserve(10);
    assert!((&mut first).now_or_never().is_none());
    assert!(
        (&mut second).now_or_never().is_none(),
        "40 bytes are free, but the first waits"
    );
    assert!(budget.try_reserve(1, Purpose::ReadAhead).is_none());
    assert_eq!(
        budget.deficit(),
        Some(Deficit {
            bytes: 20,
            largest: 50
        })
    );
    drop(held);
    assert_eq!(first.now_or_never().unwrap().bytes(), 50);
    assert_eq!(second.now_or_never().unwrap().bytes(), 10);
    assert_eq!((budget.used(), budget.deficit()), (0, None));
}

#[test]
fn giving_up_the_first_place_serves_the_next() {
    let budget = Budget::new(100);
    let held = budget.try_reserve(60, Purpose::Demand).unwrap();
    let first = budget.reserve(50);
    let second = budget.reserve(40);
    drop(first);
    let second = second.now_or_never().unwrap();
    drop(held);
    let unpolled = budget.reserve(60);
    assert_eq!(budget.used(), 100);
    drop(unpolled);
    drop(second);
    assert_eq!(budget.used(), 0);
}

#[test]
fn pending_writes_beyond_the_limit_are_lacked_whether_or_not_anybody_waits() {
    const MIB: u64 = 1 << 20;
    let budget = Budget::new(128 * MIB);
    let reads = budget.try_reserve(90 * MIB, Purpose::ReadAhead).unwrap();
    assert_eq!(budget.deficit(), None);
    let pending = budget.pending(50 * MIB);
    let lacked = |bytes, largest| {
        let (bytes, largest) = (bytes * MIB, largest * MIB);
        Some(Deficit { bytes, largest })
    };
    assert_eq!(budget.deficit(), lacked(12, 0));
    let mut first = budget.reserve(40 * MIB);
    assert!((&mut first).now_or_never().is_none());
    assert_eq!(budget.deficit(), lacked(52, 40));
    drop(reads);
    assert_eq!(first.now_or_never().unwrap().bytes(), 40 * MIB);
    assert_eq!(budget.deficit(), None);
    drop(pending);
}

#[test]
fn a_reservation_larger_than_the_budget_is_served_alone() {
    let budget = Budget::new(10);
    // Bytes that never come back do not count for that.
    let kept = budget.hold(2);
    assert_eq!(budget.used(), 2);
    let held = budget.try_reserve(1, Purpose::Demand).unwrap();
    let mut large = budget.reserve(20);
    assert!((&mut large).now_or_never().is_none());
    drop(held);
    assert_eq!(large.now_or_never().unwrap().bytes(), 20);
    drop(kept);
    assert_eq!(budget.used(), 0);
}

#[test]
fn split_reservations_give_back_once() {
    let budget = Budget::new(10);
    let mut whole = budget.try_reserve(8, Purpose::ReadAhead).map_or_else(
        || budget.try_reserve(8, Purpose::Demand).unwrap(),
        |_| panic!("8 of 10 is more than the share"),
    );
    let mut part = whole.split(3);
    drop(whole);
    assert_eq!(budget.used(), 3);
    let more = budget.try_reserve(2, Purpose::Demand).unwrap();
    part.merge(more);
    assert_eq!((part.bytes(), budget.used()), (5, 5));
    drop(part);
    assert_eq!(budget.used(), 0);
}

proptest! {
    /// After any operations the limit holds, no byte is lost, every request is served.
    #[test]
    fn counts_add_up(ops in proptest::collection::vec((0u8..4, 1u64..40, any::<prop::sample::Index>()), 1..80)) {
        let budget = Budget::new(100);
        let (mut held, mut waiting) = (Vec::new(), Vec::new());
        for (op, bytes, index) in ops {
            match op {
                0 => held.extend(budget.try_reserve(bytes, Purpose::Demand)),
                1 => held.extend(budget.try_reserve(bytes, Purpose::ReadAhead)),
                2 => waiting.push(budget.reserve(bytes)),
                _ if !held.is_empty() => drop(held.swap_remove(index.index(held.len()))),
                _ if !waiting.is_empty() => drop(waiting.swap_remove(index.index(waiting.len()))),
                _ => {}
            }
            prop_assert!(budget.used() <= 100);
        }
        held.clear();
        while !waiting.is_empty() {
            let before = waiting.len();
            waiting.retain_mut(|place| place.now_or_never().is_none());
            prop_assert!(waiting.len() < before, "a request is served each time");
        }
        prop_assert_eq!(budget.used(), 0);
        prop_assert_eq!(budget.state.lock().ahead, 0);
    }
}

/// Readers that wait, that give up, and that do not wait.
#[test]
fn every_waiter_is_served_and_the_limit_holds_in_any_schedule() {
    const LIMIT: u64 = 100;
    explore(|| {
        let budget = Budget::new(LIMIT);
        let readers: Vec<_> = [60, 80, 50, 30]
            .into_iter()
            .enumerate()
            .map(|(number, bytes)| {
                let budget = Arc::clone(&budget);
                shuttle::thread::spawn(move || {
                    if number == 3 {
                        drop(budget.try_reserve(bytes, Purpose::ReadAhead));
                    }
                    let mut place = budget.reserve(bytes);
                    if number == 2 && (&mut place).now_or_never().is_none() {
                        return drop(place);
                    }
                    if number != 2 {
                        let reservation = shuttle::future::block_on(place);
                        assert!(budget.used() <= LIMIT);
                        drop(reservation);
                    }
                })
            })
            .collect();
        readers.into_iter().for_each(|it| it.join().unwrap());
        assert_eq!((budget.used(), budget.used_ahead()), (0, 0));
        assert_eq!(budget.deficit(), None);
    });
}
