//! Seeded histories of batches, with power losses and errors at every operation of the disk.
//!
//! A history is drawn from its seed alone, so that each failure is repeated by its seed and the
//! number of its operation.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::file::journal::batch::Batch;
use crate::file::journal::format::{RecordHeader, RecordKind};
use crate::file::journal::journal::open_log;
use crate::file::journal::log::{self, Log};
use crate::file::journal::types::{JournalLimits, RecordId, RecordKey};
use crate::local_disk::Disk;
use crate::local_disk::checksum;
use crate::local_disk::test_disk::{SimulatedDisk, SimulatedFault};

const LIMITS: JournalLimits = JournalLimits {
    segment_len: 2048,
    bytes_max: 1 << 20,
};

/// State of a key: a version and its payload, `None` once it was released.
type KeyState = (u64, Option<Vec<u8>>);

/// Calls of the journal, and its answers.
#[derive(Debug, Default)]
struct Model {
    acknowledged: BTreeMap<u64, KeyState>,
    /// Records that failed, or were not answered: each may be durable until a later one is.
    unknown: Vec<(u64, KeyState)>,
    version: u64,
}

impl Model {
    fn acknowledge(&mut self, changes: Vec<(u64, KeyState)>) {
        self.unknown.clear();
        for (key, state) in changes {
            let known = self.acknowledged.get(&key);
            if known.is_none_or(|(version, _)| *version <= state.0) {
                self.acknowledged.insert(key, state);
            }
        }
    }

    /// Compares what a start has found, and goes on from there.
    fn check(&mut self, log: &Log, version: u64, context: &str) {
        let mut found = BTreeMap::new();
        let live = log.index().lock().live();
        for (id, place) in live {
            let (file, _) = log.index().lock().find(id).unwrap();
            let payload = log::read(&*file, &place).unwrap();
            found.insert(id.key.0, (id.version, Some(payload)));
        }
        for key in 0..KEYS {
            let may_be = self.acknowledged.get(&key).into_iter();
            let unknown = self.unknown.iter().filter(|(it, _)| *it == key);
            let may_be: Vec<_> = may_be.chain(unknown.map(|(_, state)| state)).collect();
            let is_right = match found.get(&key) {
                Some(state) => may_be.contains(&state),
                None => {
                    let ended = |(_, payload): &&&KeyState| payload.is_none();
                    !self.acknowledged.contains_key(&key) || may_be.iter().any(|it| ended(&it))
                }
            };
            let there = found.get(&key);
            assert!(
                is_right,
                "{context}: key {key} has {there:?}, may have {may_be:?}"
            );
        }
        assert!(
            found.keys().all(|key| *key < KEYS),
            "{context}: a foreign key"
        );
        let newest = found.values().map(|(version, _)| *version).max();
        assert!(
            newest.unwrap_or_default() <= version,
            "{context}: versions go back"
        );
        self.acknowledged = found;
        self.unknown.clear();
        self.version = self.version.max(version);
    }
}

/// Batches as the committing thread makes them, until `batches` are done or the power goes.
fn history(disk: &SimulatedDisk, random: &mut StdRng, model: &mut Model, batches: u32) {
    let context = "without a fault before";
    let Ok((mut log, version)) = open_log(Arc::new(disk.clone()), LIMITS) else {
        return;
    };
    model.check(&log, version, context);
    let mut batch = Batch::default();
    for _ in 0..batches {
        let mut changes = Vec::new();
        for _ in 0..random.random_range(1..6) {
            changes.extend(draw(random, model, &mut batch));
        }
        let result = log.commit(&mut batch);
        batch.clear();
        match result {
            Ok(_) => model.acknowledge(changes),
            Err(_) => model.unknown.extend(changes),
        }
        if disk.is_off() {
            return;
        }
        log.remove_dead();
        for copy in log.next_copies(300) {
            if log.index().lock().is_live(copy.id) {
                let header = data(copy.id, &copy.payload);
                assert_eq!(header.payload_sum, copy.sum);
                batch.push(header, &[&copy.payload], true);
            }
        }
    }
}

/// Adds a record or a release.
fn draw(random: &mut StdRng, model: &mut Model, batch: &mut Batch) -> Option<(u64, KeyState)> {
    let key = random.random_range(0..KEYS);
    if random.random_range(0..3) == 0 {
        let (version, payload) = model.acknowledged.get(&key)?;
        payload.as_ref()?;
        let header = RecordHeader {
            kind: RecordKind::Release,
            len: 0,
            key,
            version: *version,
            payload_sum: checksum(&[]),
        };
        batch.push(header, &[], false);
        return Some((key, (*version, None)));
    }
    model.version += 1;
    let version = model.version;
    let payload = vec![random.random(); random.random_range(0..120)];
    let id = RecordId {
        key: RecordKey(key),
        version,
    };
    let (front, end) = payload.split_at(payload.len() / 3);
    batch.push(data(id, &payload), &[front, end], false);
    Some((key, (version, Some(payload))))
}

fn data(id: RecordId, payload: &[u8]) -> RecordHeader {
    RecordHeader {
        kind: RecordKind::Data,
        len: u32::try_from(payload.len()).unwrap(),
        key: id.key.0,
        version: id.version,
        payload_sum: checksum(&[payload]),
    }
}

