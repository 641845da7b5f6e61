//! Looks for extents, one by one, and by a thousand nodes at once in virtual time.

mod herd;

use std::time::Duration;

use super::{ExtentSearch, SearchStep, TierPolicy};

const NOW: Duration = Duration::from_secs(1000);

fn begin(policy: &mut TierPolicy, may_wait: bool) -> (ExtentSearch, SearchStep) {
    ExtentSearch::begin(1, may_wait, policy, NOW)
}

#[test]
fn a_miss_of_a_lone_node_costs_one_request() {
    let mut policy = TierPolicy::new(1);
    for may_wait in [false, true] {
        let (mut search, step) = begin(&mut policy, may_wait);
        assert_eq!(step, SearchStep::Ask);
        assert_eq!(search.absent(&mut policy, NOW), SearchStep::Leave);
        assert!(!search.owns());
    }
}

#[test]
fn a_reader_whose_application_waits_never_claims_and_never_waits() {
    let mut policy = TierPolicy::new(1);
    policy.fleet.saw_others(NOW);
    let (mut search, step) = begin(&mut policy, false);
    assert_eq!(step, SearchStep::Ask);
    assert_eq!(search.absent(&mut policy, NOW), SearchStep::Leave);
}

#[test]
fn among_others_the_first_claims_and_the_rest_wait_for_a_while() {
    let mut policy = TierPolicy::new(1);
    policy.fleet.saw_others(NOW);
    let (mut search, _) = begin(&mut policy, true);
    assert_eq!(search.absent(&mut policy, NOW), SearchStep::Claim);
    assert_eq!(search.claimed(true, &mut policy, NOW), SearchStep::Leave);
    assert!(search.owns());

    let (mut search, _) = begin(&mut policy, true);
    assert_eq!(search.absent(&mut policy, NOW), SearchStep::Claim);
    let mut step = search.claimed(false, &mut policy, NOW);
    let mut waited = Duration::ZERO;
    let mut looks = 0;
    while let SearchStep::Wait(time) = step {
        assert!(!time.is_zero());
        waited += time;
        looks += 1;
        step = search.absent(&mut policy, NOW + waited);
    }
    assert_eq!(step, SearchStep::Leave);
    assert!(!search.owns());
    assert!(waited <= Duration::from_secs(2), "{waited:?}");
    assert!(looks <= 20, "{looks}");
}

#[test]
fn nobody_waits_for_nodes_that_are_late() {
    let mut policy = TierPolicy::new(1);
    policy.fleet.saw_others(NOW);
    for _ in 0..4 {
        assert!(policy.fleet.is_active(NOW));
        let (mut search, _) = begin(&mut policy, true);
        search.absent(&mut policy, NOW);
        search.claimed(false, &mut policy, NOW);
        let late = NOW + Duration::from_secs(10);
        assert_eq!(search.absent(&mut policy, late), SearchStep::Leave);
    }
    let (mut search, step) = begin(&mut policy, true);
    assert_eq!(step, SearchStep::Ask);
    assert_eq!(search.absent(&mut policy, NOW), SearchStep::Leave);
    assert!(policy.fleet.is_active(NOW + Duration::from_secs(120)));
}

#[test]
fn signs_of_others_are_forgotten() {
    let mut policy = TierPolicy::new(1);
    policy.fleet.saw_others(NOW);
    assert!(policy.fleet.is_active(NOW));
    assert!(!policy.fleet.is_active(NOW + super::fleet::SEEN_FOR));
}

#[test]
fn a_bucket_that_fails_is_not_asked() {
    let mut policy = TierPolicy::new(1);
    while policy.reads.failed(NOW).is_none() {}
    assert_eq!(begin(&mut policy, true).1, SearchStep::Leave);
    assert_eq!(begin(&mut policy, false).1, SearchStep::Leave);
}
