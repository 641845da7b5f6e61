//! Writers share syncs, errors are final for their batch, and everything is bounded.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::executor::block_on;
use futures::future::{join_all, poll_immediate};

use crate::clock::Clock;
use crate::file::journal::{
    AppendError, Journal, JournalLimits, RECORD_LEN_MAX, RecordId, RecordKey,
};
use crate::local_disk::Disk as _;
use crate::local_disk::test_disk::{SimulatedDisk, SimulatedFault};

const LIMITS: JournalLimits = JournalLimits {
    segment_len: 64 << 10,
    bytes_max: 1 << 20,
};

fn open(disk: &SimulatedDisk, limits: JournalLimits) -> Journal {
    let disk = Arc::new(disk.clone());
    Journal::open(disk, limits, Clock::monotonic()).unwrap().0
}

async fn put(journal: &Journal, key: u64, payload: &[u8]) -> Result<RecordId, AppendError> {
    journal.append(RecordKey(key), &[payload]).await?.await
}

#[test]
fn writers_that_wait_together_share_a_sync() {
    let disk = SimulatedDisk::new(1);
    let journal = open(&disk, LIMITS);
    block_on(put(&journal, 0, b"x")).unwrap();
    for round in 1..6 {
        let before = disk.syncs();
        // One batch is written at most while the disk does nothing: the others share the next.
        let commits = disk.while_held(|| {
            let append = |key| block_on(journal.append(RecordKey(key), &[b"x"])).unwrap();
            (8 * round..8 * round + 8).map(append).collect::<Vec<_>>()
        });
        assert!(block_on(join_all(commits)).iter().all(Result::is_ok));
        let syncs = disk.syncs() - before;
        assert!((1..=2).contains(&syncs), "{syncs}");
    }
}

#[test]
fn a_release_goes_with_the_next_batch() {
    let disk = SimulatedDisk::new(1);
    let journal = open(&disk, LIMITS);
    let first = block_on(put(&journal, 1, b"first")).unwrap();
    let before = disk.syncs();
    let released = journal.release(first);
    block_on(put(&journal, 2, b"second")).unwrap();
    assert_eq!(block_on(released).unwrap(), first);
    assert_eq!(disk.syncs() - before, 1);
    assert_eq!(journal.read(first).unwrap(), None);
}

#[test]
fn the_newest_record_is_read_and_an_older_one_is_not() {
    let disk = SimulatedDisk::new(1);
    let journal = open(&disk, LIMITS);
    let old = block_on(put(&journal, 1, b"old")).unwrap();
    let parts: [&[u8]; 2] = [b"ne", b"w"];
    let commit = block_on(journal.append(RecordKey(1), &parts)).unwrap();
    let new = block_on(commit).unwrap();
    assert_eq!(journal.read(new).unwrap().unwrap(), b"new");
    assert_eq!(journal.read(old).unwrap(), None);
    block_on(journal.release(old)).unwrap();
    assert_eq!(
        journal.read(new).unwrap().unwrap(),
        b"new",
        "the old release names another one"
    );
}

#[test]
fn a_failed_sync_is_final_for_its_writers_and_for_no_others() {
    let disk = SimulatedDisk::new(1);
    let journal = open(&disk, LIMITS);
    block_on(put(&journal, 0, b"x")).unwrap();
    disk.fail_at(2, SimulatedFault::Fail(ErrorKind::Other));
    let error = block_on(put(&journal, 1, b"x")).unwrap_err();
    assert!(matches!(error, AppendError::Disk(_)), "{error}");
    block_on(put(&journal, 2, b"x")).unwrap();
    drop(journal);
    let restarted = Arc::new(disk.restart());
    let (_journal, found) = Journal::open(restarted, LIMITS, Clock::monotonic()).unwrap();
    let keys: Vec<_> = found.iter().map(|record| record.id.key.0).collect();
    assert_eq!(keys, [0, 2]);
}

#[test]
fn a_full_batch_makes_appends_wait() {
    let disk = SimulatedDisk::new(1);
    // 15 records fill a batch.
    let journal = open(&disk, LIMITS);
    let (payload, appended) = (vec![5; 1000], AtomicUsize::new(0));
    let all = (0..200).map(async |key| {
        let commit = journal.append(RecordKey(key), &[&payload]).await?;
        appended.fetch_add(1, Ordering::SeqCst);
        commit.await
    });
    let mut all = join_all(all.collect::<Vec<_>>());
    disk.while_held(|| {
        assert!(block_on(poll_immediate(&mut all)).is_none());
        // One batch is written, another one fills.
        let appended = appended.load(Ordering::SeqCst);
        assert!((15..=30).contains(&appended), "{appended}");
    });
    assert!(block_on(all).iter().all(Result::is_ok));
    let segments = disk.list().unwrap().len() as u64;
    let syncs = disk.syncs() - segments;
    assert!((14..=200).contains(&syncs), "{syncs}");
}

