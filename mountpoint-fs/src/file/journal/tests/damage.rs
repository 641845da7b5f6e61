//! Damage is told from a tail that was never acknowledged, and a newer format from damage.

use std::sync::Arc;

use futures::executor::block_on;

use crate::clock::Clock;
use crate::file::journal::types::DamageReason;
use crate::file::journal::{
    Journal, JournalError, JournalLimits, RecordKey, RecoveredRecord, has_journal,
};
use crate::local_disk::Disk as _;
use crate::local_disk::test_disk::SimulatedDisk;

const LIMITS: JournalLimits = JournalLimits {
    segment_len: 4096,
    bytes_max: 1 << 20,
};

fn open(disk: &SimulatedDisk) -> Result<(Journal, Vec<RecoveredRecord>), JournalError> {
    Journal::open(Arc::new(disk.clone()), LIMITS, Clock::monotonic())
}

/// A journal with batches of one record of 100 bytes.
fn journal_of(records: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    let (journal, _) = open(&disk).unwrap();
    for key in 0..records {
        let commit = block_on(journal.append(RecordKey(key), &[&[7; 100]])).unwrap();
        block_on(commit).unwrap();
    }
    disk
}

#[track_caller]
fn check_damage(disk: &SimulatedDisk, segment: u64, offset: u64, reason: DamageReason) {
    match open(disk) {
        Err(JournalError::Damaged(found)) => {
            let expected = (segment, offset, reason);
            assert_eq!((found.segment, found.offset, found.reason), expected);
        }
        other => panic!("{other:?}"),
    }
}

/// Bytes of a record here.
const RECORD: u64 = 144;

#[test]
fn a_damaged_record_before_an_acknowledged_one_is_damage() {
    for place in [0, 5, 30, 39, 41, 139] {
        let disk = journal_of(3);
        disk.flip("journal-00000001", 48 + RECORD + place, 1);
        check_damage(&disk, 1, 48 + RECORD, DamageReason::Record);
    }
}

#[test]
fn a_damaged_last_record_is_a_tail() {
    let disk = journal_of(3);
    disk.flip("journal-00000001", 48 + 2 * RECORD + 50, 1);
    let (_journal, found) = open(&disk).unwrap();
    let keys: Vec<_> = found.iter().map(|record| record.id.key.0).collect();
    assert_eq!(keys, [0, 1]);
}

#[test]
fn a_damaged_last_record_of_an_earlier_segment_is_damage() {
    let disk = journal_of(30);
    assert_eq!(disk.list().unwrap().len(), 2);
    disk.flip("journal-00000001", 48 + 27 * RECORD + 50, 1);
    check_damage(&disk, 1, 48 + 27 * RECORD, DamageReason::Record);
}

#[test]
fn a_missing_segment_a_foreign_one_and_a_bad_header_are_damage() {
    let disk = journal_of(60);
    disk.remove("journal-00000002").unwrap();
    check_damage(&disk, 2, 0, DamageReason::Missing);

    let disk = journal_of(60);
    disk.rename("journal-00000003", "journal-00000004").unwrap();
    match open(&disk) {
        Err(JournalError::Damaged(found)) => assert_eq!(found.reason, DamageReason::Missing),
        other => panic!("{other:?}"),
    }

    let disk = journal_of(3);
    disk.flip("journal-00000001", 20, 1);
    check_damage(&disk, 1, 0, DamageReason::Header);
}

#[test]
fn a_cut_segment_is_damage_wherever_it_is_cut() {
    for (segment, records) in [(1, 3), (1, 30), (2, 30)] {
        for len in [100, 48 + 2 * RECORD, 4095] {
            let disk = journal_of(records);
            let name = format!("journal-{segment:08}");
            disk.set_len(&name, len);
            check_damage(&disk, segment, len, DamageReason::Cut);
        }
    }
}

/// By its last segment a journal without records is told from one that was removed.
#[test]
fn a_journal_has_a_segment_at_any_time() {
    let disk = SimulatedDisk::new(1);
    assert!(!has_journal(&disk).unwrap());
    for _ in 0..3 {
        let (journal, found) = open(&disk).unwrap();
        assert_eq!(found.len(), 0);
        assert!(has_journal(&disk).unwrap());
        let commit = block_on(journal.append(RecordKey(1), &[&[7; 100]])).unwrap();
        let id = block_on(commit).unwrap();
        block_on(journal.release(id)).unwrap();
        drop(journal);
        assert!(has_journal(&disk).unwrap());
    }
}

#[test]
fn a_newer_format_is_refused_with_the_reason() {
    let disk = journal_of(3);
    let file = disk.open("journal-00000001").unwrap();
    file.write_at(&[9], 8).unwrap();
    let error = open(&disk).unwrap_err();
    assert!(
        matches!(error, JournalError::Newer { found: 9, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("format 9"), "{error}");
    assert_eq!(
        disk.list().unwrap(),
        ["journal-00000001"],
        "nothing is touched"
    );
}

#[test]
fn files_of_other_names_are_left_alone() {
    let disk = journal_of(1);
    for name in [
        "journal-1",
        "journal-00000001.bak",
        "data-7",
        "journal-x.new",
    ] {
        disk.create(name).unwrap();
    }
    disk.create("journal-00000009.new").unwrap();
    let (_journal, found) = open(&disk).unwrap();
    assert_eq!(found.len(), 1);
    let names = disk.list().unwrap();
    assert_eq!(
        names,
        [
            "data-7",
            "journal-00000001",
            "journal-00000001.bak",
            "journal-1",
            "journal-x.new"
        ]
    );
}
