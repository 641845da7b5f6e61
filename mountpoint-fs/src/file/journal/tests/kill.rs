//! A process that is killed while it writes: what it was told is durable is there afterwards.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use futures::executor::block_on;

use crate::clock::Clock;
use crate::file::journal::{Journal, JournalLimits, RecordKey, RecoveredRecord};
use crate::local_disk::test_disk::real_folder;

const LIMITS: JournalLimits = JournalLimits {
    segment_len: 64 << 10,
    bytes_max: 16 << 20,
};

fn open(folder: &Path) -> (Journal, Vec<RecoveredRecord>) {
    let disk = Arc::new(real_folder(folder));
    Journal::open(disk, LIMITS, Clock::monotonic()).unwrap()
}

fn payload(key: u64, round: u64) -> Vec<u8> {
    let len = usize::try_from(key * 37 % 500).unwrap();
    [
        round.to_le_bytes().to_vec(),
        vec![key.to_le_bytes()[0]; len],
    ]
    .concat()
}

/// The process that is killed: several writers, each of which tells what is durable.
#[test]
#[ignore = "is started, in a folder of its own, by the test below"]
fn writes_until_it_is_killed() {
    let (journal, found) = open(Path::new("."));
    let first = found.iter().map(|record| record.id.version).max();
    let first = first.unwrap_or_default();
    std::thread::scope(|scope| {
        for writer in 0..4_u64 {
            let journal = &journal;
            scope.spawn(move || {
                for round in first.. {
                    let key = writer * 100 + round % 100;
                    let bytes = payload(key, round);
                    let commit = block_on(journal.append(RecordKey(key), &[&bytes])).unwrap();
                    block_on(commit).unwrap();
                    writeln!(std::io::stdout().lock(), "ACK {key} {round}").unwrap();
                }
            });
        }
    });
}

#[test]
fn what_was_acknowledged_outlives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged: BTreeMap<u64, u64> = BTreeMap::new();
    for loops in 0..LOOPS {
        let name = "file::journal::tests::kill::writes_until_it_is_killed";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                name,
                "--ignored",
                "--nocapture",
                "--test-threads=1",
            ])
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut seen = 0;
        for line in lines {
            let line = line.unwrap();
            let mut words = line
                .split(' ')
                .skip_while(|word| !word.ends_with("ACK"))
                .skip(1);
            let mut number = || words.next()?.parse::<u64>().ok();
            if let (Some(key), Some(round)) = (number(), number()) {
                let known = acknowledged.entry(key).or_default();
                *known = round.max(*known);
                seen += 1;
            }
            if seen == 40 + 17 * loops {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        let (journal, found) = open(folder.path());
        let found: BTreeMap<u64, _> = found.iter().map(|it| (it.id.key.0, it.id)).collect();
        for (key, round) in &acknowledged {
            let bytes = journal.read(found[key]).unwrap().unwrap();
            let mut there = [0; 8];
            there.copy_from_slice(&bytes[..8]);
            let there = u64::from_le_bytes(there);
            assert!(
                there >= *round,
                "key {key}: round {there} instead of {round}"
            );
            assert_eq!(bytes, payload(*key, there), "key {key}");
        }
    }
    assert!(!acknowledged.is_empty());
}

const LOOPS: usize = 12;