#[test]
fn what_is_too_large_or_too_much_is_refused_with_the_reason() {
    let disk = SimulatedDisk::new(1);
    let limits = JournalLimits {
        segment_len: 64 << 10,
        bytes_max: 16 << 10,
    };
    let journal = open(&disk, limits);
    let too_large = block_on(put(&journal, 1, &vec![0; RECORD_LEN_MAX + 1])).unwrap_err();
    assert!(
        matches!(too_large, AppendError::TooLarge { .. }),
        "{too_large}"
    );
    let mut ids = Vec::new();
    let full = loop {
        match block_on(put(&journal, ids.len() as u64, &[1; 1000])) {
            Ok(id) => ids.push(id),
            Err(error) => break error,
        }
    };
    assert!(matches!(full, AppendError::Full { .. }), "{full}");
    assert_eq!(ids.len(), 8);
    // A release needs no room.
    block_on(journal.release(ids[0])).unwrap();
    block_on(put(&journal, 99, b"x")).unwrap();
}

#[test]
fn a_disk_that_is_full_works_again_when_there_is_room() {
    let disk = SimulatedDisk::new(1);
    let journal = open(&disk, LIMITS);
    disk.limit(1000);
    for _ in 0..3 {
        let error = block_on(put(&journal, 1, b"x")).unwrap_err();
        let AppendError::Disk(error) = error else {
            panic!("{error}");
        };
        assert_eq!(error.kind(), ErrorKind::StorageFull);
    }
    disk.limit(1 << 20);
    block_on(put(&journal, 1, b"x")).unwrap();
}

#[test]
fn an_append_after_the_end_is_refused_and_one_before_it_is_durable() {
    let disk = SimulatedDisk::new(1);
    let journal = open(&disk, LIMITS);
    let commit = block_on(journal.append(RecordKey(1), &[b"x"])).unwrap();
    journal.begin_close();
    block_on(commit).unwrap();
    let late = block_on(put(&journal, 2, b"y")).unwrap_err();
    assert!(matches!(late, AppendError::Closed), "{late}");
}

/// A file that waits for S3 keeps its record, while others are stored and their records released.
#[test]
fn a_record_that_stays_does_not_keep_the_segments_behind_it() {
    let disk = SimulatedDisk::new(1);
    let journal = open(&disk, LIMITS);
    let stays = block_on(put(&journal, 0, b"stays")).unwrap();
    let mut bytes_max = 0;
    for key in 1..=2000 {
        let id = block_on(put(&journal, key, &[1; 1000])).unwrap();
        drop(journal.release(id));
        bytes_max = disk.used().max(bytes_max);
    }
    assert!(bytes_max <= 5 * LIMITS.segment_len, "{bytes_max}");
    assert_eq!(journal.read(stays).unwrap().unwrap(), b"stays");
}

#[test]
fn threads_append_replace_and_release_while_segments_come_and_go() {
    let disk = SimulatedDisk::new(7);
    let limits = JournalLimits {
        segment_len: 8 << 10,
        bytes_max: 1 << 20,
    };
    let journal = open(&disk, limits);
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let journal = &journal;
            scope.spawn(move || {
                for round in 0..200_u64 {
                    let key = thread * 10 + round % 10;
                    let payload = [thread.to_le_bytes(), round.to_le_bytes()].concat();
                    let id = block_on(put(journal, key, &payload)).unwrap();
                    assert_eq!(journal.read(id).unwrap().as_deref(), Some(&payload[..]));
                    if round % 3 == 0 {
                        drop(journal.release(id));
                    }
                }
            });
        }
    });
    assert!(disk.used() <= 6 * limits.segment_len, "{}", disk.used());
    drop(journal);
    let restarted = Arc::new(disk.restart());
    let (journal, found) = Journal::open(restarted, limits, Clock::monotonic()).unwrap();
    let mut expected = Vec::new();
    for thread in 0..8_u64 {
        for round in 190..200_u64 {
            if round % 3 != 0 {
                expected.push((thread * 10 + round % 10, round));
            }
        }
    }
    let mut there = Vec::new();
    for record in found {
        let payload = journal.read(record.id).unwrap().unwrap();
        there.push((record.id.key.0, u64::from(payload[8])));
    }
    there.sort_unstable();
    assert_eq!(there, expected);
}

/// Writers of the batch that is written, of the next one, and of later ones.
#[test]
fn a_panic_of_the_journals_thread_is_an_error_for_every_writer() {
    let disk = SimulatedDisk::new(1);
    let journal = open(&disk, LIMITS);
    block_on(put(&journal, 0, b"durable")).unwrap();
    disk.fail_at(1, SimulatedFault::Panic);
    let all = join_all((1..20).map(|key| put(&journal, key, b"lost")));
    for outcome in block_on(all) {
        assert!(matches!(outcome, Err(AppendError::Disk(_))), "{outcome:?}");
    }
    let later = block_on(put(&journal, 50, b"later"));
    assert!(
        matches!(&later, Err(AppendError::Disk(error)) if error.to_string().contains("panicked")),
        "{later:?}"
    );
    drop(journal);
}
