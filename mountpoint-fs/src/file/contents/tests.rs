//! The contents against a model of plain bytes.

use std::ops::Range;

use proptest::prelude::*;

use super::test_model::{Model, SIZE_MAX, Step};
use super::{Contents, DataFileNo, LastCommit};

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let offset = 0..SIZE_MAX;
    let len = 1..10_u64;
    let step = prop_oneof![
        6 => (offset.clone(), len.clone()).prop_map(|(start, len)| Step::Write(start, len)),
        2 => (0..SIZE_MAX).prop_map(Step::SetLen),
        2 => (offset.clone(), len.clone()).prop_map(|(start, len)| Step::Zero(start, len)),
        2 => Just(Step::BeginStore),
        2 => any::<bool>().prop_map(Step::EndStore),
        1 => Just(Step::DropStored),
        1 => (0..SIZE_MAX).prop_map(Step::BeginStoreUntil),
        1 => (offset.clone(), len.clone()).prop_map(|(start, len)| Step::MarkSent(start, len)),
        1 => (offset, 0..30_u64, len).prop_map(|(at, from, len)| Step::Copy(at, from, len)),
        2 => Just(Step::Commit),
        2 => Just(Step::BeginStoreOfCommit),
        1 => Just(Step::EndSparing),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]
    #[test]
    fn every_byte_is_where_the_contents_say(
        base in prop::option::of(0..SIZE_MAX),
        steps in steps(),
    ) {
        let mut model = Model::new(base);
        model.check();
        for step in &steps {
            model.take(step);
            model.check();
        }
    }
}

/// The first copy of at least `least` bytes, where `changed` ranges of 100 bytes were written.
#[track_caller]
fn check_next(changed: &[(u64, u64)], at: u64, least: u64, expected: Option<u64>) {
    let mut contents = Contents::over(100);
    for (start, end) in changed {
        contents.wrote(*start..*end, DataFileNo::First);
    }
    let found = contents.now().next_copied(at, 100, least);
    assert_eq!(found, expected, "{changed:?} {at} {least}");
}

#[test]
fn copies_begin_where_enough_is_unchanged() {
    check_next(&[], 0, 100, Some(0));
    check_next(&[], 1, 100, None);
    check_next(&[(0, 1)], 0, 99, Some(1));
    check_next(&[(40, 50)], 0, 41, Some(50));
    check_next(&[(40, 50), (60, 61)], 0, 41, None);
    check_next(&[(40, 50), (60, 61)], 20, 39, Some(61));
    check_next(&[(0, 100)], 0, 1, None);
    check_next(&[(0, 200)], 0, 1, None);
}

#[test]
fn a_file_that_is_as_it_was_needs_no_store() {
    let mut contents = Contents::over(10);
    contents.set_len(10);
    contents.zero(&(10..20));
    assert!(!contents.is_changed());
    contents.touch();
    assert!(contents.is_changed());
    assert!(Contents::new().is_changed(), "an empty object is missing");
}

#[test]
fn a_commit_is_spared_while_few_ranges_change_and_pinned_for_an_upload_that_waits() {
    let mut contents = Contents::new();
    let write = |contents: &mut Contents, range: Range<u64>| {
        contents.leave_commit(false);
        let places = contents.places(&range);
        contents.write_over(&places);
        for (range, file) in places {
            contents.wrote(range, file);
        }
    };
    let is_lost = |contents: &Contents| matches!(contents.last_commit(), LastCommit::Lost);
    write(&mut contents, 0..10_000);
    for is_pinned in [false, true] {
        contents.committed();
        let ranges = (0..1000).find(|at| {
            write(&mut contents, at * 10..at * 10 + 1);
            is_lost(&contents)
        });
        assert_eq!(ranges.is_none(), is_pinned, "{ranges:?}");
        if !is_pinned {
            assert!(contents.begin_store_of_commit().is_none());
            contents.await_commit();
        }
    }
    assert_eq!(contents.begin_store_of_commit().unwrap().size(), 10_000);
    let mut few = Contents::new();
    write(&mut few, 0..10);
    few.committed();
    write(&mut few, 0..10);
    assert!(few.end_sparing() && !is_lost(&few));
    write(&mut few, 10..20);
    assert!(!few.end_sparing() && !is_lost(&few));
    write(&mut few, 0..10);
    assert!(is_lost(&few));
}

#[test]
fn neighbours_that_were_stored_are_one_range() {
    let mut contents = Contents::new();
    for at in 0..50 {
        contents.begin_store(false);
        contents.wrote(at..at + 1, DataFileNo::First);
        contents.end_store(true);
    }
    assert!(contents.range_count() <= 3, "{}", contents.range_count());
    // A log that is synced behind each line.
    for at in 50..200 {
        contents.leave_commit(false);
        contents.wrote(at..at + 1, DataFileNo::First);
        contents.committed();
    }
    assert!(contents.range_count() <= 4, "{}", contents.range_count());
}
