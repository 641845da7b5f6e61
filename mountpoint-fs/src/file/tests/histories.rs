//! Seeded histories of files over a simulated disk, with a power loss at any operation.
//!
//! The oracle knows, for each byte, the acknowledged one and those that were written since:
//! a power loss may leave any of these, and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use mountpoint_client::testing::sim::{Fault, FaultRule, Operation, SimOptions, When};
use mountpoint_client::types::Key;
use mountpoint_client::{ErrorKind, SimClient};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tempfile::TempDir;

use super::write_back::{LONG, bytes};
use super::{EventLog, mount, staging_config, wait, write};
use crate::clock::Clock;
use crate::config::{ConflictPolicy, WriteBackConfig};
use crate::file::directory::{Holder, StagingDirectory};
use crate::file::{StagedBase, StagedFile, Staging};
use crate::local_disk::test_disk::{SimulatedDisk, SimulatedFault};
use crate::operation::{InodeNo, Progress};

/// The bytes that one file may have.
#[derive(Debug, Default)]
struct Oracle {
    bytes: Vec<u8>,
    /// The bytes of the last commit that returned; `None` before the first.
    acknowledged: Option<Vec<u8>>,
    /// Bytes that were written since, by offset.
    since: BTreeMap<usize, Vec<u8>>,
    /// Lengths of commits that did not return.
    unknown: Vec<usize>,
    is_removed: bool,
    /// The removal did not return.
    may_be_removed: bool,
}

impl Oracle {
    fn wrote(&mut self, at: usize, data: &[u8]) {
        self.bytes.resize(self.bytes.len().max(at + data.len()), 0);
        for (place, byte) in (at..).zip(data) {
            self.bytes[place] = *byte;
            self.since.entry(place).or_default().push(*byte);
        }
    }

    /// All bytes are durable.
    fn committed(&mut self) {
        self.acknowledged = Some(self.bytes.clone());
        self.since.clear();
        self.unknown.clear();
    }

    /// Compares with the object in the bucket after the next mount.
    fn check(&self, found: Option<&[u8]>, context: &str) {
        let Some(found) = found else {
            let may_lack = self.acknowledged.is_none() || self.is_removed || self.may_be_removed;
            return assert!(may_lack, "{context}: it is lost");
        };
        assert!(!self.is_removed, "{context}: it was removed");
        let acknowledged = self.acknowledged.as_deref();
        let lengths = acknowledged.map(<[u8]>::len).into_iter();
        let mut lengths = lengths.chain(self.unknown.iter().copied());
        assert!(
            lengths.any(|len| len == found.len()),
            "{context}: {} bytes",
            found.len()
        );
        for (at, byte) in found.iter().enumerate() {
            let before = acknowledged.and_then(|bytes| bytes.get(at)).copied();
            let since = self.since.get(&at);
            let is_right = before.unwrap_or_default() == *byte
                || since.is_some_and(|written| written.contains(byte));
            assert!(is_right, "{context}: byte {at} is {byte}");
        }
    }
}

/// A file that has or had the key of the number.
struct HistoryFile {
    file: StagedFile,
    key: usize,
    oracle: Oracle,
}

struct History {
    staging: Arc<Staging>,
    files: Vec<HistoryFile>,
    keys: usize,
    names: RenameLog,
    random: StdRng,
}

/// The names after a history.
#[derive(Default)]
struct RenameLog {
    /// Keys that renames have left.
    left: Vec<usize>,
    /// A rename of the last file that did not return: its old key, and what the new one had.
    interrupted: Option<(usize, Oracle)>,
}

fn key(number: usize) -> Key {
    Key::parse(&format!("key{number}")).unwrap()
}

fn open(
    disk: &SimulatedDisk,
    client: &Arc<SimClient>,
    outer: &TempDir,
) -> Result<Arc<Staging>, String> {
    let mut config = staging_config(outer, ConflictPolicy::Fail);
    config.write_back = Some(WriteBackConfig {
        delay: LONG,
        drain_timeout: LONG,
        is_exclusive: false,
    });
    let directory = StagingDirectory::open(outer.path(), &Holder::default(), &|_| false).unwrap();
    let directory = directory.with_disk(Arc::new(disk.clone()));
    mount(client, &config, Some(directory), Clock::monotonic())
}

impl History {
    fn new_key(&mut self) -> usize {
        self.keys += 1;
        self.keys - 1
    }

