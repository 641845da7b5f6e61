//! Uploads of committed versions while their files are changed.

use std::io::ErrorKind as DiskErrorKind;
use std::time::Duration;

use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::{Fault, FaultRule, Operation, When};
use mountpoint_client::types::Key;

use super::kept::exported;
use super::write_back::{LONG, bytes};
use super::{Bench, MIB, StagedBase, StagedFile, wait, write};
use crate::config::ConflictPolicy;
use crate::file::PendingUploads;
use crate::file::kept::KeptVersions;
use crate::operation::FsError;

/// A file whose bytes are in its record, one whose are in memory beside, and two on the disk.
const LENGTHS: [usize; 4] = [1000, 130_000, 300_000, 3 * MIB];

/// A committed file of `len` bytes, which waits for its upload.
fn committed(bench: &Bench, len: usize) -> StagedFile {
    let file = bench.new_file();
    write(&file, 0, &bytes(len, 1)).unwrap();
    wait(file.commit()).unwrap();
    file
}

/// A change of a file.
type Change = fn(&StagedFile, usize);

const CHANGES: [Change; 6] = [
    |file, len| {
        wait(file.empty()).unwrap();
        write(file, 0, &bytes(len / 2, 2)).unwrap();
    },
    |file, len| write(file, len as u64 / 3, &bytes(len / 3, 2)).unwrap(),
    |file, len| write(file, len as u64, &bytes(len, 2)).unwrap(),
    |file, len| wait(file.set_len(len as u64 / 2)).unwrap(),
    |file, len| wait(file.zero(10..len as u64 / 2, false)).unwrap(),
    |file, len| {
        wait(file.set_len(len as u64 / 2)).unwrap();
        wait(file.allocate(0..2 * len as u64, false)).unwrap();
        write(file, 7, b"x").unwrap();
    },
];

#[test]
fn an_upload_sends_the_last_commit_and_no_change_behind_it() {
    for (len, change) in LENGTHS.iter().flat_map(|len| CHANGES.map(|it| (*len, it))) {
        let bench = Bench::write_back(LONG);
        let file = committed(&bench, len);
        change(&file, len);
        bench.drain();
        assert!(bench.content("key").unwrap() == bytes(len, 1), "{len}");
        assert!(file.is_changed() && !file.is_committed());
        wait(file.commit()).unwrap();
        let expected = super::read(&file, 0, 2 * len).unwrap();
        bench.drain();
        assert!(bench.content("key").unwrap() == expected, "{len}");
        assert!(!file.is_changed());
    }
}

#[test]
fn a_kill_leaves_the_last_commit_and_no_change_behind_it() {
    for (len, change) in LENGTHS.iter().flat_map(|len| CHANGES.map(|it| (*len, it))) {
        let bench = Bench::write_back(LONG);
        let file = committed(&bench, len);
        change(&file, len);
        let next = bench.restart(Duration::ZERO).unwrap();
        next.drain();
        assert!(next.content("key").unwrap() == bytes(len, 1), "{len}");
        assert_eq!(next.names("kept"), [""; 0]);
    }
}

/// The attempts before have failed, and the file was changed before, between and behind them.
#[test]
fn a_later_attempt_sends_the_same_version() {
    for len in LENGTHS {
        for changes_first in [false, true] {
            let bench = Bench::write_back(LONG);
            let file = committed(&bench, len);
            for operation in [Operation::PutObject, Operation::CreateMultipartUpload] {
                bench.client.add_fault(FaultRule {
                    operation: Some(operation),
                    when: When::Next(2),
                    fault: Fault::Fail(ErrorKind::Unreachable),
                });
            }
            if changes_first {
                write(&file, 10, &bytes(len / 2, 2)).unwrap();
            }
            let left = wait(bench.staging.drain(Duration::from_millis(1)));
            assert_eq!(left.count, 1);
            write(&file, 0, &bytes(20, 3)).unwrap();
            bench.drain();
            assert!(bench.content("key").unwrap() == bytes(len, 1), "{len}");
        }
    }
}

