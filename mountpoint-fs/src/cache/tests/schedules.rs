//! Two processes that store, read, evict and pass through one entry, in schedules of the test's
//! choice.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::rand::{Rng as _, thread_rng};
use tempfile::TempDir;

use super::*;
use crate::cache::directory::CacheDirectory;
use crate::sync::explore;

/// Ranges that together are all bytes, of a chunk at most each.
const PARTS: u64 = 4;

fn part(number: u64) -> Range<u64> {
    number * 64 * KIB..SIZE.min((number + 1) * 64 * KIB)
}

/// Fails unless `file` is the object.
#[track_caller]
fn check_whole(file: &File) {
    let mut bytes = vec![0; usize::try_from(SIZE).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == content(WHOLE), "a whole file has other bytes");
    assert_eq!(file.metadata().unwrap().len(), SIZE);
}

/// Stores all parts, from one of them on.
fn store(entry: &Entry) {
    let first = thread_rng().gen_range(0..PARTS);
    for part in (first..first + PARTS).map(|number| part(number % PARTS)) {
        entry.store(&part, &slices(part.clone()));
    }
}

/// Opens the entry as the kernel's passthrough does, and holds its file.
fn hold(entry: &Entry) -> Vec<Arc<File>> {
    let mut held = Vec::new();
    for _ in 0..4 {
        if let Some(file) = entry.whole_file() {
            check_whole(&file);
            held.push(file);
        } else if entry.needs_comparing() && entry.begin_comparing() {
            entry.compare_all();
        }
        shuttle::thread::yield_now();
    }
    held
}

/// Reads some ranges; [`read`] fails if bytes are wrong.
fn read_some(entry: &Entry) {
    for _ in 0..3 {
        let first = part(thread_rng().gen_range(0..PARTS));
        let _ = read(entry, first.start..SIZE);
    }
}

#[test]
fn bytes_and_whole_files_are_right_in_any_schedule() {
    let outer = TempDir::new_in("/dev/shm").unwrap();
    let directory = CacheDirectory::open(outer.path(), None, &|_| false).unwrap();
    let storage = Arc::new(Storage::new(Arc::new(directory)));
    let clock = Clock::manual();
    clock.advance(Duration::from_secs(300));
    let room = room(&self::storage(), &clock);
    let count = AtomicU64::new(0);
    explore(move || {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let version = CachedVersion {
            key: Key::parse(&format!("key-{number}")).unwrap(),
            ..version()
        };
        let name = version.name();
        let process = || {
            let (storage, room) = (Arc::clone(&storage), Arc::clone(&room));
            let disk = Disk::new(storage, room, clock.clone(), "boot".to_owned());
            Arc::new(Entry::new(version.clone(), name, disk))
        };
        let (first, second) = (process(), process());
        let run = |entry: &Arc<Entry>, run: fn(&Entry)| {
            let entry = Arc::clone(entry);
            shuttle::thread::spawn(move || run(&entry))
        };
        let threads = [
            run(&first, store),
            run(&first, read_some),
            run(&second, store),
            run(&second, read_some),
        ];
        let holders = [&first, &second].map(|entry| {
            let entry = Arc::clone(entry);
            shuttle::thread::spawn(move || hold(&entry))
        });
        let evicted = Arc::clone(&storage);
        let evictor = shuttle::thread::spawn(move || {
            for _ in 0..thread_rng().gen_range(0..3) {
                shuttle::thread::yield_now();
                evicted.remove(name).unwrap();
            }
        });
        threads.into_iter().for_each(|it| it.join().unwrap());
        evictor.join().unwrap();
        let held = holders.map(|it| it.join().unwrap());
        held.iter().flatten().for_each(|file| check_whole(file));
        let third = process();
        third.load();
        let _ = read(&third, WHOLE);
        third.compare_all();
        if let Some(file) = third.whole_file() {
            check_whole(&file);
        }
        storage.remove(name).unwrap();
    });
}