    fn new_file(&mut self) {
        let number = self.new_key();
        let key = key(number);
        let progress = Arc::new(Progress::new(0, Clock::manual().wall()));
        let headers = self.staging.headers_of_new(&key);
        let events = Arc::<EventLog>::default();
        let file = self.staging.file(
            key,
            StagedBase::None,
            headers,
            progress,
            (events, InodeNo::ROOT),
        );
        self.files.push(HistoryFile {
            file,
            key: number,
            oracle: Oracle::default(),
        });
    }

    fn step(&mut self) {
        if self.files.is_empty() || self.random.random_range(0..8) == 0 {
            self.new_file();
        }
        let number = self.random.random_range(0..self.files.len());
        let HistoryFile { file, oracle, .. } = &mut self.files[number];
        if oracle.is_removed || oracle.may_be_removed {
            return;
        }
        match self.random.random_range(0..10) {
            0..4 => {
                // Some files are too large for the journal, or for memory once they have grown.
                let (at_max, least) = match number % 3 {
                    0 => (1000, 1),
                    1 => (1000, 150_000),
                    _ => (100_000, 60_000),
                };
                let at = self.random.random_range(0..at_max);
                let len = self.random.random_range(0..1000) + least;
                let data = vec![self.random.random_range(1..=255); len];
                if write(file, at as u64, &data).is_ok() {
                    oracle.wrote(at, &data);
                } else {
                    // Some of it may be there.
                    let len = oracle.bytes.len();
                    oracle.wrote(at, &data);
                    oracle.bytes.truncate(len);
                }
            }
            4..7 => match wait(file.commit()) {
                Ok(()) => oracle.committed(),
                Err(_) => oracle.unknown.push(oracle.bytes.len()),
            },
            // Other files are not renamed by a record.
            7..9 if file.is_recorded() => self.rename(number),
            _ => match wait(file.remove()) {
                Ok(()) => oracle.is_removed = true,
                Err(_) => oracle.may_be_removed = true,
            },
        }
    }

    /// Renames a file that was committed, over another one if there is one, as the file system
    /// does.
    fn rename(&mut self, number: usize) {
        let mut source = self.files.swap_remove(number);
        let replaced = match self.files.is_empty() {
            true => None,
            false => {
                let other = self.random.random_range(0..self.files.len());
                let oracle = &self.files[other].oracle;
                let is_there = !oracle.is_removed && !oracle.may_be_removed;
                is_there.then(|| self.files.swap_remove(other))
            }
        };
        let to = match &replaced {
            Some(other) => other.key,
            None => self.new_key(),
        };
        let from = std::mem::replace(&mut source.key, to);
        let over = replaced.as_ref().map(|other| &other.file);
        let base = StagedBase::None;
        let renamed = source.file.rename_unstored(key(to), base, over);
        if wait(renamed).is_ok() {
            source.oracle.committed();
            self.names.left.push(from);
            if let Some(other) = &replaced {
                other.file.removed();
                // The newer record of the key counts, whatever becomes of this one.
                wait(other.file.remove()).ok();
            }
        } else {
            source.oracle.unknown.push(source.oracle.bytes.len());
            let replaced = replaced.map(|it| it.oracle);
            self.names.interrupted = Some((from, replaced.unwrap_or_default()));
        }
        self.files.push(source);
    }

    /// Lets the mount and its files go. Returns what is known of each key that a file has.
    fn end(self) -> (Vec<(usize, Oracle)>, RenameLog) {
        let files = self.files.into_iter();
        (files.map(|it| (it.key, it.oracle)).collect(), self.names)
    }
}

/// Compares with the bucket after the next mount.
fn check(
    client: &SimClient,
    (mut oracles, names): (Vec<(usize, Oracle)>, RenameLog),
    context: &str,
) {
    let found = |number: usize| {
        let object = client.object(key(number).as_str());
        object.map(|object| object.content.to_vec())
    };
    let mut left = names.left;
    if let (Some((from, replaced)), Some((to, _))) = (names.interrupted, oracles.last_mut()) {
        if found(from).is_some() {
            let to = std::mem::replace(to, from);
            replaced.check(found(to).as_deref(), &format!("{context}, key{to}"));
        } else {
            left.push(from);
        }
    }
    for (number, oracle) in &oracles {
        oracle.check(
            found(*number).as_deref(),
            &format!("{context}, key{number}"),
        );
    }
    for number in left {
        assert_eq!(found(number), None, "{context}, key{number} was renamed");
    }
}

