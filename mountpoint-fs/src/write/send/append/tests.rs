//! Files whose parts are appended to their object, over a simulated directory bucket.

use futures::FutureExt as _;
use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::{Fault, FaultRule, Operation, SimObject, Time, When};
use mountpoint_client::types::{Checksum, ChecksumAlgorithm, StoredChecksum};

use crate::operation::FsError;
use crate::write::checksum::RunningChecksum;
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
    bench.writer(Beginning::Grow(stored, None, whole(&object)))
}

/// The checksum of the object's bytes.
fn whole(object: &SimObject) -> Option<Checksum> {
    let mut sum = RunningChecksum::new(Some(ChecksumAlgorithm::Crc64Nvme));
    sum.update(&object.content.to_vec());
    sum.value()
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
    let second = bench.writer(Beginning::Grow(stored, None, None));
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

#[test]
fn somebody_elses_object_of_the_same_size_is_not_taken_for_ours() {
    let (_state, bench) = bench(Time::Immediate);
    let writer = behind(&bench, b"old ");
    write(&writer, 4, b"mine").unwrap();
    bench.client.put_object("key", "old yours");
    bench.client.put_object("key", "old your");
    bench.client.add_fault(FaultRule {
        operation: Some(Operation::PutObject),
        when: When::Next(1),
        fault: Fault::Repeat,
    });
    assert!(matches!(now(writer.store()), Err(FsError::Stale(_))));
    assert_eq!(bench.content().unwrap(), b"old your");
}

/// Another host has replaced the object by one that has the same bytes at the same place: it is not
/// the file.
#[test]
fn the_same_bytes_behind_another_beginning_are_not_taken_for_ours() {
    let (_state, bench) = bench(Time::Immediate);
    let unknown = |bench: &Bench| {
        let object = bench.client.put_object("key", "old ");
        let stored = Stored {
            etag: object.etag,
            size: 4,
        };
        bench.writer(Beginning::Grow(stored, None, None))
    };
    for (is_known, there, expected) in [
        (true, "old mine", "stored"),
        (true, "new mine", "stale"),
        (true, "new mine, theirs", "stale"),
        (false, "old mine", "unknown"),
        (false, "new mine", "unknown"),
    ] {
        let writer = match is_known {
            true => behind(&bench, b"old "),
            false => unknown(&bench),
        };
        // The failure before makes the mount doubt that it may write.
        bench.context.believe();
        write(&writer, 4, b"mine").unwrap();
        bench.client.put_object("key", there);
        bench.client.add_fault(FaultRule {
            operation: Some(Operation::PutObject),
            when: When::Next(1),
            fault: Fault::Repeat,
        });
        let outcome = match now(writer.store()) {
            Ok(_) => "stored",
            Err(FsError::Stale(_)) => "stale",
            Err(FsError::Client(error)) if error.kind == ErrorKind::Transient => "unknown",
            Err(error) => panic!("{there}: {error}"),
        };
        assert_eq!(outcome, expected, "{is_known} {there}");
        assert_eq!(bench.content().unwrap(), there.as_bytes());
    }
}

#[test]
fn an_answer_that_was_lost_appends_nothing_twice() {
    let (_state, bench) = bench(Time::Immediate);
    let writer = behind(&bench, b"old ");
    for (at, piece) in [(4, "one "), (8, "two "), (12, "three")] {
        bench.client.add_fault(FaultRule {
            operation: Some(Operation::PutObject),
            when: When::Next(1),
            fault: Fault::Repeat,
        });
        write(&writer, at, piece.as_bytes()).unwrap();
        let stored = now(writer.store()).unwrap();
        assert_eq!(stored.etag, bench.client.object("key").unwrap().etag);
    }
    assert_eq!(bench.content().unwrap(), b"old one two three");
}

/// The part is there, its answer is not, and another host has appended behind it.
#[test]
fn what_others_appended_behind_a_lost_answer_does_not_make_the_part_missing() {
    let (_state, bench) = bench(Time::Immediate);
    let overtaken = || {
        let writer = behind(&bench, b"old ");
        write(&writer, 4, b"mine").unwrap();
        let theirs = bench.client.put_object("key", "old mine, theirs");
        bench.client.add_fault(FaultRule {
            operation: Some(Operation::PutObject),
            when: When::Next(1),
            fault: Fault::Repeat,
        });
        let stored = now(writer.store()).unwrap();
        assert_eq!((stored.etag, stored.size), (theirs.etag, 16));
        writer
    };
    // Nothing more to store.
    let writer = overtaken();
    drop(bench.client.take_log());
    now(writer.store()).unwrap();
    assert_eq!(puts(&bench), []);
    // The next bytes have no place, neither at the file's end nor at the object's.
    for offset in [8, 16] {
        let writer = overtaken();
        drop(bench.client.take_log());
        let refused = now(writer.write(offset, b"more")).unwrap_err();
        assert!(
            matches!(&refused, FsError::Stale(text) if text.contains("appended to by another client")),
            "{refused}"
        );
        assert!(matches!(now(writer.store()), Err(FsError::Stale(_))));
        assert_eq!(puts(&bench), []);
        assert_eq!(bench.content().unwrap(), b"old mine, theirs");
    }
}

#[test]
fn a_part_that_waits_behind_one_that_was_overtaken_is_not_sent() {
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
    let overtaken = [b"old", &content[..5 * MIB], b"theirs"].concat();
    bench.client.put_object("key", overtaken.clone());
    let refused = loop {
        bench.client.deliver_all();
        if let Some(outcome) = (&mut storing).now_or_never() {
            break outcome.unwrap_err();
        }
    };
    assert!(matches!(refused, FsError::Stale(_)), "{refused}");
    assert!(bench.content() == Some(overtaken));
    let log = bench.client.take_log();
    assert_eq!(log.count(Operation::PutObject), 1);
}

#[test]
fn the_last_part_that_an_object_takes_is_not_appended_twice() {
    let (_state, bench) = bench(Time::Immediate);
    let writer = behind(&bench, b"old ");
    write(&writer, 4, b"mine").unwrap();
    bench.client.add_fault(FaultRule {
        operation: Some(Operation::PutObject),
        when: When::Next(1),
        fault: Fault::FailAfterwards(ErrorKind::TooManyParts),
    });
    let stored = now(writer.store()).unwrap();
    let there = bench.client.object("key").unwrap();
    assert_eq!((stored.etag, stored.size), (there.etag, 8));
    assert_eq!(bench.content().unwrap(), b"old mine");
    let log = bench.client.take_log();
    assert_eq!(log.count(Operation::CopyObject), 0);
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
