//! Writers and the committing thread in schedules of the test's choice, with a disk that fails.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;

use shuttle::future::block_on;
use shuttle::rand::{Rng as _, thread_rng};

use crate::clock::Clock;
use crate::file::journal::{Journal, JournalLimits, RecordId, RecordKey};
use crate::local_disk::test_disk::{SimulatedDisk, SimulatedFault};
use crate::sync::explore;

const LIMITS: JournalLimits = JournalLimits {
    segment_len: 4096,
    bytes_max: 1 << 20,
};

/// Appends two records of one key, and releases one of them now and then. Returns the newest that
/// is durable, and whether its release was asked for.
fn write(journal: &Journal, key: u64) -> Option<(RecordId, bool)> {
    let mut newest = None;
    for number in 0..2_u8 {
        let payload = vec![number; thread_rng().gen_range(1..900)];
        let appended = block_on(journal.append(RecordKey(key), &[&payload]));
        let Ok(id) = appended.and_then(block_on) else {
            continue;
        };
        newest = Some((id, false));
        if thread_rng().gen_range(0..4) == 0 {
            drop(journal.release(id));
            newest = Some((id, true));
        }
    }
    newest
}

#[test]
fn what_a_commit_has_promised_is_there_after_a_power_loss() {
    explore(|| {
        let disk = SimulatedDisk::new(thread_rng().r#gen());
        let opened = Journal::open(Arc::new(disk.clone()), LIMITS, Clock::manual());
        let journal = Arc::new(opened.unwrap().0);
        let fault = match thread_rng().r#gen() {
            true => SimulatedFault::PowerLoss,
            false => SimulatedFault::Fail(ErrorKind::Other),
        };
        disk.fail_at(thread_rng().gen_range(1..12), fault);
        let writers: Vec<_> = (0..3)
            .map(|key| {
                let journal = Arc::clone(&journal);
                shuttle::thread::spawn(move || write(&journal, key))
            })
            .collect();
        let newest: Vec<_> = writers.into_iter().map(|it| it.join().unwrap()).collect();
        drop(journal);
        let restarted = Arc::new(disk.restart());
        let (_journal, found) = Journal::open(restarted, LIMITS, Clock::manual()).unwrap();
        let found: BTreeMap<_, _> = found.iter().map(|it| (it.id.key, it.id.version)).collect();
        for (id, is_released) in newest.into_iter().flatten() {
            let there = found.get(&id.key);
            let is_there = there.is_some_and(|version| *version >= id.version);
            assert!(is_there || is_released, "{id:?} is lost: {there:?}");
        }
    });
}