/// A database changes pages all over its file: its bytes are written in place, and the next commit
/// stays as it is until its upload.
#[test]
fn a_version_that_was_written_over_waits_for_the_next_commit() {
    let bench = Bench::write_back(LONG);
    let file = committed(&bench, MIB);
    let change = |byte: u8| {
        for page in 0..100 {
            write(&file, page * 8192, &[byte; 4096]).unwrap();
        }
    };
    let with = |byte: u8| {
        let mut expected = bytes(MIB, 1);
        for page in 0..100 {
            expected[page * 8192..][..4096].fill(byte);
        }
        expected
    };
    change(7);
    let left = wait(bench.staging.drain(Duration::from_millis(100)));
    assert_eq!((left.count, left.files[0].failures), (1, 0));
    let reason = left.files[0].error.clone().unwrap();
    assert!(reason.contains("next close or fsync"), "{reason}");
    assert_eq!(bench.content("key"), None);
    wait(file.commit()).unwrap();
    change(8);
    bench.drain();
    assert!(bench.content("key").unwrap() == with(7));
    wait(file.commit()).unwrap();
    bench.drain();
    assert!(bench.content("key").unwrap() == with(8));
}

#[test]
fn a_full_disk_has_changes_in_place() {
    let bench = Bench::write_back(LONG);
    let file = committed(&bench, MIB);
    let faults = &bench.staging.context().directory().unwrap().faults;
    faults.set_next(1, DiskErrorKind::StorageFull);
    write(&file, 0, &bytes(MIB / 2, 2)).unwrap();
    assert_eq!(bench.names("files").len(), 1);
    let left = wait(bench.staging.drain(Duration::from_millis(100)));
    assert_eq!(left.count, 1);
    wait(file.commit()).unwrap();
    bench.drain();
    let mut expected = bytes(MIB, 1);
    expected[..MIB / 2].copy_from_slice(&bytes(MIB / 2, 2));
    assert!(bench.content("key").unwrap() == expected);
}

/// The version is uploaded, and makes the room, as no byte of it was written over.
#[test]
fn a_full_disk_that_takes_no_change_leaves_the_version() {
    for failures in [1, 2, 3] {
        let bench = Bench::write_back(LONG);
        let file = committed(&bench, MIB);
        let faults = &bench.staging.context().directory().unwrap().faults;
        faults.set_next(failures, DiskErrorKind::StorageFull);
        write(&file, MIB as u64, b"line").unwrap();
        bench.drain();
        assert!(bench.content("key").unwrap() == bytes(MIB, 1), "{failures}");
    }
}

/// A file that a call has looked at, or changed to what it was, waits for its upload as before.
#[test]
fn a_call_that_changes_nothing_leaves_the_version() {
    for len in LENGTHS {
        let bench = Bench::write_back(LONG);
        let file = committed(&bench, len);
        wait(file.set_len(len as u64)).unwrap();
        wait(file.zero(len as u64..2 * len as u64, true)).unwrap();
        assert!(file.is_committed());
        bench.go_away();
        wait(file.store()).unwrap_err();
        bench.client.clear_faults();
        bench.drain();
        assert!(bench.content("key").unwrap() == bytes(len, 1), "{len}");
    }
}

/// A store on behalf of a call, such as a link, commits before it sends.
#[test]
fn what_a_store_has_committed_in_vain_waits_for_its_upload() {
    let bench = Bench::write_back(LONG);
    let file = bench.new_file();
    write(&file, 0, &bytes(1000, 1)).unwrap();
    bench.go_away();
    wait(file.store()).unwrap_err();
    wait(file.commit()).unwrap();
    assert_eq!(bench.staging.pending().count, 1);
    bench.client.clear_faults();
    bench.drain();
    assert_eq!(bench.content("key").unwrap(), bytes(1000, 1));
}

