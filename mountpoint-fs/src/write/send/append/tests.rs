//! Files whose parts are appended to their object, over a simulated directory bucket.

use futures::FutureExt as _;
use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::{Fault, FaultRule, Operation, Time, When};
use mountpoint_client::types::{ChecksumAlgorithm, StoredChecksum};

use crate::operation::FsError;
use crate::write::tests::{Bench, MIB, now, pattern, write};
use crate::write::{Beginning, Stored, Writer};

fn bench(time: Time) -> (tempfile::TempDir, Bench) {
    let state = tempfile::tempdir().unwrap();
    let bench = Bench::growing(state.path(), time);
    (state, bench)
}

/// A writer behind the end of `object`, which the bucket holds.
fn behind(bench: &Bench, object: &[u8]) -> std::sync::Arc<Writer> {
    let object = bench.client.put_object("key", object.to_vec());
    let stored = Stored {
        etag: object.etag.clone(),
        size: object.content.size(),
    };
    bench.writer(Beginning::Grow(stored, None))
}

/// Offsets and lengths of what was put, `None` where it made the object.
fn puts(bench: &Bench) -> Vec<(Option<u64>, u64)> {
    let log = bench.client.take_log();
    let puts = log.records().iter().map(|record| {
        assert_eq!(record.operation, Operation::PutObject);
        (record.range.as_ref().map(|range| range.start), record.bytes)
    });
    puts.collect()
}

const PART: u64 = 5 << 20;

#[test]
fn each_full_part_is_appended_and_the_rest_at_the_end() {
    for (len, expected) in [
        (0, vec![(None, 0)]),
        (5, vec![(None, 5)]),
        (5 * MIB, vec![(None, PART)]),
        (5 * MIB + 1, vec![(None, PART), (Some(PART), 1)]),
        (
            12 * MIB,
            vec![(None, PART), (Some(PART), PART), (Some(2 * PART), 2 << 20)],
        ),
    ] {
        let (_state, bench) = bench(Time::Immediate);
        let writer = bench.writer(Beginning::New);
        write(&writer, 0, &pattern(len)).unwrap();
        let stored = now(writer.store()).unwrap();
        assert_eq!(puts(&bench), expected, "{len}");
        assert_eq!(stored.size, len as u64);
        let object = bench.client.object("key").unwrap();
        assert!(object.content.to_vec() == pattern(len), "{len}");
        assert_eq!(object.etag, stored.etag);
        let kept = StoredChecksum::Of(ChecksumAlgorithm::Crc32c);
        assert_eq!(
            object.checksum, kept,
            "{len}: its parts went with checksums"
        );
        drop(writer);
        assert_eq!(bench.budget.used(), 0);
    }
}

#[test]
fn what_was_stored_is_never_sent_again() {
    let (_state, bench) = bench(Time::Immediate);
    let writer = bench.writer(Beginning::New);
    let content = pattern(7 * MIB);
    let (mut at, mut expected) = (0, Vec::new());
    for len in [3, 5, MIB, 100, 5 * MIB + 2] {
        write(&writer, at, &content[at..at + len]).unwrap();
        assert_eq!(now(writer.store()).unwrap().size, (at + len) as u64);
        assert!(bench.content().as_deref() == Some(&content[..at + len]));
        let offset = (at > 0).then_some(at as u64);
        let first = len.min(5 * MIB);
        expected.push((offset, first as u64));
        if len > first {
            expected.push((Some((at + first) as u64), (len - first) as u64));
        }
        at += len;
    }
    assert_eq!(puts(&bench), expected);
    // Nothing new: nothing is sent.
    now(writer.store()).unwrap();
    assert_eq!(puts(&bench), []);
}

#[test]
fn one_part_is_on_its_way_at_a_time_and_one_waits() {
    let (_state, bench) = bench(Time::Manual);
    let writer = behind(&bench, b"old");
    let content = pattern(16 * MIB);
    let mut at = 0;
    // The third part waits for the first.
    for piece in content[..10 * MIB].chunks(MIB) {
        let taken = writer.write_now(3 + at, piece);
        assert!(matches!(taken, Some(Ok(()))), "{at}");
        at += piece.len() as u64;
    }
    assert!(writer.write_now(3 + at, &content[..MIB]).is_none());
    let mut waiting = Box::pin(writer.write(3 + at, &content[10 * MIB..11 * MIB]));
    assert!((&mut waiting).now_or_never().is_none());
    let pending = bench.client.pending_requests();
    assert_eq!(bench.pending(), [Operation::PutObject]);
    bench.client.finish(pending[0].id);
    waiting.now_or_never().expect("there is room").unwrap();
    assert_eq!(bench.pending(), [Operation::PutObject]);
    let mut storing = Box::pin(writer.store());
    assert!((&mut storing).now_or_never().is_none());
    for _ in 0..2 {
        let pending = bench.client.pending_requests();
        assert_eq!(pending.len(), 1, "one after the other");
        bench.client.finish(pending[0].id);
    }
    let stored = storing.now_or_never().expect("all is there").unwrap();
    assert_eq!(stored.size, 3 + (11 << 20));
    let expected = [&b"old"[..], &content[..11 * MIB]].concat();
    assert!(bench.content() == Some(expected));
}

