//! Eviction: the files it names, the places each call visits, and the pauses between calls.

use std::time::{Duration, SystemTime};

use mountpoint_client::types::ETag;

use super::*;
use crate::config::limits::{EVICTION_PERIOD, INODES_MAX_LEAST};
use crate::namespace::inodes::eviction::{EVICTION_PAUSE_MIN, INODES_PER_SECOND_MAX};
use crate::namespace::inodes::inode::Observed;
use crate::namespace::moment::Moment;
use crate::namespace::version::{Found, Version};
use crate::operation::InodeNo;

const ROOT: InodeNo = InodeNo::ROOT;

fn version() -> Version {
    Version {
        size: 1,
        etag: ETag::from_header("1"),
        mtime: SystemTime::UNIX_EPOCH,
        is_archived: false,
    }
}

/// Adds a name in the root that is valid for `valid_until` seconds.
fn admit(table: &InodeTable, name: &str, found: &Found, valid_until: u64) -> InodeNo {
    let observed = Observed {
        asked: Moment::START,
        valid_until: Duration::from_secs(valid_until).into(),
        call: None,
    };
    table.admit(ROOT, name, found, observed).unwrap().ino
}

/// A table of `count` files. The number of a file is its name and its validity in seconds.
fn files(count: u64) -> InodeTable {
    let table = InodeTable::new(String::new());
    for number in 0..count {
        admit(&table, &number.to_string(), &Found::File(version()), number);
    }
    table
}

#[test]
fn memory_is_given_back_once_for_many_inodes_that_were_dropped() {
    let table = files(2 * TRIM_DROPPED_MIN);
    let forget = |number: u64| {
        let ino = table.child(ROOT, &number.to_string()).unwrap();
        table.forget(ino, 1);
    };
    assert!(!table.has_dropped_many(), "they are there");
    (0..TRIM_DROPPED_MIN - 1).for_each(forget);
    assert!(!table.has_dropped_many());
    forget(TRIM_DROPPED_MIN - 1);
    assert!(table.has_dropped_many());
    assert!(!table.has_dropped_many(), "it was given back");
    (TRIM_DROPPED_MIN..2 * TRIM_DROPPED_MIN).for_each(forget);
    assert!(table.has_dropped_many());
}

/// Evicts until a pause. The kernel forgets the names for which `forgets` returns `true`.
fn sweep(
    table: &InodeTable,
    max: usize,
    forgets: impl Fn(&str) -> bool,
) -> (Vec<String>, Duration) {
    let mut all = Vec::new();
    loop {
        let EvictionBatch { names, pause } = table.eviction_batch(max);
        assert!(names.len() <= EVICTION_LOOK, "{} in one call", names.len());
        for StaleName { directory, name } in names {
            let ino = table.child(directory, &name).expect("it means a file");
            if forgets(&name) {
                table.forget(ino, 1);
            }
            all.push(name.to_string());
        }
        if pause > Duration::ZERO {
            all.sort();
            return (all, pause);
        }
    }
}

#[test]
fn only_files_that_nobody_uses_are_named() {
    let table = InodeTable::new(String::new());
    let file = Found::File(version());
    admit(&table, "directory", &Found::Directory, 0);
    let open = admit(&table, "open", &file, 0);
    table.open_file(open, &version()).unwrap();
    let written = admit(&table, "written", &file, 0);
    let mut locked = table.table.lock();
    locked.writing.insert(written, None);
    drop(locked);
    let replaced = admit(&table, "replaced", &file, 0);
    table.detach(replaced);
    let forgotten = admit(&table, "forgotten", &file, 0);
    table.open_file(forgotten, &version()).unwrap();
    table.forget(forgotten, 1);
    admit(&table, "idle", &file, 0);
    admit(&table, "other", &file, 9);
    assert_eq!(sweep(&table, 0, |_| false).0, ["idle", "other"]);
    assert!(sweep(&table, 9, |_| false).0.is_empty());
    // A detached name that is looked up again is another file.
    admit(&table, "replaced", &file, 0);
    let (names, _) = sweep(&table, 0, |_| true);
    assert_eq!(names, ["idle", "other", "replaced"]);
    assert_eq!(table.len(), 5);
}

#[test]
fn each_call_looks_at_few_and_all_calls_together_bring_them_down() {
    let (count, max) = (20_000, 8);
    let table = files(count);
    let (names, pause) = sweep(&table, max, |_| true);
    assert_eq!(table.len(), max - max / 8);
    assert_eq!(names.len() + table.len(), 20_000);
    // An eviction continues to its target; the next one begins only above the limit.
    assert_eq!(pause, EVICTION_PAUSE_MIN);
    admit(&table, "a", &Found::File(version()), 0);
    assert!(sweep(&table, max, |_| true).0.is_empty());
    admit(&table, "b", &Found::File(version()), 0);
    assert_eq!(sweep(&table, max, |_| true).0.len(), 2);
}

#[test]
fn what_is_valid_for_the_shortest_time_goes_first() {
    let (count, max) = (20_000, 19_000);
    let table = files(count);
    let (names, _) = sweep(&table, max, |_| true);
    assert_eq!(table.len(), max - max / 8);
    for name in names {
        let number: u64 = name.parse().unwrap();
        assert!(number < count / 2, "{number} went before half of them");
    }
}

#[test]
fn what_the_kernel_does_not_forget_is_not_named_again_and_again() {
    let table = files(5_000);
    let (names, pause) = sweep(&table, 100, |_| false);
    assert_eq!((names.len(), pause), (5_000, EVICTION_PERIOD));
    // After the pause the kernel may forget others.
    let (names, pause) = sweep(&table, 100, |name| name.ends_with('7'));
    assert_eq!((names.len(), pause), (5_000, EVICTION_PERIOD));
    let (names, _) = sweep(&table, 100, |_| true);
    assert_eq!((names.len(), table.len()), (4_412, 88));
}

#[test]
fn there_are_never_many_too_many_before_it_is_looked() {
    let (max, fastest) = (INODES_MAX_LEAST, INODES_PER_SECOND_MAX);
    for (len, expected) in [
        (0, 1000),
        (max / 2, 1000),
        (max - 100_000, 200),
        (max - 1, 20),
        (max, 20),
        (2 * max, 20),
    ] {
        let pause = pause(len, max);
        assert_eq!(pause, Duration::from_millis(expected), "{len}");
        let made = fastest * usize::try_from(pause.as_millis()).unwrap() / 1000;
        assert!((len + made).saturating_sub(len.max(max)) <= max / 100);
    }
}

#[test]
fn how_many_of_those_that_were_met_are_named() {
    for (idle, excess, len, expected) in [
        (0, 100, 1000, 0),
        (100, 0, 1000, 0),
        (100, 125, 1000, 25),
        (100, 400, 1000, 80),
        (100, 800, 1000, 100),
        (100, 7, 1000, 7),
        (1, 1, 1_000_000, 1),
    ] {
        let quota = quota(idle, excess, len);
        assert_eq!(quota, expected, "{idle} idle, {excess} of {len} too many");
    }
}
