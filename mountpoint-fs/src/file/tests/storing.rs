//! Requests and bytes that a store sends.

use futures::future::join;
use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::{
    Fault, FaultRule, Operation, RequestLog, When, pattern_bytes,
};
use mountpoint_client::types::Key;

use super::{Bench, IN_MEMORY, MIB, in_both, name, read, wait, write};
use crate::operation::FsError;
use crate::write::Stored;

const GIB: u64 = 1 << 30;

/// Bytes that a store sent in parts and whole objects.
fn bytes_sent(log: &RequestLog) -> u64 {
    let records = log.records().iter();
    let sent = records
        .filter(|record| [Operation::PutObject, Operation::UploadPart].contains(&record.operation));
    sent.map(|record| record.bytes).sum()
}

/// Changes a byte of 10 GiB, and stores the file. At most `sent_max` bytes are sent, and as many
/// fetched.
#[track_caller]
fn check_one_byte(at: u64, sent_max: usize) {
    let bench = Bench::new();
    let object = bench.client.put_pattern("key", 10 * GIB, 7);
    let file = bench.over(&object);
    write(&file, at, b"x").unwrap();
    drop(bench.client.take_log());
    wait(file.store()).unwrap();
    let log = bench.client.take_log();
    let (sent, fetched) = (bytes_sent(&log), log.get_bytes());
    assert!(sent <= sent_max as u64, "{at}: {sent} bytes sent");
    // Read-ahead may have begun.
    let fetched_max = (sent_max + 10 * MIB) as u64;
    assert!(fetched <= fetched_max, "{at}: {fetched} bytes fetched");
    assert_eq!(log.count(Operation::UploadPart), 1, "{at}");
    assert!(log.count(Operation::UploadPartCopy) <= 42, "{at}");
    let stored = bench.client.object("key").unwrap();
    assert_eq!(stored.content.size(), 10 * GIB);
    let around = at.saturating_sub(9)..(at + 9).min(10 * GIB);
    let mut expected = pattern_bytes(7, around.clone());
    expected[usize::try_from(at - around.start).unwrap()] = b'x';
    assert_eq!(stored.content.slice(around).to_vec(), expected, "{at}");
}

#[test]
fn one_byte_of_a_large_file_moves_one_part() {
    in_both(|| {
        for at in [0, 5 << 20, 5 * GIB, 10 * GIB - 1] {
            check_one_byte(at, 6 * MIB);
        }
        // The bytes in front of it are too few for a part.
        check_one_byte(3 << 20, 6 * MIB);
    });
}

#[test]
fn a_longer_and_a_shorter_file_is_copied_as_far_as_it_goes() {
    in_both(|| {
        let bench = Bench::new();
        let object = bench.client.put_pattern("key", GIB, 7);
        let file = bench.over(&object);
        wait(file.set_len(GIB / 2)).unwrap();
        write(&file, GIB / 2, b"end").unwrap();
        drop(bench.client.take_log());
        wait(file.store()).unwrap();
        let log = bench.client.take_log();
        assert_eq!((bytes_sent(&log), log.get_bytes()), (3, 0));
        let stored = bench.client.object("key").unwrap().content;
        assert_eq!(stored.size(), GIB / 2 + 3);
        let end = stored.slice(GIB / 2 - 2..GIB / 2 + 3).to_vec();
        assert_eq!(end[..2], pattern_bytes(7, GIB / 2 - 2..GIB / 2));
        assert_eq!(&end[2..], b"end");
    });
}

#[test]
fn nothing_is_fetched_and_nothing_sent_before_it_is_needed() {
    in_both(|| {
        let bench = Bench::new();
        let object = bench.client.put_pattern("key", GIB, 7);
        drop(bench.client.take_log());
        let file = bench.over(&object);
        wait(file.store()).unwrap();
        write(&file, GIB / 2, b"some bytes").unwrap();
        assert_eq!(read(&file, GIB / 2 + 5, 5).unwrap(), b"bytes");
        assert!(bench.client.take_log().records().is_empty());
        let on_disk = usize::from(!IN_MEMORY.get());
        assert_eq!(bench.names("files").len(), on_disk);
    });
}

/// Bytes that were stored are read locally while the file is open.
#[test]
fn bytes_that_were_stored_are_not_fetched_again() {
    in_both(|| {
        let bench = Bench::new();
        let file = bench.new_file();
        write(&file, 0, &[7; 3 * MIB]).unwrap();
        wait(file.store()).unwrap();
        drop(bench.client.take_log());
        assert_eq!(read(&file, MIB as u64, MIB).unwrap(), [7; MIB]);
        assert!(bench.client.take_log().records().is_empty());
    });
}