/// Another client's object is in the way of the upload, while the file is written anew.
#[test]
fn a_conflict_keeps_the_last_commit_beside_what_was_written_since() {
    for len in LENGTHS {
        let bench = Bench::write_back(LONG);
        let file = committed(&bench, len);
        wait(file.empty()).unwrap();
        write(&file, 0, b"later").unwrap();
        bench.client.put_object("key", "theirs");
        bench.drain();
        assert!(matches!(file.failure(), Some(FsError::Stale(_))));
        let versions = KeptVersions::open(bench.directory.path()).unwrap().unwrap();
        let ids = versions.ids().unwrap();
        let found = ids.iter().map(|id| {
            let version = versions.find(id).unwrap().unwrap();
            exported(&versions, &version, None).unwrap()
        });
        let mut found: Vec<_> = found.collect();
        found.sort_by_key(Vec::len);
        assert!(found == [b"later".to_vec(), bytes(len, 1)], "{len}");
        assert_eq!(bench.content("key").unwrap(), b"theirs");
    }
}

/// The last commit goes beside the other client's object, once, and the file ends with the rest.
#[test]
fn a_conflict_with_keep_both_stores_the_last_commit_beside() {
    let bench = Bench::manual(ConflictPolicy::KeepBoth, true);
    let file = committed(&bench, 1000);
    wait(file.empty()).unwrap();
    write(&file, 0, b"later").unwrap();
    bench.client.put_object("key", "theirs");
    bench.drive(bench.staging.drain(LONG));
    assert!(matches!(file.failure(), Some(FsError::Stale(_))));
    assert_eq!(bench.content("key").unwrap(), b"theirs");
    let keys = bench.client.keys();
    let copies: Vec<_> = keys.iter().filter(|key| *key != "key").collect();
    let [copy] = &copies[..] else {
        panic!("{keys:?}")
    };
    assert_eq!(bench.content(copy).unwrap(), bytes(1000, 1));
    assert!(bench.has_kept(b"later"));
}

/// A rename that the journal does not have leaves no version that could be sent under its name.
#[test]
fn a_version_with_another_name_than_its_record_waits_for_the_next_commit() {
    for writes_before in [false, true] {
        let bench = Bench::write_back(LONG);
        bench.staging.context().file_memory.forbid();
        let file = committed(&bench, 1000);
        if writes_before {
            write(&file, 0, b"before").unwrap();
        }
        let faults = &bench.staging.context().directory().unwrap().faults;
        faults.set(Some(DiskErrorKind::Other));
        let new = Key::parse("new").unwrap();
        wait(file.rename_unstored(new, StagedBase::None, None)).unwrap_err();
        faults.set(None);
        write(&file, 0, b"later").unwrap();
        let left = wait(bench.staging.drain(Duration::from_millis(100)));
        assert_eq!(left.count, 1);
        assert_eq!(bench.client.keys(), [""; 0]);
        wait(file.commit()).unwrap();
        bench.drain();
        assert_eq!(bench.client.keys(), ["key"]);
    }
}

/// The version behind an upload in progress is based on what that one makes.
#[test]
fn a_commit_during_an_upload_is_sent_as_it_was() {
    for len in LENGTHS {
        let bench = Bench::manual(ConflictPolicy::Fail, true);
        let file = committed(&bench, len);
        bench.drive(bench.staging.drain(LONG));
        write(&file, 0, &bytes(len / 4, 2)).unwrap();
        wait(file.release()).unwrap();
        let mut drained = Box::pin(bench.staging.drain(LONG));
        assert!(bench.until_asked(&mut drained).is_none());
        write(&file, len as u64 / 2, &bytes(len, 3)).unwrap();
        wait(file.set_len(len as u64)).unwrap();
        wait(file.commit()).unwrap();
        let mut expected = bytes(len, 1);
        expected[..len / 4].copy_from_slice(&bytes(len / 4, 2));
        expected[len / 2..].copy_from_slice(&bytes(len - len / 2, 3));
        wait(file.set_len(len as u64 / 3)).unwrap();
        write(&file, len as u64 + 10, b"later").unwrap();
        write(&file, 5, b"later").unwrap();
        // One that begins now has the later commit uploaded as well.
        drop(drained);
        let left = bench.drive(bench.staging.drain(LONG));
        assert_eq!(left, PendingUploads::default());
        assert!(bench.content("key").unwrap() == expected, "{len}");
        assert!(file.is_changed());
    }
}