/// A history with a power loss at an operation of the disk. Returns how many there were.
fn run(seed: u64, operation: u64) -> u64 {
    let context = format!("seed {seed}, operation {operation}");
    let client = Arc::new(SimClient::new(SimOptions::default()));
    client.add_fault(FaultRule {
        operation: None,
        when: When::From(1),
        fault: Fault::Fail(ErrorKind::Unreachable),
    });
    let disk = SimulatedDisk::new(seed);
    disk.fail_at(operation, SimulatedFault::PowerLoss);
    let outer = TempDir::new().unwrap();
    let mut known = None;
    if let Ok(staging) = open(&disk, &client, &outer) {
        if seed % 2 == 1 {
            staging.context().file_memory.forbid();
        }
        let mut history = History {
            staging,
            files: Vec::new(),
            keys: 0,
            names: RenameLog::default(),
            random: StdRng::seed_from_u64(seed),
        };
        for _ in 0..STEPS {
            history.step();
            if disk.is_off() {
                break;
            }
        }
        known = Some(history.end());
    }
    let operations = disk.operations();
    let disk = disk.restart();
    let client = Arc::new(SimClient::new(SimOptions::default()));
    let outer = TempDir::new().unwrap();
    let staging = open(&disk, &client, &outer).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(
        staging.damaged().is_empty(),
        "{context}: {:?}",
        staging.damaged()
    );
    assert!(wait(staging.drain(LONG)).is_empty(), "{context}");
    if let Some(known) = known {
        check(&client, known, &context);
    }
    operations
}

#[test]
fn what_was_committed_outlives_a_power_loss_at_every_operation() {
    let mut histories = 0;
    for seed in 0..SEEDS {
        let operations = run(seed, u64::MAX >> 1);
        for operation in 1..=operations {
            run(seed, operation);
            histories += 1;
        }
    }
    assert!(histories >= 100, "only {histories} histories");
}

/// An upload in parts from which S3 goes away, with a power loss at an operation of the disk, and
/// the next mount. Returns how many operations there were, and the parts that mount has sent.
fn run_upload(seed: u64, operation: u64) -> (u64, usize) {
    let context = format!("seed {seed}, operation {operation}");
    let client = Arc::new(SimClient::new(SimOptions::default()));
    let disk = SimulatedDisk::new(seed);
    disk.fail_at(operation, SimulatedFault::PowerLoss);
    let outer = TempDir::new().unwrap();
    let expected = bytes(PARTS_LEN, 3);
    let mut is_committed = false;
    if let Ok(staging) = open(&disk, &client, &outer) {
        let key = Key::parse("key").unwrap();
        let progress = Arc::new(Progress::new(0, Clock::manual().wall()));
        let headers = staging.headers_of_new(&key);
        let events = Arc::<EventLog>::default();
        let file = staging.file(
            key,
            StagedBase::None,
            headers,
            progress,
            (events, InodeNo::ROOT),
        );
        is_committed = write(&file, 0, &expected).is_ok() && wait(file.commit()).is_ok();
        client.add_fault(FaultRule {
            operation: Some(Operation::UploadPart),
            when: When::From(2),
            fault: Fault::Fail(ErrorKind::Unreachable),
        });
        wait(file.store()).unwrap_err();
        wait(staging.context().writing.drained());
    }
    let operations = disk.operations();
    let disk = disk.restart();
    client.clear_faults();
    drop(client.take_log());
    let outer = TempDir::new().unwrap();
    let staging = open(&disk, &client, &outer).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(wait(staging.drain(LONG)).is_empty(), "{context}");
    wait(staging.context().writing.drained());
    let found = client.object("key").map(|object| object.content.to_vec());
    let is_right = found.as_ref().is_none_or(|found| *found == expected);
    assert!(is_right && (found.is_some() || !is_committed), "{context}");
    let sent = client.log().count(Operation::UploadPart);
    assert!(sent <= PARTS, "{context}: {sent} parts");
    (operations, sent)
}

#[test]
fn an_upload_in_parts_outlives_a_power_loss_at_every_operation() {
    for seed in 0..2 {
        let (operations, sent) = run_upload(seed, u64::MAX >> 1);
        assert_eq!(sent, PARTS - 1);
        for operation in 1..=operations {
            run_upload(seed, operation);
        }
    }
}

/// Three parts of 5 MiB, the last one shorter.
const PARTS: usize = 3;
const PARTS_LEN: usize = 11 << 20;

const SEEDS: u64 = 6;
const STEPS: u32 = 24;