/// The start after a power loss finds what it must, however often the start is cut short itself.
fn check_restart(disk: &SimulatedDisk, model: &mut Model, context: &str) -> SimulatedDisk {
    let mut disk = disk.restart();
    for operation in 1..4 {
        disk.fail_at(operation, SimulatedFault::PowerLoss);
        // It may succeed before the power goes.
        drop(open_log(Arc::new(disk.clone()), LIMITS));
        disk = disk.restart();
    }
    let (log, version) = open_log(Arc::new(disk.clone()), LIMITS)
        .unwrap_or_else(|error| panic!("{context}: {error}"));
    model.check(&log, version, context);
    drop(log);
    disk
}

/// A history with a fault at an operation, a power loss, and another history behind it.
fn run(seed: u64, operation: u64, fault: SimulatedFault) -> u64 {
    let context = format!("seed {seed}, {fault:?} at operation {operation}");
    let disk = SimulatedDisk::new(seed);
    disk.fail_at(operation, fault);
    let mut random = StdRng::seed_from_u64(seed);
    let mut model = Model::default();
    history(&disk, &mut random, &mut model, BATCHES);
    let operations = disk.operations();
    let disk = check_restart(&disk, &mut model, &context);
    disk.fail_at(random.random_range(1..40), SimulatedFault::PowerLoss);
    history(&disk, &mut random, &mut model, BATCHES);
    check_restart(&disk, &mut model, &context);
    operations
}

fn run_all(fault: SimulatedFault) {
    let mut histories = 0;
    for seed in 0..SEEDS {
        let operations = run(seed, u64::MAX >> 1, fault);
        for operation in 1..=operations {
            run(seed, operation, fault);
            histories += 1;
        }
    }
    assert!(histories >= 1000, "only {histories} histories");
}

#[test]
fn what_was_acknowledged_outlives_a_power_loss_at_every_operation() {
    run_all(SimulatedFault::PowerLoss);
}

#[test]
fn an_error_at_any_operation_is_final_for_its_batch_only() {
    run_all(SimulatedFault::Fail(ErrorKind::Other));
}

#[test]
fn a_full_disk_at_any_operation_is_final_for_its_batch_only() {
    run_all(SimulatedFault::Fail(ErrorKind::StorageFull));
}

#[test]
fn zeros_are_written_behind_small_batches_until_they_are_used_up() {
    let (mut log, _) = open_log(Arc::new(SimulatedDisk::new(0)), LIMITS).unwrap();
    let mut version = 0;
    let mut zeros_of = |len: usize| {
        version += 1;
        let key = RecordKey(0);
        let (id, payload) = (RecordId { key, version }, vec![1; len]);
        let mut batch = Batch::default();
        batch.push(data(id, &payload), &[&payload], false);
        log.commit(&mut batch).unwrap() - batch.len()
    };
    assert_eq!(zeros_of(8), 512);
    assert_eq!(zeros_of(8), 0, "they are there");
    assert_eq!(zeros_of(400), 0, "a large batch");
    assert_eq!(zeros_of(8), 512, "it reaches beyond them");
}

#[test]
fn garbage_is_bounded_and_segments_are_removed() {
    for seed in 0..20 {
        let disk = SimulatedDisk::new(seed);
        let mut random = StdRng::seed_from_u64(seed);
        let mut model = Model::default();
        history(&disk, &mut random, &mut model, 400);
        let live: usize = model
            .acknowledged
            .values()
            .filter_map(|(_, it)| it.as_ref())
            .map(Vec::len)
            .sum();
        // Live records, as much garbage, two segments of it, the one that is emptied and the last.
        let bound = 2 * (live as u64 + 48 * KEYS) + 4 * LIMITS.segment_len;
        assert!(
            disk.used() <= bound,
            "seed {seed}: {} of {bound}",
            disk.used()
        );
        let names = disk.list().unwrap();
        assert!(
            !names.contains(&"journal-00000001".to_owned()),
            "seed {seed}: {names:?}"
        );
    }
}

const KEYS: u64 = 12;
const BATCHES: u32 = 20;
const SEEDS: u64 = 20;

/// A process is killed between the write and the sync of a batch, and the power goes soon after the
/// next start, which has read the batch.
#[test]
fn a_start_makes_durable_what_a_killed_process_has_written() {
    for seed in 0..200 {
        let disk = SimulatedDisk::new(seed);
        let (mut log, _) = open_log(Arc::new(disk.clone()), LIMITS).unwrap();
        for (number, operation) in [(1, 1 << 20), (2, 2)] {
            disk.fail_at(operation, SimulatedFault::Kill(0));
            let id = RecordId {
                key: RecordKey(number),
                version: number,
            };
            let mut batch = Batch::default();
            batch.push(data(id, &[7; 40]), &[&[7; 40]], false);
            let committed = log.commit(&mut batch);
            assert_eq!(committed.is_ok(), number == 1, "{committed:?}");
        }
        let next = disk.other_process();
        let (log, _) = open_log(Arc::new(next.clone()), LIMITS).unwrap();
        let found = log.index().lock().live().len();
        let (log, _) = open_log(Arc::new(next.restart()), LIMITS).unwrap();
        assert_eq!(log.index().lock().live().len(), found, "seed {seed}");
    }
}
