//! Reads that fail, objects that were replaced, and sizes that differ from the listed ones.

use super::*;

#[test]
fn a_failed_read_is_reported_and_the_next_tries_again() {
    #[track_caller]
    fn check(kind: ErrorKind, is_expected: fn(&FsError) -> bool) {
        let bucket = Bucket::new(Time::Immediate);
        let reader = bucket.open(64 * MIB);
        bucket.client.fail_next(Operation::GetObject, 1, kind);
        let error = reader.read(MIB, 4096).now_or_never().unwrap().unwrap_err();
        assert!(is_expected(&error), "{error:?}");
        read(&reader, MIB, 4096);
        assert_eq!(bucket.client.take_log().count(Operation::GetObject), 2);
    }
    check(ErrorKind::PreconditionFailed, |error| {
        matches!(error, FsError::Stale(_))
    });
    check(ErrorKind::NotFound, |error| {
        matches!(error, FsError::Stale(_))
    });
    check(ErrorKind::Denied, |error| {
        matches!(error, FsError::Denied(_))
    });
    check(ErrorKind::Archived, |error| {
        matches!(error, FsError::Denied(_))
    });
    check(ErrorKind::Transient, |error| {
        matches!(error, FsError::Client(_))
    });
}

#[test]
fn failed_read_ahead_is_tried_once_more_by_who_needs_it() {
    let bucket = Bucket::new(Time::Manual);
    let reader = bucket.open(64 * MIB);
    let first = Task::start(&reader, 0, 256 * KIB);
    let waiting = Task::start(&reader, 256 * KIB, 256 * KIB);
    bucket.finish(0);
    assert!(first.finish().is_ok());
    // One part fails while a read waits for it, the next before any read does.
    for offset in [256 * KIB, 512 * KIB] {
        bucket
            .client
            .fail(bucket.get_at(offset).id, ErrorKind::Transient);
    }
    let mut waiting = waiting;
    assert!(waiting.poll().is_pending());
    assert!(bucket.pending().contains(&(256, 512, true)));
    let later = Task::start(&reader, 512 * KIB, 256 * KIB);
    assert!(
        bucket
            .pending()
            .iter()
            .any(|&(from, _, foreground)| from == 512 && foreground)
    );
    bucket.finish(256 * KIB);
    assert_bytes(&waiting.finish().unwrap(), 256 * KIB..512 * KIB);
    bucket.client.deliver_all();
    assert_bytes(&later.finish().unwrap(), 512 * KIB..768 * KIB);
}

#[test]
fn the_second_failure_is_final() {
    let bucket = Bucket::new(Time::Manual);
    let reader = bucket.open(64 * MIB);
    let first = Task::start(&reader, 0, 256 * KIB);
    let mut waiting = Task::start(&reader, 256 * KIB, 256 * KIB);
    for _ in 0..2 {
        assert!(waiting.poll().is_pending());
        bucket
            .client
            .fail(bucket.get_at(256 * KIB).id, ErrorKind::Transient);
    }
    assert!(matches!(waiting.finish(), Err(FsError::Client(_))));
    drop(first);
}

#[test]
fn bytes_that_came_before_a_failure_are_used() {
    let bucket = Bucket::new(Time::Immediate);
    let reader = bucket.open(MIB);
    bucket.client.add_fault(FaultRule {
        operation: Some(Operation::GetObject),
        when: When::Next(1),
        fault: Fault::StopAfter(64 * KIB),
    });
    read(&reader, 0, 4 * KIB);
    read(&reader, 4 * KIB, 60 * KIB);
    assert_eq!(bucket.context.stats().gets, 1);
    read(&reader, 64 * KIB, 64 * KIB);
    assert!(bucket.context.stats().gets > 1);
}

#[test]
fn a_replaced_object_is_stale_and_never_mixed() {
    let bucket = Bucket::new(Time::Immediate);
    let reader = bucket.open(64 * MIB);
    read(&reader, 0, 128 * KIB);
    bucket
        .client
        .put_pattern(&format!("object-{}", 64 * MIB), 64 * MIB, SEED + 1);
    let mut offset = 128 * KIB;
    let error = loop {
        match reader.read(offset, 128 * 1024).now_or_never().unwrap() {
            Ok(data) => assert_bytes(&data, offset..offset + 128 * KIB),
            Err(error) => break error,
        }
        offset += 128 * KIB;
    };
    assert!(matches!(error, FsError::Stale(_)), "{error:?}");
    assert!(offset < 8 * MIB);
}

#[test]
fn an_object_that_is_longer_than_was_said_is_not_read_as_a_short_one() {
    let bucket = Bucket::new(Time::Immediate);
    let key = bucket.open(64 * KIB).version().0.clone();
    let etag = bucket
        .client
        .head(&key)
        .now_or_never()
        .unwrap()
        .unwrap()
        .etag;
    let reader = Reader::new(&bucket.context, key, etag, 10);
    let error = reader.read(0, 4096).now_or_never().unwrap().unwrap_err();
    assert!(matches!(error, FsError::Client(_)), "{error:?}");
}