#[test]
fn an_empty_file_is_stored_once_and_a_removed_one_never() {
    let bench = Bench::new();
    let file = bench.new_file();
    wait(file.store()).unwrap();
    wait(file.store()).unwrap();
    assert_eq!(bench.content("key"), Some(Vec::new()));
    assert_eq!(bench.told(), ["stored 0"]);
    file.removed();
    write(&file, 0, b"bytes").unwrap();
    assert_eq!(read(&file, 0, 9).unwrap(), b"bytes");
    wait(file.release()).unwrap();
    assert_eq!(bench.content("key"), Some(Vec::new()));
    assert_eq!(bench.names("kept"), [""; 0]);
}

/// A server without copies of parts gets all bytes.
#[test]
fn a_server_that_does_not_copy_gets_all_bytes() {
    in_both(|| {
        for at in [0, 30 << 20] {
            let bench = Bench::new();
            let object = bench.client.put_pattern("key", 40 << 20, 7);
            bench.client.add_fault(FaultRule {
                operation: Some(Operation::UploadPartCopy),
                when: When::From(1),
                fault: Fault::Fail(ErrorKind::Unsupported),
            });
            let file = bench.over(&object);
            write(&file, at, b"x").unwrap();
            wait(file.store()).unwrap();
            let mut expected = object.content.to_vec();
            expected[usize::try_from(at).unwrap()] = b'x';
            assert!(bench.content("key").unwrap() == expected, "{at}");
        }
    });
}

/// An answer that is lost does not make a conflict of the file with itself.
#[test]
fn a_lost_answer_is_no_conflict() {
    in_both(|| {
        for (size, operation) in [
            (10, Operation::PutObject),
            (20 << 20, Operation::CompleteMultipartUpload),
        ] {
            for fault in [
                Fault::Repeat,
                Fault::FailAfterwards(ErrorKind::Transient),
                Fault::Conflict,
            ] {
                let bench = Bench::new();
                let object = bench.client.put_pattern("key", size, 7);
                let file = bench.over(&object);
                write(&file, 3, b"x").unwrap();
                bench.client.add_fault(FaultRule {
                    operation: Some(operation),
                    when: When::Next(1),
                    fault: fault.clone(),
                });
                let stored = wait(file.store());
                assert!(stored.is_ok(), "{size} {fault:?}: {stored:?}");
                write(&file, 4, b"y").unwrap();
                wait(file.store()).unwrap();
                assert_eq!(bench.content("key").unwrap()[3..5], *b"xy");
            }
        }
    });
}

#[test]
fn a_file_too_large_for_an_upload_is_refused_at_once() {
    in_both(|| {
        let bench = Bench::new();
        let file = bench.new_file();
        let most = bench.staging.context().writing.file_size_max();
        for refused in [
            wait(file.set_len(most + 1)),
            write(&file, most, b"x"),
            wait(file.allocate(0..most + 1, false)),
            wait(file.set_len(65 << 30)),
        ] {
            assert!(matches!(refused, Err(FsError::TooLarge(_))), "{refused:?}");
        }
        wait(file.allocate(0..most + 1, true)).unwrap();
        assert_eq!(file.size(), 0);
    });
}

#[test]
fn a_renamed_file_is_stored_under_its_new_name() {
    in_both(|| {
        let bench = Bench::new();
        let file = bench.new_file();
        write(&file, 0, b"bytes").unwrap();
        {
            let _held = wait(file.hold_stores());
            name(&file, "new");
        }
        wait(file.release()).unwrap();
        assert_eq!(bench.client.keys(), ["new"]);
    });
}

/// A read that finds the object gone waits for the rename or store that has replaced it.
#[test]
fn a_read_goes_on_when_this_mount_replaces_the_object() {
    in_both(|| {
        let bench = Bench::new();
        let object = bench.client.put_pattern("key", GIB, 7);
        let file = bench.over(&object);
        let data = wait(async {
            let held = file.hold_stores().await;
            let moved = bench.client.put_pattern("new", GIB, 7);
            assert!(bench.client.remove("key"));
            let rename = async {
                let version = Stored {
                    etag: moved.etag.clone(),
                    size: GIB,
                };
                file.renamed(Key::parse("new").unwrap(), version)
                    .await
                    .unwrap();
                drop(held);
            };
            join(file.read(GIB / 2, 10, false), rename).await.0
        });
        let expected = pattern_bytes(7, GIB / 2..GIB / 2 + 10);
        assert_eq!(data.unwrap().to_vec(), expected);
        // Another client's removal is none of ours.
        assert!(bench.client.remove("new"));
        let gone = read(&file, 0, 10);
        assert!(matches!(gone, Err(FsError::Stale(_))), "{gone:?}");
    });
}