#[test]
fn two_writers_never_mix() {
    let (_state, bench) = bench(Time::Immediate);
    let first = behind(&bench, b"old ");
    let stored = Stored {
        etag: bench.client.object("key").unwrap().etag,
        size: 4,
    };
    let second = bench.writer(Beginning::Grow(stored, None));
    write(&first, 4, b"first").unwrap();
    write(&second, 4, b"other").unwrap();
    now(first.store()).unwrap();
    let refused = now(second.store()).unwrap_err();
    assert!(
        matches!(&refused, FsError::Stale(text) if text.contains("key was changed by another client")),
        "{refused}"
    );
    assert_eq!(bench.content().unwrap(), b"old first");
    // The second one has failed for good, the first one goes on.
    assert!(write(&second, 9, b"!").is_err());
    write(&first, 9, b", more").unwrap();
    now(first.store()).unwrap();
    assert_eq!(bench.content().unwrap(), b"old first, more");
}

/// Appended bytes carry no token: equal bytes at their place may be another host's.
#[test]
fn a_part_whose_answer_was_lost_is_nobodys() {
    for there in [
        None,
        Some("old mine"),
        Some("new mine"),
        Some("old mine, theirs"),
    ] {
        for fault in [
            Fault::Repeat,
            Fault::FailAfterwards(ErrorKind::TooManyParts),
        ] {
            let (_state, bench) = bench(Time::Immediate);
            let writer = behind(&bench, b"old ");
            write(&writer, 4, b"mine").unwrap();
            if let Some(there) = there {
                bench.client.put_object("key", there);
            }
            let case = format!("{there:?} {fault:?}");
            // A request that is refused at once loses no answer.
            let is_lost = there.is_none() || fault == Fault::Repeat;
            bench.client.add_fault(FaultRule {
                operation: Some(Operation::PutObject),
                when: When::Next(1),
                fault,
            });
            match now(writer.store()).unwrap_err() {
                FsError::Client(error) if is_lost => {
                    assert_eq!(error.kind, ErrorKind::Transient, "{case}");
                }
                FsError::Stale(_) if !is_lost => {}
                error => panic!("{case}: {error}"),
            }
            let content = bench.content().unwrap();
            assert_eq!(content, there.unwrap_or("old mine").as_bytes(), "{case}");
            // Nothing is sent behind it.
            assert!(write(&writer, 8, b"more").is_err());
            assert_eq!(bench.client.take_log().count(Operation::PutObject), 1);
        }
    }
}

#[test]
fn a_part_that_waits_behind_one_whose_answer_was_lost_is_not_sent() {
    let (_state, bench) = bench(Time::Manual);
    let writer = behind(&bench, b"old");
    let content = pattern(6 * MIB);
    bench.client.add_fault(FaultRule {
        operation: Some(Operation::PutObject),
        when: When::Next(1),
        fault: Fault::Repeat,
    });
    for (at, piece) in content.chunks(MIB).enumerate() {
        let taken = writer.write_now(3 + (at * MIB) as u64, piece);
        taken.expect("there is memory").unwrap();
    }
    let mut storing = Box::pin(writer.store());
    assert!((&mut storing).now_or_never().is_none());
    bench.client.deliver_all();
    assert!(storing.now_or_never().expect("it has failed").is_err());
    let beginning = [b"old", &content[..5 * MIB]].concat();
    assert!(bench.content() == Some(beginning));
    let log = bench.client.take_log();
    assert_eq!(log.count(Operation::PutObject), 1);
}

#[test]
fn behind_a_part_that_failed_none_is_sent() {
    let (_state, bench) = bench(Time::Manual);
    let writer = behind(&bench, b"old");
    for (at, piece) in pattern(10 * MIB).chunks(MIB).enumerate() {
        writer
            .write_now(3 + (at * MIB) as u64, piece)
            .expect("there is memory")
            .unwrap();
    }
    bench
        .client
        .fail(bench.client.pending_requests()[0].id, ErrorKind::Denied);
    assert_eq!(bench.pending(), []);
    let refused = now(writer.store()).unwrap_err();
    assert!(matches!(refused, FsError::Denied(_)), "{refused}");
    assert_eq!(bench.content().unwrap(), b"old");
    drop(writer);
    assert_eq!(bench.budget.used(), 0);
}

#[test]
fn an_object_that_was_appended_to_too_often_is_renewed() {
    use Operation::{CopyObject, HeadObject, PutObject};
    let (_state, bench) = bench(Time::Immediate);
    let writer = behind(&bench, b"old ");
    bench
        .client
        .fail_next(PutObject, 1, ErrorKind::TooManyParts);
    write(&writer, 4, b"new").unwrap();
    now(writer.store()).unwrap();
    let asked: Vec<_> = bench
        .client
        .take_log()
        .records()
        .iter()
        .map(|it| it.operation)
        .collect();
    assert_eq!(asked, [PutObject, HeadObject, CopyObject, PutObject]);
    assert_eq!(bench.content().unwrap(), b"old new");
    // If that does not help, the application is told.
    bench
        .client
        .fail_next(PutObject, 2, ErrorKind::TooManyParts);
    write(&writer, 7, b"more").unwrap();
    assert!(matches!(now(writer.store()), Err(FsError::TooLarge(_))));
    assert_eq!(bench.content().unwrap(), b"old new");
}

#[test]
fn a_write_out_of_order_leaves_what_was_appended() {
    let (_state, bench) = bench(Time::Immediate);
    let writer = behind(&bench, b"old ");
    write(&writer, 4, b"new").unwrap();
    now(writer.store()).unwrap();
    let refused = write(&writer, 0, b"x").unwrap_err();
    assert!(
        matches!(&refused, FsError::NotSequential(text) if text.contains("the parts appended before stay")),
        "{refused}"
    );
    assert_eq!(bench.content().unwrap(), b"old new");
}
